"""Attention of a jagged batch: sequences of several lengths, end to end.

Without padding where it saves work: all tokens are projected at once, and
sequences of equal lengths attend at once. Else the batch is padded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.nn import validation
from attn.nn.call_options import attend, call_options
from attn.nn.position_ids import PositionIds
from attn.nn.projections import project
from attn.positions.rope import rotate_pairs

#: Scores that take about as long as one more call of attention, on a CPU.
SCORES_A_CALL = 1 << 15


def forward(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Tensor | None,
    **options: Any,
) -> Any:
    """Compute ``MultiHeadAttention.forward`` of jagged inputs."""
    _check(query, key, value, key_padding_mask)
    options = {name: x for name, x in options.items() if x is not None}
    simple = _is_simple(options) and module.gate_proj is None
    if simple and _saves_work(module.num_heads, query, key):
        is_causal, q_offset = map(options.get, ("is_causal", "q_offset"))
        out = _forward_packed(module, query, key, value, is_causal, q_offset)
        return _jagged_like(query, out)
    distinct = {id(x): x for x in (query, key, value)}
    padded = {i: pad(x) for i, x in distinct.items()}
    (q, valid), (k, k_valid), (v, _) = (
        padded[id(x)] for x in (query, key, value)
    )
    out = module(q, k, v, key_padding_mask=~k_valid, **options)
    if options.get("need_weights"):
        return _jagged_like(query, out[0][valid]), out[1]
    return _jagged_like(query, out[valid])


def pad(x: Any) -> tuple[Tensor, Tensor]:
    """Pad a jagged ``(B, j, E)`` to ``(B, L, E)``, ``L`` the longest length.

    The second result marks the real tokens, ``(B, L)``.
    """
    dense = x.to_padded_tensor(0.0)  # (B, L, E)
    lengths = x.offsets().diff()  # (B,)
    index = torch.arange(dense.shape[1], device=dense.device)
    return dense, index < lengths[:, None]


def _check(
    query: Any, key: Any, value: Any, key_padding_mask: Tensor | None
) -> None:
    """Require jagged inputs of one batch."""
    nested = [x.is_nested for x in (query, key, value)]
    if not all(nested):
        kinds = ", ".join("nested" if x else "dense" for x in nested)
        raise TypeError(
            "query, key and value must be all nested or all dense; got "
            f"{kinds}"
        )
    why = "with nested tensors, which have no padding"
    arguments.absent(why, key_padding_mask=key_padding_mask)
    for x in (query, key, value):
        if x.layout != torch.jagged:
            raise TypeError(
                "a nested tensor must have layout torch.jagged "
                "(torch.nested.nested_tensor(..., layout=torch.jagged)); got "
                f"{x.layout}"
            )
        if x.dim() != 3:
            raise ValueError(
                f"a nested tensor must have 3 axes, (B, j, E); got {x.dim()}"
            )
    if len(key.offsets()) != len(query.offsets()):
        raise ValueError(
            f"key must have the batch size of query, {len(query)}; got "
            f"{len(key)}"
        )
    if value is key or not tracing.has_values(key.offsets(), value.offsets()):
        return
    if not torch.equal(key.offsets(), value.offsets()):
        raise ValueError(
            "value must have one position for each key in every row, "
            f"{_lengths(key)}; got {_lengths(value)}"
        )


def _is_simple(options: dict[str, Any]) -> bool:
    """Return whether no option is about a row or a padded position."""
    q_offset = options.get("q_offset")
    return (
        options.keys() <= {"is_causal", "q_offset", "average_attn_weights"}
        and not isinstance(q_offset, Tensor)
        and not torch.compiler.is_compiling()  # lengths are data
    )


def _saves_work(num_heads: int, query: Any, key: Any) -> bool:
    """Return whether padding would cost more than calls for each length."""
    lengths = list(zip(_lengths(query), _lengths(key), strict=True))
    exact = sum(q * k for q, k in lengths)
    longest = max((q for q, _ in lengths), default=0)
    padded = len(lengths) * longest * max((k for _, k in lengths), default=0)
    saved = num_heads * (padded - exact)
    return saved >= SCORES_A_CALL * (len(set(lengths)) - 1)


def _lengths(x: Any) -> list[int]:
    return x.offsets().diff().tolist()


def _forward_packed(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    is_causal: bool | None,
    q_offset: int | None,
) -> Tensor:
    """Return the outputs of all queries end to end, ``(T, E)``."""
    is_self = key is query
    tokens = {id(x): x.values()[None] for x in (query, key, value)}
    given = {"query": query, "key": key, "value": value}
    dense = {name: tokens[id(x)] for name, x in given.items()}  # (1, T, E)
    validation.inputs(module, *dense.values())
    q, k, v = project(module, *dense.values())  # (1, H, T, D), …
    if module.rope is not None:
        start = q_offset or 0
        layout = module.rope.interleaved
        tables = module.rope(_positions(query, start))
        q = rotate_pairs(q, tables[0], tables[1], layout)
        start = start if is_self else 0
        tables = module.rope(_positions(key, start))
        k = rotate_pairs(k, tables[0], tables[1], layout)

    # Slices by one split: their gradients are joined, not added up.
    lengths = list(zip(_lengths(query), _lengths(key), strict=True))
    qs = q.split([n for n, _ in lengths], 2)
    ks, vs = (x.split([n for _, n in lengths], 2) for x in (k, v))
    outs: list[Tensor] = [q] * len(lengths)
    for pair in dict.fromkeys(lengths):
        rows = [i for i, other in enumerate(lengths) if other == pair]
        batch = [torch.cat([x[i] for i in rows]) for x in (qs, ks, vs)]
        q, k, v = batch
        ids = PositionIds(q, k, None, None, q_offset, is_self)
        options = call_options(module, q, k, v, ids, is_causal)
        for i, out in zip(rows, attend(module, q, k, v, options), strict=True):
            outs[i] = out.transpose(0, 1).flatten(1)  # (L, H * Dv)
    return module.out_proj(torch.cat(outs))


def _positions(x: Any, start: int) -> Tensor:
    """Return the position of each token in its own sequence, ``(T,)``."""
    offsets = x.offsets()
    first = offsets[:-1].repeat_interleave(offsets.diff())
    return start + torch.arange(len(first), device=first.device) - first


def _jagged_like(query: Any, tokens: Tensor) -> Tensor:
    """Return tokens with the query's own offsets: they can be added."""
    jagged: Any = torch.nested.nested_tensor_from_jagged
    return jagged(tokens, offsets=query.offsets())
