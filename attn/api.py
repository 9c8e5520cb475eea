"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and finds the implementation that
was measured to be the fastest for such a call. ``explain`` says which one
that is, and why not the others; torch's own backends included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attn.backends import cpu, sdpa
from attn.backends.torch_choice import TorchExplanation, explain_torch
from attn.checks import Window
from attn.contract import Call, read
from attn.functional import grouped_attention, scaled_dot_product_attention
from attn.online import tiled_attention
from attn.predicate import Mask

__all__ = [
    "Explanation",
    "attention",
    "explain",
    "implementations",
    "register",
]

Result = Tensor | tuple[Tensor, Tensor]
Attention = Callable[..., Result]


@dataclass(frozen=True)
class _Implementation:
    run: Attention
    why_not: Callable[[Call], list[str]]
    slower: Callable[[Call], str | None]
    has_lse: bool


_IMPLEMENTATIONS: dict[str, _Implementation] = {}


def register(
    name: str,
    *,
    why_not: Callable[[Call], list[str]] | None = None,
    slower: Callable[[Call], str | None] | None = None,
    has_lse: bool = True,
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
        has_lse: whether it takes ``return_lse``.
        before: the implementation that auto asks after it; the last place
            when None.

    Returns:
        The decorator, which gives the function back.

    Raises:
        ValueError: the name is taken, or ``before`` is not registered.
    """
    if name in _IMPLEMENTATIONS or name == "auto":
        raise ValueError(f"name is {name!r}: it is taken")
    if before is not None:
        _find(before)

    def add(function: Attention) -> Attention:
        later = {}
        if before is not None:
            names = list(_IMPLEMENTATIONS)
            for after in names[names.index(before) :]:
                later[after] = _IMPLEMENTATIONS.pop(after)
        _IMPLEMENTATIONS[name] = _Implementation(
            function,
            why_not or (lambda call: []),
            slower or (lambda call: None),
            has_lse,
        )
        _IMPLEMENTATIONS.update(later)
        return function

    return add


def implementations() -> tuple[str, ...]:
    """The names of all implementations, in the order in which auto asks."""
    return tuple(_IMPLEMENTATIONS)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
    impl: str = "auto",
) -> Result:
    """The whole contract, computed by whoever is best at such a call.

    Args:
        query, key, value, attn_mask: as in
            ``attn.scaled_dot_product_attention``.
        dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.
        impl: one of ``implementations()``, which then runs or says why it
            cannot; ``"auto"`` takes the first that can and is not known to
            be slower than a later one.

    Returns:
        As ``attn.scaled_dot_product_attention``.

    Raises:
        TypeError, ValueError: an argument is wrong, or the implementation
            named cannot take the call: with its reasons.
    """
    arguments: dict[str, Any] = {
        "attn_mask": attn_mask,
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
        "softcap": softcap,
        "sinks": sinks,
        "window": window,
        "q_offset": q_offset,
    }
    call = read(query, key, value, **arguments)
    if impl == "auto":
        chosen = _choose(call, return_lse)
    else:
        chosen = _find(impl)
        reasons = _reasons(chosen, call, return_lse)
        if reasons:
            raise ValueError(f"{impl} cannot: {'; '.join(reasons)}")
    if return_lse:
        arguments["return_lse"] = True
    return chosen.run(query, key, value, **arguments)


@dataclass(frozen=True)
class Explanation:
    """For each implementation, why it does not take the call.

    ``reasons`` has sentences for what cannot be done, ``slower`` for what
    can, and is not worth it; ``taken`` is who computes the call. ``torch``
    says the same of torch's own backends.
    """

    reasons: dict[str, list[str]]
    slower: dict[str, str]
    taken: str
    torch: TorchExplanation = field(repr=False)

    def __getitem__(self, name: str) -> list[str]:
        """Reasons, by the name of an implementation or torch's backend."""
        return self.reasons[name] if name in self.reasons else self.torch[name]

    def __str__(self) -> str:
        width = max(map(len, self.reasons)) + 2
        lines = ["attn"]
        for name, reasons in self.reasons.items():
            said = [f"no: {reason}" for reason in reasons]
            if name == self.taken:
                said = ["taken"]
            elif not said and name in self.slower:
                said = [f"slower: {self.slower[name]}"]
            for i, text in enumerate(said or ["could take it"]):
                lines.append(f"  {'' if i else name:{width}}{text}")
        lines.append("torch's F.scaled_dot_product_attention")
        lines += [f"  {line}" for line in str(self.torch).splitlines()]
        return "\n".join(lines)


def explain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
) -> Explanation:
    """Say who takes this call, and why not the others. Nothing is computed.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``, or
            jagged nested tensors, which only torch takes.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.

    Returns:
        The reasons of each implementation and of each of torch's backends.

    Raises:
        TypeError, ValueError: an argument is wrong, whoever computes it.
    """
    arguments: dict[str, Any] = {
        "attn_mask": attn_mask,
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
        "softcap": softcap,
        "sinks": sinks,
        "window": window,
        "q_offset": q_offset,
    }
    of_torch = explain_torch(
        query, key, value, **arguments, return_lse=return_lse
    )
    if query.is_nested:
        nested = ["the tensors are nested: it needs dense ones (pad them)"]
        return Explanation(
            {name: list(nested) for name in _IMPLEMENTATIONS},
            {},
            "none",
            of_torch,
        )
    call = read(query, key, value, **arguments)
    chosen = _choose(call, return_lse)
    reasons, slower = {}, {}
    for name, one in _IMPLEMENTATIONS.items():
        reasons[name] = _reasons(one, call, return_lse)
        why = None if reasons[name] else one.slower(call)
        if why:
            slower[name] = why
    names = {id(one): name for name, one in _IMPLEMENTATIONS.items()}
    return Explanation(reasons, slower, names[id(chosen)], of_torch)


def _find(name: str) -> _Implementation:
    if name not in _IMPLEMENTATIONS:
        raise ValueError(
            f"impl is {name!r}: it needs 'auto' or one of "
            f"{list(_IMPLEMENTATIONS)}"
        )
    return _IMPLEMENTATIONS[name]


def _reasons(one: _Implementation, call: Call, return_lse: bool) -> list[str]:
    reasons = one.why_not(call)
    if return_lse and not one.has_lse:
        reasons = [*reasons, "return_lse is given: it has no lse to give"]
    return reasons


def _choose(call: Call, return_lse: bool) -> _Implementation:
    """The first that can and should; else the first that can."""
    able = [
        one
        for one in _IMPLEMENTATIONS.values()
        if not _reasons(one, call, return_lse)
    ]
    fast = (one for one in able if one.slower(call) is None)
    return next(fast, able[-1])


# --- the implementations that come with the book -----------------------------


def _by_call(run: Callable[[Call], Tensor]) -> Attention:
    """A function of a checked call, as one of the contract's arguments."""

    def function(
        query: Tensor, key: Tensor, value: Tensor, **said: Any
    ) -> Any:
        return run(read(query, key, value, **said))

    return function


def _no_kernels(call: Call) -> list[str]:
    try:
        from attn.kernels import why_not
    except ImportError as error:
        return [
            f"{error.name or 'triton'} is not installed: pip install triton"
        ]
    return why_not(call)


def _interpreted(call: Call) -> str | None:
    if call.query.device.type == "cuda":
        return None
    return "the interpreter is for tests"


def _fused(*args: Any, **said: Any) -> Any:
    from attn.kernels import fused_attention

    return fused_attention(*args, **said)


LARGE = 2**28  # scores: a GiB in float32


def _few_scores(call: Call) -> str | None:
    shape = call.scores_shape
    count = 1
    for size in shape:
        count *= size
    if count < LARGE:
        return f"there are {count:,} scores: they fit, and one product does it"
    return None


def _without_dropout(call: Call) -> list[str]:
    return [f"dropout_p is {call.dropout_p}: it drops nothing"] * bool(
        call.dropout_p
    )


# In this order because of tests/attn/test_cpu_speed.py, which measures it.
register(
    "banded",
    why_not=cpu.why_not_banded,
    slower=cpu.slower_banded,
    has_lse=False,
)(_by_call(cpu.run_banded))
register(
    "packed",
    why_not=cpu.why_not_packed,
    slower=cpu.slower_packed,
    has_lse=False,
)(_by_call(cpu.run_packed))
register("sdpa", why_not=sdpa.why_not_sdpa, has_lse=False)(
    _by_call(sdpa.run_sdpa)
)
register("fused", why_not=_no_kernels, slower=_interpreted)(_fused)
register("tiled", why_not=_without_dropout, slower=_few_scores)(
    tiled_attention
)
register("grouped")(grouped_attention)
register(
    "reference",
    slower=lambda call: "it is written to be read: grouped does the same",
)(scaled_dot_product_attention)
