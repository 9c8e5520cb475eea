"""Every implementation of attention, and who takes a call.

In the order in which they are asked. What comes with the book is registered
in ``attn.backends.shipped``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attn.contract import Call

__all__ = [
    "IMPLEMENTATIONS",
    "ONE_GRAPH",
    "Implementation",
    "choose",
    "find",
    "implementations",
    "reasons_of",
    "register",
]

#: Why nobody is chosen by the sizes of a call while torch traces it.
ONE_GRAPH = "a graph is being traced: it must not depend on a length"

Result = Tensor | tuple[Tensor, Tensor]
Attention = Callable[..., Result]


@dataclass(frozen=True)
class Implementation:
    """What is known of one way to compute a call."""

    run: Callable[[Call, bool, dict[str, Any]], Result]
    why_not: Callable[[Call], list[str]]
    slower: Callable[[Call], str | None]
    has_lse: Callable[[Call], bool]


IMPLEMENTATIONS: dict[str, Implementation] = {}


def register(
    name: str,
    *,
    why_not: Callable[[Call], list[str]] | None = None,
    slower: Callable[[Call], str | None] | None = None,
    has_lse: bool | Callable[[Call], bool] = True,
    takes_call: bool = False,
    before: str | None = None,
) -> Callable[[Attention], Attention]:
    """Add an implementation, as a decorator.

    The function takes the arguments of
    ``attn.scaled_dot_product_attention``, which have been checked.

    Args:
        name: what ``attention(impl=...)`` calls it.
        why_not: gives the reasons why it cannot take a call, in sentences;
            none when it can. It takes every call when this is None.
        slower: says why it can take a call and another is faster; None
            when it should be tried. Only ``impl="auto"`` asks.
        has_lse: whether it takes ``return_lse``, or says so of a call.
        takes_call: the function takes the checked ``attn.contract.Call``
            and, where it has one, ``return_lse`` instead.
        before: the implementation that auto asks after it; the last place
            when None.

    Returns:
        The decorator, which gives the function back.

    Raises:
        ValueError: the name is taken, or ``before`` is not registered.
    """
    if name in IMPLEMENTATIONS or name == "auto":
        raise ValueError(f"name is {name!r}: it is taken")
    if before is not None:
        find(before)

    def add(function: Attention) -> Attention:
        later = {}
        if before is not None:
            names = list(IMPLEMENTATIONS)
            for after in names[names.index(before) :]:
                later[after] = IMPLEMENTATIONS.pop(after)
        IMPLEMENTATIONS[name] = Implementation(
            _of_call(function) if takes_call else _of_arguments(function),
            why_not or (lambda call: []),
            slower or (lambda call: None),
            has_lse if callable(has_lse) else lambda call: bool(has_lse),
        )
        IMPLEMENTATIONS.update(later)
        return function

    return add


def _of_call(function: Attention) -> Any:
    def run(call: Call, return_lse: bool, arguments: dict[str, Any]) -> Any:
        return function(call, return_lse) if return_lse else function(call)

    return run


def _of_arguments(function: Attention) -> Any:
    def run(call: Call, return_lse: bool, arguments: dict[str, Any]) -> Any:
        wanted = {"return_lse": True} if return_lse else {}
        return function(
            call.query, call.key, call.value, **arguments, **wanted
        )

    return run


def implementations() -> tuple[str, ...]:
    """The names of all implementations, in the order in which auto asks."""
    return tuple(IMPLEMENTATIONS)


def find(name: str) -> Implementation:
    if name not in IMPLEMENTATIONS:
        raise ValueError(
            f"impl is {name!r}: it needs 'auto' or one of "
            f"{list(IMPLEMENTATIONS)}"
        )
    return IMPLEMENTATIONS[name]


def reasons_of(one: Implementation, call: Call, return_lse: bool) -> list[str]:
    reasons = one.why_not(call)
    if return_lse and not one.has_lse(call):
        reasons = [*reasons, "return_lse is given: it has no lse to give"]
    return reasons


def choose(call: Call, return_lse: bool) -> Implementation:
    """The first that can and should; else the last that can."""
    able = None
    for one in IMPLEMENTATIONS.values():
        if not reasons_of(one, call, return_lse):
            able = one
            if one.slower(call) is None:
                return one
    assert able is not None, "the reference takes every call"
    return able
