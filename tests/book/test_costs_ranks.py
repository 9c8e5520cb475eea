"""Bytes between ranks on the cost sheet, against those that are counted."""

from __future__ import annotations

import pytest

from attn.distributed import traffic
from tests.book.cost_sheet import PAGE, values

HEADING = "Bytes that a rank sends"
SCHEMES = {
    "ring:": "ring",
    "all-gather:": "all_gather",
    "all-to-all:": "ulysses",
    "by heads": "heads",
    "one step": "decode",
}


@pytest.mark.parametrize("ranks", (1, 2))
def test_bytes_on_the_page_equal_the_counted_ones(ranks):
    sizes = {"B": 2, "L": 12, "H": 6, "Hkv": 2, "D": 8}
    names = ("batch", "seq_len", "num_heads", "num_kv_heads", "head_dim")
    call = dict(zip(names, sizes.values(), strict=True))
    for start, scheme in SCHEMES.items():
        line = values(HEADING, start, R=ranks, **sizes)
        passes = [traffic(scheme, ranks, **call)]
        if scheme != "decode":
            passes.append(traffic(scheme, ranks, **call, backward=True))
        assert line == passes, scheme
    assert len(PAGE[HEADING]) == len(SCHEMES)
