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
from functools import partial
from itertools import combinations
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import Evidence
from attn.grading.diagnosis.kinds import Claim, kind

_MOST_STEPS = 4096  # of a loop; with a bound off by one, one counts to 2**111
_MOST_TURNS = 16 * _MOST_STEPS  # of all `while` loops, in all cases together


@dataclass(frozen=True)
class Mutant:
    """The book's solution with one change; its kind is a key of kinds.md."""

    kind: str
    answer: Any


def claims(evidence: Evidence) -> Iterator[Claim]:
    """Yield claims that the answer is the solution with one change.

    None of a kernel, whose changes would have to be compiled.
    """
    exercise, run = evidence.exercise, evidence.oracle.run
    for mutant in mutants(exercise) if not exercise.launch else ():
        yield Claim(kind(mutant.kind), partial(run, mutant))


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


#: The key of a kind of mistake, and the changed expression.
Change = tuple[str, ast.AST]

_STRICT: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_REVERSED: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.GtE,
    ast.Gt: ast.LtE,
    ast.GtE: ast.LtE,
}
_SIGN: dict[type, Any] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_INVERSE: dict[type, Any] = {ast.Mult: ast.Div, ast.Div: ast.Mult}

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


#: Methods and functions of which a number, given alone, is an axis.
_ALONG = {"amax", "cat", "flatten", "index_copy_", "index_select", "mean"}
_ALONG |= {"permute", "softmax", "squeeze", "stack", "sum", "transpose"}
_ALONG |= {"unflatten", "unsqueeze"}


def expression_changes(node: ast.AST, parent: ast.AST) -> Iterator[Change]:
    """Yield the changes of one expression, which is a part of another."""
    match node:
        case ast.Constant(value) if type(value) is int and _is_axis(parent):
            yield "axis", ast.Constant(value - 1)
            yield "axis", ast.Constant(value + 1)
        case ast.Compare(left, [op], comparators):
            for kind, table in (("strict", _STRICT), ("turned", _REVERSED)):
                if other := table.get(type(op)):
                    yield kind, ast.Compare(left, [other()], comparators)
        case ast.Constant(value) if type(value) is int:
            yield "one_off", ast.Constant(value - 1)
            yield "one_off", ast.Constant(value + 1)
        case ast.UnaryOp(ast.USub(), ast.Constant(value)):
            if type(value) is int:
                for axis in (value - 1, value + 1):
                    if axis:
                        number = ast.Constant(axis)
                        yield "axis", ast.UnaryOp(ast.USub(), number)
        case ast.UnaryOp(ast.USub(), operand):
            yield "sign", operand
        case ast.UnaryOp(ast.Invert(), operand):
            yield "not_inverted", operand
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.IfExp(_, body, orelse):
            yield "branch", body
            yield "branch", orelse
        case ast.If(_, statements, otherwise):
            for test in (ast.Constant(True), ast.Constant(False)):
                yield "branch", ast.If(test, statements, otherwise)
        case ast.Call():
            yield from _of_function(node)
            yield from _of_arguments(node)
            detach = ast.Attribute(node, "detach", ast.Load())
            yield "partly_detached", ast.Call(detach, [], [])
        case ast.Attribute(_, "inf"):
            for high in (1.0, 10.0, 1e2, 1e3, 1e4, 1e9):
                yield "finite_fill", ast.Constant(high)
        case ast.Attribute(matrix, "mT" | "T"):
            yield "transpose_left_out", matrix
        case ast.Subscript(whole, ast.Slice()):
            yield "slice_left_out", whole


def _is_axis(parent: ast.AST) -> bool:
    """Return whether a number that is a part of this is an axis."""
    match parent:
        case ast.Call(ast.Attribute(_, name)):
            return name in _ALONG
        case ast.keyword("dim"):
            return True
    return False


def _is_number(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant)


def _of_operation(node: ast.BinOp) -> Iterator[Change]:
    left, op, right = node.left, node.op, node.right
    for side in (left, right):
        if not isinstance(side, ast.Name):
            continue
        changes: list[tuple[str, ast.expr]] = []
        if isinstance(op, ast.Sub):
            for sign in (ast.Add(), ast.Sub()):
                moved = ast.BinOp(side, sign, ast.Constant(1))
                changes.append(("one_off", moved))
        if "dim" in side.id:
            half = ast.BinOp(side, ast.FloorDiv(), ast.Constant(2))
            changes.append(("half", half))
        for key, new in changes:
            sides = (new, right) if side is left else (left, new)
            yield key, ast.BinOp(sides[0], op, sides[1])
    if other := _SIGN.get(type(op)):
        yield "sign", ast.BinOp(left, other(), right)
        yield "term_left_out", left
        yield "term_left_out", right
    if other := _INVERSE.get(type(op)):
        yield "multiplied", ast.BinOp(left, other(), right)
        yield "factor_left_out", left
        yield "factor_left_out", right
        yield "factor_twice", ast.BinOp(node, op, right)
    if isinstance(op, ast.Pow):
        yield "exponent_left_out", left
    if isinstance(op, ast.FloorDiv | ast.Mod):
        yield "factor_left_out", left
        if isinstance(op, ast.FloorDiv):
            yield "remainder", ast.BinOp(left, ast.Mod(), right)
    if not isinstance(op, ast.Add | ast.Mult):
        yield "order", ast.BinOp(right, op, left)


def _of_function(node: ast.Call) -> Iterator[Change]:
    """Yield calls of related functions, and the call left out."""
    func, args = node.func, node.args
    if isinstance(func, ast.Name):
        if func.id in ("min", "max"):
            name = "max" if func.id == "min" else "min"
            yield "extreme", _call(ast.Name(name, ast.Load()), node)
        if func.id in ("min", "max", "abs", "int", "round"):
            for arg in args:
                yield "bound_left_out", arg
    if not isinstance(func, ast.Attribute):
        return
    owner, own = func.value, func.attr
    for key, names in _FAMILIES.items():
        for name in names if own in names else ():
            if name == "round" and isinstance(owner, ast.Name):
                yield key, _call(ast.Name("round", ast.Load()), node)
            elif name != own:
                call = _call(ast.Attribute(owner, name, ast.Load()), node)
                is_pair = name == "median"  # of values and indices
                values = ast.Attribute(call, "values", ast.Load())
                yield key, values if is_pair else call
    modules = ("torch", "math", "F", "nn")
    if not (isinstance(owner, ast.Name) and owner.id in modules):
        cast = own in ("to", "float", "double", "type_as")
        yield "cast_left_out" if cast else "step_left_out", owner
    elif args:
        yield "root_left_out" if own == "sqrt" else "step_left_out", args[0]


def _call(func: ast.expr, node: ast.Call) -> ast.Call:
    return ast.Call(func, node.args, node.keywords)


def _of_arguments(node: ast.Call) -> Iterator[Change]:
    """Yield the call with arguments exchanged, or left out."""
    func, args, keywords = node.func, node.args, node.keywords
    is_range = isinstance(func, ast.Name) and func.id == "range"
    for i, j in combinations(range(len(args)), 2):
        if (
            len(args) > 4
            or is_range
            or all(map(_is_number, (args[i], args[j])))
        ):
            continue  # the order of numbers is a shape, or an axis
        swapped = [*args]
        swapped[i], swapped[j] = args[j], args[i]
        yield "order", ast.Call(func, swapped, keywords)
    if len(args) >= 2:
        yield "argument_left_out", ast.Call(func, args[:-1], keywords)
    for i in range(len(keywords)):
        rest = keywords[:i] + keywords[i + 1 :]
        yield "argument_left_out", ast.Call(func, args, rest)
