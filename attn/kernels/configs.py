"""Configure a launch: tile sizes, compile-time constants, options.

Tile sizes, warps and stages are a table that can be read, without autotuning.
A row for 90 is the fastest that ``make gpu`` found on an H100 (the runs of
2026-11-26 in ``book/benchmarks``); some of them spill. The others, not yet
measured, are the largest found to spill next to nothing, by
``compile_report()``. Rows for ``ANY`` use at most the 99 KB of shared memory
that the smallest GPUs since sm_80 have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = [
    "UNBOUNDED",
    "VARIANTS",
    "Config",
    "Options",
    "config_for",
    "config_of",
    "dummy_pointers",
    "empty_rows",
    "shape_constants",
    "tiles",
]

ANY = 0  # every GPU without its own row
#: Tiles are loaded by pointers; by tensor descriptors; by descriptors in a
#: persistent grid, which the forward kernel has.
VARIANTS = ("pointers", "tma", "persistent")


class Config(NamedTuple):
    """One row of the table."""

    block_l: int  # rows of the output, or of queries
    block_s: int  # keys at a time
    num_warps: int
    num_stages: int  # loads in flight
    why: str
    variant: str = "pointers"  # see ``VARIANTS``


# By kernel and bytes of an element; then by head_dim (up to) and GPU (90 is
# sm_90). No tensor cores in float32: a product is spread over more registers.
Table = dict[tuple[int, int], Config]
TABLES: dict[tuple[str, int], Table] = {
    ("forward", 2): {
        (64, ANY): Config(128, 64, 4, 3, "small tiles leave room for 3 loads"),
        (64, 90): Config(64, 128, 4, 2, "four warps: more programs", "tma"),
        (128, ANY): Config(128, 64, 8, 3, "8 warps: with 4 the output spills"),
        (128, 90): Config(64, 64, 4, 3, "a processor holds two", "tma"),
        (256, ANY): Config(64, 32, 8, 2, "64 rows of 256 fill the registers"),
        (256, 90): Config(128, 64, 8, 2, "2.9 times as fast", "tma"),
    },
    ("dkdv", 2): {
        (64, ANY): Config(32, 128, 8, 2, "two accumulators spill in 4 warps"),
        (64, 90): Config(128, 64, 4, 2, "it spills, and is faster", "tma"),
        (128, ANY): Config(32, 64, 8, 2, "64 queries or 128 keys spill"),
        (128, 90): Config(64, 128, 8, 3, "it spills, and is faster", "tma"),
        (128, 100): Config(32, 64, 8, 1, "a second load in flight spills"),
        (256, ANY): Config(32, 32, 8, 1, "what fits"),
        (256, 90): Config(64, 64, 8, 2, "it spills, and is faster", "tma"),
    },
    ("dq", 2): {
        (64, ANY): Config(128, 64, 8, 2, "one accumulator, as forward"),
        (64, 90): Config(64, 64, 4, 3, "four warps: more programs", "tma"),
        (128, ANY): Config(64, 64, 8, 2, "8 warps share it"),
        (128, 90): Config(128, 64, 8, 3, "a third load in flight", "tma"),
        (128, 100): Config(128, 64, 8, 2, "keys stay in shared memory: more"),
        (256, ANY): Config(64, 32, 8, 1, "what fits"),
        (256, 90): Config(128, 64, 8, 1, "1.3 times as fast", "tma"),
    },
    ("decode", 2): {
        (64, ANY): Config(16, 64, 4, 2, "few rows: many small programs"),
        (64, 90): Config(16, 64, 4, 3, "a third load in flight"),
        (128, ANY): Config(16, 64, 4, 2, "few rows: many small programs"),
        (256, ANY): Config(16, 32, 4, 2, "what fits twice"),
    },
    ("forward", 4): {
        (64, ANY): Config(64, 32, 8, 2, "twice the room for each element"),
        (128, ANY): Config(32, 64, 8, 1, "a second load in flight spills"),
        (128, 90): Config(32, 64, 8, 2, "a second load in flight"),
        (256, ANY): Config(16, 32, 8, 1, "what fits"),
        (256, 90): Config(16, 64, 8, 1, "it spills, and is faster"),
    },
    ("dkdv", 4): {
        (64, ANY): Config(32, 32, 8, 1, "two accumulators"),
        (64, 90): Config(32, 32, 4, 1, "four warps: more programs"),
        (128, ANY): Config(16, 32, 8, 1, "two accumulators"),
        (256, ANY): Config(16, 16, 4, 1, "what fits"),
    },
    ("dq", 4): {
        (64, ANY): Config(32, 32, 8, 1, "one accumulator"),
        (64, 90): Config(32, 32, 4, 1, "four warps: more programs"),
        (128, ANY): Config(32, 32, 8, 1, "one accumulator"),
        (128, 90): Config(32, 64, 8, 1, "fewer turns of the loop"),
        (256, ANY): Config(16, 32, 8, 1, "what fits"),
        (256, 90): Config(16, 64, 8, 1, "fewer turns of the loop"),
    },
    ("decode", 4): {
        (64, ANY): Config(16, 64, 4, 2, "as in half precision"),
        (64, 90): Config(16, 64, 4, 3, "a third load in flight"),
        (128, ANY): Config(16, 32, 8, 2, "8 warps: with 4 it spills"),
        (128, 90): Config(16, 32, 8, 3, "a third load in flight"),
        (256, ANY): Config(16, 16, 4, 2, "what fits twice"),
    },
    # Tokens of a chunk, and columns of the value.
    ("linear", 2): {
        (64, ANY): Config(64, 64, 4, 2, "the state is 64 x 64"),
        (128, ANY): Config(64, 32, 4, 2, "a state of 128 x 64 spills"),
        (128, 100): Config(64, 64, 8, 2, "products stay in tensor memory"),
        (256, ANY): Config(32, 32, 8, 1, "64 tokens of 256 spill"),
        (256, 90): Config(32, 16, 8, 1, "a state of 256 x 32 spills"),
    },
    ("linear", 4): {
        (64, ANY): Config(16, 16, 4, 1, "no tensor cores: 32 tokens spill"),
        (128, ANY): Config(16, 16, 8, 1, "8 warps share the state"),
        (256, ANY): Config(16, 16, 8, 1, "the least tile; it spills"),
    },
}


def config_of(
    kernel: str, head_dim: int, itemsize: int, arch: int = ANY
) -> Config:
    """Return the tiles of a kernel.

    Args:
        kernel: "forward", "dkdv", "dq" or "decode", whose tiles have as many
            rows as a group has, whatever the table says; or "linear".
        head_dim: the larger of ``D`` and ``Dv``, at most 256.
        itemsize: bytes of an element, 2 or 4.
        arch: compute capability times ten; ``ANY`` when unknown.
    """
    table = TABLES[kernel, itemsize]
    size = min(size for size, _ in table if head_dim <= size)
    return table.get((size, arch), table[size, ANY])


def config_for(kernel: str, query: Tensor, value: Tensor) -> Config:
    """Return the configuration of a kernel for these tensors."""
    arch = ANY
    if query.is_cuda:
        arch = 10 * torch.cuda.get_device_capability(query.device)[0]
    head_dim = max(query.shape[-1], value.shape[-1])
    return config_of(kernel, head_dim, query.element_size(), arch)


def tiles(
    kernel: str, query: Tensor, value: Tensor, q_len: int, kv_len: int
) -> dict[str, int]:
    """Return a kernel's configuration as keyword arguments of a launch.

    Blocks shrink with the sequence, to 16 at least.
    """
    config = config_for(kernel, query, value)
    return {
        "BLOCK_L": min(config.block_l, _power_of_2(q_len)),
        "BLOCK_S": min(config.block_s, _power_of_2(kv_len)),
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


def shape_constants(
    query: Tensor, key: Tensor, value: Tensor
) -> dict[str, Any]:
    """Return the compile-time constants of heads, head sizes and dtype."""
    D, Dv = query.shape[-1], value.shape[-1]
    return {
        "GROUP": query.shape[1] // key.shape[1],
        "D": D,
        "DV": Dv,
        "BLOCK_D": _power_of_2(D),
        "BLOCK_DV": _power_of_2(Dv),
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
    }


UNBOUNDED = 2**30  # larger than any distance


class Options(NamedTuple):
    """Everything that acts on the scores, in the order of the operators."""

    mask: Tensor | None  # (B, H, L, S), uint8 (1 = may attend) or float
    valid: Tensor | None  # (B, S), uint8
    sinks: Tensor | None  # (H,)
    q_offset: Tensor  # (B,), int32
    scale: float
    softcap: float = 0.0  # 0: none
    left: int = UNBOUNDED  # keys before a query that it attends to
    right: int = UNBOUNDED  # and after it
    cu_q: Tensor | None = None  # of packed texts, (N + 1,), int32
    cu_k: Tensor | None = None
    longest_q: int = 0  # queries of the longest of them
    longest_k: int = 0

    def by_text(self, *tensors: Tensor) -> list[Tensor]:
        """Return tensors with a row a text; packed, each row is all texts."""
        if self.cu_q is None:
            return [*tensors]
        return [x.expand(len(self.cu_q) - 1, *x.shape[1:]) for x in tensors]

    def lengths(self, query: Tensor, key: Tensor) -> tuple[int, int]:
        """Return L and S, of the longest text if there are several."""
        if self.cu_q is None:
            return query.shape[2], key.shape[2]
        return self.longest_q, self.longest_k

    @property
    def constants(self) -> dict[str, Any]:
        """Return the compile-time constants."""
        is_bool = self.mask is not None and self.mask.dtype == torch.uint8
        is_banded = self.right < UNBOUNDED
        return {
            "BANDED": 2 if self.left < UNBOUNDED else int(is_banded),
            "MASK_KIND": 0 if self.mask is None else 1 if is_bool else 2,
            "HAS_VALID": self.valid is not None,
            "HAS_SINKS": self.sinks is not None,
            "HAS_CAP": self.softcap > 0,
        }


def empty_rows(like: Tensor, shape: tuple[int, ...], packed: bool) -> Tensor:
    """Allocate ``(B, H, L, D)``; packed tokens hold their heads together."""
    if not packed:
        return like.new_empty(shape)
    B, H, L, D = shape
    return like.new_empty(B, L, H, D).transpose(1, 2)


def dummy_pointers(query: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    """Return the query, which is never read there, for a missing tensor."""
    return [query if x is None else x for x in tensors]


def _power_of_2(n: int) -> int:
    """Return the least power of 2 of ``n`` or more, and 16 or more."""
    return max(16, 1 << (n - 1).bit_length())
