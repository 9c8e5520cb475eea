"""What is left of an answer without its remarks computes the same."""

import logging
import time

import pytest
import torch

from attn.grading.classroom.remarks import showing, without_remarks
from attn.grading.classroom.statements import statements
from attn.grading.sandbox.silent import Silent


class Bar:
    """Stand for ``tqdm``: what it goes through, and methods that show it."""

    def __init__(self, rows=(), *_texts, **_options):
        self._rows = rows

    def __iter__(self):
        return iter(self._rows)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def __getattr__(self, name):
        return lambda *args, **options: None


MODULES = """
from icecream import ic
from tqdm import tqdm, trange
import logging
logger = logging.getLogger()
"""
NAMES = {
    "torch": torch,
    "display": print,
    "ic": lambda *x: x[0] if len(x) == 1 else x,
    "logger": logging.getLogger(),
    "logging": logging,
    "tqdm": Bar,
    "trange": lambda *n, **_: Bar(range(*n)),
}

#: What the sandbox has in place of these.
SILENT = {x: Silent(x) for x in ("display", "ic", "logging", "tqdm", "trange")}

#: Bodies of functions of a tensor that stay as they are.
SHOWN_WHILE_COMPUTING = {
    "an echo": "y = ic(x + 1)\nreturn y",
    "an echo that is returned": "return ic(x) + ic(2)",
    "an echo, changed in place": "ic(y := x.clone()).add_(1)\nreturn y",
    "a bar in a with": (
        "y = 0\nwith tqdm(total=3) as bar:\n    for n in range(3):\n"
        "        y = y + x[n]; bar.update(1)\nreturn y"
    ),
    "a bar in a with, gone through": (
        "y = 0\nwith tqdm(x, 'é') as bar:\n    for r in bar:\n"
        "        y = y + r\n        bar.set_postfix(y=3)\nreturn y"
    ),
    "a break in a with": (
        "y = 0\nfor r in x:\n    with tqdm(total=1) as bar:\n"
        "        y = y + r\n        break\nreturn y"
    ),
    "a with over lines": (
        "with (\n    tqdm(\n        x,  # é\n        desc='ü',\n    )  # ö\n"
        "    as bar\n):\n    return sum(bar)"
    ),
    "a with and no name": "with tqdm(total=3):\n    return x + 1",
    "a bar named in a for": (
        "y = 0\nfor r in (bar := tqdm(x)):\n    bar.set_postfix(y=1)\n"
        "    y = y + r\nreturn y"
    ),
    "a bar with a type": (
        "bar: tqdm = tqdm(x)\nbar.update()\nreturn sum(bar)"
    ),
    "a bar in a bar": "return sum(tqdm([x[n] for n in tqdm(trange(3))]))",
    "a bar of a generator": "return sum(tqdm(2 * r for r in x))",
    "a count with parentheses": (
        "return sum(x[n] for n in trange((1),\n  (1 + (2)), desc='é'))"
    ),
    "an echo of two": "y, z = ic(x, 2)\nreturn y + z",
}

#: Bodies of which a remark is gone afterwards.
SHOWN = {
    "a log before a semicolon": "logger.info(\n  'é'); y = x + 1\nreturn y",
    "a log in one line": "logger.info('é'); logger.info('ü'); return x + 1",
    "a module imported further in": (
        "if True:\n    import logging as log\nlog.info('a')\nreturn x + 1"
    ),
    "a logger of a function": (
        "def inner():\n    log = logging.getLogger()\n"
        "    log.info('a')\n    return x + 1\nreturn inner()"
    ),
}

#: Bodies in which a name that looks like one of these is the learner's own.
OWN = {
    "a variable": "display = x.clone()\ndisplay.add_(1)\nreturn display",
    "a variable of a loop": (
        "y = [r.clone() for r in x]\nfor display in y:\n"
        "    display.add_(1)\nreturn sum(y)"
    ),
    "a parameter": (
        "def inner(display):\n    display.add_(1)\n    return display\n"
        "return inner(x.clone())"
    ),
    "a parameter named as another function's import": (
        "def show():\n    from pprint import pprint as p\n    p(1)\n"
        "def inner(p):\n    p.add_(1)\n    return p\n"
        "return inner(x.clone())"
    ),
    "a bar whose name is used again": (
        "rows = tqdm(x)\nfor r in rows: pass\nrows = []\n"
        "rows.append(r)\nreturn rows[0]"
    ),
    "a function": (
        "def tqdm(y): return y\ny = x.clone()\ntqdm(y).add_(1)\nreturn y"
    ),
    "a lambda's": ("f = lambda tqdm: tqdm(1)\nreturn f(lambda n: x + n)"),
    "an outer variable that is replaced": (
        "log = logging.getLogger()\ndef inner():\n    nonlocal log\n"
        "    log = x.clone()\ninner()\nlog.add_(1)\nreturn log"
    ),
    "an error": (
        "y = x.clone()\ntry:\n    raise ValueError\n"
        "except ValueError as display:\n    display.args = (1,)\n"
        "    y = y + display.args[0]\nreturn y"
    ),
    "a pattern": (
        "match [x.clone()]:\n    case [display]:\n        display.add_(1)\n"
        "        return display"
    ),
    "an import": (
        "import torch as display\ndisplay.manual_seed(3)\n"
        "return x + display.rand(())"
    ),
    "a name that is deleted": (
        "log = logging.getLogger()\nlog.info('a')\ndel log\nreturn x"
    ),
    "a result that is kept": (
        "y = x.clone()\nlogger.info('%s', (n := 3))\nreturn y + n"
    ),
    "a tensor that is changed": (
        "y = x.clone()\nlogger.info('%s', y.add_(1))\nreturn y"
    ),
    "a bar in an f-string": "return x if f'é' f'{list(tqdm(x))}' else x",
}


def text(body):
    lines = body.replace("\n", "\n    ")
    return f"def answer(x):\n    {lines}\n"


def without(body):
    names = showing(statements(MODULES))
    return without_remarks(text(body), names)


def result(source, names):
    space = dict(names)
    exec(source, space)
    return space["answer"](torch.arange(6.0).view(3, 2))


@pytest.mark.parametrize("body", SHOWN.values(), ids=SHOWN)
def test_the_answer_computes_the_same_where_nothing_can_be_shown(body):
    changed, left_out = without(body)
    assert left_out
    assert changed.count("\n") == text(body).count("\n")
    found = result(changed, {"torch": torch, "logging": Silent("logging")})
    assert torch.equal(found, result(text(body), NAMES))


@pytest.mark.parametrize(
    "body", SHOWN_WHILE_COMPUTING.values(), ids=SHOWN_WHILE_COMPUTING
)
def test_what_is_silent_computes_the_same(body):
    changed, _ = without(body)
    found = result(changed, {"torch": torch, **SILENT})
    assert torch.equal(found, result(text(body), NAMES))


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
def test_a_name_of_the_learners_own_is_no_remark(body):
    changed, _ = without(body)
    found = result(changed, NAMES)
    assert torch.equal(found, result(text(body), NAMES))


def test_a_global_that_a_function_replaces_is_no_remark():
    source = "def inner():\n    global logger\n    logger = []\n"
    names = showing(statements(MODULES + source))
    assert "logger" not in names and "logging" in names


@pytest.mark.parametrize(
    "inner", ["-" * 2500 + "1", "x" + "[0]" * 2500, "+".join("1" * 2500)]
)
def test_a_deep_or_long_text_is_read_at_once(inner):
    start = time.monotonic()
    without(f"tqdm({inner})")
    nested = "tqdm(" * 90 + "1, " * 100_000 + ")" * 90
    without(f"return {nested}")
    assert time.monotonic() - start < 30
