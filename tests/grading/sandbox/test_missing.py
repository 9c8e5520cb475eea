"""A module that is not in the sandbox is missed only where it matters."""

import pytest

from attn.grading.sandbox.guarded import guarded_builtins
from attn.grading.sandbox.missing import Absent
from attn.grading.sandbox.policy import Reaches, look


def run(source):
    space = {"__name__": "answer"}
    space["__builtins__"] = guarded_builtins(space, "answer")
    exec(compile(look(source, "<answer>"), "<answer>", "exec"), space)
    return space


SILENT = {
    "a logger": "log = logging.getLogger()\nlog.setLevel(logging.INFO)\nx = 1",
    "a level": "x = 1\nif logging.root.level <= logging.DEBUG: x = 2",
    "a bar": "x = 0\nfor i in tqdm([1], desc='a'): x += i",
    "a bar that counts": "x = sum(trange(2))",
    "a bar around lines": "with tqdm() as bar:\n    x = 1\n    bar.update()",
    "a decorator": "@plt.style.context\ndef f(): return 1\nx = f()",
    "a class": (
        "class A(logging.Handler):\n    def __init__(self):\n"
        "        super().__init__()\n        self.n = 1\nx = A().n"
    ),
    "a figure": "fig = plt.figure()\nfor ax in fig.axes: ax.plot()\nx = 1",
    "a display": "display(3)\nx = 1",
    "standard streams": (
        "import sys\nprint(1, file=sys.stderr)\nsys.stdout.write('a')\nx = 1"
    ),
    "memory that is freed": "import gc\ngc.collect()\nx = 1",
}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_what_only_shows_something_does_nothing(source, capsys):
    space = run(
        "import logging, matplotlib.pyplot as plt\n"
        f"from tqdm.auto import tqdm, trange\n{source}"
    )
    assert space["x"] == 1
    assert capsys.readouterr() == ("", "")


def test_harmless_parts_of_a_closed_module_are_there():
    space = run(
        "import os, sys\nfrom types import SimpleNamespace\n"
        "debug = os.environ.get('SECRET', '0'), os.getenv('PATH')\n"
        "large = sys.maxsize > 2**31 and sys.version_info >= (3, 11)\n"
        "colab = 'google.colab' in sys.modules\n"
        "n = SimpleNamespace(n=3).n"
    )
    assert space["debug"] == ("0", None)
    assert (space["large"], space["colab"], space["n"]) == (True, False, 3)


@pytest.mark.parametrize(
    "use",
    [
        "-pandas.x", "pandas.x + 1", "pandas.x[0]", "len(pandas)",
        "for x in pandas: pass", "with pandas.a(): pass", "1 / pandas.x",
        "class A(pandas.B): pass", "pandas.x < 3", "float(pandas.x)",
    ],
)  # fmt: skip
def test_a_missing_module_that_is_used_is_named(use):
    with pytest.raises(Reaches, match="pandas.*not there when an answer is"):
        run(f"import pandas\n{use}")


@pytest.mark.parametrize(
    "error",
    ["ImportError", "(OSError, ModuleNotFoundError)", "Exception", ""],
)
def test_where_a_missing_module_is_expected_it_is_missing(error):
    space = run(
        f"try:\n    import flash_attn\n    x = 1\nexcept {error}:\n    x = 2\n"
        f"try:\n    from cupy import array\nexcept {error}:\n    x += 1\n"
        f"try:\n    import math, os\nexcept {error}:\n    x = 4\n"
    )
    assert space["x"] == 3
    assert isinstance(run("import cupy")["cupy"], Absent)
    other = "try:\n    import cupy\nexcept ValueError:\n    pass"
    assert isinstance(run(other)["cupy"], Absent)


def test_an_object_is_of_no_missing_class():
    assert (
        run("import pandas\nx = isinstance(3, (str, pandas.A))")["x"] is False
    )


def test_an_answer_is_the_main_module():
    space = run("if __name__ == '__main__':\n    def f(): return 3\n")
    assert space["f"]() == 3
