"""How large a tile is, and how many warps share it, for each kernel.

No autotuning: a table that can be read. ``compile_report()`` shows what the
compiler makes of each row.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Config", "dkdv_config", "dq_config", "forward_config"]


class Config(NamedTuple):
    """One row of the table."""

    block_l: int  # rows of the output, or of queries
    block_s: int  # keys at a time
    num_warps: int
    num_stages: int  # loads in flight
    why: str


_FORWARD = {
    # head_dim up to, in half precision
    64: Config(128, 64, 4, 3, "small tiles of keys leave room for 3 loads"),
    128: Config(128, 128, 8, 2, "8 warps: with 4 the accumulator spills"),
    256: Config(64, 64, 8, 2, "64 rows of 256 numbers fill the registers"),
}
_SINGLE = {
    64: Config(64, 64, 4, 2, "float32 takes twice the room"),
    128: Config(64, 32, 8, 2, "and no tensor cores: more warps"),
    256: Config(32, 32, 8, 1, "what fits into 100 KB of shared memory"),
}


_DKDV = {
    64: Config(64, 128, 8, 2, "two accumulators: 8 warps, or it spills"),
    128: Config(32, 64, 8, 2, "with 64 queries or 128 keys it spills"),
    256: Config(32, 32, 8, 1, "what fits; it spills"),
}
_DQ = {
    64: Config(128, 64, 8, 2, "one accumulator, as the forward pass"),
    128: Config(128, 64, 8, 2, "8 warps share it"),
    256: Config(64, 32, 8, 1, "what fits"),
}
_SINGLE_BACKWARD = {
    64: Config(32, 64, 4, 1, "float32 takes twice the room"),
    128: Config(32, 32, 8, 1, "and is not in a hurry"),
    256: Config(16, 32, 8, 1, "what fits"),
}


def forward_config(head_dim: int, itemsize: int) -> Config:
    """The tiles of the forward kernel.

    Args:
        head_dim: the larger of ``D`` and ``Dv``, at most 256.
        itemsize: bytes of a number.
    """
    return _row(_FORWARD if itemsize < 4 else _SINGLE, head_dim)


def dkdv_config(head_dim: int, itemsize: int) -> Config:
    """The tiles of the kernel for keys and values; as ``forward_config``."""
    return _row(_DKDV if itemsize < 4 else _SINGLE_BACKWARD, head_dim)


def dq_config(head_dim: int, itemsize: int) -> Config:
    """The tiles of the kernel for queries; as ``forward_config``."""
    return _row(_DQ if itemsize < 4 else _SINGLE_BACKWARD, head_dim)


def _row(table: dict[int, Config], head_dim: int) -> Config:
    return next(row for size, row in table.items() if head_dim <= size)
