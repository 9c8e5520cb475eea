"""Bake ALiBi's slopes for each number of heads.

python -m book.figures.alibi_reach
"""

from __future__ import annotations

import attn
from book.figures.bake import bake

HEADS, LENGTH = 16, 64  # at most, and tokens


def numbers() -> dict[str, object]:
    return {
        "length": LENGTH,
        "slopes": {
            heads: [float(f"{x:.7g}") for x in attn.alibi_slopes(heads)]
            for heads in range(1, HEADS + 1)
        },
    }


if __name__ == "__main__":
    bake("alibi_reach", numbers())
