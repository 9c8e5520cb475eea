"""A cache in 8 bits: a quarter of float32's memory, and a little error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor

from attn import arguments
from attn.cache import validation
from attn.cache.base import Cache, CacheView

STEPS = 255  # from the least of 8 bits to the greatest


class Quantized(NamedTuple):
    """Elements as ``least + code * step``, with codes from 0 to 255."""

    code: Tensor  # uint8
    step: Tensor  # float32, of size 1 along the axis that shares it
    least: Tensor  # the same

    @classmethod
    def of(cls, x: Tensor, axis: int) -> Quantized:
        """Quantize: elements along ``axis`` share their step."""
        least, most = x.float().aminmax(dim=axis, keepdim=True)
        step = (most - least) / STEPS
        code = (x.float() - least) / step.masked_fill(step == 0, 1.0)
        return cls(code.round().to(torch.uint8), step, least)

    def to(self, dtype: torch.dtype) -> Tensor:
        """Return the elements, each at most half a step from what it was."""
        code = self.code.float()
        return torch.addcmul(self.least, code, self.step).to(dtype)

    def append(self, other: Quantized) -> Quantized:
        """Return the groups of both, along axis 2."""
        pairs = zip(self, other, strict=True)
        return Quantized(*(torch.cat(pair, 2) for pair in pairs))


class QuantizedCache(Cache):
    """Keeps keys and values in 8 bits, but for the newest tokens.

    Some channels of the keys are large in every token; those of the values
    are not. Therefore a channel of the keys has a step for ``group_size``
    tokens, and a token of the values has one for its channels. New tokens
    are stored as they come until they fill a group. It saves memory and no
    time: every update computes all keys and values from their codes.

    Args:
        group_size: number of tokens that are quantized together.

    Example:
        >>> x = torch.randn(1, 8, 256, 64)
        >>> cache, exact = attn.QuantizedCache(), attn.DynamicCache()
        >>> key, value, q_offset = cache.update(x, x)
        >>> view = exact.update(x, x)
        >>> exact.nbytes / cache.nbytes > 3  # from 32 bits to a little over 8
        True
        >>> torch.allclose(key, x, atol=0.05)
        True

    Source: Liu et al. 2024, "KIVI: A Tuning-Free Asymmetric 2bit
    Quantization for KV Cache"; transformers ``QuantizedCache``.
    """

    seq_len: int = 0
    key: Tensor | None = None  # the newest tokens
    value: Tensor | None = None
    groups: tuple[Quantized, Quantized] | None = None  # the others

    def __init__(self, group_size: int = 64):
        arguments.count("group_size", group_size)
        self.group_size = group_size

    @property
    def nbytes(self) -> int:
        tensors = [x for x in (self.key, self.value) if x is not None]
        for group in self.groups or ():
            tensors += group
        return sum(x.nbytes for x in tensors)

    def update(
        self, key: Tensor, value: Tensor, lengths: Tensor | None = None
    ) -> CacheView:
        if lengths is not None:
            raise ValueError(
                "lengths must be None with a QuantizedCache, whose rows have "
                "equally many tokens: use a DynamicCache, or pad on the left"
            )
        validation.new_tokens(key, value, (self.key, self.value))
        validation.no_grad(key, value)
        before, self.seq_len = self.seq_len, self.seq_len + key.shape[2]
        if self.key is not None and self.value is not None:
            key = torch.cat([self.key, key], 2)
            value = torch.cat([self.value, value], 2)
        view = CacheView(*self._all(key, value), before)
        self._store(key, value)
        return view

    def fork(self) -> Self:
        return copy.copy(self)  # tensors are shared, and never written to

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens.

        What remains of a group is stored as it was rounded.
        """
        validation.crop(length, self.seq_len)
        if self.key is None or self.value is None:
            return
        complete = min(length, self._quantized) // self.group_size
        key, value = self._all(self.key, self.value)
        kept = slice(complete * self.group_size, length)
        self.key, self.value = (x[:, :, kept].clone() for x in (key, value))
        self._map(lambda x: x[:, :, :complete])
        self.seq_len = length

    def reorder(self, rows: Tensor) -> None:
        if self.key is not None and self.value is not None:
            validation.rows(rows, self.key.shape[0])
            self.key, self.value = self.key[rows], self.value[rows]
            self._map(lambda x: x[rows])

    @property
    def _quantized(self) -> int:
        """Return the number of tokens in groups."""
        return self.seq_len - (0 if self.key is None else self.key.shape[2])

    def _all(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the groups' keys and values, and these behind them."""
        if self.groups is None:
            return key, value
        k, v = (
            torch.cat([group.to(new.dtype).flatten(2, 3), new], 2)
            for group, new in zip(self.groups, (key, value), strict=True)
        )
        return k, v

    def _store(self, key: Tensor, value: Tensor) -> None:
        """Quantize the tokens that fill a group, and keep the others."""
        self.key, self.value = key, value
        filled = key.shape[2] // self.group_size * self.group_size
        if not filled:
            return
        # Copies: a view would keep the memory of all.
        self.key = key[:, :, filled:].clone()
        self.value = value[:, :, filled:].clone()
        k, v = (
            x[:, :, :filled].unflatten(2, (-1, self.group_size))
            for x in (key, value)
        )  # (B, Hkv, groups, group_size, D)
        new = (Quantized.of(k, -2), Quantized.of(v, -1))
        if self.groups is not None:
            old_k, old_v = self.groups
            new = (old_k.append(new[0]), old_v.append(new[1]))
        self.groups = new

    def _map(self, function: Callable[[Tensor], Tensor]) -> None:
        """Apply a function of ``(B, Hkv, groups, …)`` to all of them."""
        if self.groups is not None:
            k, v = (Quantized(*map(function, x)) for x in self.groups)
            self.groups = (k, v)
