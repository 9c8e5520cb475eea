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
from itertools import permutations
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.checks.clock import Clock
from attn.grading.checks.evidence import Evidence, Name, agree
from attn.grading.diagnosis.kinds import named

_COMPARE: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_TURNED: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.GtE,
    ast.Gt: ast.LtE,
    ast.GtE: ast.LtE,
}
_SIGN: dict[type, Any] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_TIMES: dict[type, Any] = {ast.Mult: ast.Div, ast.Div: ast.Mult}

_FAMILIES = {
    "reduced": ("mean", "sum", "amax", "amin", "median", "prod"),
    "rounded": ("floor", "ceil", "round", "trunc"),
    "triangle": ("tril", "triu"),
    "angle": ("sin", "cos"),
    "logarithm": ("log", "log2", "log10"),
    "power": ("exp", "exp2"),
    "extreme": ("min", "max"),
    "extremes": ("minimum", "maximum"),
}


@dataclass(frozen=True)
class Mutant:
    """The book's solution with one change, of a kind."""

    kind: str
    answer: Any


def explained(evidence: Evidence, end: float) -> tuple[Name, ...]:
    """Return the kinds of change that explain every case.

    One; two that cannot be told apart; none if there are more.

    Args:
        evidence: all that was observed.
        end: the time, of ``time.process_time``, at which to stop.
    """
    if not any(f.outcome.error is None for f in evidence.failures):
        return ()
    if evidence.within_rounding:
        return ()
    cases = [*evidence.failing, *evidence.passing]
    found: dict[str, Name] = {}
    for mutant in mutants(evidence.exercise):
        if time.process_time() > end:
            break
        if mutant.kind not in found and all(
            _same(evidence, mutant, i, end) for i in cases
        ):
            found[mutant.kind] = named(mutant.kind)
    return tuple(found.values()) if len(found) <= 2 else ()


def _same(evidence: Evidence, mutant: Mutant, i: int, end: float) -> bool:
    """Return whether a mutant gives what the answer gives in a case.

    Errors that read the same are no proof of the same mistake. A mutant may
    run for ever, and is stopped at the end.
    """
    outcome = evidence.outcomes[i]
    if outcome.error is not None:
        return False
    clock = Clock(max(end - time.process_time(), 0.02))
    other = evidence.oracle.run(mutant, i, clock)
    return agree(outcome, other, evidence.case(i), evidence.oracle.part(i))


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
        for kind, new in _changes(node):
            ast.copy_location(new, node)
            _put(parent, field, at, ast.fix_missing_locations(new))
            space = dict(names)
            try:
                code = compile(tree, f"<{kind}>", "exec")
                exec(code, space)
            except Exception:  # the change made no valid function
                continue
            finally:
                _put(parent, field, at, node)
            yield Mutant(kind, space[exercise.name])


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


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the changes of one expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind, table in (("strict", _COMPARE), ("turned", _TURNED)):
            if op := table.get(type(node.ops[0])):
                yield kind, ast.Compare(node.left, [op()], node.comparators)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        kind = "axis" if node.value < 0 else "one_off"
        for step in (-1, 1):
            yield kind, ast.Constant(node.value + step)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if isinstance(node.operand, ast.Constant):
            value = node.operand.value
            if type(value) is int:
                for step in (-1, 1):
                    if value + step:
                        number = ast.Constant(value + step)
                        yield "axis", ast.UnaryOp(ast.USub(), number)
        else:
            yield "sign", node.operand
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield "not_inverted", node.operand
    elif isinstance(node, ast.BinOp):
        yield from _of_product(node)
    elif isinstance(node, ast.IfExp):
        yield "branch", node.body
        yield "branch", node.orelse
    elif isinstance(node, ast.If):
        yield "branch", ast.If(ast.Constant(True), node.body, node.orelse)
        yield "branch", ast.If(ast.Constant(False), node.body, node.orelse)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Attribute) and node.attr == "inf":
        for high in (1.0, 10.0, 1e2, 1e3, 1e4, 1e9):
            yield "finite_fill", ast.Constant(high)
    elif isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
        yield "transpose_left_out", node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield "slice_left_out", node.value


def _of_product(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    for side in ("left", "right"):
        operand = getattr(node, side)
        if isinstance(operand, ast.Name) and isinstance(node.op, ast.Sub):
            for op in (ast.Add(), ast.Sub()):
                moved = ast.BinOp(operand, op, ast.Constant(1))
                parts = {"left": node.left, "right": node.right, side: moved}
                yield (
                    "one_off",
                    ast.BinOp(parts["left"], node.op, parts["right"]),
                )
        if isinstance(operand, ast.Name) and "dim" in operand.id:
            half = ast.BinOp(operand, ast.FloorDiv(), ast.Constant(2))
            parts = {"left": node.left, "right": node.right, side: half}
            yield "half", ast.BinOp(parts["left"], node.op, parts["right"])
    if other := _SIGN.get(type(node.op)):
        yield "sign", ast.BinOp(node.left, other(), node.right)
        yield "term_left_out", node.left
        yield "term_left_out", node.right
    if other := _TIMES.get(type(node.op)):
        yield "multiplied", ast.BinOp(node.left, other(), node.right)
        yield "factor_left_out", node.left
        yield "factor_left_out", node.right
        twice = ast.BinOp(node, node.op, node.right)
        yield "factor_twice", twice
    if isinstance(node.op, ast.Pow | ast.FloorDiv | ast.Mod):
        yield "factor_left_out", node.left
        if isinstance(node.op, ast.FloorDiv):
            yield "remainder", ast.BinOp(node.left, ast.Mod(), node.right)
    if not isinstance(node.op, ast.Add | ast.Mult):
        yield "order", ast.BinOp(node.right, node.op, node.left)


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    func = node.func
    if isinstance(func, ast.Attribute):
        for kind, names in _FAMILIES.items():
            for name in names if func.attr in names else ():
                if name == "round" and isinstance(func.value, ast.Name):
                    yield (
                        kind,
                        ast.Call(
                            ast.Name("round", ast.Load()),
                            node.args,
                            node.keywords,
                        ),
                    )
                elif name == "median" and name != func.attr:
                    other = ast.Attribute(func.value, name, ast.Load())
                    call = ast.Call(other, node.args, node.keywords)
                    yield kind, ast.Attribute(call, "values", ast.Load())
                elif name != func.attr:
                    other = ast.Attribute(func.value, name, ast.Load())
                    yield kind, ast.Call(other, node.args, node.keywords)
        module = isinstance(func.value, ast.Name) and func.value.id in (
            "torch",
            "math",
            "F",
            "nn",
        )
        if not module:
            cast = func.attr in ("to", "float", "double", "type_as")
            yield "cast_left_out" if cast else "step_left_out", func.value
        elif len(node.args) >= 1:
            root = func.attr == "sqrt"
            yield "root_left_out" if root else "step_left_out", node.args[0]
    elif isinstance(func, ast.Name):
        for name in ("min", "max") if func.id in ("min", "max") else ():
            if name != func.id:
                swapped_name = ast.Name(name, ast.Load())
                yield (
                    "extreme",
                    ast.Call(swapped_name, node.args, node.keywords),
                )
        if func.id in ("min", "max", "abs", "int", "round"):
            for arg in node.args:
                yield "bound_left_out", arg
    args = node.args
    if 2 <= len(args) <= 4:
        for order in permutations(range(len(args)), len(args)):
            if sum(i != j for i, j in enumerate(order)) == 2:
                swapped = [args[i] for i in order]
                yield "order", ast.Call(func, swapped, node.keywords)
    if len(args) >= 2:
        yield "argument_left_out", ast.Call(func, args[:-1], node.keywords)
    for i in range(len(node.keywords)):
        rest: list[Any] = node.keywords[:i] + node.keywords[i + 1 :]
        yield "argument_left_out", ast.Call(func, args, rest)
    detached = ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])
    yield "partly_detached", detached
