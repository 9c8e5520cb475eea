"""Say how wrong elements relate to the right ones, or to the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.literal import number
from attn.grading.checks.compare import Problem, alike, close, max_abs
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.axes import Axes


def describe_values(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Yield a sentence on the values of the wrong elements.

    It holds in every failing case if it can; else in the one that is shown,
    and then it says so. There is always one for tensors.
    """
    problem = shown.problem
    if isinstance(problem.got, Tensor) and problem.wrong is None:
        return
    if problem.wrong is None or problem.wrong.dim() == 0:
        if _numbers(shown):
            yield from _ratio(evidence.failures)
        return
    same = same_part(evidence, problem)
    here = [*_relations(evidence, shown, problem)]
    elsewhere = [[*_relations(evidence, f, p)] for f, p in same]
    for text in here:
        if all(text in sentences for sentences in elsewhere):
            yield f"{text[0].upper()}{text[1:]}."
            return
    if here:
        yield f"In this case {here[0]}."
    else:
        yield from _error_size(shown, [p for _, p in same])


def same_part(
    evidence: Evidence, problem: Problem
) -> list[tuple[Failure, Problem]]:
    """Return the problems of the same part, in which elements are wrong."""
    return [
        (f, p)
        for f in evidence.failures
        for p in f.problems
        if p.wrong is not None and p.part == problem.part
    ]


def _relations(
    evidence: Evidence, failure: Failure, problem: Problem
) -> Iterator[str]:
    """Yield what is true of a case's wrong elements, the best first."""
    got, expected, wrong = problem.got, problem.expected, problem.wrong
    assert wrong is not None
    if got.dtype == torch.bool:
        if got[wrong].all():
            yield "it allows too much: True where False is right"
        elif not got[wrong].any():
            yield "it allows too little: False where True is right"
        else:
            yield "it allows some pairs too many, and masks others"
        return
    got, expected = got.double(), expected.double()
    a, b = got[wrong], expected[wrong]
    for text, is_so in {
        "the wrong elements are NaN": a.isnan().all(),
        "the wrong elements are 0": not a.any(),
        "only elements that should be 0 are wrong": (b == 0).all(),
        "only elements that should be -inf are wrong": (b == -math.inf).all(),
    }.items():
        if is_so:
            yield text
    for name, x in evidence.inputs(failure.index).items():
        is_like = isinstance(x, Tensor) and x.shape == got.shape
        if is_like and len(a) > 1 and alike(a, x.double()[wrong]):
            yield f"the wrong elements are those of {name}, unchanged"
    if b.isfinite().all() and a.isfinite().all():
        output = [x for _, x in named_tensors(failure.outcome.output)]
        half = any(x.element_size() == 2 for x in output)
        yield from _linear(a, b, 0.02 if half else 1e-4)
    if not close(got, expected, 1e-3):  # else only rounding tells slices apart
        axes = Axes(evidence.exercise)
        letters = axes.of_part(problem.part, wrong.shape)
        for axis in range(got.dim()):
            word = axes.word(letters, axis)
            yield from _exchanged(got, expected, wrong, axis, word)


def _linear(a: Tensor, b: Tensor, rtol: float) -> Iterator[str]:
    """Say whether there is a constant factor, or a constant difference."""
    factor = (a @ b / (b @ b)).item() if b.any() else 0.0
    if factor and close(a, -b, 1e-5):
        yield "the wrong elements are right but for their sign"
    if len(a) < 2:
        return
    is_other = factor != 0 and abs(factor - 1) > 10 * rtol
    if is_other and close(a, b * factor, rtol):
        yield f"the wrong elements are off by the factor {number(factor)}"
    gap = (a - b).mean().item()
    if close(a - gap, b, rtol) and (a - b).std() < rtol * abs(gap):
        yield f"the wrong elements are off by {number(gap)}, all of them"


def _exchanged(
    got: Tensor, expected: Tensor, wrong: Tensor, axis: int, word: str
) -> Iterator[str]:
    """Say whether the wrong slices along an axis are others that are right."""
    n = got.shape[axis]
    if n > 16 or got.numel() < 2 * n:
        return
    g, e, w = (x.unbind(axis) for x in (got, expected, wrong))
    origins = {
        i: next((j for j in range(n) if j != i and alike(g[i], e[j])), None)
        for i in range(n)
        if w[i].any()
    }
    if None not in origins.values():
        yield "; ".join(
            f"{word} {i} holds what {word} {j} should"
            for i, j in [*origins.items()][:2]
        )


def _error_size(shown: Failure, problems: list[Problem]) -> Iterator[str]:
    """Say how far off the result is, and what that may be in all cases."""
    off, top = _largest_error(shown.problem)
    sizes = map(_largest_error, problems)
    most = max(x / largest if largest else 0.0 for x, largest in sizes)
    output = [x for _, x in named_tensors(shown.outcome.output)]
    end = "."
    if most < 1e-6 and any(x.dtype == torch.float64 for x in output):
        end = ": is a step computed in float32?"
    elif most < 0.01:
        end = ": is something rounded, or almost right?"
    if top:
        size = f"the largest element is {number(top)}"
        yield f"It is off by up to {number(off)}; {size}{end}"


def _largest_error(problem: Problem) -> tuple[float, float]:
    """Return how far off a result is, and its largest element."""
    got, expected = problem.got.double(), problem.expected.double()
    both = got.isfinite() & expected.isfinite()
    return max_abs((got - expected)[both]), max_abs(expected[both])


def _ratio(failures: list[Failure]) -> Iterator[str]:
    """Say how wrong numbers relate to the right ones, in all cases alike."""
    pairs = [x for x in map(_numbers, failures) if x]
    ratios = {number(a / b) if b else "0" for a, b in pairs}
    gaps = {number(a - b, 6) for a, b in pairs}
    count = len(pairs)
    cases = f"In all {count} such cases" if count > 1 else "Here"
    if len(ratios) == 1 and not ratios & {"0", "1"}:  # as they are printed
        yield f"{cases} it is {ratios.pop()} times the right number."
    elif len(gaps) == 1:
        yield f"{cases} it is off by {gaps.pop()}."
    elif pairs and all(a != b and (a - b) % 2**32 == 0 for a, b in pairs):
        overflow = "did an int32 overflow?"
        yield f"{cases} it is off by a multiple of 2**32: {overflow}"


def _numbers(failure: Failure) -> tuple[float, float] | None:
    """Return the wrong and the right number, if both are finite numbers."""
    try:
        pair = float(failure.problem.got), float(failure.problem.expected)
    except (TypeError, ValueError):
        return None
    return pair if all(map(math.isfinite, pair)) else None
