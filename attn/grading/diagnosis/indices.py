"""Describe the indices along an axis at which something is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from attn.grading.checks.problem import Problem
from attn.grading.checks.show import and_list


def describe_indices(problem: Problem, axis: int, word: str) -> list[str]:
    """Describe the indices along an axis at which something is wrong.

    Return several descriptions, the best first, and nothing when there is
    something wrong at every index, or too small to tell at some.
    """
    wrong = problem.wrong
    assert wrong is not None
    n = wrong.shape[axis]
    at, moved = _at(wrong, axis), _at(wrong | _moved(problem), axis)
    if n < 2 or len(at) == n or at != moved:
        return []
    many, half = _many(word), n // 2
    candidates: dict[str, Iterable[int]] = {
        f"only the last {word}": [n - 1],
        f"only the first {word}": [0],
        f"every {word} but the first": range(1, n),
        f"every {word} but the last": range(n - 1),
    }
    if n > 3:
        candidates |= {
            f"only odd {many}, counted from 0": range(1, n, 2),
            f"only even {many}, counted from 0": range(0, n, 2),
        }
    if n % 2 == 0 and n > 2:
        candidates |= {
            f"only the second half of the {many}": range(half, n),
            f"only the first half of the {many}": range(half),
        }
    if len(at) == 1:
        candidates[f"only {word} {at[0]}"] = at
    candidates |= {
        f"{many} from {at[0]} on": range(at[0], n),
        f"{many} up to {at[-1]}": range(at[-1] + 1),
    }
    if len(at) <= 4:
        candidates[f"only {many} {and_list(list(map(str, at)))}"] = at
    fitting = [text for text, x in candidates.items() if [*x] == at]
    return fitting or [f"{len(at)} of {n} {many}"]


def _at(wrong: Tensor, axis: int) -> list[int]:
    """Return the indices along an axis at which something is wrong."""
    rest = [k for k in range(wrong.dim()) if k != axis]
    bad = wrong.any(rest) if rest else wrong
    return bad.nonzero()[:, 0].tolist()


def _moved(problem: Problem) -> Tensor:
    """Return where an element is off by more than rounding, or wrong."""
    got, expected = problem.got, problem.expected
    if not got.is_floating_point():
        return got != expected
    part = 1e-3 if got.element_size() >= 4 else 0.05
    return (got - expected).abs() > part * expected.abs()


def _many(word: str) -> str:
    if word.startswith("slice"):
        return word.replace("slice", "slices")
    return f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"
