"""Compare a result with the reference's, and say where they differ.

A result is judged by its error relative to a float64 run of the reference,
next to the error that the reference itself makes in the case's dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from attn.exercises.literal import describe, dtype_name, first_few
from attn.exercises.outcome import SideEffect
from attn.grading.checks.show import distinct_texts, first_difference


@dataclass(frozen=True)
class Part:
    """Name the part of an outcome that is compared.

    Args:
        input: of a gradient, the name of the input, or of the parameter.
        entry: the indices and keys that lead to an entry of the result.
    """

    input: str = ""
    entry: tuple[Any, ...] = ()

    def at(self, index: Any) -> Part:
        """Return an entry of this part."""
        return replace(self, entry=(*self.entry, index))

    def name(self, returns: Sequence[str] = ()) -> str:
        """Return the name in a message: ``dk``, ``the gradient of key``.

        Args:
            returns: what the task calls the parts of a result.
        """
        first, *rest = self.entry or ("",)
        if self.input:
            start, rest = f"the gradient of {self.input}", [*self.entry]
        elif isinstance(first, int):
            known = returns[first : first + 1]
            start = known[0] if known else f"result {first + 1}"
        else:
            start = str(first) or "it"
        return start + "".join(f"[{i}]" for i in rest)


RESULT = Part()


@dataclass(frozen=True)
class Problem:
    """A difference: typed for a diagnosis, in words for a message.

    Args:
        kind: ``type``, ``shape``, ``dtype``, ``device``, ``nan`` or ``value``
            of a part; ``error``, ``random`` or ``side effect`` of a call.
        message: what is wrong, without the name of the part.
        part: the part that is wrong.
        required: what a ``type`` problem misses: ``int`` or ``tensor``.
        effect: what the call does in addition to its result, where that is
            the problem.
        got, expected: two tensors of one shape, or two numbers.
        wrong: bool, True where two tensors differ.
        dtype: of the right result; ``expected`` is more exact.
    """

    kind: str
    message: str
    part: Part = RESULT
    required: Literal["", "int", "tensor"] = ""
    effect: SideEffect | None = None
    got: Any = field(default=None, repr=False)
    expected: Any = field(default=None, repr=False)
    wrong: Tensor | None = field(default=None, repr=False)
    dtype: torch.dtype | None = None

    @property
    def rounded(self) -> Any:
        """The right result, as a right answer rounds it."""
        return self.expected.to(self.dtype) if self.dtype else self.expected

    def text(self, returns: Sequence[str] = ()) -> str:
        """Return what is wrong, with the first element that is."""
        if self.kind in ("error", "random", "side effect"):
            return self.message
        first = ""
        if self.wrong is not None:
            first = first_difference(self.wrong, self.got, self.rounded)
        return f"{self.part.name(returns)} {self.message}{first}"


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
    limit = partial(_forgiven_error, rtol=rtol, noise=noise)
    right = _Right(expected, exact, perturbed)
    return [*_differences(got, right, part, limit)]


def alike(a: Any, b: Any, rtol: float = 1e-5, floor: float = 1e-30) -> bool:
    """Return whether two results look like the same mistake.

    They are equal up to ``rtol`` of the largest element, which counts as
    ``floor`` if it is smaller; NaN equals NaN.
    """

    def limit(right: _Right) -> float:
        x = right.expected
        part = max(4.0 * torch.finfo(x.dtype).eps, rtol)
        return part * max(max_abs(x), floor)

    return not any(_differences(a, _Right(b, b), RESULT, limit))


def close(got: Tensor, expected: Tensor, rtol: float) -> bool:
    """Return whether two tensors differ by ``rtol`` of the largest element.

    Infinities must be in the same places.
    """
    finite = expected.isfinite()
    if not torch.equal(finite, got.isfinite()):
        return False
    limit = rtol * max_abs(expected)
    return bool(((got - expected)[finite].abs() <= limit).all())


def max_abs(x: Tensor) -> float:
    """Return the largest finite element, in absolute value."""
    finite = x.abs().nan_to_num(0.0, 0.0, 0.0)
    return finite.max().item() if x.numel() else 0.0


class _Right(NamedTuple):
    """The reference's result; the names are those of ``differences``."""

    expected: Any
    exact: Any
    perturbed: Any = None

    def at(self, i: Any) -> _Right:
        return _Right(*(None if x is None else x[i] for x in self))


_Limit = Callable[[_Right], float]
"""Returns the error that is forgiven of a tensor."""


def _differences(
    got: Any, right: _Right, part: Part, limit: _Limit
) -> Iterator[Problem]:
    expected = right.expected
    if not isinstance(expected, Mapping | tuple | list):
        problem = _compare_leaves(got, right, limit)
    elif not (problem := _compare_structure(got, expected)):
        is_dict = isinstance(expected, Mapping)
        for i in expected if is_dict else range(len(expected)):
            yield from _differences(got[i], right.at(i), part.at(i), limit)
    if problem:
        yield replace(problem, part=part)


def _compare_structure(got: Any, expected: Any) -> Problem | None:
    size, complaints = len(expected), []
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            return _not_a(f"a dict of {size}", got)
        if missing := [str(k) for k in expected if k not in got]:
            complaints.append(f"lacks {first_few(missing)}")
        if extra := [str(k) for k in got if k not in expected]:
            are = f"which {'are' if extra[1:] else 'is'} superfluous"
            complaints.append(f"has {first_few(extra)}, {are}")
    elif not isinstance(got, tuple | list):
        return _not_a(f"a {type(expected).__name__} of {size}", got)
    elif len(got) != size:
        entries = "1 entry" if len(got) == 1 else f"{len(got)} entries"
        complaints.append(f"has {entries}, not {size}")
    return Problem("type", "; it ".join(complaints)) if complaints else None


def _compare_leaves(got: Any, right: _Right, limit: _Limit) -> Problem | None:
    expected = right.expected
    if _is_number(expected):
        return _compare_numbers(got, right, limit)
    if isinstance(expected, Tensor):
        return _compare_tensors(got, right, limit)
    if isinstance(expected, range):
        return _compare_ranges(got, expected)
    if got == expected:
        return None
    return Problem("value", f"is {got!r}, not {expected!r}")


def _compare_ranges(got: Any, expected: range) -> Problem | None:
    """Compare what they go through: a list of the same numbers will do."""
    if not isinstance(got, range | list | tuple):
        return _not_a(repr(expected), got)
    if got == expected or (type(got) is not range and [*got] == [*expected]):
        return None
    texts = (repr(x) if x else f"empty ({x!r})" for x in (got, expected))
    return Problem("value", "is {}, not {}".format(*texts))


def _compare_numbers(got: Any, right: _Right, limit: _Limit) -> Problem | None:
    if not _is_number(got):
        return _not_a("a number", got)
    expected = right.expected
    if isinstance(expected, Integral):  # the task says "an int"
        if isinstance(got, Tensor):
            return _not_a("an int", got, "int")
        if got == expected:
            return None
        message = "is {}, not {}".format(*distinct_texts(got, expected))
        return Problem("value", message, got=got, expected=expected)
    is_count = isinstance(got, Tensor) and not got.is_floating_point()
    in_float64 = partial(torch.as_tensor, dtype=torch.float64)
    x, y = in_float64(got), in_float64(right.exact)
    z = None if right.perturbed is None else in_float64(right.perturbed)
    expected = y.to(torch.float64 if is_count else torch.float32)
    return _compare_elements(x, y, limit(_Right(expected, y, z)))


def _compare_tensors(got: Any, right: _Right, limit: _Limit) -> Problem | None:
    if not isinstance(got, Tensor):
        return _not_a("a tensor", got, "tensor")
    expected = right.expected
    for kind, one, other in (
        ("shape", tuple(got.shape), tuple(expected.shape)),
        ("dtype", dtype_name(got), dtype_name(expected)),
        ("device", got.device, expected.device),
    ):
        if one != other:
            verb = "is on" if kind == "device" else f"has {kind}"
            message = f"{verb} {one}, not {other}"
            return Problem(kind, message, got=got, expected=expected)
    if torch.equal(got, expected):
        return None
    if not expected.is_floating_point():
        return _compare_elements(got, expected, 0.0)
    right = right._replace(exact=right.exact.double())
    problem = _compare_elements(got.double(), right.exact, limit(right))
    return problem and replace(problem, dtype=expected.dtype)


def _compare_elements(
    got: Tensor, exact: Tensor, limit: float
) -> Problem | None:
    """Compare within a limit; infinities and NaN must be equal."""
    right = (got == exact) | (got.isnan() & exact.isnan())
    if got.is_floating_point():
        right |= (got - exact).abs() <= limit  # overflow makes it infinite
    wrong = ~right
    if not wrong.any():
        return None
    kind, message, nan = "value", "differs", wrong & got.isnan()
    if nan.any():
        kind, message, wrong = "nan", "has NaN", nan
    return Problem(kind, message, got=got, expected=exact, wrong=wrong)


def _not_a(
    needed: str, got: Any, required: Literal["", "int", "tensor"] = ""
) -> Problem:
    seen = "None (was there a return?)" if got is None else describe(got)
    return Problem("type", f"is {seen}, not {needed}", required=required)


def _is_number(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dim() == 0 and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool)


def _forgiven_error(right: _Right, rtol: float, noise: float) -> float:
    """Return how far a right result may be off: several times the reference.

    The arguments are those of ``differences``.
    """
    expected, exact, perturbed = right
    if perturbed is not None:
        finite = exact.isfinite() & perturbed.isfinite()
        moved = max_abs((perturbed.double() - exact)[finite])
        noise = max(noise, min(8.0 * moved, 1e-3 * max_abs(exact)))
    eps = torch.finfo(expected.dtype).eps
    ulps = 2.0 if expected.dtype in (torch.float16, torch.bfloat16) else 64.0
    own = (expected.double() - exact)[exact.isfinite()].abs()
    limit = 4.0 * own.max().item() if own.numel() else 0.0
    limit += (rtol + ulps * eps) * max_abs(exact)
    # Where the right result is 0 throughout, rounding noise is no mistake.
    return limit + max(4.0 * min(eps, torch.finfo(torch.float32).eps), noise)
