"""Find answers that are the same text but for names, comments and layout.

Such a pair is a hint for a person to look at, and no verdict: two learners
may have worked together, or may both have written the usual thing. What a
task nearly dictates is left out: short answers, the book's own solution, and
what many learners share.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from attn.exercises import sources

if TYPE_CHECKING:
    from attn.grading.classroom.reports.learner import Learner

ENOUGH = 60  # tokens more than the stub has
MANY = 8  # learners with one text: it is the usual one
_LONGEST = 100_000  # characters
_LAYOUT = {
    *(tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class Pair:
    """Two learners, and the exercises in which they look alike."""

    one: Learner
    two: Learner
    exercises: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """The pairs of a class.

    Args:
        pairs: those with the most exercises first.
        usual: how many learners share a text that is left out for that, by
            exercise.
    """

    pairs: tuple[Pair, ...]
    usual: dict[str, int]


def find(learners: Sequence[Learner]) -> Found:
    """Return the pairs of learners whose answers look alike."""
    alike: defaultdict[tuple[str, str], list[Learner]] = defaultdict(list)
    for learner in learners:
        for mark in learner.marks.values():
            if mark.code and (text := comparable(mark.exercise, mark.code)):
                alike[mark.exercise, text].append(learner)
    usual: dict[str, int] = {}
    shared: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    order = {x.name: i for i, x in enumerate(learners)}
    for (exercise, _), group in alike.items():
        if len(group) > MANY:
            usual[exercise] = max(len(group), usual.get(exercise, 0))
            continue
        for one, two in combinations(group, 2):
            if not _are_partners(one, two):
                shared[order[one.name], order[two.name]].append(exercise)
    pairs = [
        Pair(learners[i], learners[j], tuple(names))
        for (i, j), names in sorted(shared.items())
    ]
    pairs.sort(key=lambda x: -len(x.exercises))
    return Found(tuple(pairs), usual)


def _are_partners(one: Learner, two: Learner) -> bool:
    """Return whether both handed in one submission together."""
    together = {x.attempt for x in one.results if x.partners}
    return any(x.partners and x.attempt in together for x in two.results)


def comparable(exercise: str, text: str) -> str:
    """Return a text by which an answer is compared; "" if it says nothing.

    That is no Python, less than ``ENOUGH`` tokens more than the stub, far too
    long, or the book's.
    """
    own, length = plain(text)
    stub, least = plain(sources.stub(exercise))
    of_the_book = _solution(exercise)
    is_telling = length >= least + ENOUGH and own not in (stub, of_the_book)
    return own if is_telling else ""


@cache
def _solution(exercise: str) -> str:
    return plain(sources.solution(exercise))[0]


@cache
def plain(text: str) -> tuple[str, int]:
    """Return a text with its own names numbered, and its count of tokens.

    Comments, docstrings, annotations and layout are gone. A name that the
    text does not define itself, such as ``torch``, stays.
    """
    try:
        tree = ast.parse(text if len(text) <= _LONGEST else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", 0
    names, attributes = _defined(tree)
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr in attributes:
                node.attr = numbers.setdefault(
                    f".{node.attr}", f"_{len(numbers)}"
                )
        elif not isinstance(node, ast.keyword):
            for field in ("id", "arg", "name", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str) and name in names:
                    number = f"_{len(numbers)}"
                    setattr(node, field, numbers.setdefault(name, number))
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [x for x in body if not _is_text(x)] or [ast.Pass()]
    try:
        own = ast.unparse(tree)
        tokens = [*tokenize.generate_tokens(io.StringIO(own).readline)]
    except (RecursionError, ValueError, tokenize.TokenError):
        return "", 0
    return own, sum(x.type not in _LAYOUT for x in tokens)


def _defined(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names and the attributes that a text gives values to."""
    names, attributes = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler
        ):
            names.add(node.name or "")
        elif isinstance(node, ast.alias):
            names.add(node.asname or "")
        elif isinstance(node, ast.Attribute) and isinstance(
            node.ctx, ast.Store
        ):
            attributes.add(node.attr)
    return names, attributes


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
