"""List each kernel's tile sizes, warps and stages.

No autotuning: a table that can be read. Each row is the largest found to
spill next to nothing, by ``compile_report()``; only a GPU can show which of
those that fit is the fastest. Rows for ``ANY`` use at most the 99 KB of
shared memory that the smallest GPUs since sm_80 have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "Config",
    "config_of",
    "replaced",
]

ANY = 0  # every GPU without its own row


class Config(NamedTuple):
    """One row of the table."""

    block_l: int  # rows of the output, or of queries
    block_s: int  # keys at a time
    num_warps: int
    num_stages: int  # loads in flight
    why: str


# By head_dim (up to), and GPU (90 is sm_90); in half precision, and float32.
Table = dict[tuple[int, int], Config]
_FORWARD: Table = {
    (64, ANY): Config(128, 64, 4, 3, "small tiles leave room for 3 loads"),
    (128, ANY): Config(128, 64, 8, 3, "8 warps: with 4 the output spills"),
    (128, 90): Config(128, 128, 8, 2, "keys stay in shared memory: more"),
    (256, ANY): Config(64, 32, 8, 2, "64 rows of 256 fill the registers"),
}
_DKDV: Table = {
    (64, ANY): Config(32, 128, 8, 2, "two accumulators: 8 warps, or spills"),
    (64, 90): Config(64, 128, 8, 2, "registers are free: 64 queries"),
    (128, ANY): Config(32, 64, 8, 2, "with 64 queries or 128 keys it spills"),
    (128, 100): Config(32, 64, 8, 1, "a second load in flight spills"),
    (256, ANY): Config(32, 32, 8, 1, "what fits"),
}
_DQ: Table = {
    (64, ANY): Config(128, 64, 8, 2, "one accumulator, as forward"),
    (128, ANY): Config(64, 64, 8, 2, "8 warps share it"),
    (128, 90): Config(128, 64, 8, 2, "keys stay in shared memory: more"),
    (128, 100): Config(128, 64, 8, 2, "as above"),
    (256, ANY): Config(64, 32, 8, 1, "what fits"),
}
_DECODE: Table = {
    (128, ANY): Config(16, 64, 4, 2, "few rows: many small programs"),
    (256, ANY): Config(16, 32, 4, 2, "what fits twice"),
}

# No tensor cores in float32: each product is spread over more registers.
_FORWARD_SINGLE: Table = {
    (64, ANY): Config(64, 32, 8, 2, "twice the room for each number"),
    (128, ANY): Config(32, 64, 8, 1, "a second load in flight spills"),
    (256, ANY): Config(16, 32, 8, 1, "what fits"),
}
_DKDV_SINGLE: Table = {
    (64, ANY): Config(32, 32, 8, 1, "two accumulators"),
    (128, ANY): Config(16, 32, 8, 1, "as above"),
    (256, ANY): Config(16, 16, 4, 1, "what fits"),
}
_DECODE_SINGLE: Table = {
    (64, ANY): Config(16, 64, 4, 2, "as in half precision"),
    (128, ANY): Config(16, 32, 8, 2, "8 warps: with 4 it spills"),
    (256, ANY): Config(16, 16, 4, 2, "what fits twice"),
}
_DQ_SINGLE: Table = {
    (64, ANY): Config(32, 32, 8, 1, "one accumulator"),
    (128, ANY): Config(32, 32, 8, 1, "as above"),
    (256, ANY): Config(16, 32, 8, 1, "what fits"),
}

_TABLES = {
    "forward": (_FORWARD, _FORWARD_SINGLE),
    "dkdv": (_DKDV, _DKDV_SINGLE),
    "dq": (_DQ, _DQ_SINGLE),
    "decode": (_DECODE, _DECODE_SINGLE),
}


def config_of(
    kernel: str, head_dim: int, itemsize: int, arch: int = ANY
) -> Config:
    """Return the tiles of a kernel.

    Args:
        kernel: "forward", "dkdv", "dq" or "decode", whose rows are 16 or
            more whatever the table has.
        head_dim: the larger of ``D`` and ``Dv``, at most 256.
        itemsize: bytes of an element.
        arch: compute capability times ten; ``ANY`` when unknown.
    """
    table, size = _table(kernel, head_dim, itemsize)
    return table.get((size, arch), table[size, ANY])


@contextlib.contextmanager
def replaced(
    kernel: str, head_dim: int, itemsize: int, arch: int, config: Config
) -> Iterator[None]:
    """Put another row in the place of the shipped one, to measure it.

    Args:
        kernel, head_dim, itemsize, arch: as in ``config_of``.
        config: the row.
    """
    table, size = _table(kernel, head_dim, itemsize)
    before = table.get((size, arch))
    table[size, arch] = config
    try:
        yield
    finally:
        if before is None:
            del table[size, arch]
        else:
            table[size, arch] = before


def _table(kernel: str, head_dim: int, itemsize: int) -> tuple[Table, int]:
    table = _TABLES[kernel][itemsize == 4]
    return table, min(size for size, _ in table if head_dim <= size)
