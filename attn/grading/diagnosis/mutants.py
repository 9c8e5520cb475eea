"""Try small changes of the book's solution, and name the kind of change.

An answer that is on no list is often the right one but for one operator,
bound, axis or argument. A change is named by what it does, never by the
solution's code, and only if it gives in every case what the answer gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, repeat
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
    for loop in [x for x in ast.walk(tree) if isinstance(x, ast.While)]:
        loop.body[:0] = ast.parse("_turn()").body  # a change may be endless
    places: list[tuple[ast.AST, Any, Any, Any]] = []
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                places += [(parent, value, *x) for x in enumerate(value)]
            else:
                places.append((parent, vars(parent), field, value))
    for parent, holder, at, node in places:
        if not isinstance(node, ast.AST):
            continue
        for key, new in expression_changes(node, parent):
            ast.copy_location(new, node)
            holder[at] = ast.fix_missing_locations(new)
            namespace = {**names, "_turn": partial(next, _turns())}
            try:
                exec(compile(tree, f"<{key}>", "exec"), namespace)
            except Exception:  # the change made no valid function
                continue
            finally:
                holder[at] = node
            yield Mutant(key, namespace[exercise.name])


def _turns() -> Iterator[None]:
    """Allow so many turns of `while` loops."""
    yield from repeat(None, _MOST_TURNS)
    raise OverflowError("a loop must end soon")


def _short_range(*bounds: int) -> range:
    """Return a range, if it is not far longer than any case needs."""
    steps = range(*bounds)
    if len(steps) > _MOST_STEPS:
        raise OverflowError(f"a loop must end soon; got {len(steps)} steps")
    return steps


#: An expression, and the kinds of what may be there in its place.
_CHANGES = {
    "a < b": "strict a <= b; turned a >= b",
    "a <= b": "strict a < b; turned a >= b",
    "a > b": "strict a >= b; turned a <= b",
    "a >= b": "strict a > b; turned a <= b",
    "a + b": "sign a - b; term_left_out a; term_left_out b",
    "a - b": "one_off a + 1 - b; one_off a - 1 - b; one_off a - (b + 1); "
    "one_off a - (b - 1); sign a + b; term_left_out a; term_left_out b; "
    "order b - a",
    "a * b": "multiplied a / b; factor_left_out a; factor_left_out b; "
    "factor_twice a * b * b",
    "a / b": "multiplied a * b; factor_left_out a; factor_left_out b; "
    "factor_twice a / b / b; order b / a",
    "a ** b": "exponent_left_out a; order b ** a",
    "a // b": "factor_left_out a; remainder a % b; order b // a",
    "a % b": "factor_left_out a; order b % a",
    "a @ b": "order b @ a",
    "-a": "sign a",
    "~a": "not_inverted a",
    "a if c else b": "branch a; branch b",
    "a.inf": "finite_fill 1.0; finite_fill 10.0; finite_fill 1e2; "
    "finite_fill 1e3; finite_fill 1e4; finite_fill 1e9",
    "a.mT": "transpose_left_out a",
    "a.T": "transpose_left_out a",
    "a[:]": "slice_left_out a",
}
#: Methods and functions of which one is taken for another.
_FAMILIES = (
    ("reduced", ("mean", "sum", "amax", "amin", "median", "prod")),
    ("rounded", ("floor", "ceil", "round", "trunc")),
    ("triangle", ("tril", "triu")),
    ("angle", ("sin", "cos")),
    ("logarithm", ("log", "log2", "log10")),
    ("power", ("exp", "exp2")),
    ("extreme", ("min", "max")),
    ("extreme", ("minimum", "maximum")),
)
#: Methods and functions of which a number, given alone, is an axis.
_ALONG = {"amax", "cat", "flatten", "index_copy_", "index_select", "mean"}
_ALONG |= {"permute", "softmax", "squeeze", "stack", "sum", "transpose"}
_ALONG |= {"unflatten", "unsqueeze"}

#: The key of a kind of mistake, and the changed expression.
Change = tuple[str, ast.AST]


def expression_changes(node: ast.AST, parent: ast.AST) -> Iterator[Change]:
    """Yield the changes of one expression, which is a part of another."""
    match node:
        case ast.Constant() if isinstance(parent, ast.UnaryOp):
            pass  # -1 counts as a whole
        case ast.Constant(value) if type(value) is bool:
            yield "switched", ast.Constant(not value)
        case ast.Constant(value) if type(value) is int:
            key = "axis" if _is_axis(parent) else "one_off"
            yield key, ast.Constant(value - 1)
            yield key, ast.Constant(value + 1)
        case ast.Constant(float(value)) if 0 < value < 0.01:  # an eps
            for other in {1e-3, 1e-5, 1e-6, 1e-8, 1e-12} - {value}:
                yield "small_number", ast.Constant(other)
        case ast.UnaryOp(ast.USub(), ast.Constant(value)):
            others = (1 - value, -1 - value) if type(value) is int else ()
            for axis in others:
                if axis or _is_axis(parent):
                    yield "axis", ast.Constant(axis)
        case ast.If(_, statements, otherwise):
            for test in (ast.Constant(True), ast.Constant(False)):
                yield "branch", ast.If(test, statements, otherwise)
        case ast.Call():
            yield from _of_function(node)
            yield from _of_arguments(node)
            yield "partly_detached", _detached(node)
        case ast.Subscript(_, ast.Tuple()):
            yield "partly_detached", _detached(node)
        case _:
            text, parts = _in_letters(node)
            for change in filter(None, _CHANGES.get(text, "").split("; ")):
                key, _, new = change.partition(" ")
                template = ast.parse(new, mode="eval").body
                yield key, _Filled(parts).visit(template)


def _detached(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])


def _is_axis(parent: ast.AST) -> bool:
    """Return whether a number that is a part of this is an axis."""
    match parent:
        case ast.Call(ast.Attribute(_, name)):
            return name in _ALONG
        case ast.keyword("dim"):
            return True
    return False


def _in_letters(node: ast.AST) -> tuple[str, dict[str, ast.expr]]:
    """Return an expression with letters for its parts, and the parts."""
    a, b = ast.Name("a"), ast.Name("b")
    match node:
        case ast.Compare(left, [op], [right]):
            text = ast.unparse(ast.Compare(a, [op], [b]))
            return text, {"a": left, "b": right}
        case ast.BinOp(left, op, right):
            return ast.unparse(ast.BinOp(a, op, b)), {"a": left, "b": right}
        case ast.UnaryOp(op, operand):
            return ast.unparse(ast.UnaryOp(op, a)), {"a": operand}
        case ast.IfExp(_, body, orelse):
            return "a if c else b", {"a": body, "b": orelse}
        case ast.Attribute(owner, name):
            return f"a.{name}", {"a": owner}
        case ast.Subscript(whole, ast.Slice()):
            return "a[:]", {"a": whole}
    return "", {}


class _Filled(ast.NodeTransformer):
    """Put expressions in the place of letters."""

    def __init__(self, parts: dict[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._parts[node.id]


def _of_function(node: ast.Call) -> Iterator[Change]:
    """Yield calls of related functions, and the call left out."""
    func, args = node.func, node.args
    own = getattr(func, "id", None) or getattr(func, "attr", "")
    owner = getattr(func, "value", None)
    for key, names in _FAMILIES:
        for name in names if own in names else ():
            other: ast.expr = ast.Name(name, ast.Load())
            if owner and not (name == "round" and isinstance(owner, ast.Name)):
                other = ast.Attribute(owner, name, ast.Load())
            new: ast.expr = ast.Call(other, args, node.keywords)
            if name == "median":  # a pair of values and indices
                new = ast.Attribute(new, "values", ast.Load())
            if name != own:
                yield key, new
    modules = ("torch", "math", "F", "nn")
    if owner is None:
        if own in ("min", "max", "abs", "int", "round"):
            for arg in args:
                yield "bound_left_out", arg
    elif not (isinstance(owner, ast.Name) and owner.id in modules):
        cast = own in ("to", "float", "double", "type_as")
        yield "cast_left_out" if cast else "step_left_out", owner
    elif args:
        yield "root_left_out" if own == "sqrt" else "step_left_out", args[0]


def _of_arguments(node: ast.Call) -> Iterator[Change]:
    """Yield the call with arguments exchanged, or left out."""
    func, args, keywords = node.func, node.args, node.keywords
    is_range = isinstance(func, ast.Name) and func.id == "range"
    few = args if len(args) <= 4 and not is_range else []
    for i, j in combinations(range(len(few)), 2):
        if all(map(_is_number, (args[i], args[j]))):
            continue  # the order of numbers is a shape, or an axis
        swapped = [*args]
        swapped[i], swapped[j] = args[j], args[i]
        yield "order", ast.Call(func, swapped, keywords)
    if len(args) >= 2 and not _is_switch(args[-1]):
        yield "argument_left_out", ast.Call(func, args[:-1], keywords)
    for x in keywords:
        if not _is_switch(x.value):
            rest = [other for other in keywords if other is not x]
            yield "argument_left_out", ast.Call(func, args, rest)


def _is_switch(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is bool


def _is_number(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant)
