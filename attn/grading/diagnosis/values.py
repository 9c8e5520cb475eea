"""Say how wrong elements relate to the right ones, or to the inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.problem import Problem
from attn.grading.checks.rounding import close
from attn.grading.checks.show import number
from attn.grading.diagnosis.axes import Axes


def pattern(evidence: Evidence, shown: Failure, axes: Axes) -> str:
    """Return one sentence on the values of the wrong elements.

    It holds in every failing case if it can; else in the one that is shown,
    and then it says so. There is always one for tensors and numbers.
    """
    problem = shown.problem
    if isinstance(problem.got, Tensor) and problem.wrong is None:
        return ""
    if problem.wrong is None or problem.wrong.dim() == 0:
        return _ratio(evidence, shown)
    others = [
        (f, p)
        for f in evidence.failures
        for p in f.problems
        if p.wrong is not None and p.part == problem.part
    ]
    all_fail = [sentences(evidence, f, p, axes) for f, p in others]
    mine = sentences(evidence, shown, problem, axes)
    for text in mine:
        if all(text in said for said in all_fail):
            return f"{text[0].upper()}{text[1:]}."
    if mine:
        return f"In this case {mine[0]}."
    output = [x for _, x in named_tensors(shown.outcome.output)]
    in_float64 = any(x.dtype == torch.float64 for x in output)
    return _size(problem, max(_part(p) for _, p in others), in_float64)


def sentences(
    evidence: Evidence, failure: Failure, problem: Problem, axes: Axes
) -> list[str]:
    """Return what is true of a case's wrong elements, the best first."""
    got, expected, wrong = problem.got, problem.expected, problem.wrong
    assert wrong is not None
    if got.dtype == torch.bool:
        return _of_mask(got, wrong)
    got, expected = got.double(), expected.double()
    a, b = got[wrong], expected[wrong]
    letters = axes.of_part(problem.part, wrong.shape)
    said = []
    if a.isnan().all():
        said.append("the wrong elements are NaN")
        if (b == 0).all():
            said.insert(0, "there is NaN where 0 is right")
        return said
    if not a.any():
        said.append("the wrong elements are 0")
    if b.any() and b.isfinite().all() and close(a, -b, 1e-5):
        said.append("the wrong elements are right but for their sign")
    if (b == 0).all():
        said.append("only elements that should be 0 are wrong")
    elif (b == -torch.inf).all():
        said.append("only elements that should be -inf are wrong")
    elif close(got, expected, 1e-3):
        pass  # which of them are wrong is chance
    elif torch.equal(wrong, expected < 0) and (expected > 0).any():
        said.append("exactly the elements that should be negative are wrong")
    elif torch.equal(wrong, expected > 0) and (expected < 0).any():
        said.append("exactly the elements that should be positive are wrong")
    for name, x in evidence.inputs(failure.index).items():
        if (
            (
                isinstance(x, Tensor)
                and x.shape == got.shape
                and x.is_floating_point()
            )
            and wrong.sum() > 1
            and alike(a, x.double()[wrong])
        ):
            said.append(f"the wrong elements are those of {name}, unchanged")
    if wrong.sum() > 1 and b.isfinite().all() and a.isfinite().all():
        output = [x for _, x in named_tensors(failure.outcome.output)]
        half = any(x.element_size() == 2 for x in output)
        said += _liclose(a, b, 0.02 if half else 1e-4)
    said += _copies(got, expected, wrong, letters, axes)
    return said


def _of_mask(got: Tensor, wrong: Tensor) -> list[str]:
    """Say whether a mask allows too much, and where."""
    said = []
    if wrong.dim() >= 2:
        at = wrong.nonzero()
        shift = (at[:, -1] - at[:, -2]).tolist()
        if len({*shift}) == 1 and len(shift) > 1:
            k = shift[0]
            sign = "" if k == 0 else f" {'+' if k > 0 else '-'} {abs(k)}"
            said.append(
                f"all wrong pairs are on one diagonal, key = query{sign}"
            )
    if got[wrong].all():
        said.append(
            "it allows too much: True where False is right, never reversed"
        )
    elif not got[wrong].any():
        said.append(
            "it allows too little: False where True is right, never reversed"
        )
    return said or ["it allows some pairs too many, and masks others"]


def _liclose(a: Tensor, b: Tensor, part: float) -> list[str]:
    """Say whether there is a constant factor, or a constant difference."""
    said = []
    if b.any():
        factor = (a @ b / (b @ b)).item()
        telling = abs(factor - 1) > 10 * part
        if telling and factor and close(a, b * factor, part):
            said.append(
                f"the wrong elements are off by the factor {number(factor)}"
            )
    gap = (a - b).mean().item()
    if close(a - gap, b, part) and (a - b).std() < part * abs(gap):
        said.append(
            f"the wrong elements are off by {number(gap)}, all of them"
        )
    return said


def _copies(
    got: Tensor,
    expected: Tensor,
    wrong: Tensor,
    letters: tuple[str, ...],
    axes: Axes,
) -> list[str]:
    """Say whether a slice holds the numbers of another, or all are equal."""
    said: list[str] = []
    if close(got, expected, 1e-3):
        return said  # which only rounding tells from what is right
    for axis in range(got.dim()):
        n = got.shape[axis]
        if n < 2 or got.numel() // n < 2 or n > 16:
            continue
        word = axes.word(letters, axis)
        g, e = got.unbind(axis), expected.unbind(axis)
        w = wrong.unbind(axis)
        if all(alike(g[0], x) for x in g) and not all(
            alike(e[0], x) for x in e
        ):
            said.append(f"every {word} has the same result")
            continue
        swapped = []
        for i in range(n):
            if w[i].any():
                same = [j for j in range(n) if j != i and alike(g[i], e[j])]
                if not same:
                    break
                swapped.append(
                    f"{word} {i} holds what {word} {same[0]} should"
                )
        else:
            if swapped:
                said.append("; ".join(swapped[:2]))
                continue
        if torch.allclose(
            got.sort(axis).values, expected.sort(axis).values, 1e-5, 1e-7
        ):
            said.append(f"every {word} is there, but in another order")
        rows = (g, e)
        ratios = [_row_ratio(x, y) for x, y in zip(*rows, strict=True)]
        if all(r is not None for r in ratios) and axis < got.dim() - 1:
            shown = ", ".join(number(r) for r in ratios[:4] if r is not None)
            said.append(f"each {word} is off by its own factor ({shown})")
    return said


def _row_ratio(a: Tensor, b: Tensor) -> float | None:
    a, b = a.flatten(), b.flatten()
    if not b.any() or not (a.isfinite() & b.isfinite()).all():
        return None
    factor = (a @ b / (b @ b)).item()
    return factor if factor and alike(a, b * factor) else None


def _part(problem: Problem) -> float:
    """Return how far off a result is, next to its largest element."""
    off, top = _off(problem)
    return off / top if top else 0.0


def _off(problem: Problem) -> tuple[float, float]:
    """Return how far off a result is, and its largest element."""
    got, expected = problem.got.double(), problem.expected.double()
    both = got.isfinite() & expected.isfinite()
    if not both.any():
        return 0.0, 0.0
    off = (got - expected)[both].abs().max().item()
    return off, expected[both].abs().max().item()


def _size(problem: Problem, most: float, in_float64: bool) -> str:
    """Say how far off the result is: here, and at most in all cases."""
    off, top = _off(problem)
    if not top:
        return ""
    part = f"{number(off / top, 2)} of the largest element at most"
    if most < 1e-6 and in_float64:
        return f"It is off by {part}: is a step computed in float32?"
    if most < 0.01:
        return f"It is off by {part}: is something rounded, or almost right?"
    return (
        f"It is off by up to {number(off)}; the largest element is "
        f"{number(top)}."
    )


def _ratio(evidence: Evidence, shown: Failure) -> str:
    """Say how a wrong number relates to the right one."""
    pairs = [_numbers(f) for f in (shown, *evidence.failures)]
    if pairs[0] is None:
        return ""
    found = [x for x in pairs if x is not None]
    ratios = [number(a / b) if b else "0" for a, b in found]
    gaps = [number(a - b, 6) for a, b in found]
    count = len(found) - 1
    cases = f"In all {count} such cases" if count > 1 else "Here"
    if len({*ratios}) == 1 and ratios[0] != "0":
        return f"{cases} it is {ratios[0]} times the right number."
    if len({*gaps}) == 1:
        return f"{cases} it is off by {gaps[0]}."
    if all(a != b and (a - b) % 2**32 == 0 for a, b in found):
        return (
            f"{cases} it is off by a multiple of 2**32: did an int32 overflow?"
        )
    if ratios[0] == "0":
        return ""
    return f"In this case it is {ratios[0]} times the right number."


def _numbers(failure: Failure) -> tuple[float, float] | None:
    """Return the wrong and the right number, if both are numbers."""
    try:
        return float(failure.problem.got), float(failure.problem.expected)
    except (TypeError, ValueError):
        return None
