"""Compare a result with the reference's, and find where they differ.

A result is judged by its error relative to a float64 run of the reference,
next to the error that the reference itself makes in the case's dtype.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.problem import RESULT, Part, Problem
from attn.grading.checks.rounding import epsilon, forgiven_error, max_abs
from attn.grading.checks.show import (
    describe,
    distinct_texts,
    dtype_name,
    first_few,
)

Limit = Callable[[Tensor, Tensor, Tensor | None], float]


def differences(
    got: Any,
    expected: Any,
    exact: Any,
    part: Part = RESULT,
    *,
    rtol: float = 0.0,
    noise: float = 0.0,
    perturbed: Any = None,
) -> list[Problem]:
    """Compare a result with the reference's; return what is wrong.

    Args:
        got: the learner's result.
        expected: the reference's result in the case's dtype; it sets type,
            structure, shape and dtype, and the error that is forgiven.
        exact: the reference's result in float64.
        part: of the outcome, that is compared.
        rtol: tolerance for a randomly drawn tensor, relative to its largest
            element.
        noise: what rounding may leave where the right result is 0.
        perturbed: the reference's result in float64, of inputs moved by
            float32's rounding: a right result may differ by as much.

    Returns:
        A problem for each wrong entry.
    """
    limit = partial(forgiven_error, rtol=rtol, noise=noise)
    return _differences(got, expected, exact, part, limit, perturbed)


def alike(a: Any, b: Any, rtol: float = 1e-5, floor: float = 1e-30) -> bool:
    """Return whether two results look like the same mistake.

    They are equal up to ``rtol`` of the largest element, which counts as
    ``floor`` if it is smaller; NaN equals NaN.
    """

    def limit(x: Tensor, _exact: Tensor, _perturbed: Tensor | None) -> float:
        return max(4.0 * epsilon(x.dtype), rtol) * max(max_abs(x), floor)

    return not _differences(a, b, b, RESULT, limit)


def _differences(
    got: Any,
    expected: Any,
    exact: Any,
    part: Part,
    limit: Limit,
    perturbed: Any = None,
) -> list[Problem]:
    problem = None
    if isinstance(expected, Mapping | tuple | list):
        problem = _compare_structure(got, expected)
        if problem is None:
            is_dict = isinstance(expected, Mapping)
            return [
                problem
                for i in (expected if is_dict else range(len(expected)))
                for problem in _differences(
                    got[i],
                    expected[i],
                    exact[i],
                    part.at(i),
                    limit,
                    None if perturbed is None else perturbed[i],
                )
            ]
    elif _is_number(expected):
        problem = _compare_numbers(got, expected, exact, limit, perturbed)
    elif isinstance(expected, Tensor):
        problem = _compare_tensors(got, expected, exact, limit, perturbed)
    elif isinstance(expected, range):
        problem = _compare_ranges(got, expected)
    elif got != expected:
        problem = Problem("value", f"is {got!r}, not {expected!r}")
    return [] if problem is None else [replace(problem, part=part)]


def _compare_structure(got: Any, expected: Any) -> Problem | None:
    if isinstance(expected, Mapping):
        if isinstance(got, Mapping):
            return _compare_keys(got, expected)
        fits, needed = False, f"a dict of {len(expected)}"
    else:
        fits = isinstance(got, tuple | list)
        needed = f"a {type(expected).__name__} of {len(expected)}"
    if not fits:
        return Problem("type", f"is {_seen(got)}, not {needed}")
    if len(got) == len(expected):
        return None
    return Problem("type", f"has {len(got)} entries, not {len(expected)}")


def _compare_keys(
    got: Mapping[Any, Any], expected: Mapping[Any, Any]
) -> Problem | None:
    missing = [str(k) for k in expected if k not in got]
    extra = [str(k) for k in got if k not in expected]
    complaints = []
    if missing:
        complaints.append(f"lacks {first_few(missing)}")
    if extra:
        verb = "is" if len(extra) == 1 else "are"
        complaints.append(f"has {first_few(extra)}, which {verb} superfluous")
    return Problem("type", "; it ".join(complaints)) if complaints else None


def _compare_ranges(got: Any, expected: range) -> Problem | None:
    """Compare what they go through: a list of the same numbers will do."""
    if not isinstance(got, range | list | tuple):
        return Problem("type", f"is {_seen(got)}, not {expected!r}")
    if isinstance(got, range):  # a check without sandbox sees any length
        is_same = got == expected
    else:
        is_same = len(got) == len(expected) and list(got) == list(expected)
    if is_same:
        return None
    texts = (repr(x) if x else f"empty ({x!r})" for x in (got, expected))
    return Problem("value", "is {}, not {}".format(*texts))


def _compare_numbers(
    got: Any, expected: Any, exact: Any, limit: Limit, perturbed: Any
) -> Problem | None:
    if not _is_number(got):
        return Problem("type", f"is {_seen(got)}, not a number")
    if isinstance(expected, Integral):  # the task says "an int"
        if isinstance(got, Tensor):
            message = f"is {_seen(got)}, not an int"
            return Problem("type", message, required="int")
        if got == expected:
            return None
        message = "is {}, not {}".format(*distinct_texts(got, expected))
        return Problem("value", message, got=got, expected=expected)
    is_count = isinstance(got, Tensor) and not got.is_floating_point()
    dtype = torch.float64 if is_count else torch.float32
    x, y, z = (
        None if n is None else torch.as_tensor(n, dtype=torch.float64)
        for n in (got, exact, perturbed)
    )
    assert x is not None and y is not None
    return _compare_elements(x, y, limit(y.to(dtype), y, z))


def _compare_tensors(
    got: Any, expected: Tensor, exact: Tensor, limit: Limit, perturbed: Any
) -> Problem | None:
    if not isinstance(got, Tensor):
        message = f"is {_seen(got)}, not a tensor"
        return Problem("type", message, required="tensor")
    problem = _compare_plain_tensors(got, expected, exact, limit, perturbed)
    if problem and type(got) not in (Tensor, torch.nn.Parameter):
        message = f"is {_seen(got)}, not a plain tensor"
        return Problem("type", message, required="plain tensor")
    return problem


def _compare_plain_tensors(
    got: Tensor, expected: Tensor, exact: Tensor, limit: Limit, perturbed: Any
) -> Problem | None:
    x, y = got, expected
    if x.shape != y.shape:
        message = f"has shape {tuple(x.shape)}, not {tuple(y.shape)}"
        return Problem("shape", message, got=x, expected=y)
    if x.dtype != y.dtype:
        message = f"has dtype {dtype_name(x)}, not {dtype_name(y)}"
        return Problem("dtype", message, got=x, expected=y)
    if x.device != y.device:
        message = f"is on {x.device}, not {y.device}"
        return Problem("device", message, got=x, expected=y)
    if torch.equal(got, expected):
        return None
    if not expected.is_floating_point():
        return _value_problem(got != expected, got, expected)
    exact = exact.double()
    most = limit(expected, exact, perturbed)
    return _compare_elements(got.double(), exact, most)


def _compare_elements(
    got: Tensor, exact: Tensor, limit: float
) -> Problem | None:
    """Compare within a limit; infinities and NaN must be equal."""
    within = (got - exact).abs() <= limit
    if within.all():
        return None
    wrong = ~(within | (got == exact) | (got.isnan() & exact.isnan()))
    nan = wrong & got.isnan()
    if nan.any():
        return Problem("nan", "has NaN", got=got, expected=exact, wrong=nan)
    return _value_problem(wrong, got, exact)


def _value_problem(
    wrong: Tensor, got: Tensor, expected: Tensor
) -> Problem | None:
    if not wrong.any():
        return None
    return Problem("value", "differs", got=got, expected=expected, wrong=wrong)


def _seen(got: Any) -> str:
    return "None (was there a return?)" if got is None else describe(got)


def _is_number(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dim() == 0 and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool)
