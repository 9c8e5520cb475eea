"""Say on which inputs an answer is right, and on which it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.axes import Axes

_FIRST = "the first input has"
_PAIRS = (("L", "S"), ("D", "Dv"), ("H", "Hkv"), ("B", "H"), ("B", "S"))


def distinguishing_inputs(evidence: Evidence) -> str:
    """Return what sets all failing cases apart from all right ones.

    In words that follow "when"; nothing, if nothing does, or too much.
    """
    found = distinctions(evidence)
    if len(found) == 2 and all(x.startswith(_FIRST) for x in found):
        found = [x for x in found if "more" not in x]  # one says the other
    return " and ".join(found) if len(found) <= 2 else ""


def distinctions(evidence: Evidence) -> list[str]:
    """Return all that sets the failing cases apart from the right ones."""
    failing, passing = [*evidence.failing], evidence.passing
    if len(failing) < 2 or len(passing) < 2:
        return []
    claims = [
        (text, {*filter(holds, passing)})
        for text, holds in _claims(evidence, Axes(evidence.exercise))
        if all(map(holds, failing))
    ]
    if found := [text for text, too in claims if not too]:
        return found
    given = [x for x in claims if x[0].endswith(" is given")]
    for (one, a), (other, b) in combinations(given, 2):
        if not a & b:
            return [one, other]
    return []


def _claims(
    evidence: Evidence, axes: Axes
) -> list[tuple[str, Callable[[int], bool]]]:
    """Return the distinctions that are tried, in words and as functions."""

    def sizes(i: int) -> dict[str, int]:
        init = evidence.case(i).init or {}
        return axes.sizes({**evidence.inputs(i), **init})

    known = {i: sizes(i) for i in [*evidence.failing, *evidence.passing]}

    def compare(test: Callable[[int, int], bool], a: str, b: str) -> Any:
        return lambda i: test(known[i][a], known[i][b])

    claims = []
    letters = set.intersection(*({*sizes} for sizes in known.values()))
    for a, b in _PAIRS:
        if {a, b} <= letters:
            claims += [
                (f"{a} is not {b}", compare(int.__ne__, a, b)),
                (f"{a} is more than {b}", compare(int.__gt__, a, b)),
                (f"{a} is less than {b}", compare(int.__lt__, a, b)),
                (f"{a} is {b}", compare(int.__eq__, a, b)),
            ]
    for a in sorted(letters):
        claims += [
            (f"{a} is more than 1", lambda i, a=a: known[i][a] > 1),
            (f"{a} is 1", lambda i, a=a: known[i][a] == 1),
        ]
    claims.append(
        ("an input is not contiguous", lambda i: _strided(evidence, i))
    )
    names = {n for i in known for n in evidence.inputs(i)}
    for name in sorted(names):
        claims.append(
            (
                f"{name} is given",
                lambda i, name=name: evidence.inputs(i).get(name) is not None,
            )
        )
        claims.append(
            (
                f"{name} is not given",
                lambda i, name=name: evidence.inputs(i).get(name) is None,
            )
        )
    bad = {_axes(evidence, i) for i in evidence.failing}
    for dims in range(1, 6):
        if min(bad) < dims < max(bad):  # else a plainer claim says it
            claims.append(
                (
                    f"the first input has not {_count(dims)}",
                    lambda i, dims=dims: _axes(evidence, i) != dims,
                )
            )
        claims.append(
            (
                f"{_FIRST} {_count(dims)}",
                lambda i, dims=dims: _axes(evidence, i) == dims,
            )
        )
        claims.append(
            (
                f"{_FIRST} more than {_count(dims)}",
                lambda i, dims=dims: _axes(evidence, i) > dims,
            )
        )
    return claims


def _strided(evidence: Evidence, i: int) -> bool:
    inputs = [*evidence.inputs(i).values()]
    return any(not x.is_contiguous() for _, x in named_tensors(inputs))


def _axes(evidence: Evidence, i: int) -> int:
    for x in evidence.inputs(i).values():
        if isinstance(x, Tensor):
            return x.dim()
    return 0


def _count(axes: int) -> str:
    return f"{axes} axis" if axes == 1 else f"{axes} axes"
