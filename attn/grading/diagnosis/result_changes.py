"""Recognise the right result in a changed form: numbers, order, type, names.

What is moved, scaled or renamed is found by making that change of the right
result, and comparing all elements with the wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import permutations
from operator import getitem
from typing import Any

import torch
from torch import Tensor

from attn.exercises.literal import dtype_name
from attn.grading.checks.compare import RESULT, Part, Problem, alike, close
from attn.grading.checks.evidence import ENOUGH, Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Test, Words


def large_negative(evidence: Evidence, failure: Failure) -> bool:
    """A large negative number where -inf is right."""
    return bool(failure.values) and all(
        got.is_floating_point()
        and bool(got[wrong].isfinite().all() and (got[wrong] <= -1e4).all())
        and bool((expected[wrong] == -math.inf).all())
        for got, expected, wrong in failure.values
    )


def all_zero(evidence: Evidence, failure: Failure) -> bool:
    """The result is 0 throughout."""
    values = failure.values
    if not values or failure.problem.part.input:
        return False
    if any(got.any() or got.dtype == torch.bool for got, _, _ in values):
        return False
    right = [evidence.outcomes[i].output for i in evidence.passing]
    return not any(bool(x.any()) for _, x in named_tensors(right))


# The right elements in other places, or times a number.

_AXES = [(-1,), (-2,), (-3,), (-4,), (-5,)]
_PAIRS = [(-1, -2), (-1, -3), (-2, -3)]


def _moved(
    failure: Failure,
    move: Callable[..., Tensor],
    choices: Sequence[tuple[int, ...]],
) -> list[Words]:
    """Return the axes of moves that make all that is wrong of the right."""
    values = [
        (p.got, p.expected)
        for p in failure.problems
        if p.kind in ("shape", "value")
        and isinstance(p.got, Tensor)
        and not (p.wrong is not None and _nearly_right(p.got, p.expected))
    ]
    if len(values) < len(failure.problems):
        return []
    most = min(right.dim() for _, right in values)
    return [
        {"axes": " and ".join(map(str, axes))}
        for axes in choices
        if -min(axes) <= most
        and all(alike(got, move(right, *axes)) for got, right in values)
    ]


def _nearly_right(got: Tensor, expected: Tensor) -> bool:
    """Return whether only rounding is wrong, which no change explains."""
    return close(got.double(), expected.double(), 1e-3)


def factor(evidence: Evidence, failure: Failure) -> list[Words]:
    """Everything is a constant times the right result."""
    ratios = [_ratio(got, right) for got, right, _ in failure.values]
    if not ratios or evidence.telling < ENOUGH:
        return []
    if any(not math.isclose(x, ratios[0], rel_tol=1e-4) for x in ratios):
        return []
    return [{"factor": x} for x in _in_words(ratios[0], evidence, failure)]


def _ratio(got: Tensor, expected: Tensor) -> float:
    """Return what the right elements are multiplied by; NaN if nothing."""
    if not got.is_floating_point() or _nearly_right(got, expected):
        return math.nan
    finite = expected.isfinite()
    a, b = got.double()[finite], expected.double()[finite]
    ratio = (a @ b / (b @ b)).item()
    return ratio if close(got.double(), expected * ratio, 1e-4) else math.nan


_LOGARITHMS = {"ln 2": math.log(2), "ln 10": math.log(10)}
#: Factors that a size, or the rate of a dropout, can give.
_FORMULAS: dict[str, Callable[[float], float]] = {
    "1 - {}": lambda p: 1 - p,
    "1 / (1 - {})": lambda p: 1 / (1 - p),
    "{}": lambda n: n,
    "1 / {}": lambda n: 1 / n,
    "√{}": lambda n: n**0.5,
    "1 / √{}": lambda n: n**-0.5,
    "({0} - 1) / {0}": lambda n: (n - 1) / n,
    "{0} / ({0} - 1)": lambda n: n / (n - 1),
}


def _in_words(
    ratio: float, evidence: Evidence, failure: Failure
) -> Iterator[str]:
    """Yield the words for a factor: a number, and what it is in sizes."""
    inputs = evidence.with_defaults(failure.index)
    sizes: dict[str, float] = {
        **Axes(evidence.exercise).sizes(inputs),
        **{n: x for n, x in inputs.items() if type(x) in (int, float)},
    }

    def formulas(numbers: dict[str, float]) -> list[str]:
        return [
            formula.format(name)
            for name, n in numbers.items()
            for formula, f in _FORMULAS.items()
            if n > 0 and n != 1 and abs(ratio - f(n)) < 1e-4 * f(n)
        ]

    if ratio:
        yield " = ".join([f"{ratio:.4g}", *formulas(_LOGARITHMS)[:1]])
    yield from formulas(sizes)


# The right elements in another form.


def _if_all(
    kind: str, test: Callable[[Evidence, Problem], Words | bool | None]
) -> Test:
    """Return a test of failures whose problems are all of one kind."""
    return lambda evidence, failure: (
        all(p.kind == kind for p in failure.problems)
        and test(evidence, failure.problem)
    )


def _outputs(
    evidence: Evidence, failure: Failure, of: type | tuple[type, ...]
) -> tuple[Any, Any] | None:
    """Return the answer's result and the right one, if both are of a type."""
    pair = failure.outcome.output, evidence.expected(failure.index).output
    return pair if all(isinstance(x, of) for x in pair) else None


def _entry(output: Any, part: Part) -> Any:
    """Return the part of a result that is compared."""
    return reduce(getitem, part.entry, output)


def entries_reordered(evidence: Evidence, failure: Failure) -> bool:
    """All results are there, in another order than the task's."""
    got, right = _outputs(evidence, failure, (tuple, list)) or ((), ())
    orders = list(permutations(right))[1:] if len(right) <= 4 else []
    return any(alike(list(got), [*x]) for x in orders)


def names_of_entries(evidence: Evidence, failure: Failure) -> bool:
    """A dict that lacks names, or has others."""
    got, right = _outputs(evidence, failure, Mapping) or ({}, {})
    return not evidence.exercise.use and got.keys() != right.keys()


def more_returned(evidence: Evidence, failure: Failure) -> Words | None:
    """A tuple that holds the result, where the task returns a tensor."""
    if failure.outcome.error:  # it holds what was left behind
        return None
    places = set()
    for part in (x.part for x in failure.problems):
        got = _entry(failure.outcome.output, part)
        right = _entry(evidence.expected(failure.index).output, part)
        is_more = isinstance(got, tuple) and isinstance(right, Tensor)
        entries = enumerate(got if is_more else ())
        places.add(next((str(i) for i, x in entries if alike(x, right)), ""))
    place, *others = places or [""]
    return {"place": place} if place and not others else None


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
    """The right numbers in another dtype of numbers."""
    got, expected = problem.got, problem.expected
    is_bool = torch.bool in (got.dtype, expected.dtype)
    rtol = 0.02 if expected.is_floating_point() else 0.0
    if is_bool or not close(got.double(), expected.double(), rtol):
        return None
    return {"dtype": dtype_name(got)}


def another_type(evidence: Evidence, failure: Failure) -> Words | None:
    """A list or an array, or a tensor of a class of its own."""
    if isinstance(failure.outcome.error, NoGradient):
        others = [f for f in evidence.failures if f.problem.kind == "type"]
        failure = others[0] if others else failure
    problem = failure.problem
    if "tensor" not in problem.required:
        return None
    if problem.part != RESULT and not evidence.exercise.use:
        return None
    got = _entry(failure.outcome.output, problem.part)
    if got is None or isinstance(got, tuple):
        return None
    if isinstance(got, Foreign):
        return {"type": got.kind}
    article = "an" if type(got).__name__[0].lower() in "aeiou" else "a"
    return {"type": f"{article} {type(got).__name__}"}


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
    problem, axes = failure.problem, Axes(evidence.exercise)
    if any(p.kind != "shape" for p in failure.problems):
        return None
    got, right = problem.got.shape, problem.expected.shape
    if len(got) != len(right):
        return None
    lengths = zip(axes.of_part(problem.part, right), got, right, strict=True)
    wrong = {letter: n for letter, n, length in lengths if n != length}
    sizes = axes.sizes(evidence.inputs(failure.index))
    (need, length), *others = wrong.items()
    has = [letter for letter, n in sizes.items() if n == length]
    if others or need not in sizes or len(has) != 1:
        return None
    return {"has": has[0], "need": need}


KINDS: dict[str, Test] = {
    "large_negative": large_negative,
    "all_zero": all_zero,
    "flipped": lambda e, f: _moved(f, Tensor.flip, _AXES)[:1],
    "factor": factor,
    "names_of_entries": names_of_entries,
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
    "permuted": lambda e, f: _moved(f, Tensor.transpose, _PAIRS),
}
