"""Try small changes of the book's solution, and name the kind of change.

An answer that is on no list is often the right one but for one operator,
bound, axis or argument. A change is named by what it does, never by the
solution's code, and only if it gives in every case what the answer gives.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import ENOUGH, Evidence, agree
from attn.grading.diagnosis.expression_changes import expression_changes
from attn.grading.diagnosis.kinds import Kind, kind

_MOST_STEPS = 4096  # of a loop; with a bound off by one, one counts to 2**111
_MOST_TURNS = 16 * _MOST_STEPS  # of all `while` loops, in all cases together


@dataclass(frozen=True)
class Mutant:
    """The book's solution with one change; its kind is a key of kinds.md."""

    kind: str
    answer: Any


def explained(evidence: Evidence) -> tuple[Kind, ...]:
    """Return the kinds of change that explain every case.

    One; two that cannot be told apart; none if there are more, or of a
    kernel.
    """
    if evidence.exercise.launch or evidence.within_rounding:
        return ()
    if evidence.telling < ENOUGH:
        return ()
    cases = [*evidence.failing, *evidence.passing]
    # Errors that read the same are no proof of the same mistake.
    if any(evidence.outcomes[i].error is not None for i in cases):
        return ()
    keys: list[str] = []
    for mutant in islice(mutants(evidence.exercise), evidence.trials):
        if mutant.kind not in keys and all(
            _agrees(evidence, mutant, i) for i in cases
        ):
            keys.append(mutant.kind)
    if "bound_left_out" in keys:  # what makes the other side small says less
        keys = ["bound_left_out"]
    return tuple(map(kind, keys)) if len(keys) <= 2 else ()


def _agrees(evidence: Evidence, mutant: Mutant, i: int) -> bool:
    """Return whether a mutant gives what the answer gives in a case."""
    mutated = evidence.oracle.run(mutant, i)
    case, rtol = evidence.case(i), evidence.oracle.rtol(i)
    return agree(evidence.outcomes[i], mutated, case, rtol)


def mutants(exercise: Exercise) -> Iterator[Mutant]:
    """Yield the book's solution with one change after the other."""
    tree = ast.parse(sources.solution(exercise.id))
    names = {**exercise.namespace(), "__name__": "attn.exercises.mistakes"}
    names["range"] = _short_range
    places = [
        (parent, field, at, node)
        for parent in ast.walk(tree)
        for field, value in ast.iter_fields(parent)
        for at, node in enumerate(
            value if isinstance(value, list) else [value]
        )
        if isinstance(node, ast.AST) and not _is_sign(parent, node)
    ]
    for parent, field, at, node in places:
        for key, new in expression_changes(node, parent):
            ast.copy_location(new, node)
            _put(parent, field, at, ast.fix_missing_locations(new))
            namespace = {**names, _Bounded.turn: _Turns()}
            try:
                bounded = _Bounded().visit(copy.deepcopy(tree))
                code = compile(bounded, f"<{key}>", "exec")
                exec(code, namespace)
            except Exception:  # the change made no valid function
                continue
            finally:
                _put(parent, field, at, node)
            yield Mutant(key, namespace[exercise.name])


class _Turns:
    """Count the turns of loops, and allow so many."""

    def __init__(self) -> None:
        self._left = _MOST_TURNS

    def __call__(self) -> bool:
        self._left -= 1
        if self._left < 0:
            raise OverflowError("a loop must end soon")
        return True


class _Bounded(ast.NodeTransformer):
    """Count the turns of each `while` loop: a change can make it endless."""

    turn = "_turn"

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        turn = ast.Call(ast.Name(self.turn, ast.Load()), [], [])
        node.test = ast.BoolOp(ast.And(), [turn, node.test])
        return ast.fix_missing_locations(node)


def _short_range(*bounds: int) -> range:
    """Return a range, if it is not far longer than any case needs."""
    steps = range(*bounds)
    if len(steps) > _MOST_STEPS:
        raise OverflowError(f"a loop must end soon; got {len(steps)} steps")
    return steps


def _is_sign(parent: ast.AST, node: ast.AST) -> bool:
    """Return whether it is the number of -1, which counts as a whole."""
    return isinstance(parent, ast.UnaryOp) and isinstance(node, ast.Constant)


def _put(parent: ast.AST, field: str, at: int, node: ast.AST) -> None:
    """Put a node in its place in the tree."""
    value = getattr(parent, field)
    if isinstance(value, list):
        value[at] = node
    else:
        setattr(parent, field, node)
