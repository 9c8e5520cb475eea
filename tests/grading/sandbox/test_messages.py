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
from attn.grading.sandbox import isolation
from tests.grading.sandbox.conftest import examined

MARK = "xyzzy"
TELL = """
import os, platform, torch
TOLD = (
    "{0.__file__} {0.sys.path} {0.sys.argv} {0.sys.executable} {0.os.environ} "
    "{0.sys.prefix} {1} {2} {0.sys.modules[__main__]}"
).format(torch, platform.node(), os.getcwd())
TOLD += " %s %r" % (torch, torch.nn)
class Error(Exception):
    def __str__(self):
        return TOLD
"""
#: How a text of an answer's comes to a report.
ROUTES = {
    "an error": "raise ValueError(TOLD)",
    "an error, in parts": "raise ValueError(*TOLD.split())",
    "an error, of its own kind": "raise Error(x)",
    "a note": "e = ValueError()\n    e.add_note(TOLD)\n    raise e",
    "a print": "print(TOLD)\n    return x",
    "texts": "return TOLD.split()",
    "names in a dict": "return {word: x for word in TOLD.split()}",
    "the name of a class": "return type(TOLD, (), {})()",
    "an error's name": "raise type(TOLD, (Exception,), {})('x')",
    "the cell": None,
}


def cell(line):
    if line is None:
        return f"{TELL}raise ValueError(TOLD)\ncausal_average\n"
    return f"{TELL}def causal_average(x):\n    {line}\n"


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """The mark of each route, by an examiner in a marked environment."""
    if isolation.complaint():
        pytest.skip("bubblewrap: not on this machine")
    home, key = str(tmp_path_factory.mktemp(MARK)), "why-causal_average"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", home, prepend=os.pathsep)
        for name in ("HOME", "USER", "LOGNAME", "PYTHONPATH", "ATTN_SECRET"):
            patch.setenv(name, home)
        patch.setattr(tempfile, "tempdir", home)
        isolation._places.cache_clear()
        with Examiner(3) as examiner:
            yield {
                route: examined(examiner, "why", {key: cell(line)})[key]
                for route, line in ROUTES.items()
            }
    isolation._places.cache_clear()


@pytest.mark.parametrize("route", ROUTES)
def test_no_report_tells_of_the_machine(marks, route, tmp_path):
    mark = marks[route]
    assert not mark.passed
    row = Result("a.ipynb", "a", "01_why_attention", marks=(mark,))
    written = reports.write(Class([row]), tmp_path)
    text = "".join(x.read_text("utf-8") for x in written)
    assert mark.exercise in text
    # Debian's own Python is in /usr, as on every machine.
    folders = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[3])}
    folders -= {*map(str, isolation.EVERYWHERE)}
    name = socket.gethostname()
    for secret in (MARK, *folders, name if name[3:] else f"node='{name}'"):
        assert secret not in text, (secret, mark)


def test_the_text_of_an_answer_arrives_with_neutral_places(marks):
    """The routes do tell: what they tell is neutral."""
    assert "<python>" in str([*marks.values()])


def test_an_error_of_the_graders_own_tells_no_place():
    error = OSError(2, "not there", f"{sys.prefix}/x y")
    assert sys.prefix not in _our_fault("reader", error)
    assert "<python>/x y" in _our_fault("reader", error)
