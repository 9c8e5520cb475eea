"""Recognise the right result in a changed form: numbers, order, type, names.

What is moved, scaled or renamed is found by making that change of the right
result, and comparing all elements with the wrong one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.compare import RESULT, Problem, alike, close
from attn.grading.checks.evidence import ENOUGH, Evidence, Failure
from attn.grading.checks.inputs import named_tensors, unchanged
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.checks.show import dtype_name
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Test, Words

# Wrong elements: got, expected, and where they differ.


def _all(
    failure: Failure, test: Callable[[Tensor, Tensor, Tensor], bool]
) -> bool:
    """Return whether a test holds of all that is wrong."""
    return bool(failure.values) and all(test(*x) for x in failure.values)


def _opposite(got: Tensor, expected: Tensor, wrong: Tensor) -> bool:
    """True and False are exchanged."""
    return got.dtype == torch.bool and bool(wrong.all())


def _large_negative(got: Tensor, expected: Tensor, wrong: Tensor) -> bool:
    """A large negative number where -inf is right."""
    low = got.isfinite() & (got <= -1e4) & (expected == -math.inf)
    return got.is_floating_point() and bool(low[wrong].all())


def _nan_for_empty(got: Tensor, expected: Tensor, wrong: Tensor) -> bool:
    """NaN, and only in rows of which all is right to be 0, or the lse -inf."""
    if got.dim() < 1 or not got.is_floating_point():
        return False
    nan = got.isnan() & ~expected.isnan()
    empty = _is_empty(expected) | (expected == -math.inf)
    others_right = close(got[~nan], expected[~nan], 0.02)
    return others_right and bool(nan.any() and empty[nan].all())


def _even_for_empty(got: Tensor, expected: Tensor, wrong: Tensor) -> bool:
    """Equal weights in rows in which the right weights are all 0."""
    if got.dim() < 1 or not got.is_floating_point():
        return False
    even = torch.full_like(got, 1 / got.shape[-1])
    are_empty = bool(_is_empty(expected)[wrong].all())
    return are_empty and close(got[wrong], even[wrong], 0.01)


def _is_empty(expected: Tensor) -> Tensor:
    return (expected == 0).all(-1, keepdim=True).expand_as(expected)


def _has_empty_row(failure: Failure) -> bool:
    """Return whether a mask hides every key, or scores are -inf throughout."""
    inputs = [failure.case.args, dict(failure.case.kwargs)]
    return any(
        bool((~x if x.dtype == torch.bool else x == -math.inf).all(-1).any())
        for _, x in named_tensors(inputs)
        if x.dim() and (x.dtype == torch.bool or x.is_floating_point())
    )


def nan_for_empty(evidence: Evidence, failure: Failure) -> bool:
    """A row without keys is NaN."""
    is_result = failure.problem.part.kind == "result"
    is_nan = is_result and _all(failure, _nan_for_empty)
    return is_nan and _has_empty_row(failure)


def all_zero(evidence: Evidence, failure: Failure) -> bool:
    """The result is 0 throughout."""
    values = failure.values
    if not values or failure.problem.part.kind == "gradient":
        return False
    if any(got.any() or got.dtype == torch.bool for got, _, _ in values):
        return False
    right = [evidence.outcomes[i].output for i in evidence.passing]
    return not any(bool(x.any()) for _, x in named_tensors(right))


def comes_back(evidence: Evidence, failure: Failure) -> Words | None:
    """The result is an input."""
    got, problem = failure.outcome.output, failure.problem
    if problem.kind in ("error", "side effect") or problem.part != RESULT:
        return None
    if not isinstance(got, Tensor) or got.numel() < 2:
        return None
    for name, x in evidence.inputs(failure.index).items():
        is_like = isinstance(x, Tensor) and x.dtype == got.dtype
        if is_like and unchanged(x.detach(), got):
            return {"input": name}
    return None


# The right elements in other places.

#: The words of a move, and the right result moved.
Moves = Iterator[tuple[Words, Tensor]]


def _moved(failure: Failure, moves: Callable[[Tensor], Moves]) -> list[Words]:
    """Return the moves that make every wrong part of the right one."""
    common: list[Words] | None = None
    for p in failure.problems:
        if p.kind not in ("shape", "value") or not isinstance(p.got, Tensor):
            return []
        if p.wrong is not None and nearly_right(p.got, p.expected):
            return []
        fits = [words for words, x in moves(p.expected) if alike(p.got, x)]
        common = fits if common is None else [x for x in common if x in fits]
        if not common:
            return []
    return common or []


def nearly_right(got: Tensor, expected: Tensor) -> bool:
    """Return whether only rounding is wrong, which no move explains."""
    return close(got.double(), expected.double(), 1e-3)


def _flips(x: Tensor) -> Moves:
    """Yield the elements in reverse order along an axis."""
    if x.dtype != torch.bool:
        for axis in range(-1, -x.dim() - 1, -1):
            yield {"axis": str(axis)}, x.flip(axis)


def _orders(x: Tensor) -> Moves:
    """Yield rows in other orders; a few integers are in one by chance."""
    if not x.is_floating_point() or x.dim() < 2 or x.numel() > 5000:
        return
    for axis in range(-x.dim(), 0):
        n = x.shape[axis]
        for order in permutations(range(n)) if 2 <= n <= 4 else ():
            moved = x.index_select(axis, torch.tensor(order))
            yield {"axis": str(axis)}, moved


def _transposes(x: Tensor) -> Moves:
    """Yield two axes exchanged."""
    for a, b in ((-1, -2), (-1, -3), (-2, -3)):
        if x.dim() >= -b:
            yield {"axes": f"{a} and {b}"}, x.transpose(a, b)


def entries_reordered(evidence: Evidence, failure: Failure) -> bool:
    """All results are there, in another order than the task's."""
    got, expected = _outputs(evidence, failure)
    if not isinstance(got, tuple | list):
        return False
    if not isinstance(expected, tuple | list) or len(got) != len(expected):
        return False
    orders = list(permutations(expected))[1:] if len(expected) <= 4 else []
    return any(alike(list(got), [*x]) for x in orders)


def _outputs(evidence: Evidence, failure: Failure) -> tuple[Any, Any]:
    """Return the answer's result, and the right one."""
    return failure.outcome.output, evidence.expected(failure.index).output


# The right elements times a number, or rounded.


def factor(evidence: Evidence, failure: Failure) -> list[Words]:
    """Everything is a constant times the right result."""
    ratios: list[float] = []
    for got, expected, _ in failure.values:
        if not got.is_floating_point() or failure.problem.kind == "nan":
            return []
        finite = expected.isfinite() & (expected != 0)
        if nearly_right(got, expected) or not finite.any():
            return []
        a, b = got.double()[finite], expected.double()[finite]
        ratio = (a @ b / (b @ b)).item()
        if not math.isfinite(ratio):
            return []
        if not close(got.double(), expected * ratio, 1e-4):
            return []
        ratios.append(ratio)
    if not ratios or evidence.telling < ENOUGH:
        return []
    if max(ratios) - min(ratios) > 1e-4 * abs(ratios[0]):
        return []
    return [{"factor": x} for x in _in_words(ratios[0], evidence, failure)]


_LOGARITHMS = {"ln 2": math.log(2), "ln 10": math.log(10)}


def _in_words(ratio: float, evidence: Evidence, failure: Failure) -> list[str]:
    """Return the words for a factor: a number, and what it is in sizes."""
    digits = f"{ratio:.4g}"
    for name, n in _LOGARITHMS.items():
        if abs(ratio - n) < 1e-4:
            digits += f" = {name}"
        if abs(ratio * n - 1) < 1e-4:
            digits += f" = 1 / {name}"
    words = [digits] if ratio else []
    inputs = evidence.with_defaults(failure.index)
    sizes: dict[str, float] = dict(Axes(evidence.exercise).sizes(inputs))
    for name, x in inputs.items():
        if isinstance(x, int | float) and not isinstance(x, bool):
            sizes[name] = float(x)
    return words + [
        formula
        for name, n in sizes.items()
        for formula, y in _formulas(name, n).items()
        if abs(ratio - y) < 1e-4 * y or ratio == y == 0
    ]


def _formulas(name: str, n: float) -> dict[str, float]:
    """Return factors that a size, or the rate p of a dropout, can give."""
    if n <= 0 or (n == 1 and name != "p"):
        return {}
    if name == "p":
        kept = {"1 - p": 1 - n}
        return kept | {"1 / (1 - p)": 1 / (1 - n)} if n != 1 else kept
    return {
        name: n,
        f"1 / {name}": 1 / n,
        f"√{name}": n**0.5,
        f"1 / √{name}": n**-0.5,
        f"({name} - 1) / {name}": (n - 1) / n,
        f"{name} / ({name} - 1)": n / (n - 1),
    }


def half_precision(evidence: Evidence, failure: Failure) -> Words | None:
    """Right in float32, and off by the rounding of half precision here."""
    if not any(_dtypes(evidence, i) <= _FULL for i in evidence.passing):
        return None
    if any(_dtypes(evidence, i) <= _FULL for i in evidence.failing):
        return None
    if failure.problem.wrong is None or not all(
        got.is_floating_point() and close(got.double(), right.double(), 0.1)
        for got, right, _ in failure.values
    ):
        return None
    names = sorted(_dtypes(evidence, failure.index) - _FULL)
    return {"dtype": " and ".join(names)}


_FULL = {"float32", "float64"}


def _dtypes(evidence: Evidence, i: int) -> set[str]:
    inputs: Any = [*evidence.inputs(i).values(), evidence.case(i).state or {}]
    return {
        dtype_name(x)
        for _, x in named_tensors(inputs)
        if x.is_floating_point()
    }


# The right elements in another form.


def _if_all(
    kind: str, test: Callable[[Evidence, Problem], Words | bool | None]
) -> Test:
    """Return a test of failures whose problems are all of one kind."""
    return lambda evidence, failure: (
        all(p.kind == kind for p in failure.problems)
        and test(evidence, failure.problem)
    )


def names_of_entries(evidence: Evidence, failure: Failure) -> bool:
    """A dict that lacks names, or has others."""
    got, expected = _outputs(evidence, failure)
    are_dicts = isinstance(got, Mapping) and isinstance(expected, Mapping)
    return are_dicts and got.keys() != expected.keys()


def anothers_name(evidence: Evidence, failure: Failure) -> Words | None:
    """Entries of a dict that are right under another name."""
    got, expected = _outputs(evidence, failure)
    are_dicts = isinstance(got, Mapping) and isinstance(expected, Mapping)
    if not are_dicts or got.keys() != expected.keys():
        return None
    names = {}
    for name, right in expected.items():
        owners = [n for n, x in expected.items() if alike(got[name], x)]
        if not owners:
            return None
        if not alike(got[name], right):
            names[_any_number(name)] = _any_number(owners[0])
    mine, theirs = next(iter(names.items()), ("", ""))
    if mine == theirs:  # of another layer
        return None
    return {"mine": mine, "theirs": theirs}


def _any_number(name: str) -> str:
    """Return a name with ``*`` for each number: one for all layers."""
    return re.sub(r"\b\d+\b", "*", str(name))


def numbers_for_bool(evidence: Evidence, problem: Problem) -> Words | None:
    """Zeros and ones, or a bias, where a bool mask is required."""
    got, expected = problem.got, problem.expected
    if expected.dtype != torch.bool:
        return None
    if torch.equal(got != 0, expected) and not (got[expected] != 1).any():
        return {"form": f"zeros and ones ({dtype_name(got)})"}
    is_bias = got.is_floating_point() and not got[expected].any()
    if is_bias and (got[~expected] < -1e4).all():
        return {"form": "a bias, 0 where True is right"}
    return None


def wrong_dtype(evidence: Evidence, problem: Problem) -> Words | None:
    """The right numbers in another float dtype."""
    got, expected = problem.got, problem.expected
    if got.device != expected.device:
        return None
    if not got.is_floating_point() or not expected.is_floating_point():
        return None
    is_right = close(got.double(), expected.double(), 0.02)
    return {"dtype": dtype_name(got)} if is_right else None


def another_type(evidence: Evidence, failure: Failure) -> Words | None:
    """A list or an array, or a tensor of a class of its own."""
    if isinstance(failure.outcome.error, NoGradient):
        others = [f for f in evidence.failures if f.problem.kind == "type"]
        failure = others[0] if others else failure
    problem, got = failure.problem, failure.outcome.output
    if any(p.kind != "type" for p in failure.problems):
        return None
    if "tensor" not in problem.required or problem.part != RESULT:
        return None
    if got is None or isinstance(got, tuple):
        return None
    if isinstance(got, Foreign):
        return {"type": got.kind}
    article = "an" if type(got).__name__[0].lower() in "aeiou" else "a"
    return {"type": f"{article} {type(got).__name__}"}


def more_returned(evidence: Evidence, failure: Failure) -> Words | None:
    """A tuple that holds the result, where the task returns a tensor."""
    got, expected = _outputs(evidence, failure)
    if failure.outcome.error:  # it holds what was left behind
        return None
    if not isinstance(expected, Tensor) or not isinstance(got, tuple):
        return None
    at = [i for i, x in enumerate(got) if alike(x, expected)]
    return {"place": str(at[0])} if at else None


def axes_of_one(evidence: Evidence, problem: Problem) -> Words | None:
    """Axes of length 1 are missing, or too many."""
    got, expected = problem.got, problem.expected
    longer = [[n for n in x.shape if n != 1] for x in (got, expected)]
    if longer[0] != longer[1] or got.dim() == expected.dim():
        return None
    if not alike(got.reshape(expected.shape), expected):
        return None
    more = got.dim() > expected.dim()
    return {"count": "too many" if more else "missing"}


def wrong_length(evidence: Evidence, failure: Failure) -> Words | None:
    """One axis has the length of another."""
    problem = failure.problem
    if any(p.kind != "shape" for p in failure.problems):
        return None
    got, right = problem.got.shape, problem.expected.shape
    if len(got) != len(right):
        return None
    axes = Axes(evidence.exercise)
    lengths = zip(axes.of_part(problem.part, right), got, right, strict=True)
    differ = [(letter, n) for letter, n, length in lengths if n != length]
    sizes = axes.sizes(evidence.inputs(failure.index))
    if len(differ) != 1 or differ[0][0] not in sizes:
        return None
    letter, length = differ[0]
    has = [x for x, n in sizes.items() if n == length and x != letter]
    return {"has": has[0], "need": letter} if len(has) == 1 else None


KINDS: dict[str, Test] = {
    "complement": lambda e, f: _all(f, _opposite),
    "nan_for_empty": nan_for_empty,
    "uniform_for_empty": lambda e, f: (
        _all(f, _even_for_empty) and _has_empty_row(f)
    ),
    "large_negative": lambda e, f: _all(f, _large_negative),
    "all_zero": all_zero,
    "comes_back": comes_back,
    "flipped": lambda e, f: _moved(f, _flips)[:1],
    "heads_reordered": lambda e, f: _moved(f, _orders)[:1],
    "factor": factor,
    "half_precision": half_precision,
    "names_of_entries": names_of_entries,
    "anothers_name": anothers_name,
    "numbers_for_bool": _if_all("dtype", numbers_for_bool),
    "bool_for_numbers": _if_all(
        "dtype", lambda e, p: p.got.dtype == torch.bool
    ),
    "wrong_dtype": _if_all("dtype", wrong_dtype),
    "entries_reordered": entries_reordered,
    "another_type": another_type,
    "tensor_for_int": _if_all("type", lambda e, p: p.required == "int"),
    "more_returned": more_returned,
    "axes_of_one": _if_all("shape", axes_of_one),
    "wrong_length": wrong_length,
    "permuted": lambda e, f: _moved(f, _transposes),
}
