"""Try small changes of the book's solution, and name the kind of change.

An answer that is on no list is often the right one but for one operator,
bound, axis or argument. A change is named by what it does, never by the
solution's code, and only if it gives in every case what the answer gives.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.checks.clock import Clock
from attn.grading.checks.evidence import Evidence, agree
from attn.grading.diagnosis.expression_changes import expression_changes
from attn.grading.diagnosis.kinds import Kind, kind


@dataclass(frozen=True)
class Mutant:
    """The book's solution with one change; its kind is a key of kinds.md."""

    kind: str
    answer: Any


def explained(evidence: Evidence, end: float) -> tuple[Kind, ...]:
    """Return the kinds of change that explain every case.

    One; two that cannot be told apart; none if there are more, or of a
    kernel.

    Args:
        evidence: all that was observed.
        end: the time, of ``time.process_time``, at which to stop.
    """
    if evidence.exercise.launch or evidence.within_rounding:
        return ()
    if not any(f.outcome.error is None for f in evidence.failures):
        return ()
    cases = [*evidence.failing, *evidence.passing]
    keys: list[str] = []
    for mutant in mutants(evidence.exercise):
        if time.process_time() > end:
            break
        if mutant.kind not in keys and all(
            _agrees(evidence, mutant, i, end) for i in cases
        ):
            keys.append(mutant.kind)
    return tuple(map(kind, keys)) if len(keys) <= 2 else ()


def _agrees(evidence: Evidence, mutant: Mutant, i: int, end: float) -> bool:
    """Return whether a mutant gives what the answer gives in a case.

    Errors that read the same are no proof of the same mistake. A mutant may
    run for ever, and is stopped at the end.
    """
    outcome = evidence.outcomes[i]
    if outcome.error is not None:
        return False
    clock = Clock(max(end - time.process_time(), 0.02))
    mutated = evidence.oracle.run(mutant, i, clock)
    case, rtol = evidence.case(i), evidence.oracle.rtol(i)
    return agree(outcome, mutated, case, rtol)


def mutants(exercise: Exercise) -> Iterator[Mutant]:
    """Yield the book's solution with one change after the other."""
    tree = ast.parse(sources.solution(exercise.id))
    names = {**exercise.namespace(), "__name__": "attn.exercises.mistakes"}
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
        for key, new in expression_changes(node):
            ast.copy_location(new, node)
            _put(parent, field, at, ast.fix_missing_locations(new))
            namespace = dict(names)
            try:
                code = compile(tree, f"<{key}>", "exec")
                exec(code, namespace)
            except Exception:  # the change made no valid function
                continue
            finally:
                _put(parent, field, at, node)
            yield Mutant(key, namespace[exercise.name])


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
