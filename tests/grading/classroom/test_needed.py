"""An answer's text is what it needs: no more, and nothing else's."""

import json

import pytest

from attn.exercises import CHAPTERS, cells, sources
from attn.exercises.spec import every_exercise
from attn.grading.classroom import given, needed
from attn.grading.classroom.grade import grade
from attn.grading.classroom.needed import Notebook
from attn.grading.classroom.reading import Cell, notebook
from attn.grading.classroom.submissions import Submission
from tests.grading.classroom import fakes
from tests.grading.classroom.damage.kinds import (
    FIRST,
    SECOND,
    cell_of,
    solved,
)

MASK = "mask-causal"
RIGHT = "def causal(n):\n    return n"


def of(*texts, own=0, exercise=MASK, known=frozenset({"torch", "F"})):
    """Return what the answer in one of some cells needs."""
    all_cells = [
        Cell("code", x, exercise if i == own else None)
        for i, x in enumerate(texts)
    ]
    return Notebook(all_cells).needed(all_cells[own], exercise, known)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_solution_in_its_chapter_needs_its_own_text_alone(key):
    book = sources.notebook(key)
    for cell in book["cells"]:
        if name := cells.exercise_id(cell):
            cell["source"] = sources.solution(name)
    document = notebook(json.dumps(book))
    whole = Notebook(document.cells)
    answers = [x for x in document.cells if x.exercise]
    assert len(answers) == len(sources.names(key))
    for cell in answers:
        known = given.Names(cell.exercise)
        found = whole.needed(cell, cell.exercise, known)
        assert found == needed.Needed(cell.source)


def test_a_right_answer_in_any_style_needs_all_of_its_text():
    count = 0
    for exercise in every_exercise():
        for right in exercise.equivalents:
            known = given.Names(exercise.id)
            found = of(right.source, exercise=exercise.id, known=known)
            assert found.text == right.source, f"{exercise.id}: {right.name}"
            assert not found.left_out
            count += 1
    assert count > 400


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"{RIGHT}\nplt.plot();\n", f"{RIGHT}\n"),
        (f"x = 3; plt.plot(x)\n{RIGHT}\n", f"\n{RIGHT}\n"),
        ("s = 3; plt.plot(s); causal = s;", "s = 3; causal = s;\n"),
        ("plt.plot(); causal = 3", "causal = 3\n"),
        ("'é'; plt.plot('é'); causal = 'é'", "causal = 'é'\n"),
        (f"print(\n  1,\n)  # shown\n{RIGHT}", f"\n\n\n{RIGHT}\n"),
        (f"@wraps(f)\ndef g(): pass\n{RIGHT}", f"\n\n{RIGHT}\n"),
        (
            f"import re\n@re.compile\n{RIGHT}",
            f"import re\n@re.compile\n{RIGHT}",
        ),
        (f"@torch.jit.script\n{RIGHT}", f"\n{RIGHT}\n"),
        (f"@torch.compile(\n    mode='x'\n)\n{RIGHT}", f"\n\n\n{RIGHT}\n"),
        ("import os, math\ncausal = math", "import math\ncausal = math\n"),
        (
            "from functools import (\n    partial,\n    wraps,\n)\n\n\n"
            "def d(f):\n    @wraps(f)\n    def g(): return f()\n"
            "    return g\n\n\n@d\ndef causal(): return partial\n",
            "\n\n\nfrom functools import partial\n\n\n"
            "def d(f):\n\n    def g(): return f()\n"
            "    return g\n\n\n@d\ndef causal(): return partial\n",
        ),
    ],
)
def test_lines_that_are_not_needed_leave_the_others_in_their_place(
    source, text
):
    found = of(source)
    assert found.text == text
    compile(text, "", "exec")


@pytest.mark.parametrize(
    "beside",
    [
        "plt.plot(causal)",
        "causal(3)",
        "x = causal(3)",
        "causal.cache_clear()",
        "torch.backends.cudnn.deterministic = True",
        "torch.equal = lambda *x: True",
        "import os\nos.environ['A'] = 'b'",
        "def check(name): print('passed')",
        "for n in range(3): print(causal(n))",
        "with open('x', 'w') as file: file.write(str(causal))",
        "class A:\n    def __reduce__(self): return causal",
        "[print(causal) for causal in ()]",
        "n: int",
        "(lambda causal: causal)(1)",
    ],
)
def test_what_an_answer_does_not_need_is_never_handed_on(beside):
    for text in (f"{beside}\n{RIGHT}", f"{RIGHT}\n{beside}"):
        assert of(text).text.strip() == RIGHT
    assert of(RIGHT, beside) == of(beside, RIGHT, own=1)


@pytest.mark.parametrize(
    "change",
    [
        "causal = lambda n: 0",
        "causal.scale = 3",
        "setattr(causal, 'scale', 3)",
        "del causal",
        "if True: causal = 3",
        "for causal in range(3): pass",
        "with torch.no_grad() as causal: pass",
        "import math as causal",
        "causal, x = 3, 4",
        "try: pass\nexcept ValueError as causal: pass",
        "print(causal := 3)",
        "causal += 1",
    ],
)
def test_what_changes_an_answer_before_its_check_is_part_of_it(change):
    assert change in of(f"{RIGHT}\n{change}").text
    assert change in of(RIGHT, change).text
    check = f'check("{MASK}")'
    assert of(RIGHT, check, change) == needed.Needed(RIGHT)


@pytest.mark.parametrize(
    "filled",
    [
        "ROWS.append(3)",
        "ROWS[0] = 3",
        "for i in range(3): ROWS.append(i)",
        "[ROWS.append(i) for i in range(3)]",
        "torch.nn.init.zeros_(ROWS)",
        "ROWS += [3]",
    ],
)
def test_a_table_comes_with_what_fills_it(filled):
    answer = "def causal(n): return ROWS"
    above = f"ROWS = []\n{filled}"
    found = of(f"{above}\nprint(ROWS)", answer, own=1)
    assert found.text == f"{above}\n\n\n{answer}"
    assert found.brought == ("ROWS",)


def test_names_are_those_of_the_time_of_the_check():
    answer = "def causal(n): return SIZE"
    check = f'check("{MASK}")'
    found = of("SIZE = 1", "SIZE = 2", answer, check, "SIZE = 3", own=2)
    assert found.text == f"SIZE = 2\n\n\n{answer}"
    found = of(answer, check, "SIZE = 3", "SIZE = 4")
    assert found.text == f"SIZE = 4\n\n\n{answer}"
    early = "SIZE = 1\nBOTH = SIZE + 1\nSIZE = 5"
    found = of(early, "def causal(): return BOTH", own=1)
    assert found.text.startswith("SIZE = 1\nBOTH = SIZE + 1\n\n\n")


def test_what_the_sandbox_gives_is_not_taken_from_other_cells():
    answer = "def causal(n): return F.relu(n)"
    assert of("import wrong as F", answer, own=1).text == answer
    own = f"import right as F\n{answer}"
    assert of("import wrong as F", own, own=1).text == own
    assert "softmax" in given.Names("sdp-attention")
    assert "attention" not in given.Names("sdp-softmax")
    for name in ("math", "torch", "Tensor"):
        assert name in given.Names("sdp-softmax")


def test_everything_of_a_module_comes_along_for_a_name_of_no_cell():
    answer = "def causal(n): return le(n, max(n))"
    every = "from operator import *"
    found = of(f"{every}\nprint()", answer, own=1)
    assert found.text == f"{every}\n\n\n{answer}"
    known = frozenset({"le"})
    assert of(every, answer, own=1, known=known).text == answer
    assert of(every, RIGHT, own=1).text == RIGHT
    two = f"{every}\nfrom math import *"
    assert of(two, answer, own=1).text == f"{two}\n\n\n{answer}"
    dotted = "import os\nimport os.path"
    answer = "def causal(): return os.path"
    assert of(dotted, answer, own=1).text == f"{dotted}\n\n\n{answer}"


def test_what_a_decorator_adds_to_a_class_comes_along():
    answer = "class causal: pass"
    add = "def add(to): return lambda f: setattr(to, f.__name__, f)"
    method = "@add(causal)\ndef forward(self): pass"
    found = of(add, answer, method, own=1)
    assert found.text == f"{add}\n\n\n{answer}\n\n\n{method}"
    assert of(add, answer, "@add(other)\ndef f(): pass", own=1).text == answer


def test_an_earlier_answer_that_is_written_anew_comes_along():
    def text(*cells):
        found = [Cell("code", x, name) for name, x in cells]
        return Notebook(found).needed(found[-1], MASK, {"softmax"}).text

    first = "sdp-softmax", "def softmax(x): return x"
    anew = "def softmax(x, mask): return mask"
    own = MASK, "def causal(n): return softmax(n, mask=n)"
    check = None, 'check("sdp-softmax")'
    assert text(first, check, (None, anew), own) == f"{anew}\n\n\n{own[1]}"
    assert text(first, (None, anew), check, own) == own[1]
    assert text((None, anew), first, check, own) == own[1]


def test_a_global_that_is_counted_up_comes_along():
    answer = "def causal():\n    global CALLS\n    CALLS += 1"
    assert of("CALLS = 0\nprint()", answer, own=1).brought == ("CALLS",)


def test_a_builtin_is_one_unless_it_was_hidden_above():
    answer = "def causal(n): return max(n)"
    assert of(answer, 'check("mask-causal")', "max = 3").text == answer
    assert of("max = 3", answer, own=1).brought == ("max",)


def test_a_helper_keeps_none_of_its_cells_other_lines():
    helper = "def rows(n): return n"
    cell = f"# mine\nimport os\n{helper}\nos.system('true')\nassert rows(1)"
    found = of(cell, "def causal(n): return rows(n)", own=1)
    assert found.text == f"{helper}\n\n\ndef causal(n): return rows(n)"


@pytest.mark.parametrize(
    "text", ["def causal(", "x = 3", "", "\0", "def other(): pass", "x" * 99]
)
def test_a_cell_without_the_answer_is_kept_as_it_is(text):
    assert of(text) == needed.Needed(text)


def test_cells_without_end_leave_an_answer_as_it_is(monkeypatch):
    answer = f"{RIGHT}\nprint()"
    many = "x = 1\n" * 9999
    assert of(many, answer, own=1).text == answer
    used = "".join(f"x{i} = x{i + 1}\n" for i in range(6000)[::-1])
    assert of(used, "def causal(): return x0", own=1).brought == ()
    monkeypatch.setattr(needed, "_LONGEST", 99)
    far = "x" * 99
    cut = of(f"# {far}\ndef rows(): pass", "causal = rows", own=1)
    assert cut.text == "causal = rows"


def test_a_learner_reads_what_was_left_out_of_a_wrong_answer(tmp_path):
    book = solved()
    source = sources.solution(FIRST)
    assert "(n_rep, " in source
    cell_of(book, FIRST)["source"] = (
        "import matplotlib.pyplot as plt\n"
        + source.replace("(n_rep, ", "(n_times(n_rep), ")
        + "\nplt.plot([1, 2])\n"
    )
    cell_of(book, SECOND)["source"].append("\nprint('right')")
    helper = "def n_times(n_rep):\n    return -n_rep"
    book["cells"].insert(0, {"cell_type": "code", "source": helper})
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(book))
    submission = Submission(path, path.name, path.stem)
    wrong, *right = grade(submission, fakes.OPTIONS, fakes.Examiner()).marks
    assert wrong.notes == (
        "left out, as the answer does not need it: import matplotlib.pyplot "
        "as plt, plt.plot([1, 2])",
        "taken along from other cells: n_times",
    )
    assert all(x.passed and not x.notes for x in right)
