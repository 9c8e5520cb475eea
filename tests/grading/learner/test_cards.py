"""In a notebook check, hint, why and goal show cards; elsewhere they print."""

import re
import sys
from functools import cache
from html import escape
from types import SimpleNamespace

import IPython.core.getipython
import IPython.display
import pytest
import torch
from bs4 import BeautifulSoup

from attn.exercises import sources
from attn.exercises.markdown import as_html
from attn.exercises.spec import every_exercise, find
from attn.grading.checks.show import number
from attn.grading.diagnosis.judge import judge
from attn.grading.learner import cards, progress
from attn.grading.learner.progress import Progress
from tests.book.test_browser import AXE
from tests.grading.learner.conftest import RIGHT
from tests.processes import run_python

STUB = "def softmax(x, dim=-1):\n    raise NotImplementedError\n"
NO_MAXIMUM = """
def softmax(x, dim=-1):
    e = torch.exp(x)
    return e / e.sum(dim, keepdim=True)
"""
TRIANGLE = """
def causal(q_len, kv_len, q_offset=0):
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril()
check("mask-causal")
"""
NAME = "The maximum is not subtracted"
CHECKS = [f"{x}check('sdp-softmax')" for x in (RIGHT, NO_MAXIMUM, STUB)]
CHECKS += [TRIANGLE, "hint('sdp-softmax')"]
KEPT = """
    align-items background border border-bottom border-collapse border-left
    border-radius border-spacing color cursor display flex-wrap font-family
    font-size font-weight gap grid-template-columns height line-height
    list-style margin margin-left max-width min-width overflow overflow-x
    padding padding-left text-align vertical-align white-space width
    word-break
"""
"""Properties of which JupyterLab's sanitizer keeps such values as ours."""


@pytest.fixture
def live(learner, monkeypatch):
    """Run a cell as in a notebook; return the cards that it shows."""
    shown = []

    def display(data, metadata, raw):
        assert raw and metadata["attn"]["stream"] in ("stdout", "stderr")
        shown.append(data)

    monkeypatch.setattr(cards, "is_live", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)

    def run(source):
        shown.clear()
        learner(source)
        return [Card(x) for x in shown]

    return run


class Card:
    """A card as a notebook gets it, and as somebody reads it."""

    def __init__(self, data):
        self.plain = data["text/plain"]
        self.html = data.get("text/html", "")
        self.soup = BeautifulSoup(self.html, "html.parser")

    @property
    def badge(self):
        return next(self.soup.select_one("[role=status]").stripped_strings)

    @property
    def text(self):
        return re.sub(r"\s+", " ", self.soup.get_text(" ", strip=True))

    def rows(self, table=0):
        return [
            [cell.get_text() for cell in row.find_all(["th", "td"])]
            for row in self.soup.select("table")[table].select("tbody tr")
        ]


def test_a_right_answer_says_what_was_tried_and_leads_to_the_next(live):
    [shown] = live(RIGHT + "check('sdp-softmax')")
    assert shown.plain == "✓ sdp-softmax  2/2 points"
    head = shown.soup.select_one("[role=status]").get_text(" ", strip=True)
    assert head == "✓ right Softmax sdp-softmax 2/2 points"
    assert "48 inputs in 16 conditions · 5 after earlier calls" in shown.text
    assert "float16, float32 and bfloat16 · no call of softmax" in shown.text
    assert "Scaled dot-product attention 2/11" in shown.text
    [link] = shown.soup.select("a")
    assert link.get_text() == "Attention in loops"
    assert link["href"] == (
        "02_scaled_dot_product.ipynb#cell-id=x-sdp-attention-loops"
    )


def test_the_last_exercise_of_a_chapter_leads_to_what_is_open(live):
    for name in ("attention_loops", "attention", "SelfAttention"):
        progress.update(f"sdp-{name}", passed="2026-11-22 12:00")
    [shown] = live(RIGHT + "check('sdp-softmax')")
    assert shown.soup.a.get_text() == "The variance of a score"
    progress.update("sdp-logit_variance", passed="2026-11-22 12:00")
    [shown] = live(RIGHT + "check('sdp-softmax')")
    assert "All 5 exercises of this chapter are done. Next: M" in shown.text
    assert shown.soup.a["href"] == "03_masks.ipynb"


def test_the_name_the_question_and_the_input_of_a_mistake_are_apart(live):
    [shown] = live(NO_MAXIMUM + "check('sdp-softmax')")
    assert shown.badge == "✗" and "not right yet" in shown.text
    assert shown.soup.b.get_text() == NAME
    assert shown.soup.b.find_parent(attrs={"role": "status"})
    paragraphs = [p.get_text() for p in shown.soup.select("p")]
    assert (
        "What can you subtract from every score without changing the "
        in (paragraphs[2])
    )
    assert "Input: x (4, 6)" in paragraphs
    details = shown.soup.details
    assert not details.has_attr("open")
    assert "exp(89) does not fit into float32" in details.get_text()
    assert NAME not in details.get_text()
    calls = [x.get_text() for x in shown.soup.select("code")]
    assert 'hint("sdp-softmax")' in calls and "why()" in calls
    assert "The chapter goes on with the reference." in shown.text


def slopes(num_heads):
    return 2.0 ** -torch.arange(num_heads)


def triangle(q_len, kv_len, q_offset=0):
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril(q_offset + 1)


@pytest.mark.parametrize(
    ("name", "answer"),
    [("pos-alibi_slopes", slopes), ("mask-causal", triangle)],
)
def test_the_table_has_the_elements_of_the_tensors(name, answer):
    exercise = find(name)
    verdict = judge(exercise, answer)
    html = cards.wrong(exercise, verdict, "why")
    shown = Card({"text/plain": "", "text/html": html})
    texts = [p.get_text() for p in shown.soup.select("p")]
    [inputs] = [x for x in texts if x.startswith("Input: ")]
    given = {n: int(x) for n, x in re.findall(r"(\w+) (\d+)", inputs)}
    got, expected = answer(**given), exercise.reference(**given)
    differ = (got != expected).nonzero().tolist()[:4]
    assert shown.rows() == [
        [str(at), number(got[*at].item()), number(expected[*at].item())]
        for at in differ
    ]
    if got.dtype == torch.bool:  # and beside it the matrix, in signs
        columns, *rows = shown.rows(1)
        assert columns == ["", *map(str, range(got.shape[1]))]
        for i, (label, *signs) in enumerate(rows):
            assert label == str(i)
            assert [x in "#+" for x in signs] == got[i].tolist()
            assert [x in "#-" for x in signs] == expected[i].tolist()


@pytest.fixture(
    params=[
        every_exercise()[::9],
        pytest.param(every_exercise(), marks=pytest.mark.exhaustive),
    ],
    ids=["some", "all"],
)
def exercises(request):
    return request.param


@cache
def refusal(exercise_id):
    """The verdict of an exercise's first listed mistake."""
    exercise = find(exercise_id)
    return judge(exercise, exercise.mistakes[0].answer)


def marks_left(html):
    """Return the texts with a mark of Markdown, code left out."""
    shown = BeautifulSoup(html, "html.parser")
    for code in shown(["code", "pre"]):
        code.decompose()
    mark = re.compile(r"`|(?<!\w)\*\w|\w\*(?!\w)")
    return shown.find_all(string=mark)


def test_no_mark_of_markdown_is_left_in_a_card(exercises):
    for exercise in exercises:
        texts = sources.hints(exercise.id)
        assert not marks_left(cards.hints(exercise, texts, 3))
        for mistake in exercise.mistakes:
            assert not marks_left(cards.headline("", mistake.name))
            assert not marks_left(cards.known(mistake.why))
        html = cards.wrong(exercise, refusal(exercise.id), "why")
        assert not marks_left(html)


def test_a_product_and_starred_arguments_are_no_emphasis():
    assert as_html("*its* `a *b*`") == "<em>its</em> <code>a *b*</code>"
    for text in ("x * y * z", "f(*args, **kwargs)", "2 ** x and 3 ** y"):
        assert as_html(text) == text


def test_a_mistake_has_its_name_and_its_question_in_parts(exercises):
    for exercise in exercises:
        mistake = exercise.mistakes[0]
        parts = refusal(exercise.id).parts
        assert mistake.name in parts.title
        assert parts.label == "this looks like"
        assert parts.question.endswith("?") and parts.question in mistake.why


def test_what_a_learner_controls_is_escaped(live):
    evil = "<img src=x onerror=alert(1)>"
    [shown] = live(
        f"def softmax(x, dim=-1):\n    print({evil!r})\n"
        f"    raise ValueError({evil!r})  # {evil}\ncheck('sdp-softmax')"
    )
    assert not shown.soup.find("img")
    assert f"It raised ValueError: {evil}" in shown.text
    progress.update("sdp-softmax", attempts=1, last=evil)
    html = Progress(progress.load())._repr_html_()
    assert evil not in html and escape(evil) in html
    assert "<i" not in cards.goal("<i>", "", reached=True)


def test_a_stub_and_a_missing_cell_are_calm(live):
    for source, badge in (
        (STUB, "not written yet"),
        ("softmax = None", "not defined"),
        ("pass", "run your cell first"),  # the reference is in its place
    ):
        [shown] = live(f"{source}\ncheck('sdp-softmax')")
        assert badge in shown.text and shown.badge == "·"
        assert cards.CALM.colour in shown.html
        assert cards.WRONG.colour not in shown.html
        assert shown.plain.startswith("✗ sdp-softmax  0/2 points\n  ")


def test_a_next_exercise_is_no_link_in_colab(live, monkeypatch):
    """There an output is a page of its own, without a folder beside it."""
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    [shown] = live(RIGHT + "check('sdp-softmax')")
    assert "Next: Attention in loops" in shown.text and not shown.soup.a


def test_a_kernel_that_cannot_run_here_is_calm(live, monkeypatch):
    monkeypatch.setattr(
        "attn.grading.learner.session.unavailable_reason", lambda: "no Triton"
    )
    [shown] = live("check('fwd-copy_tile_kernel')")
    assert (
        shown.plain == "· fwd-copy_tile_kernel  not available here: no Triton"
    )
    assert "not available here" in shown.text and "points" not in shown.text


def test_hints_why_and_goals_are_cards_too(live):
    first, second = live("hint('sdp-softmax')\nhint('sdp-softmax')")
    assert "hint 1 of 3" in first.text and "hint 2 of 3" in second.text
    assert len(second.soup.select("li")) == 2
    live(NO_MAXIMUM + "check('sdp-softmax')")
    [shown] = live("from attn.grading import why\nwhy()")
    assert shown.soup.details.has_attr("open") and NAME in shown.text
    [reached, missed] = live(
        "from attn.grading import goal\n"
        "goal('loss', 1.5, at_most=1.9)\ngoal('no future', False)"
    )
    assert reached.text == "✓ reached loss: 1.5, at most 1.9"
    assert missed.text == "· not yet no future"
    [solution] = live("solution('sdp-softmax')")
    assert solution.plain.startswith("def softmax")


def test_a_card_in_plain_text_is_what_a_terminal_prints(live, learner, capsys):
    calls = ["check('sdp-softmax')", "hint('sdp-softmax')", "why()"]
    learner("from attn.grading import why")
    for answer in (RIGHT, NO_MAXIMUM, STUB):
        for call in calls[: 3 if answer is NO_MAXIMUM else 1]:
            again = f"{answer}\n{call}" if call == calls[0] else call
            [shown] = live(again)
            assert capsys.readouterr() == ("", "")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cards, "is_live", lambda: False)
                if "hint" in call:
                    progress.update("sdp-softmax", hints=0)
                    learner("import attn.grading.learner.session as s")
                    learner("s._hints_shown.clear()")
                learner(again)
            printed = capsys.readouterr()
            assert shown.plain + "\n" == printed.out + printed.err


@pytest.mark.parametrize(
    ("shell", "enabled", "live"),
    [
        (None, True, False),  # Python
        (SimpleNamespace(), True, False),  # IPython in a terminal
        (SimpleNamespace(kernel=None), True, True),
        (SimpleNamespace(kernel=None), False, False),  # nbval, nbgrader
    ],
)
def test_only_a_learners_notebook_shows_cards(
    shell, enabled, live, monkeypatch
):
    getting = IPython.core.getipython
    monkeypatch.setattr(getting, "get_ipython", lambda: shell)
    monkeypatch.setattr(cards, "is_enabled", lambda: enabled)
    assert cards.is_live() is live


def test_cards_and_bars_load_no_matplotlib():
    """It takes half of the second in which a check answers."""
    script = (
        "import sys\nfrom attn.exercises.spec import find\n"
        "from attn.grading.diagnosis.judge import judge\n"
        "from attn.grading.learner import cards, session\n"
        "from attn.grading.learner.progress import Progress\n"
        "exercise = find('mask-causal')\n"
        "wrong = judge(exercise, lambda *x: 1)\n"
        "cards.wrong(exercise, wrong, 'why')\n"
        "session._right(exercise)\n"
        "Progress({})._repr_html_()\n"
        "assert 'matplotlib' not in sys.modules"
    )
    run_python(script, check=True)


def test_every_style_survives_where_a_notebook_is_not_trusted(live):
    """JupyterLab drops variables, and any property that it has not listed.

    A font that is left out, or a click that selects, does no harm.
    """
    shown = [live(x)[0].html for x in CHECKS]
    shown.append(Progress(progress.load())._repr_html_())
    declared = re.findall(r'style="([^"]*)"', "".join(shown))
    names = {x.partition(":")[0] for y in declared for x in y.split(";")}
    assert names - set(KEPT.split()) <= {"user-select"}
    assert "var(" not in "".join(declared)
    tags = {
        x.name for html in shown for x in BeautifulSoup(html, "html.parser")()
    }
    assert not tags & {"script", "style", "link", "iframe", "svg", "img"}


FOUND = """() => axe.run(document.body).then(found => found.violations.map(
    x => x.id + ": " + x.nodes.map(n => n.html.slice(0, 120)).join(" | ")))"""
#: Text and ground of JupyterLab's light and dark theme.
THEMES = {"light": ("#212121", "#ffffff"), "dark": ("#ffffff", "#111111")}


@pytest.mark.browser
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_a_narrow_pane_of_either_theme(
    live, browser, theme
):
    """Contrast included, with everything unfolded; nothing scrolls."""
    sources = [*CHECKS, RIGHT + "check('sdp-softmax')"]
    html = [x.html for source in sources for x in live(source)]
    html.append(Progress(progress.load())._repr_html_())
    opened = "".join(html).replace("<details", "<details open")
    text, ground = THEMES[theme]
    style = f"color:{text};background:{ground};font-family:sans-serif"
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.set_content(
        f'<html lang="en"><title>x</title><body style="{style}"><main>'
        f"<style>a {{color:{'#64b5f6' if theme == 'dark' else '#0b3d91'}}}"
        f"</style>{opened}</main></body></html>"
    )
    tab.evaluate(AXE)
    assert tab.evaluate(FOUND) == []
    wide = "() => document.documentElement.scrollWidth"
    assert tab.evaluate(wide) <= 390
    tab.close()


@pytest.mark.browser
def test_all_that_is_known_opens_with_the_keyboard(live, browser):
    [shown] = live(NO_MAXIMUM + "check('sdp-softmax')")
    tab = browser.new_page()
    tab.set_content(shown.html)
    known = tab.get_by_text("exp(89) does not fit")
    assert not known.is_visible()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert known.is_visible()
    tab.close()
