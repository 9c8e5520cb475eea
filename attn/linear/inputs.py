"""The arguments that the rules of this room share, checked once."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn import arguments
from attn.functional import validation
from attn.linear import scan
from attn.linear.packed import check_packed, each_text
from attn.tracing import has_values, is_any_size

MODES = ("chunk", "recurrent", "parallel")


class Inputs(NamedTuple):
    """Tensors of four axes, in the dtype of the state."""

    q: Tensor  # (B, H, L, D)
    k: Tensor  # (B, H, L, D)
    v: Tensor  # (B, H, L, Dv)
    g: Tensor  # (B, H, L, 1 or D)
    beta: Tensor | None  # (B, H, L, 1)
    state: Tensor  # (B, H, D, Dv), or (N, H, D, Dv) of packed texts
    cu_seqlens: Tensor | None

    def run(self, mode: str, chunk_size: int) -> tuple[Tensor, Tensor]:
        """Compute one of the three forms, each packed text on its own."""
        if mode == "parallel" or is_any_size(self.v.shape[2]):
            mode = "parallel"  # a loop in a graph is one for its length
        form: Any = {
            "recurrent": scan.recurrent,
            "chunk": partial(scan.chunked, chunk_size=chunk_size),
            "parallel": scan.parallel,
        }[mode]

        def one(part: slice, state: Tensor) -> tuple[Tensor, Tensor]:
            return form(*scan.tokens(part, *self[:5]), state)

        return each_text(one, self.cu_seqlens, self.state, axis=2)


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor | None,
    beta: Tensor | None,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
    mode: str,
    chunk_size: int,
) -> Inputs:
    """Check the arguments, and return them in one shape and dtype.

    Query and key heads are repeated for the value heads that share them.
    """
    validation.tensors(query, key, value)
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 3 or x.shape[:-3] != query.shape[:-3]:
            raise ValueError(
                f"{name} must have shape (..., H, L, D), with one batch for "
                f"all three; got {tuple(x.shape)}"
            )
    *batch_shape, Hk, L, D = query.shape
    H, Dv = value.shape[-3], value.shape[-1]
    if key.shape[-3:-1] != (Hk, L):
        raise ValueError(
            f"key must have the heads and tokens of query, ({Hk}, {L}); got "
            f"{tuple(key.shape[-3:-1])}"
        )
    if not Hk or H % Hk:
        raise ValueError(
            "value must have as many heads as key, or a multiple (several "
            f"value heads share a key head); got {H} and {Hk}"
        )
    check_form(mode, chunk_size)
    dtype = torch.promote_types(query.dtype, torch.float32)
    B = math.prod(batch_shape)

    def to_4d(x: Tensor) -> Tensor:
        return x.reshape(B, *x.shape[-3:]).to(dtype)

    q, k, v = map(to_4d, (query, key, value))
    q, k = (x.repeat_interleave(H // Hk, 1) for x in (q, k))
    tokens = (*batch_shape, H, L)
    if g is None:
        log_decay = v.new_zeros(B, H, L, 1)
    else:
        log_decay = to_4d(_log_decay(g, query, tokens))
    if beta is not None:
        _like("beta", beta, query, [tokens])
        beta = to_4d(beta[..., None])
    texts = check_packed(cu_seqlens, B, L)
    shape = (texts, H, D, Dv)
    if initial_state is None:
        state = v.new_zeros(shape)
    else:
        outer = [texts] if cu_seqlens is not None else batch_shape
        expected = (*outer, *shape[1:])
        _like("initial_state", initial_state, query, [expected])
        state = initial_state.reshape(shape).to(dtype)
    return Inputs(q, k, v, log_decay, beta, state, cu_seqlens)


def state_like(
    state: Tensor, value: Tensor, cu_seqlens: Tensor | None, given: bool
) -> Tensor | None:
    """Return the state in the batch of the values; None if not given out."""
    if not given:
        return None
    if cu_seqlens is not None:
        return state
    return state.reshape(*value.shape[:-2], *state.shape[-2:])


def check_form(mode: str, chunk_size: int) -> None:
    """Require a form, and a size of its chunks."""
    arguments.choice("mode", mode, MODES)
    arguments.count("chunk_size", chunk_size)


def _log_decay(g: Tensor, query: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """Return the log decays with an axis of channels, ``(..., H, L, X)``."""
    H, D = tokens[-2], query.shape[-1]
    _like("g", g, query, [(H,), tokens, (*tokens, D)])
    if has_values(g) and bool((g > 0).any()):
        raise ValueError(
            "g must be the log of a decay, at most 0; got "
            f"{float(g.max()):.2g}: pass decay.log() for factors from 0 to 1"
        )
    if g.dim() == 1:
        g = g[:, None].expand(tokens)
    return g if g.dim() > len(tokens) else g[..., None]


def _like(
    name: str, x: Tensor, query: Tensor, shapes: list[tuple[int, ...]]
) -> None:
    """Require a float tensor of one of the shapes, where the query is."""
    arguments.tensor(name, x, floating=True)
    # Of one rank: a graph is not to compare the sizes of different axes.
    if not any(len(s) == x.dim() and s == x.shape for s in shapes):
        need = " or ".join(map(str, shapes))
        raise ValueError(
            f"{name} must have shape {need}; got {tuple(x.shape)}"
        )
    arguments.same_device(name, x, "query", query)
