"""One truth about an answer: six readers, whatever ran in which order."""

import shutil
import time
from collections import Counter
from contextlib import chdir, nullcontext

import pytest

from attn.exercises import answers
from attn.grading.classroom import check_file
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.grade import Options, grade
from attn.grading.classroom.submissions import Submission
from attn.grading.learner import progress
from attn.grading.learner.start_page import StartPage
from attn.grading.sandbox import isolation
from tests.notebooks.front_end import EXERCISE, FrontEnd
from tests.notebooks.learners import pytest_nbval


@pytest.fixture
def front(prefork_kernels, tmp_path):
    opened = FrontEnd(tmp_path)
    opened.nbval = prefork_kernels
    yield opened
    opened.close()


def stored(folder):
    """What progress() and the start page say of the exercise."""
    with chdir(folder):
        entries = progress.load()
    rows = progress.Progress(entries).rows
    row = next(x for x in rows if x.exercise.id == EXERCISE)
    page = StartPage(entries)
    has = page.parts[row.stem].points == row.exercise.points
    assert has == (row.sign == "✓")
    assert ("Last time" in page._repr_html_()) == (row.sign == "✗")
    return row


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
    """Yield an order to each state, and how many orders lead to it.

    Every order of events up to a length is gone; a state is left once.
    """
    layer, found = Counter({(): 1}), {}
    for n in range(length + 1):
        after = Counter()
        for order, orders in layer.items():
            yield order, orders
            for event in EVENTS if n < length else ():
                front.begins()
                longer = (*order, event)
                front.does("; ".join(EVENTS[x] for x in longer))
                after[found.setdefault(front.state(), longer)] += orders
        layer = after


class Files:
    """Notebooks as they were saved, and what graders say of each.

    Those with the same cells and notes are one.
    """

    def __init__(self, folder):
        self.folder, self.names = folder, {}
        folder.mkdir()

    def add(self, front):
        about = [(x.source, notes_of(x)) for x in front.nb.cells]
        name = self.names.setdefault(repr(about), f"f{len(self.names)}")
        path = self.folder / f"{name}.ipynb"
        if not path.exists():
            shutil.copy(front.path, path)
        return name

    def signs(self, nbval, monkeypatch, capsys):
        """Return three signs of each: nbval, attn check, attn grade."""
        result, scores = pytest_nbval(self.folder, python=nbval)
        kind = "none" if isolation.complaint() else "bubblewrap"
        options = Options(seed=7, isolation=kind)
        found = {}
        with Examiner(7, isolation=kind) as ours, Examiner(0) as theirs:
            lent = lambda *_, **__: nullcontext(theirs)  # noqa: E731
            monkeypatch.setattr(check_file, "Examiner", lent)
            for name in self.names.values():
                path = self.folder / f"{name}.ipynb"
                row = grade(Submission(path, name, name), options, ours)
                mark = next(x for x in row.marks if x.exercise == EXERCISE)
                capsys.readouterr()
                check_file.check(path, [EXERCISE])
                said = "".join(capsys.readouterr())
                sign = said[said.index(f" {EXERCISE}") - 1]
                found[name] = scores[name][EXERCISE][0], sign, mark.sign
        return found


def notes_of(cell):
    return [x[:3] for x in answers.notes(cell.get("outputs", []))]


def agreed(front, files):
    """Check, save; return who said what, and the saved file's name."""
    said, row = front.said(), stored(front.path.parent)
    waits = "run your cell first" in said
    if not waits:
        assert said[0] == row.sign, said
    texts = [answers.digest(x.source) for x in front.nb.cells]
    is_known = not waits or row.entry.get("text") in texts
    return row.sign if is_known else "", files.add(front), said


@pytest.mark.parametrize(
    "length", [1, pytest.param(4, marks=pytest.mark.exhaustive)]
)
def test_whatever_ran_in_which_order_all_agree(
    length, front, tmp_path, monkeypatch, capsys
):
    files, claims, orders = Files(tmp_path / "files"), {}, Counter()
    lap = time.process_time(), time.time()
    for order, number in walked(front, length):
        orders[len(order)] += number
        front.begins()
        front.does("; ".join(EVENTS[x] for x in order))
        claims[order] = agreed(front, files)
    with capsys.disabled():
        print(
            orders,
            len(claims),
            len(files.names),
            time.process_time() - lap[0],
            time.time() - lap[1],
        )
    assert orders[length] == len(EVENTS) ** length
    signs = files.signs(front.nbval, monkeypatch, capsys)
    with capsys.disabled():
        print(time.process_time() - lap[0], time.time() - lap[1])
    wrong = {
        order: (sign, said, signs[name], name)
        for order, (sign, name, said) in claims.items()
        if {sign or signs[name][0], *signs[name]} != {signs[name][0]}
    }
    for x, y in sorted(wrong.items(), key=lambda x: len(x[0]))[:12]:
        print(x, y)
    assert not wrong, len(wrong)


#: Orders that somebody may think of, and the sign of the answer that stands.
ODD = {
    "answer = right": "✓",
    "answer = right; second = wrong": "✗",
    "second = wrong; answer = right": "✓",
    "^above = wrong; answer = right": "✓",
    "answer = right; ^above = wrong": "✗",
    "answer = wrong; ^above = right": "✓",
    "second = right; third = wrong": "✗",
    "second = wrong; third = right; second": "✗",
    "answer = right; check; answer = broken": "✗",
    "answer = wrong; check; answer = broken": "✗",
    "answer = right; second = broken": "✓",
    "answer = right; check; answer = early": "✗",
    "answer = wrong; answer = late": "✓",
    "answer = right; check; restart": "✓",
    "answer = right; check; restart; answer = broken": "✗",
    "answer = right; answer = renamed": "✗",
    "answer = right; check; answer = renamed": "✗",
    "answer = renamed; second = tried": "·",
    "answer = timed": "✓",
    "answer = captured": "✗",
    "answer = right; answer = captured": "✗",
    "answer = wrong; second = written": "✗",
    "second = written; third = run": "✗",
    "answer = class": "✗",
    "answer = checked": "✓",
    "answer = wrong; answer = checked": "✓",
    "answer = right; check; answer = stub": "·",
    "answer = right; check; answer = right, reset": "·",
    "answer = right; check; scratch = reset": "✓",
    "answer = right; scratch = reset; new-4; answer": "✓",
    "answer = right; scratch = reset; new-4": "·",
    "answer = right; check; run all; restart; run all": "✓",
    "answer = right; - answer; second = wrong": "✗",
    "second = right; - answer": "✓",
    "answer = right; save; answer : wrong; save": "",
    "answer = right; check; - answer; save": "",
    "answer = right; answer = unmade": "",
}


@pytest.mark.parametrize("ids", [True, False])
def test_odd_orders_too(ids, front, tmp_path, monkeypatch, capsys):
    files, claims = Files(tmp_path / "files"), {}
    front.ids = ids
    for order in ODD:
        front.begins()
        front.does(order)
        claims[order] = agreed(front, files)
    signs = files.signs(front.nbval, monkeypatch, capsys)
    with capsys.disabled():
        for order, (sign, name, said) in claims.items():
            want = ODD[order]
            ok = (not want or sign == want) and {
                sign or signs[name][0],
                *signs[name],
            } == {signs[name][0]}
            print(ok, order, sign, signs[name], said if not ok else "")
