"""One truth about an answer: six readers, whatever ran in which order."""

import shutil
from collections import Counter
from contextlib import chdir, nullcontext

import pytest

from attn.exercises import answers, sources
from attn.grading.classroom import check_file
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.grade import Options, grade
from attn.grading.classroom.submissions import Submission
from attn.grading.learner import progress
from attn.grading.learner.start_page import StartPage
from attn.grading.sandbox import isolation
from tests.marks import exhaustive_but
from tests.notebooks.front_end import CHECK, EXERCISE, ORDERS, FrontEnd
from tests.notebooks.learners import pytest_nbval

EVENTS = {
    "right": "answer = right",
    "wrong": "answer = wrong",
    "syntax error": "answer = broken",
    "reset": "answer = reset",
    "reset elsewhere": "scratch = reset",
    "second cell": "second = again",
    "restart": "new kernel",
    "run all": "run all",
    "save": "save",
}


def walked(front, length):
    """Yield each state's order, its number, and how many orders lead to it.

    Every order of events up to a length is gone; a state is left once.
    """
    found, gone = {front.state(): ((), 0)}, {}
    layer = Counter(found.values())
    for n in range(length + 1):
        after = Counter()
        for (events, number), orders in layer.items():
            yield n, (events, number, orders)
            for event in EVENTS if n < length else ():
                if (number, event) not in gone:
                    front.begins(number)
                    front.does(EVENTS[event])
                    if (state := front.state()) not in found:
                        found[state] = (*events, event), front.keeps()
                    gone[number, event] = found[state]
                after[gone[number, event]] += orders
        layer = after


class Readers:
    """Who read a notebook, and the signs that they gave the exercise.

    Files with the same cells and notes are read once.
    """

    def __init__(self, prefork_kernels, tmp_path, capsys, monkeypatch):
        self.kernels, self.capsys = prefork_kernels, capsys
        self.patch = monkeypatch
        self.front = FrontEnd(tmp_path)
        self.folder, self.files, self.claims = tmp_path / "read", {}, {}
        self.folder.mkdir()

    def reads(self, order):
        """Check and save; note what check, progress and start page say."""
        said, row = self.front.said(), stored(self.front.path.parent)
        cells = self.front.nb.cells
        about = [
            (x.source, [y[:3] for y in answers.notes(x.outputs)])
            for x in cells
        ]
        name = self.files.setdefault(repr(about), f"n{len(self.files)}")
        shutil.copy(self.front.path, self.folder / f"{name}.ipynb")
        # No verdict: that of before stands, and of a text that is there.
        waits = "run your cell first" in said
        texts = [answers.digest(x.source) for x in cells]
        is_known = row.entry.get("text") in texts
        assert is_known or waits or "Not saved yet" in said, (order, said)
        assert waits or said[0] == row.sign, (order, said)
        self.claims[order] = name, row.sign if is_known else "", said

    def signs(self):
        """Return, for each order, the sign of the answer that stands."""
        _, scores = pytest_nbval(self.folder, python=self.kernels)
        kind = "none" if isolation.complaint() else "bubblewrap"
        options, found = Options(seed=0, isolation=kind), {}
        with Examiner(0, isolation=kind) as examiner:
            lent = nullcontext(examiner)  # to start one takes seconds
            self.patch.setattr(check_file, "examiner_of", lambda _: lent)
            for name in self.files.values():
                path = self.folder / f"{name}.ipynb"
                row = grade(Submission(path, name, name), options, examiner)
                [mark] = [x for x in row.marks if x.exercise == EXERCISE]
                self.capsys.readouterr()
                check_file.check(path, [EXERCISE])
                said = "".join(self.capsys.readouterr())
                sign = said[said.index(f" {EXERCISE}") - 1]
                found[name] = scores[name][EXERCISE][0], sign, mark.sign
        self.found = found
        for order, (name, sign, said) in self.claims.items():
            assert len({*found[name], sign} - {""}) == 1, (
                f"{order}: nbval, attn check, attn grade {found[name]}; "
                f"progress {sign}; check {said}"
            )
        return {x: found[name][0] for x, (name, *_) in self.claims.items()}


def stored(folder):
    """Return what progress() and the start page say of the exercise."""
    with chdir(folder):
        entries = progress.load()
    rows = progress.Progress(entries).rows
    row = next(x for x in rows if x.id == EXERCISE)
    page = StartPage(entries)
    has = page.parts[row.stem].points == row.worth
    assert has == (row.sign == "✓")
    assert ("Last time" in page._repr_html_()) == (row.sign == "✗")
    return row


@pytest.fixture
def readers(prefork_kernels, tmp_path, capsys, monkeypatch):
    opened = Readers(prefork_kernels, tmp_path, capsys, monkeypatch)
    yield opened
    opened.front.close()


@pytest.mark.parametrize("length", exhaustive_but([1], [1, 4]))
def test_whatever_ran_in_which_order_all_agree(length, readers):
    orders = Counter()
    for n, (events, number, times) in walked(readers.front, length):
        orders[n] += times
        if events not in readers.claims:
            readers.front.begins(number)
            readers.reads(events)
    assert orders == {n: len(EVENTS) ** n for n in range(length + 1)}
    assert {*readers.signs().values()} == {*"✓✗·"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("ids", [True, False])
def test_no_order_that_is_known_makes_them_differ(ids, readers):
    readers.front.ids, expected = ids, {}
    for heading, orders in ORDERS.items():
        if ids == (heading != "Without ids of cells"):
            expected |= orders
    for order in expected:
        readers.front.begins()
        readers.front.does(order)
        readers.reads(order)
    assert readers.signs() == expected


def test_of_another_exercise_that_is_open_the_reference_is_used(readers):
    front = readers.front
    front.does("answer = stub")
    right = sources.solution("mask-sliding_window").replace(
        "    return", "    causal(2, 2)\n    return"
    )
    front.add("other", f"{right}\ncheck('mask-sliding_window')")
    front.run("other")
    [output] = front.cell("other").outputs
    said = " ".join(output["data"]["text/plain"].split())
    assert said.startswith("✓ mask-sliding_window"), said
    assert "causal is not written yet: here it is the reference" in said
    assert "not started" in front.said()


def test_an_answer_below_its_check_is_named_when_all_has_run(readers):
    readers.front.does("second = right; check; save; restart; run all")
    [card] = readers.front.cell(CHECK).outputs
    said = " ".join(card["data"]["text/plain"].split())
    assert "Another cell defines causal, and has not run" in said
    assert "Until then `causal` is the book's" in said
    assert stored(readers.front.path.parent).sign == "✓"


def test_of_another_exercise_that_is_wrong_a_refusal_says_so(readers):
    front = readers.front
    front.does("answer = half; check; answer")
    name = "sliding_window"
    text = f"def {name}(*sizes, **more):\n    return causal(2, 2)\n"
    front.add("other", f"{text}check('mask-{name}')")
    front.run("other")
    [output] = front.cell("other").outputs
    said = " ".join(output["data"]["text/plain"].split())
    first = "It uses your causal, of cell [5], which is not right. "
    assert said.startswith(f"✗ mask-{name} 0/2 points {first}"), said
    html = output["data"]["text/html"]
    assert html.index("which is not right") < html.index(f"mask-{name}")
    front.does("answer = calling")
    said = " ".join(front.said().split())
    assert said.startswith(f"✗ mask-causal 0/1 points causal uses {name}. ")
    assert f"{name} uses causal. Write one of them without" in said


def test_what_stood_before_is_kept_and_a_second_cell_is_named(readers):
    front, folder = readers.front, readers.front.path.parent
    front.does("answer = right; check; answer = broken; second = wrong")
    said = " ".join(front.said().split())
    assert "causal is in two cells" in said and "[6] counts" in said
    [kept] = folder.glob("kept answers/mask-causal-*.py")
    assert f"that answer is in kept answers/{kept.name}" in said
    [card] = front.cell(CHECK).outputs
    assert f'href="kept%20answers/{kept.name}"' in card["data"]["text/html"]
    assert "raise NotImplementedError" not in kept.read_text()
    assert "(right on 2" in stored(folder).last
    front.begins()
    front.does("answer = right; answer = renamed")
    assert "defines causal now" in " ".join(front.said().split())
