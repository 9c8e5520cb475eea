"""In a notebook check, hint, why and goal show cards; elsewhere they print."""

import re
import sys
from types import SimpleNamespace

import IPython.core.getipython
import IPython.display
import pytest
from bs4 import BeautifulSoup

from attn.exercises import sources
from attn.exercises.markdown import as_html
from attn.exercises.spec import every_exercise
from attn.exercises.wrapping import wrapped
from attn.grading.diagnosis.judge import judge
from attn.grading.learner import cards, progress, session
from attn.grading.learner.progress import Progress
from tests.grading.learner.conftest import RIGHT, exercise_at, pane
from tests.processes import run_python

STUB = "def softmax(x, dim=-1):\n    raise NotImplementedError\n"
NO_MAXIMUM = RIGHT.replace(" - x.float().amax(dim, keepdim=True)", "")
NAME = "The maximum is not subtracted"
CHECKED, REFUSED = (f"{x}check('sdp-softmax')" for x in (RIGHT, NO_MAXIMUM))
TRIANGLE = "lambda L, S, q_offset=0: torch.ones(L, S).bool().tril()"
KINDS = [
    *(CHECKED, REFUSED, f"{STUB}check('sdp-softmax')"),
    f"check('mask-causal', {TRIANGLE})",
    "hint('sdp-softmax')",
]
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
        assert learner(source) == ("", "")
        return [card(x) for x in shown]

    run.as_printed = learner
    return run


def card(data):
    """A card as a notebook gets it, and as somebody reads it."""
    html = data.get("text/html", "")
    soup = BeautifulSoup(html, "html.parser")
    text = re.sub(r"\s+", " ", soup.get_text(" ", strip=True))
    plain = data["text/plain"]
    return SimpleNamespace(plain=plain, html=html, soup=soup, text=text)


def test_a_right_answer_says_what_was_tried_and_leads_on(live, monkeypatch):
    """By a link, but in Colab: an output there has no folder beside it."""
    [shown] = live(CHECKED)
    assert shown.plain == "✓ sdp-softmax  2/2 points"
    head = shown.soup.select_one("[role=status]").get_text(" ", strip=True)
    assert head == "✓ right Softmax sdp-softmax 2/2 points"
    assert "48 inputs in 17 conditions · 5 after earlier calls" in shown.text
    assert "float16, float32 and bfloat16 · no call of softmax" in shown.text
    assert "Scaled dot-product attention 2/11" in shown.text
    [link] = shown.soup.select("a")
    assert link.get_text() == "Attention in loops"
    assert exercise_at(link) == "sdp-attention_loops"
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    [shown] = live(CHECKED)
    assert "Next: Attention in loops" in shown.text and not shown.soup.a


def test_the_last_exercise_of_a_chapter_leads_to_what_is_open(live):
    for name in ("attention_loops", "attention", "SelfAttention"):
        progress.update(f"sdp-{name}", passed="2026-11-22 12:00")
    [shown] = live(CHECKED)
    assert shown.soup.a.get_text() == "The variance of a score"
    progress.update("sdp-logit_variance", passed="2026-11-22 12:00")
    [shown] = live(CHECKED)
    assert "All 5 exercises of this chapter are done. Next: M" in shown.text
    assert shown.soup.a["href"] == "03_masks.ipynb"


def test_the_name_the_question_and_the_input_of_a_mistake_are_apart(live):
    [shown] = live(REFUSED)
    assert shown.text.startswith("✗ not right yet ")
    assert shown.soup.b.get_text() == NAME
    assert shown.soup.b.find_parent(attrs={"role": "status"})
    paragraphs = [x.get_text() for x in shown.soup.select("p")]
    question = "For two scores of 1000, what should the weights be?"
    assert question in paragraphs[3]
    details, cell = shown.soup("details")
    assert "case().run()" in cell.summary.get_text()
    assert cell.pre.get_text().endswith("f = c.yours()  # softmax\nf(c.x)")
    *_, call = shown.soup("pre")
    assert call.get_text() == "softmax(x)  # x (4, 6), dim=-1"
    assert not details.has_attr("open")
    assert "exp(89) does not fit into float32" in details.get_text()
    assert NAME not in details.get_text()
    calls = {x.get_text() for x in shown.soup.select("code")}
    assert {'hint("sdp-softmax")', "why()"} <= calls
    assert paragraphs[2].startswith("From here on softmax is the book's")


def test_elements_are_a_table_and_beside_it_is_the_matrix_in_signs(live):
    """test_compare.py proves which elements they are."""
    slopes = "lambda n: 2.0 ** -torch.arange(n)"
    answers = {"pos-alibi_slopes": slopes, "mask-causal": TRIANGLE}
    for exercise_id, answer in answers.items():
        [shown] = live(f"check({exercise_id!r}, {answer})")
        assert "  not right yet, not stored\n" in shown.plain
        parts = session._last[exercise_id].parts
        expected = [*parts.elements]
        if grid := parts.grid:
            expected += [grid.columns, *((i, *x) for i, x in grid.rows)]
        rows = shown.soup.select("tbody tr")
        texts = [[*x.stripped_strings] for x in rows]
        assert texts == [[*map(str, x)] for x in expected]
    assert parts.elements and grid


def marks_left(macro, *about):
    """The texts of a card with a mark of Markdown, code left out."""
    shown = BeautifulSoup(cards.html(macro, *about), "html.parser")
    for code in shown(["code", "pre"]):
        code.decompose()
    mark = re.compile(r"`|(?<!\w)\*\w|\w\*(?!\w)")
    return shown.find_all(string=mark)


@pytest.mark.parametrize(
    "exercises",
    [
        every_exercise()[::9],
        pytest.param(every_exercise(), marks=pytest.mark.exhaustive),
    ],
    ids=["some", "all"],
)
def test_a_mistake_has_its_parts_and_no_mark_of_markdown_is_left(exercises):
    for exercise in exercises:
        hints = sources.hints(exercise.id)
        assert not marks_left("hints", exercise, hints, 3)
        for mistake in exercise.mistakes:
            assert not marks_left("headline", "", mistake.name, ())
            assert not marks_left("known", mistake.why)
        mistake = exercise.mistakes[0]
        verdict = judge(exercise, mistake.answer)
        assert not marks_left("wrong", exercise, verdict, "")
        parts = verdict.parts
        assert mistake.name in parts.title
        assert parts.label == "this looks like"
        assert parts.question.endswith("?") and parts.question in mistake.why


def test_code_in_a_sentence_is_code_and_never_broken():
    """A product, and starred arguments, are no emphasis."""
    for text, shown in (
        ("*its* `a *b*`", "<em>its</em> [a *b*]"),
        ("x * y * z", "[x] * [y] * [z]"),
        ("f(*args, **kwargs)", "[f(*args, **kwargs)]"),
        ("Which m makes exp(a - m) 1?", "Which [m] makes [exp(a - m)] 1?"),
        ("A head(s), e.g. x.max(dim).", "A head(s), e.g. [x.max(dim)]."),
        ("keepdim=True: a D, as I say", "[keepdim=True]: a [D], as I say"),
    ):
        html = as_html(text).replace("</code>", "]")
        code = '<code style="white-space:nowrap">'
        assert html.replace(code, "[") == shown
    assert len(as_html("`" + "x" * 40 + "`")) == 40 + len("<code></code>")
    lines = wrapped("a " * 32 + "is where exp(a - m) is.")
    assert lines[1] == "exp(a - m) is."


def test_a_headline_begins_with_a_capital_and_counts_in_english(live):
    for edit, title in (
        ("([1], 0)", "How many tokens they hold is right."),
        ("([1], 1)", "The list of shared pages has 1 entry, not 0"),
    ):
        [shown] = live(f"check('serve-match_prefix', lambda *x: {edit})")
        assert title in shown.text


def test_what_a_learner_controls_is_escaped(live):
    evil = "<img src=x onerror=alert(1)>"
    [shown] = live(
        f"def softmax(x, dim=-1):\n    print({evil!r})\n"
        f"    raise ValueError({evil!r})  # {evil}\ncheck('sdp-softmax')"
    )
    assert not shown.soup.find("img")
    assert f"It raised ValueError: {evil}" in shown.soup.b.get_text()
    progress.update("sdp-softmax", attempts=1, last=evil)
    html = Progress(progress.load())._repr_html_()
    assert evil not in html and "&lt;img" in html
    [reached] = live("goal('<i>', True)")
    assert "<i" not in reached.html


def test_what_was_not_written_or_cannot_run_is_calm(live, monkeypatch):
    for source, badge in (
        (STUB, "not finished"),
        ("softmax = None", "run your cell first"),
        ("pass", "run your cell first"),  # the reference is in its place
    ):
        [shown] = live(f"{source}\ncheck('sdp-softmax')")
        assert shown.text.startswith(f"· {badge} ")
        assert cards.CALM.colour in shown.html
        assert cards.WRONG.colour not in shown.html
        assert re.match(r"[✗·] sdp-softmax  (0/2 points|run )", shown.plain)
    monkeypatch.setattr(session, "unavailable_reason", lambda: "no Triton")
    [shown] = live("check('fwd-copy_tile_kernel')")
    said = "not available here"
    assert shown.plain == f"· fwd-copy_tile_kernel  {said}: no Triton"
    assert said in shown.text and "points" not in shown.text


def test_hints_why_and_goals_are_cards_too(live):
    first, second = live("hint('sdp-softmax')\nhint('sdp-softmax')")
    assert "hint 1 of 3" in first.text and "hint 2 of 3" in second.text
    assert len(second.soup.select("li")) == 2
    live(REFUSED)
    [shown] = live("why()")
    assert shown.soup.details.has_attr("open") and NAME in shown.text
    goals = "goal('loss', 1.5, at_most=1.9)\ngoal('no future', False)"
    [reached, missed] = live(goals)
    assert reached.text == "✓ reached loss: 1.5, at most 1.9"
    assert missed.text == "· not yet no future"
    [solution] = live("solution('sdp-softmax')")
    assert "def softmax" in solution.plain
    [given] = live(f"{RIGHT}\ncheck('sdp-softmax', softmax)")
    assert given.plain.startswith("✓ sdp-softmax  right, not stored\n")
    assert given.text.startswith("✓ right, not stored Softmax sdp-softmax T")


@pytest.mark.parametrize("cell", [*KINDS, f"{REFUSED}\nwhy()"], ids=range(6))
def test_a_card_in_plain_text_is_what_terminals_print(live, monkeypatch, cell):
    shown = live(cell)
    progress.update("sdp-softmax", hints=0)
    session._hints_shown.clear()
    monkeypatch.setattr(cards, "is_live", lambda: False)
    out, err = live.as_printed(cell)
    assert "\n".join([x.plain for x in shown] + [""]) == err + out


def test_only_a_learners_notebook_shows_cards(monkeypatch):
    terminal, kernel = SimpleNamespace(), SimpleNamespace(kernel=None)
    for shell, enabled, live in (
        (None, True, False),  # Python
        (terminal, True, False),  # IPython
        (kernel, True, True),
        (kernel, False, False),  # nbval, nbgrader
    ):
        getting = IPython.core.getipython
        monkeypatch.setattr(getting, "get_ipython", lambda x=shell: x)
        monkeypatch.setattr(cards, "is_enabled", lambda x=enabled: x)
        assert cards.is_live() is live


def test_cards_and_bars_load_no_matplotlib():
    """It takes half of the second in which a check answers."""
    script = """
import sys
from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.learner import cards, session
from attn.grading.learner.progress import Progress
exercise = find("mask-causal")
cards.html("wrong", exercise, judge(exercise, lambda *x: 1), "")
session._right(exercise)
Progress({})._repr_html_()
assert "matplotlib" not in sys.modules
"""
    run_python(script, check=True)


def everything(live):
    """The HTML of a card of each kind, and of the bars."""
    shown = [card.html for source in KINDS for card in live(source)]
    return "".join([*shown, Progress(progress.load())._repr_html_()])


def test_every_style_survives_where_a_notebook_is_not_trusted(live):
    """JupyterLab drops variables, and any property that it has not listed.

    A font that is left out, or a click that selects, does no harm.
    """
    html = everything(live)
    declared = re.findall(r'style="([^"]*)"', html)
    names = {x.partition(":")[0] for y in declared for x in y.split(";")}
    assert names - set(KEPT.split()) <= {"user-select"}
    assert "var(" not in "".join(declared)
    tags = {x.name for x in BeautifulSoup(html, "html.parser")()}
    assert not tags & {"script", "style", "link", "iframe", "svg", "img"}


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_can_be_read_by_all_in_either_theme(live, browser, theme):
    """Contrast included, with everything unfolded."""
    opened = everything(live).replace("<details", "<details open")
    pane(browser, opened, theme).close()


@pytest.mark.browser
def test_all_that_is_known_opens_with_the_keyboard(live, browser):
    [shown] = live(REFUSED)
    tab = browser.new_page()
    tab.set_content(shown.html)
    known = tab.get_by_text("exp(89) does not fit")
    assert not known.is_visible()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert known.is_visible()
    tab.close()


def test_pages_are_compiled_where_nothing_can_be_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    cards.templates.cache_clear()
    assert "right" in cards.html("goal", "x", cards.RIGHT)
    cards.templates.cache_clear()
