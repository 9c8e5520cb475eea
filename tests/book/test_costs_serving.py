"""The cost sheet on serving and on ranks, counted in the package."""

import itertools
from fractions import Fraction
from statistics import mean

import pytest
import torch

import attn
from attn.distributed import traffic
from attn.serving import rejection_sample
from tests.book.cost_sheet import PAGE, formulas, value, values, x

P, C, T = 4, 8, 2


def line(start, **sizes):
    (tex,) = formulas("Serving", start)
    return value(tex, **sizes)


def test_pages_on_the_page_are_those_of_a_paged_cache():
    assert len(PAGE["Serving"]) == 4
    S = C + P
    pool = attn.PagePool(9, P, x.Hkv, x.D, dtype=torch.bfloat16)
    first = attn.PagedCache(pool, 1)
    new = torch.zeros(1, x.Hkv, C, x.D, dtype=torch.bfloat16)
    first.update(new, new)
    assert first.nbytes * x.N == C // P * line("bytes of a page", P=P)
    first.reorder(torch.zeros(x.B, dtype=torch.long))  # B rows share it
    own = new[:, :, :P].expand(x.B, -1, -1, -1)
    first.update(own, own)
    stored = line("the beginning stored once", C=C, S=S)
    assert first.nbytes * x.N == stored


def test_half_a_page_is_empty_on_average():
    pages = attn.PageAllocator(1, P)
    empty = [pages.pages_for(n) * P - n for n in range(1, 10 * P + 1)]
    assert mean(empty) == line("empty places", P=P)


def test_a_pass_yields_as_many_tokens_as_the_page_says():
    """Over all drafts and coins, whose edges are multiples of 1 / 4."""
    p = torch.tensor([4, 2, 2, 0], dtype=torch.float64) / 8
    q = torch.tensor([2, 4, 0, 2], dtype=torch.float64) / 8
    a = sum(map(Fraction, torch.minimum(p, q).tolist()))
    coins = (torch.arange(4, dtype=torch.float64) + 0.5) / 4
    laws = q.expand(T, 4), p.expand(T + 1, 4)
    tokens = Fraction(0)
    for draft in itertools.product((0, 1, 3), repeat=T):
        chance = Fraction(q[list(draft)].prod().item()) / 4**T
        for tossed in itertools.product(coins, repeat=T):
            # The last coin chooses a token, and not whether there is one.
            tossed = torch.stack([*tossed, coins[0]])
            passed = rejection_sample(draft, *laws, coins=tossed)
            tokens += chance * len(passed)
    assert tokens == line("tokens of a forward pass", a=a, T=T)


# --- between ranks, against the bytes that are counted -----------------------


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
