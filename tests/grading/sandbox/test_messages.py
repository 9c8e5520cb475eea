"""No message tells of the machine: its environment, its folders, its name."""

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from attn.grading.classroom import reports
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.grade import _our_fault
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.result import Result
from attn.grading.sandbox import files, isolation, wire
from tests.grading.sandbox.conftest import examined

MARK = "xyzzy"
TELL = """
import os, platform, torch
TOLD = (
    "{0.__file__} {0.sys.path} {0.sys.argv} {0.sys.executable} {0.os.environ} "
    "{0.sys.prefix} {1} {2} {0.sys.modules[__main__]}"
).format(torch, platform.node(), os.getcwd())
TOLD += " %s %r" % (torch, torch.nn)
class Tells:
    def __repr__(self):
        return TOLD
    def __str__(self):
        return TOLD
class Error(Exception):
    def __str__(self):
        return TOLD
"""
#: How a text of an answer's comes to a report.
ROUTES = {
    "an error": "    raise ValueError(TOLD)",
    "an error, in parts": "    raise ValueError(*TOLD.split())",
    "an error, of its own kind": "    raise Error(x)",
    "an error that holds an object": "    raise ValueError(Tells())",
    "an error's cause": "    raise ValueError('x') from Error(x)",
    "a note": (
        "    error = ValueError('x')\n    for word in TOLD.split():\n"
        "        error.add_note(word)\n    raise error"
    ),
    "a key": "    raise KeyError(TOLD)",
    "a print": "    print(TOLD)\n    return x",
    "a text": "    return TOLD",
    "texts": "    return TOLD.split()",
    "names in a dict": "    return {word: x for word in TOLD.split()}",
    "an object": "    return Tells()",
    "the name of a class": "    return type(TOLD, (), {})()",
    "a long name of a class": "    return type(TOLD * 9, (), {})()",
    "a long note": (
        "    error = ValueError('x')\n    error.add_note(TOLD * 9)\n"
        "    raise error"
    ),
    "a long error": "    raise ValueError(TOLD * 40)",
    "an error's name": "    raise type(TOLD, (Exception,), {})('x')",
    "the cell": None,
}


def cell(lines):
    if lines is None:
        return f"{TELL}raise ValueError(TOLD)\ncausal_average\n"
    return f"{TELL}def causal_average(x):\n{lines}\n"


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """The mark of each route, by an examiner in a marked environment."""
    if isolation._complaint():
        pytest.skip("bubblewrap: not on this machine")
    home = tmp_path_factory.mktemp(MARK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
        for name in ("HOME", "USER", "LOGNAME", "PYTHONPATH", "ATTN_SECRET"):
            patch.setenv(name, str(home))
        patch.setattr(tempfile, "tempdir", str(home))
        files._places.cache_clear()
        with Examiner(3) as examiner:
            yield {
                route: examined(
                    examiner, "why", {"why-causal_average": cell(lines)}
                )["why-causal_average"]
                for route, lines in ROUTES.items()
            }
    files._places.cache_clear()


@pytest.mark.parametrize("route", ROUTES)
def test_no_report_tells_of_the_machine(marks, route, tmp_path):
    mark = marks[route]
    assert not mark.passed
    row = Result("a.ipynb", "a", "01_why_attention", marks=(mark,))
    written = reports.write(Class([row]), tmp_path)
    text = "".join(x.read_text("utf-8") for x in written)
    assert mark.exercise in text
    # Debian's own Python is in /usr, as on every machine.
    folders = sys.prefix, sys.base_prefix, str(Path(__file__).parents[3])
    secrets = (MARK, *{*folders} - {*map(str, files._EVERYWHERE)})
    for secret in (*secrets, socket.gethostname()):
        if secret == socket.gethostname() and len(secret) < 4:
            secret = f"node='{secret}'"
        assert secret not in text, (secret, mark)


def test_the_text_of_an_answer_arrives_with_neutral_places(marks):
    """The routes do tell: what they tell is neutral."""
    assert "<python>" in marks["an error, of its own kind"].details + str(
        marks["texts"]
    )


@pytest.mark.parametrize("end", range(480, 520))
def test_a_text_is_not_cut_within_a_folder(end):
    text = "x " * (end // 2) + "/home/xyzzy/somewhere and more" * 20
    for most in (500, 501):
        cut = wire._cut(text, most)
        assert len(cut) <= most
        assert cut.removesuffix("…").endswith(" ")


def test_an_error_of_the_graders_own_tells_no_place():
    error = OSError(2, "not there", f"{sys.prefix}/x y")
    assert sys.prefix not in _our_fault("reader", error)
    assert "<python>/x y" in _our_fault("reader", error)
