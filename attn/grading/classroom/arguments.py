"""Describe the arguments of ``attn grade``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_DESCRIPTION = """\
Grade notebooks: one, or a class.

A PATH is a notebook, a Python file, or a folder of them, flat or with a
folder for each learner; the downloads of Canvas, Moodle and Gradescope, once
unpacked, and nbgrader's folders are read as they are. Of each submission only
the exercise cells are taken. Each answer is judged on fresh inputs, from
outside the closed process that it runs in.
"""
_EXAMPLES = """\
examples:
  attn grade submitted/                    a class, into grades/
  attn grade alice_05.ipynb --out alice    one notebook
  attn grade submitted/ --points ps1.csv   lines such as gqa-repeat_kv,5
  attn grade submitted/ --roster class.csv points into a platform's CSV

Points, late days and comments of your own are lines in DIR/marks.csv, which
is read at each run and never written again.

A batch that was stopped goes on with the same command. The exit status is 0
when each submission has its row, whatever the marks; 2 for a wrong argument.
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add ``grade`` to the commands of ``attn``; return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "grade",
        help="grade a notebook, or a class of them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("paths", type=Path, nargs="+", metavar="PATH")
    add(
        "--out",
        type=Path,
        default=Path("grades"),
        metavar="DIR",
        help="folder of the reports; a folder that holds a batch resumes it "
        "(default: grades)",
    )
    add(
        "--jobs",
        type=_positive(int),
        metavar="N",
        help="submissions graded at a time (default: the number of cores)",
    )
    add(
        "--dask",
        metavar="ADDRESS",
        help="grade on a Dask cluster, e.g. tcp://10.0.0.1:8786; all of it "
        "needs the same version of the book, its workers the same files",
    )
    add(
        "--seed",
        type=_whole,
        metavar="N",
        help="of the inputs: the same seed gives the same report (default: "
        "drawn, and printed)",
    )
    add(
        "--points",
        type=Path,
        metavar="FILE",
        help="points in place of the book's: JSON {exercise: points}, or CSV "
        "with a line for each",
    )
    add(
        "--partial",
        action="store_true",
        help="give a wrong answer points for the conditions of its check in "
        "which it is right (default: all or none)",
    )
    add(
        "--again",
        action="append",
        default=[],
        metavar="LEARNER",
        help="grade this learner's submissions though they are graded; may "
        "be given more than once",
    )
    add(
        "--roster",
        type=Path,
        metavar="FILE",
        help="a platform's CSV of the class: DIR/roster.csv is that with the "
        "points in it, and the reports list those without a submission",
    )
    add(
        "--column",
        metavar="NAME",
        help="of the roster, for the points (default: that with the "
        "chapter's name, else Grade, else a new one)",
    )
    add(
        "--timeout",
        type=_positive(float),
        default=60.0,
        metavar="S",
        help="seconds for each exercise (default: 60)",
    )
    return parser


def _positive(kind: type[float]) -> Any:
    def parse(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise ValueError
        return number

    parse.__name__ = f"positive {kind.__name__}"
    return parse


def _whole(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**63:
        raise ValueError
    return number


_whole.__name__ = "whole number from 0"
