"""Attention over several processes, on ``torch.distributed``.

``launch`` starts processes from a notebook and names one that fails.
``ring_attention`` and its relatives compute the attention of a sequence of
which each process has a part; ``traffic`` counts what they send.
"""

from attn.distributed.decode import decode_attention
from attn.distributed.exchange import Sent, count_sent
from attn.distributed.gather import all_gather_attention
from attn.distributed.launch import launch
from attn.distributed.ring import ring_attention
from attn.distributed.sharding import shard, shard_positions, unshard
from attn.distributed.traffic import traffic
from attn.distributed.ulysses import (
    HeadShard,
    shard_heads,
    ulysses_attention,
)
from attn.distributed.watch import RankError

__all__ = [
    "launch",
    "RankError",
    "shard_positions",
    "shard",
    "unshard",
    "ring_attention",
    "all_gather_attention",
    "ulysses_attention",
    "decode_attention",
    "shard_heads",
    "HeadShard",
    "traffic",
    "count_sent",
    "Sent",
]
