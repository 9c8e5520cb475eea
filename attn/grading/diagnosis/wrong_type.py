"""Recognise the right numbers in a wrong form: names, type, dtype, shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations

import torch
from torch import Tensor

from attn.grading.checks.compare import alike, close
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.problem import RESULT, Problem, ProblemKind
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.checks.show import dtype_name
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Test, Words


def _only(failure: Failure, kind: ProblemKind) -> Problem | None:
    """Return the problem if all of them are of this kind."""
    if all(p.kind == kind for p in failure.problems):
        return failure.problem
    return None


def names_of_entries(evidence: Evidence, failure: Failure) -> Words | None:
    """A dict that lacks names, or has others."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if not isinstance(got, Mapping) or not isinstance(expected, Mapping):
        return None
    return None if got.keys() == expected.keys() else {}


def anothers_name(evidence: Evidence, failure: Failure) -> Words | None:
    """Entries of a dict that are right under another name."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if not isinstance(got, Mapping) or not isinstance(expected, Mapping):
        return None
    if got.keys() != expected.keys():
        return None
    wrong = [name for name in expected if not alike(got[name], expected[name])]
    names = {}
    for name in wrong:
        owners = [
            owner
            for owner, x in expected.items()
            if isinstance(x, Tensor) and alike(got[name], x)
        ]
        if not owners:
            return None
        names[_any_number(name)] = _any_number(owners[0])
    if not names:
        return None
    mine, theirs = next(iter(names.items()))
    if mine == theirs:  # of another layer
        return None
    return {"mine": mine, "theirs": theirs}


def _any_number(name: str) -> str:
    """Return a name with ``*`` for each number: one for all layers."""
    return re.sub(r"\b\d+\b", "*", str(name))


def numbers_for_bool(evidence: Evidence, failure: Failure) -> Words | None:
    """Zeros and ones, or a bias, where a bool mask is required."""
    problem = _only(failure, "dtype")
    if problem is None or problem.expected.dtype != torch.bool:
        return None
    got, expected = problem.got, problem.expected
    if torch.equal(got != 0, expected) and not (got[expected] != 1).any():
        return {"form": f"zeros and ones ({dtype_name(got)})"}
    is_bias = got.is_floating_point() and not got[expected].any()
    if is_bias and (got[~expected] < -1e4).all():
        return {"form": "a bias, 0 where True is right"}
    return None


def bool_for_numbers(evidence: Evidence, failure: Failure) -> Words | None:
    """A bool tensor where numbers are required."""
    problem = _only(failure, "dtype")
    return {} if problem and problem.got.dtype == torch.bool else None


def wrong_dtype(evidence: Evidence, failure: Failure) -> Words | None:
    """The right numbers in another float dtype."""
    problem = _only(failure, "dtype")
    if problem is None or problem.got.device != problem.expected.device:
        return None
    got, expected = problem.got, problem.expected
    if not got.is_floating_point() or not expected.is_floating_point():
        return None
    if not close(got.double(), expected.double(), 0.02):
        return None
    return {"dtype": dtype_name(got)}


def entries_reordered(evidence: Evidence, failure: Failure) -> Words | None:
    """All results are there, in another order than the task's."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if not isinstance(got, tuple | list):
        return None
    if not isinstance(expected, tuple | list) or len(got) != len(expected):
        return None
    orders = list(permutations(expected))[1:] if len(expected) <= 4 else []
    return {} if any(alike(list(got), [*x]) for x in orders) else None


def another_type(evidence: Evidence, failure: Failure) -> Words | None:
    """A list or an array, or a tensor of a class of its own."""
    if isinstance(failure.outcome.error, NoGradient):
        others = [f for f in evidence.failures if f.problem.kind == "type"]
        return _another_type(others[0]) if others else None
    return _another_type(failure)


def tensor_for_int(evidence: Evidence, failure: Failure) -> Words | None:
    """A tensor that holds the right number, where the task says an int."""
    problem = _only(failure, "type")
    return {} if problem and problem.required == "int" else None


def more_returned(evidence: Evidence, failure: Failure) -> Words | None:
    """A tuple that holds the result, where the task returns a tensor."""
    got = failure.outcome.output
    expected = evidence.expected(failure.index).output
    if failure.outcome.error:  # it holds what was left behind
        return None
    if not isinstance(expected, Tensor) or not isinstance(got, tuple):
        return None
    at = [i for i, x in enumerate(got) if alike(x, expected)]
    return {"place": str(at[0])} if at else None


def _another_type(failure: Failure) -> Words | None:
    problem, got = _only(failure, "type"), failure.outcome.output
    if problem is None or "tensor" not in problem.required:
        return None
    if problem.part != RESULT:
        return None
    if got is None or isinstance(got, tuple):
        return None
    if isinstance(got, Foreign):
        return {"type": got.kind}
    article = "an" if type(got).__name__[0].lower() in "aeiou" else "a"
    return {"type": f"{article} {type(got).__name__}"}


# Shape: the right numbers, arranged in another way.


def axes_of_one(evidence: Evidence, failure: Failure) -> Words | None:
    """Axes of length 1 are missing, or too many."""
    problem = _only(failure, "shape")
    if problem is None:
        return None
    got, expected = problem.got, problem.expected
    if got.numel() != expected.numel() or got.dtype != expected.dtype:
        return None
    longer = [[n for n in x.shape if n != 1] for x in (got, expected)]
    if longer[0] != longer[1] or got.dim() == expected.dim():
        return None
    if not alike(got.reshape(expected.shape), expected):
        return None
    more = got.dim() > expected.dim()
    return {"count": "too many" if more else "missing"}


def wrong_length(evidence: Evidence, failure: Failure) -> Words | None:
    """One axis has the length of another."""
    problem = _only(failure, "shape")
    if problem is None or problem.got.dim() != problem.expected.dim():
        return None
    axes = Axes(evidence.exercise)
    letters = axes.of_part(problem.part, problem.expected.shape)
    sizes = axes.sizes(evidence.inputs(failure.index))
    differ = [
        (letters[k], n)
        for k, n in enumerate(problem.got.shape)
        if n != problem.expected.shape[k]
    ]
    if len(differ) != 1 or differ[0][0] not in sizes:
        return None
    letter, length = differ[0]
    has = [x for x, n in sizes.items() if n == length and x != letter]
    return {"has": has[0], "need": letter} if len(has) == 1 else None


def permuted(evidence: Evidence, failure: Failure) -> list[Words] | None:
    """Two axes have changed places."""
    words: set[str] = set()
    for problem in failure.problems:
        got, expected = problem.got, problem.expected
        if problem.kind not in ("shape", "value"):
            return None
        if not isinstance(got, Tensor):
            return None
        if got.dim() != expected.dim() or got.dim() < 2:
            return None
        moved = {
            f"{a} and {b}"
            for a, b in ((-1, -2), (-2, -3), (-1, -3))
            if got.dim() >= -min(a, b)
            and expected.transpose(a, b).shape == got.shape
            and alike(got, expected.transpose(a, b))
        }
        words = words & moved if words else moved
        if not words:
            return None
    return [{"axes": x} for x in sorted(words)]


KINDS: tuple[Test, ...] = (
    names_of_entries,
    anothers_name,
    numbers_for_bool,
    bool_for_numbers,
    wrong_dtype,
    entries_reordered,
    another_type,
    tensor_for_int,
    more_returned,
    axes_of_one,
    wrong_length,
    permuted,
)
