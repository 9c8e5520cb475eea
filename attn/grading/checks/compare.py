"""Compare a result with the reference's, and describe the first difference.

A result is judged by its error relative to a float64 run of the reference,
next to the error that the reference itself makes in the case's dtype.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.show import describe, first_difference, pair, some

Limit = Callable[[Tensor, Tensor, Tensor | None], float]
#: Kinds of problems that are no result's.
_WHOLE = frozenset({"error", "random", "side effect"})


@dataclass(frozen=True)
class Problem:
    """A difference, in words.

    Args:
        kind: ``type``, ``shape``, ``dtype``, ``device``, ``nan`` or
            ``value``; a run adds
            ``error`` and ``side effect``.
        said: what is wrong, without the name of the result.
        name: of the part that is wrong: ``it``, ``it[1]``, ``the gradient of
            key``.
        got, expected: two tensors of one shape, or two numbers.
        wrong: bool, True where two tensors differ.
    """

    kind: str
    said: str
    name: str = "it"
    got: Any = field(default=None, repr=False)
    expected: Any = field(default=None, repr=False)
    wrong: Tensor | None = field(default=None, repr=False)

    @cached_property
    def text(self) -> str:
        """Return what is wrong, with the first element that is."""
        if self.kind in _WHOLE:
            return self.said
        where = ""
        if self.wrong is not None:
            where = first_difference(self.wrong, self.got, self.expected)
        return f"{self.name} {self.said}{where}"


def compare(
    got: Any,
    expected: Any,
    expected_fp64: Any,
    what: str = "it",
    rtol: float = 0.0,
) -> Problem | None:
    """Compare a result with the reference's.

    Args:
        got: the learner's result.
        expected: the reference's result in the case's dtype; it sets type,
            structure, shape and dtype, and the error that is forgiven.
        expected_fp64: the reference's result in float64.
        what: the name of the result in the message.
        rtol: tolerance for a randomly drawn tensor, relative to its largest
            element.

    Returns:
        None when the result is right.
    """
    found = differences(got, expected, expected_fp64, what, rtol)
    return found[0] if found else None


def differences(
    got: Any,
    expected: Any,
    expected_fp64: Any,
    what: str = "it",
    rtol: float = 0.0,
    noise: float = 0.0,
    near: Any = None,
) -> list[Problem]:
    """Compare as ``compare`` does; return a problem for each wrong entry.

    ``noise`` is what rounding may leave where the right result is 0.
    ``near`` is the reference's result in float64 for inputs that differ by
    float32's rounding: what that changes, an honest result may differ by.
    """
    limit = partial(_rounding, rtol=rtol, noise=noise)
    return _compare(got, expected, expected_fp64, what, limit, near)


def alike(a: Any, b: Any, part: float = 1e-5, least: float = 1e-30) -> bool:
    """Return whether two results look like the same mistake.

    They are equal up to a part of the largest element, which counts as
    ``least`` if it is smaller; NaN equals NaN.
    """

    def limit(x: Tensor, _exact: Tensor, _near: Tensor | None) -> float:
        return max(4.0 * _eps(x.dtype), part) * max(size(x), least)

    return not _compare(a, b, b, "", limit)


def near(got: Tensor, expected: Tensor, part: float) -> bool:
    """Return whether two tensors differ by a part of the largest element.

    Infinities must be in the same places.
    """
    finite = expected.isfinite()
    if not torch.equal(finite, got.isfinite()):
        return False
    if not finite.any():
        return True
    size = expected[finite].abs().max()
    return bool(((got - expected)[finite].abs() <= part * size).all())


def _compare(
    got: Any,
    expected: Any,
    exact: Any,
    what: str,
    limit: Limit,
    near: Any = None,
) -> list[Problem]:
    found = None
    if isinstance(expected, Mapping | tuple | list):
        found = _compare_structure(got, expected)
        is_dict = isinstance(expected, Mapping)
        parts = expected if is_dict else range(len(expected))
        if not found:
            return [
                problem
                for i in parts
                for problem in _compare(
                    got[i],
                    expected[i],
                    exact[i],
                    f"{what}[{i}]",
                    limit,
                    None if near is None else near[i],
                )
            ]
    elif _is_number(expected):
        found = _compare_numbers(got, expected, exact, limit, near)
    elif isinstance(expected, Tensor):
        found = _compare_tensors(got, expected, exact, limit, near)
    elif isinstance(expected, range):
        found = _compare_ranges(got, expected)
    elif got != expected:
        found = Problem("value", f"is {got!r}, not {expected!r}")
    if not found:
        return []
    return [replace(found, name=what)]


def _compare_structure(got: Any, expected: Any) -> Problem | None:
    if isinstance(expected, Mapping):
        if isinstance(got, Mapping):
            return _compare_keys(got, expected)
        fits, need = False, f"a dict of {len(expected)}"
    else:
        fits = isinstance(got, tuple | list)
        need = f"a {type(expected).__name__} of {len(expected)}"
    if not fits:
        return Problem("type", f"is {describe(got)}, not {need}")
    if len(got) == len(expected):
        return None
    return Problem("type", f"has {len(got)} entries, not {len(expected)}")


def _compare_keys(
    got: Mapping[Any, Any], expected: Mapping[Any, Any]
) -> Problem | None:
    missing = [str(k) for k in expected if k not in got]
    extra = [str(k) for k in got if k not in expected]
    said = []
    if missing:
        said.append(f"lacks {some(missing)}")
    if extra:
        verb = "is" if len(extra) == 1 else "are"
        said.append(f"has {some(extra)}, which {verb} superfluous")
    return Problem("type", "; it ".join(said)) if said else None


def _compare_ranges(got: Any, expected: range) -> Problem | None:
    """Compare what they go through: a list of the same numbers will do."""
    if not isinstance(got, range | list | tuple):
        return Problem("type", f"is {describe(got)}, not {expected!r}")
    if len(got) == len(expected) and list(got) == list(expected):
        return None
    return Problem("value", f"is {_run(got)}, not {_run(expected)}")


def _run(numbers: Any) -> str:
    return repr(numbers) if len(numbers) else f"empty ({numbers!r})"


def _compare_numbers(
    got: Any, expected: Any, exact: Any, limit: Limit, near: Any
) -> Problem | None:
    if not _is_number(got):
        return Problem("type", f"is {describe(got)}, not a number")
    if isinstance(expected, Integral):  # a count is exact
        if bool(got == expected):
            return None
        text = "is {}, not {}".format(*pair(_plain(got), _plain(expected)))
        return Problem("value", text, got=got, expected=expected)
    is_count = isinstance(got, Tensor) and not got.is_floating_point()
    dtype = torch.float64 if is_count else torch.float32
    x, y = (torch.as_tensor(n, dtype=torch.float64) for n in (got, exact))
    z = None if near is None else torch.as_tensor(near, dtype=torch.float64)
    return _compare_elements(x, y, limit(y.to(dtype), y, z))


def _compare_tensors(
    got: Any, expected: Tensor, exact: Tensor, limit: Limit, near: Any
) -> Problem | None:
    if not isinstance(got, Tensor):
        return Problem("type", f"is {describe(got)}, not a tensor")
    found = _compare_plain_tensors(got, expected, exact, limit, near)
    if found and type(got) not in (Tensor, torch.nn.Parameter):
        return Problem("type", f"is {describe(got)}, not a plain tensor")
    return found


def _compare_plain_tensors(
    got: Tensor, expected: Tensor, exact: Tensor, limit: Limit, near: Any
) -> Problem | None:
    for kind, verb, of in (
        ("shape", "has shape", lambda x: tuple(x.shape)),
        ("dtype", "has dtype", _dtype),
        ("device", "is on", lambda x: x.device),
    ):
        if of(got) != of(expected):
            text = f"{verb} {of(got)}, not {of(expected)}"
            return Problem(kind, text, got=got, expected=expected)
    if torch.equal(got, expected):
        return None
    if not expected.is_floating_point():
        return _difference(got != expected, got, expected)
    exact = exact.double()
    most = limit(expected, exact, near)
    return _compare_elements(got.double(), exact, most)


def _rounding(
    expected: Tensor,
    exact: Tensor,
    near: Tensor | None,
    rtol: float,
    noise: float,
) -> float:
    """Return the error that is forgiven: several times the reference's."""
    if near is not None:
        moved = (near.double() - exact)[exact.isfinite() & near.isfinite()]
        noise = max(noise, min(8.0 * size(moved), 1e-3 * size(exact)))
    eps = _eps(expected.dtype)
    ulps = 2.0 if expected.dtype in (torch.float16, torch.bfloat16) else 64.0
    own = (expected.double() - exact)[exact.isfinite()].abs()
    limit = 4.0 * own.max().item() if own.numel() else 0.0
    limit += (rtol + ulps * eps) * size(exact)
    # Where the right result is 0 throughout, rounding noise is no mistake.
    return limit + max(4.0 * min(eps, _eps(torch.float32)), noise)


def _compare_elements(
    got: Tensor, exact: Tensor, limit: float
) -> Problem | None:
    """Compare within a limit; infinities and NaN must be equal."""
    close = (got - exact).abs() <= limit
    if close.all():
        return None
    wrong = ~(close | (got == exact) | (got.isnan() & exact.isnan()))
    bad = wrong & got.isnan()
    if bad.any():
        return Problem("nan", "has NaN", got=got, expected=exact, wrong=bad)
    return _difference(wrong, got, exact)


def _difference(
    wrong: Tensor, got: Tensor, expected: Tensor
) -> Problem | None:
    if not wrong.any():
        return None
    more: Any = {"got": got, "expected": expected, "wrong": wrong}
    return Problem("value", "differs", **more)


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _is_number(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dim() == 0 and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool)


def size(x: Tensor) -> float:
    """Return the largest finite element, in absolute value."""
    if not x.numel():
        return 0.0
    largest = x.abs().max().item()
    if math.isfinite(largest):
        return largest
    finite = x[x.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
