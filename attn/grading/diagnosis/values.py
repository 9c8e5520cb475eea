"""Say how wrong elements relate to the right ones, or to the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn.grading.checks.compare import Problem, alike, close
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.show import number
from attn.grading.diagnosis.axes import Axes


def describe_values(evidence: Evidence, shown: Failure, axes: Axes) -> str:
    """Return one sentence on the values of the wrong elements.

    It holds in every failing case if it can; else in the one that is shown,
    and then it says so. There is always one for tensors and numbers.
    """
    problem = shown.problem
    if isinstance(problem.got, Tensor) and problem.wrong is None:
        return ""
    if problem.wrong is None or problem.wrong.dim() == 0:
        return _ratio(evidence, shown)
    same_part = [
        (f, p)
        for f in evidence.failures
        for p in f.problems
        if p.wrong is not None and p.part == problem.part
    ]
    elsewhere = [[*_relations(evidence, f, p, axes)] for f, p in same_part]
    here = [*_relations(evidence, shown, problem, axes)]
    for text in here:
        if all(text in sentences for sentences in elsewhere):
            return f"{text[0].upper()}{text[1:]}."
    if here:
        return f"In this case {here[0]}."
    return _error_size(shown, [p for _, p in same_part])


def _relations(
    evidence: Evidence, failure: Failure, problem: Problem, axes: Axes
) -> Iterator[str]:
    """Yield what is true of a case's wrong elements, the best first."""
    got, expected, wrong = problem.got, problem.expected, problem.wrong
    assert wrong is not None
    if got.dtype == torch.bool:
        yield from _of_mask(got, wrong)
        return
    got, expected = got.double(), expected.double()
    a, b = got[wrong], expected[wrong]
    if a.isnan().all():
        if (b == 0).all():
            yield "there is NaN where 0 is right"
        yield "the wrong elements are NaN"
        return
    if not a.any():
        yield "the wrong elements are 0"
    if b.any() and b.isfinite().all() and close(a, -b, 1e-5):
        yield "the wrong elements are right but for their sign"
    if (b == 0).all():
        yield "only elements that should be 0 are wrong"
    if (b == -torch.inf).all():
        yield "only elements that should be -inf are wrong"
    for name, x in evidence.inputs(failure.index).items():
        is_float = isinstance(x, Tensor) and x.is_floating_point()
        if not is_float or x.shape != got.shape or wrong.sum() < 2:
            continue
        if alike(a, x.double()[wrong]):
            yield f"the wrong elements are those of {name}, unchanged"
    if wrong.sum() > 1 and b.isfinite().all() and a.isfinite().all():
        output = [x for _, x in named_tensors(failure.outcome.output)]
        half = any(x.element_size() == 2 for x in output)
        yield from _linear(a, b, 0.02 if half else 1e-4)
    if not close(got, expected, 1e-3):  # else only rounding tells slices apart
        letters = axes.of_part(problem.part, wrong.shape)
        for axis in range(got.dim()):
            word = axes.word(letters, axis)
            yield from _of_slices(got, expected, wrong, axis, word)


def _of_mask(got: Tensor, wrong: Tensor) -> Iterator[str]:
    """Say whether a mask allows too much, and where."""
    diagonals = set()
    if wrong.dim() >= 2 and wrong.sum() > 1:
        at = wrong.nonzero()
        diagonals = {*(at[:, -1] - at[:, -2]).tolist()}
    if len(diagonals) == 1:
        (k,) = diagonals
        sign = "" if k == 0 else f" {'+' if k > 0 else '-'} {abs(k)}"
        yield f"all wrong pairs are on one diagonal, key = query{sign}"
    if got[wrong].all():
        yield "it allows too much: True where False is right, never reversed"
    elif not got[wrong].any():
        yield "it allows too little: False where True is right, never reversed"
    elif len(diagonals) != 1:
        yield "it allows some pairs too many, and masks others"


def _linear(a: Tensor, b: Tensor, rtol: float) -> Iterator[str]:
    """Say whether there is a constant factor, or a constant difference."""
    factor = (a @ b / (b @ b)).item() if b.any() else 0.0
    if factor and abs(factor - 1) > 10 * rtol and close(a, b * factor, rtol):
        yield f"the wrong elements are off by the factor {number(factor)}"
    gap = (a - b).mean().item()
    if close(a - gap, b, rtol) and (a - b).std() < rtol * abs(gap):
        yield f"the wrong elements are off by {number(gap)}, all of them"


def _of_slices(
    got: Tensor, expected: Tensor, wrong: Tensor, axis: int, word: str
) -> Iterator[str]:
    """Say whether a slice holds the numbers of another, or all are equal.

    Args:
        got, expected, wrong: of one shape.
        axis: along which they are compared.
        word: what an index of the axis is.
    """
    n = got.shape[axis]
    if n < 2 or got.numel() // n < 2 or n > 16:
        return
    g, e, w = (x.unbind(axis) for x in (got, expected, wrong))
    if all(alike(g[0], x) for x in g) and not all(alike(e[0], x) for x in e):
        yield f"every {word} has the same result"
        return
    origins = {
        i: next((j for j in range(n) if j != i and alike(g[i], e[j])), None)
        for i in range(n)
        if w[i].any()
    }
    if origins and None not in origins.values():
        yield "; ".join(
            f"{word} {i} holds what {word} {j} should"
            for i, j in [*origins.items()][:2]
        )
        return
    ratios = [_row_ratio(x, y) for x, y in zip(g, e, strict=True)]
    if None not in ratios and axis < got.dim() - 1:
        shown = ", ".join(number(r) for r in ratios[:4])
        yield f"each {word} is off by its own factor ({shown})"


def _row_ratio(a: Tensor, b: Tensor) -> float | None:
    a, b = a.flatten(), b.flatten()
    if not b.any() or not (a.isfinite() & b.isfinite()).all():
        return None
    factor = (a @ b / (b @ b)).item()
    return factor if factor and alike(a, b * factor) else None


def _error_size(shown: Failure, problems: list[Problem]) -> str:
    """Say how far off the result is: here, and at most in all cases."""
    off, top = _largest_error(shown.problem)
    if not top:
        return ""
    share = f"{number(off / top, 2)} of the largest element at most"
    sizes = map(_largest_error, problems)
    most = max(x / largest if largest else 0.0 for x, largest in sizes)
    output = [x for _, x in named_tensors(shown.outcome.output)]
    if most < 1e-6 and any(x.dtype == torch.float64 for x in output):
        return f"It is off by {share}: is a step computed in float32?"
    if most < 0.01:
        return f"It is off by {share}: is something rounded, or almost right?"
    return (
        f"It is off by up to {number(off)}; the largest element is "
        f"{number(top)}."
    )


def _largest_error(problem: Problem) -> tuple[float, float]:
    """Return how far off a result is, and its largest element."""
    got, expected = problem.got.double(), problem.expected.double()
    both = got.isfinite() & expected.isfinite()
    if not both.any():
        return 0.0, 0.0
    off = (got - expected)[both].abs().max().item()
    return off, expected[both].abs().max().item()


def _ratio(evidence: Evidence, shown: Failure) -> str:
    """Say how a wrong number relates to the right one."""
    numbers = [_numbers(f) for f in (shown, *evidence.failures)]
    pairs = [x for x in numbers if x is not None]
    if numbers[0] is None:
        return ""
    ratios = [number(a / b) if b else "0" for a, b in pairs]
    gaps = [number(a - b, 6) for a, b in pairs]
    count = len(pairs) - 1
    cases = f"In all {count} such cases" if count > 1 else "Here"
    is_telling = ratios[0] not in ("0", "1")  # as they are printed
    if len({*ratios}) == 1 and is_telling:
        return f"{cases} it is {ratios[0]} times the right number."
    if len({*gaps}) == 1:
        return f"{cases} it is off by {gaps[0]}."
    if all(a != b and (a - b) % 2**32 == 0 for a, b in pairs):
        return (
            f"{cases} it is off by a multiple of 2**32: did an int32 overflow?"
        )
    if is_telling:
        return f"In this case it is {ratios[0]} times the right number."
    return ""


def _numbers(failure: Failure) -> tuple[float, float] | None:
    """Return the wrong and the right number, if both are finite numbers."""
    try:
        pair = float(failure.problem.got), float(failure.problem.expected)
    except (TypeError, ValueError):
        return None
    return pair if all(map(math.isfinite, pair)) else None
