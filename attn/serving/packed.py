"""The tokens of one step, end to end in one row: no request is padded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from attn.cache import PagedCache, PagePool, StateCache, StateSnapshot
from attn.functional.inputs import validate
from attn.kernels.attention import unsupported_reasons
from attn.nn import MultiHeadAttention, StateLayer, Transformer
from attn.nn.call_options import attend, call_options
from attn.nn.position_ids import PositionIds
from attn.serving.request import Request
from attn.serving.scheduler import SchedulerOutput


class PackedCache(PagedCache):
    """The pages of several requests whose new tokens are one row.

    Source: vLLM ``query_start_loc`` and ``seq_lens``, of
    ``CommonAttentionMetadata``.
    """

    counts: list[int]  # new tokens of each request, which follow one another

    def attend(
        self,
        layer: MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        positions: Tensor,
    ) -> Tensor:
        """Store keys and values, and attend within each request.

        Inputs are rotated, ``(1, H or Hkv, T, D)``; the result is
        ``(1, H, T, Dv)``.
        """
        if _is_fused(layer, query, key, value):
            return self._fused(layer, query, key, value)
        out = query.new_empty(*query.shape[:3], value.shape[3])
        new = torch.arange(sum(self.counts)).split(self.counts)
        for count in dict.fromkeys(self.counts):
            rows = [i for i, n in enumerate(self.counts) if n == count]
            at = torch.stack([new[i] for i in rows]).to(query.device)
            q, k, v = (
                x[0, :, at].transpose(0, 1) for x in (query, key, value)
            )
            pages = [self.pages[i] for i in rows]
            cache = PagedCache.at(
                self.pool, pages, self.seq_len[rows].tolist()
            )
            view = cache.update(k, v)
            ids = PositionIds(q, k, positions[0, at], None, None, True)
            ids = ids.with_cache(cache, view)
            k, v = view.key, view.value
            options = call_options(layer, q, k, v, ids, None)
            heads = attend(layer, q, k, v, options)  # (rows, H, count, Dv)
            out[0, :, at] = heads.transpose(0, 1)
        return out

    def _fused(
        self,
        layer: MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
    ) -> Tensor:
        """Attend by one kernel, over keys that are end to end as well."""
        from attn.kernels import varlen_attention

        device, read = query.device, self.seq_len
        counts = torch.tensor(self.counts, device=device)
        total = read + counts  # (B,)
        starts_q, starts_k = (
            torch.cat([x.new_zeros(1), x.cumsum(0)]) for x in (counts, total)
        )
        row = torch.arange(len(read), device=device).repeat_interleave(total)
        t = torch.arange(len(row), device=device) - starts_k[row]
        page = self.block_table.long()[row, t // self.pool.page_size]
        slot, is_new = t % self.pool.page_size, t >= read[row]
        for pool, x in ((self.pool.key, key), (self.pool.value, value)):
            pool[page[is_new], :, slot[is_new]] = x[0].transpose(0, 1)
        out = varlen_attention(
            query[0].transpose(0, 1),
            self.pool.key[page, :, slot],  # (U, Hkv, D)
            self.pool.value[page, :, slot],
            starts_q, starts_k, max(self.counts),
            is_causal=True, scale=layer.scale, softcap=layer.softcap,
            sinks=layer.sinks, window=layer.window, q_offset=read,
        )  # fmt: skip
        assert isinstance(out, Tensor)
        return out.transpose(0, 1)[None]  # (1, H, T, Dv)


class PackedState(StateCache):
    """The states of several requests whose new tokens are one row.

    ``held`` has None for a request that begins.
    """

    def __init__(
        self,
        held: Sequence[StateSnapshot | None],
        counts: Sequence[int],
        device: torch.device,
    ):
        super().__init__(max_snapshots=0)
        self.cu_seqlens = torch.tensor([0, *accumulate(counts)], device=device)
        known = next((x for x in held if x is not None), None)
        for name in ("state", "conv"):
            x = getattr(known, name, None)
            if x is not None:  # a layer begins with zeros
                new = torch.zeros_like(x)
                each = [getattr(y, name, new) for y in held]
                setattr(self, name, torch.cat(each))

    def of(self, row: int) -> StateSnapshot:
        """Return what the layer holds of one request."""
        both = (self.state, self.conv)
        state, conv = (None if x is None else x[[row]] for x in both)
        return StateSnapshot(state, conv, 0)


def read_tokens(
    model: Transformer,
    pools: Sequence[PagePool],
    requests: Sequence[Request],
    output: SchedulerOutput,
) -> tuple[Tensor, list[PackedState]]:
    """Read the tokens of a step, in one forward pass.

    Return the logits ``(samples, V)`` of the last token of each request that
    samples, and of its guesses; and the states after the step.
    """
    device = pools[0].key.device
    counts = [output.num_scheduled_tokens[x.id] for x in requests]
    ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    for request, count in zip(requests, counts, strict=True):
        start = request.num_computed_tokens
        guesses = output.drafts.get(request.id, ())
        ids += [*request.token_ids, *guesses][start : start + count]
        positions += range(start, start + count)
        if request.id in output.samples:
            ends += range(len(ids) - 1 - len(guesses), len(ids))
    pages = [x.pages for x in requests]
    read = [x.num_computed_tokens for x in requests]
    pool, held = iter(pools), [iter(x.states) for x in requests]
    caches: list[PackedCache | PackedState] = []
    for block in model.blocks:
        if isinstance(block.attention, StateLayer):
            each = [next(x, None) for x in held]
            caches.append(PackedState(each, counts, device))
        else:
            cache = PackedCache.at(next(pool), pages, read)
            cache.counts = counts
            caches.append(cache)
    logits = model(
        torch.tensor([ids], device=device),  # (1, T)
        positions=torch.tensor([positions], device=device),
        caches=caches,
        logits_to_keep=torch.tensor(ends, dtype=torch.long, device=device),
    )[0]  # (samples, V)
    return logits, [x for x in caches if isinstance(x, PackedState)]


def _is_fused(
    layer: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor
) -> bool:
    """Return whether the kernel computes this layer; it has no biases."""
    if layer.alibi or layer.registry is not None:
        return False
    if layer.impl != "auto" or not query.is_cuda:
        return layer.impl == "triton"
    inputs = validate(query, key, value, enable_gqa=True)
    return not unsupported_reasons(inputs)
