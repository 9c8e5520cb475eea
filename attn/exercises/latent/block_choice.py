"""Cases and properties of ``latent-block_choice``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def block_choice(
    query: Tensor, key: Tensor, block_size: int, k: int
) -> Tensor:
    """Choose for a query after another, among the blocks before its own."""
    B, H, L, _ = query.shape
    G = H // key.shape[1]
    keep = torch.zeros(B, H, L, L, dtype=torch.bool)
    for i in range(L):
        own = i // block_size
        keep[:, :, i, own * block_size : i + 1] = True
        if own == 0 or k == 1:
            continue
        means = key[:, :, : own * block_size].unflatten(2, (own, -1)).mean(3)
        shared = query[:, :, i].unflatten(1, (-1, G)).sum(2)  # (B, Hkv, D)
        scores = (means @ shared[..., None])[..., 0]  # (B, Hkv, own)
        best = scores.topk(min(k - 1, own), -1).indices
        chosen = torch.zeros_like(scores).bool().scatter(-1, best, True)
        chosen = chosen.repeat_interleave(block_size, -1)
        keep[:, :, i, : own * block_size] = chosen.repeat_interleave(G, 1)
    return keep


SIZES = {  # B, H, Hkv, L, D, block_size, k
    "there is one block": [(1, 1, 1, 3, 4, 6, 2), (2, 2, 1, 5, 4, 5, 1)],
    "k is 1, so that each query reads its own block": [
        (1, 2, 2, 9, 4, 3, 1),
        (2, 2, 1, 10, 5, 3, 1),
    ],
    "there are fewer earlier blocks than k": [
        (1, 1, 1, 7, 4, 3, 4),
        (2, 2, 2, 8, 3, 2, 9),
    ],
    "every key head has one query head": [
        (1, 1, 1, 20, 4, 3, 3),
        (2, 3, 3, 18, 5, 3, 3),
    ],
    "query heads share a key head": [
        (1, 4, 1, 20, 5, 3, 3),
        (2, 4, 2, 21, 6, 3, 4),
        (2, 6, 3, 18, 5, 2, 3),
        (1, 6, 2, 23, 5, 5, 3),
    ],
    "the last block has fewer keys": [(2, 2, 1, 17, 5, 5, 2)],
    "a block is one key": [(2, 2, 1, 9, 5, 1, 3)],
    "axes have the same length": [
        (4, 4, 4, 4, 4, 1, 2),
        (2, 2, 2, 8, 2, 2, 2),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        H: int,
        Hkv: int,
        L: int,
        D: int,
        block_size: int,
        k: int,
    ) -> Case:
        query, key = g.randn(B, H, L, D), g.randn(B, Hkv, L, D)
        return Case(when, (query, key, block_size, k))

    for when, sizes in entries(SIZES):
        yield case(when, *sizes)
    when = "later keys score highest"
    future = case(when, 2, 2, 2, 18, 5, 3, 3)
    query, key = future.args[:2]
    query[..., 0] = 3.0
    key[..., 0] = torch.arange(18) * 0.7
    yield future
    when = "a query's own block scores lowest"
    lowest = case(when, 1, 2, 1, 15, 5, 3, 3)
    query, key = lowest.args[:2]
    query[..., 0] = 3.0
    key[..., 0] = torch.arange(15) * -0.7
    yield lowest
    when = "all scores are large, above or below zero"
    for sign in (1, -1):
        large = case(when, 1, 2, 1, 18, 4, 3, 3)
        query, key = large.args[:2]
        query[..., 0] = sign * 300.0
        key[..., 0] = torch.arange(18)[torch.randperm(18, generator=g)] + 90.0
        yield large
    when = "one key of a block is large, and its mean is not"
    spiky = case(when, 1, 2, 1, 18, 4, 3, 2)
    query, key = spiky.args[:2]
    query[..., 0] = 2.0
    key[..., 0] = torch.tensor([9, -9, -9, 2, 2, 2.0]).repeat(3)
    yield spiky


def _bool(case: Case, out: Any) -> bool:
    query = case.args[0]
    return (
        isinstance(out, Tensor)
        and out.dtype == torch.bool
        and out.shape == (*query.shape[:-1], query.shape[-2])
    )


def _causal(case: Case, out: Any) -> bool:
    return not _bool(case, out) or not out.triu(1).any()


def _own(case: Case, out: Any) -> bool:
    if not _bool(case, out):
        return True
    own = torch.arange(out.shape[-1]) // case.args[2]
    same = (own == own[:, None]).tril()
    return bool((out | ~same).all())


def _shared(case: Case, out: Any) -> bool:
    if not _bool(case, out):
        return True
    groups = out.unflatten(1, (case.args[1].shape[1], -1))
    return torch.equal(groups, groups[:, :, :1].expand_as(groups))


exercise = Exercise(
    id="latent-block_choice",
    points=3,
    reference=block_choice,
    cases=_cases,
    also=(views(), ones("B H Hkv")),
    properties=(
        Property(
            "The result is a bool tensor, (B, H, L, L): the choice of each "
            "query head.",
            _bool,
        ),
        Property("A query reads a key that comes after it.", _causal),
        Property(
            "A query does not read all of its own block up to itself, which "
            "it always does, whatever the scores say.",
            _own,
        ),
        Property(
            "Query heads that share a key head read different keys.", _shared
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[1].shape[2] > c.args[2],
        "H = 1": lambda c: 1 < c.args[1].shape[1] < c.args[0].shape[1],
        "L = S": lambda c: c.args[0].shape[2] % c.args[2],
        "contiguous strides": is_view,
    },
)
