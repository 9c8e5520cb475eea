"""Chosen keys: the best few tokens or blocks of each query, as a mask."""

import pytest
import torch

import attn
from attn.masks import compressed, top_k, top_k_blocks
from tests.attn.cases import randn32 as draw
from tests.attn.refusals import refused


def best(row, k):
    """Return the indices of the best k, the lowest first among equals."""
    order = sorted(range(len(row)), key=lambda i: (-row[i], i))
    return set(order[:k])


# --- tokens ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 7), (2, 7, 7), (2, 3, 7, 7)])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_each_query_keeps_its_best_keys_that_it_may_attend_to(shape, k):
    scores = draw(*shape)
    full = scores if scores.dim() == 4 else scores.view(-1, 1, 7, 7)
    B, H = full.shape[:2]
    chosen = top_k(scores, k, attn.causal()).dense(7, batch=B, heads=H)
    for b in range(B):
        for h in range(H):
            for i in range(7):
                want = best(full[b, h, i, : i + 1].tolist(), k)
                got = chosen[b, h, i].nonzero().flatten().tolist()
                assert set(got) == want


def test_of_equal_scores_the_lowest_index_wins_and_never_more_than_k():
    chosen = top_k(torch.zeros(2, 5, 300), 7, attn.causal(), q_offset=295)
    dense = chosen.dense(5, 300, batch=2, q_offset=295)
    assert (dense.sum(-1) == 7).all()
    assert dense[..., :7].all()


def test_a_key_with_minus_infinity_is_never_chosen():
    x = torch.tensor([[1.0, -torch.inf, -torch.inf]])
    assert top_k(x, 2).dense(1, 3)[0, 0].tolist() == [[True, False, False]]
    nothing = torch.full((1, 3), -torch.inf)
    assert not top_k(nothing, 2).dense(1, 3).any()


def test_keys_that_are_always_kept_count_in_k():
    scores = draw(1, 12, 12)
    own = attn.sliding_window(2)
    mask = top_k(scores, 3, attn.causal(), always=own)
    dense = mask.dense(12)[0, 0]
    assert dense.sum(-1).max() == 3
    assert (dense | ~own.dense(12)[0, 0]).all()
    with pytest.raises(ValueError, match="at most k = 1 .*; got 2"):
        top_k(scores, 1, attn.causal(), always=own)


def test_padding_is_never_chosen():
    valid = torch.tensor([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]]).bool()
    limits = attn.causal() & attn.padding(valid)
    dense = top_k(draw(2, 6, 6), 3, limits).dense(6, batch=2)[:, 0]
    assert not (dense & ~valid[:, None]).any()
    same = top_k(draw(2, 6, 6), 3, limits.dense(6, batch=2)[:, 0])
    assert torch.equal(same.dense(6, batch=2)[:, 0], dense)


def test_a_decoded_token_chooses_as_it_does_in_the_whole_text():
    scores = draw(2, 9, 9)
    whole = top_k(scores, 3, attn.causal()).dense(9, batch=2)
    last = top_k(scores[:, 6:], 3, attn.causal(), q_offset=6)
    part = last.dense(3, 9, batch=2, q_offset=6)
    assert torch.equal(part, whole[:, :, 6:])
    moved = top_k(scores, 3, attn.causal()).shift(q=6)
    assert torch.equal(moved.dense(3, 9, batch=2), part)
    by_row = torch.tensor([6, 6])
    rows = top_k(scores[:, 6:], 3, attn.causal(), q_offset=by_row)
    assert torch.equal(rows.dense(3, 9, batch=2, q_offset=by_row), part)


def test_the_mask_hides_all_positions_that_it_was_not_made_for():
    mask = top_k(draw(2, 4), 2, q_offset=3)
    assert "top_k(2" in repr(mask & attn.causal())
    with pytest.raises(ValueError, match="one entry for each query"):
        mask.dense(3, 4, q_offset=3)
    with pytest.raises(ValueError, match="one entry for each key, 5; got 4"):
        mask.dense(2, 5, q_offset=3)
    assert not mask(*(torch.tensor(x) for x in (0, 0, 2, 1)))


def test_the_choice_passes_no_gradient():
    scores = draw(5, 5).requires_grad_()
    assert not top_k(scores, 2, attn.causal()).dense(5).requires_grad


# --- blocks ------------------------------------------------------------------


def by_loops(query, key, size, k, pool, start=0):
    """Choose blocks one query at a time."""
    B, H, L, _ = query.shape
    Hkv, S = key.shape[1], key.shape[2]
    chosen = torch.zeros(B, H, L, S, dtype=torch.bool)
    for b in range(B):
        for g in range(Hkv):
            heads = range(g * (H // Hkv), (g + 1) * (H // Hkv))
            for i in range(L):
                own = (i + start) // size
                scores = []
                for n in range(own):
                    block = key[b, g, n * size : (n + 1) * size]
                    total = 0.0
                    for h in heads:
                        q = query[b, h, i]
                        if pool == "mean":
                            total += float(q @ block.mean(0))
                        else:
                            total += float((q * block).amax(0).sum())
                    scores.append(total)
                for n in {own} | best(scores, k - 1):
                    end = min((n + 1) * size, i + start + 1)
                    chosen[b, list(heads), i, n * size : end] = True
    return chosen


@pytest.mark.parametrize("pool", ["mean", "bounds"])
@pytest.mark.parametrize("L", [12, 14])  # 14: the last block is short
@pytest.mark.parametrize("k", [1, 2, 9])
def test_blocks_are_those_that_a_loop_chooses(pool, L, k):
    query, key = draw(2, 4, L, 8), draw(2, 2, L, 8, seed=1)
    mask = top_k_blocks(query, key, 4, k, pool=pool)
    dense = mask.dense(L, batch=2, heads=4)
    assert torch.equal(dense, by_loops(query, key, 4, k, pool))


def test_a_decoded_token_chooses_the_blocks_of_the_whole_text():
    query, key = draw(2, 4, 15, 8), draw(2, 2, 15, 8, seed=1)
    whole = top_k_blocks(query, key, 4, 2).dense(15, batch=2, heads=4)
    for start in (12, torch.tensor([12, 12])):
        mask = top_k_blocks(query[:, :, 12:], key, 4, 2, q_offset=start)
        part = mask.dense(3, 15, batch=2, heads=4, q_offset=start)
        assert torch.equal(part, whole[:, :, 12:])


def test_a_block_without_a_key_that_may_attend_is_not_chosen():
    query, key = draw(1, 1, 12, 4), draw(1, 1, 12, 4, seed=1)
    texts = torch.tensor([0] * 6 + [1] * 6)
    mask = top_k_blocks(query, key, 2, 2, mask=attn.documents(texts))
    dense = mask.dense(12)[0, 0]
    assert not dense[6:, :6].any()
    assert (dense[8:10].sum(-1) == torch.tensor([3, 4])).all()  # k is used


@pytest.mark.exhaustive
def test_flex_attention_skips_what_no_query_of_a_block_chose():
    query, key = draw(1, 2, 64, 8), draw(1, 2, 64, 8, seed=1)
    mask = top_k_blocks(query, key, 16, 2)
    blocks = mask.block_mask(64, batch=1, heads=2, block_size=16)
    dense = mask.dense(64, heads=2)
    tiles = dense.unflatten(-1, (4, 16)).unflatten(2, (4, 16))
    assert torch.equal(blocks.to_dense().bool(), tiles.any(-1).any(3))


def blocks(**changes):
    call = {"query": draw(1, 4, 4, 2), "key": draw(1, 2, 4, 2)}
    return top_k_blocks(**{**call, "block_size": 2, "k": 1} | changes)


REFUSED = {
    "mask must be bool": lambda: top_k(draw(3, 3), 1, torch.ones(3, 3)),
    "scores must be a tensor": lambda: top_k(draw(3), 1),
    "k must be an int, at least 1": lambda: top_k(draw(3, 3), 0),
    "scores must be numbers; got NaN": (
        lambda: top_k(draw(3, 3) * torch.nan, 1)
    ),
    "q_offset must be given for 2 queries and 5 keys": (
        lambda: top_k(draw(2, 5), 1, attn.causal())
    ),
    r"mask must broadcast to the scores, \(3, 3\)": (
        lambda: top_k(draw(3, 3), 1, torch.ones(2, 4).bool())
    ),
    "block_size must be an int, at least 1": lambda: blocks(block_size=0),
    "^k must be an int, at least 1": lambda: blocks(k=0),
    "pool must be one of .*; got 'max'": lambda: blocks(pool="max"),
    "multiple of key's heads": lambda: blocks(key=draw(1, 3, 4, 2)),
    "head_dim of query": lambda: blocks(key=draw(1, 2, 4, 3)),
    "q_offset must be given": lambda: blocks(key=draw(1, 2, 6, 2)),
    "key must be a tensor": lambda: blocks(key=draw(2, 4, 2)),
}
test_a_wrong_choice_is_refused = refused(REFUSED)


# --- compressed entries ------------------------------------------------------


def test_an_entry_is_visible_from_the_last_token_of_its_block():
    dense = compressed(4).dense(13, 3)[0, 0]
    first = dense.int().argmax(0).tolist()
    assert first == [3, 7, 11]
    assert dense.sum(-1).tolist() == [(i + 1) // 4 for i in range(13)]
