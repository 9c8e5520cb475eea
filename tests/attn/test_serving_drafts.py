"""Drafts: a tree needs one mask, and what is accepted has the exact law."""

import functools
import itertools
from collections import defaultdict
from fractions import Fraction

import pytest
import torch

import attn
from attn.serving import (
    Draft,
    ModelDraft,
    acceptance,
    prompt_lookup,
    rejection_sample,
    residual,
    speculative_decode,
    tree_mask,
    tree_positions,
    verify_greedy,
)
from tests.attn.models import V, ids, varied

# 0 - 1 - 3 - 6, with 2 beside 1, 4 and 5 beside 3 and 6.
PARENTS = [-1, 0, 0, 1, 1, 2, 3]


def path(parents, node):
    return [] if node < 0 else [*path(parents, parents[node]), node]


def test_a_node_sees_its_ancestors_itself_and_the_context():
    context = 3
    allowed = tree_mask(PARENTS, context).dense(context + len(PARENTS))[0, 0]
    for node in range(len(PARENTS)):
        row = allowed[context + node]
        assert row[:context].all(), "the whole context"
        seen = row[context:].nonzero()[:, 0].tolist()
        assert seen == path(PARENTS, node)
    assert torch.equal(allowed[:context], attn.causal().dense(3, 10)[0, 0])


def test_a_position_is_a_depth_not_an_index():
    assert tree_positions(PARENTS, 5).tolist() == [5, 6, 6, 7, 7, 7, 8]
    assert tree_positions([-1, -1, 1]).tolist() == [0, 0, 1]


def test_a_chain_is_causal():
    chain = list(range(-1, 6))
    dense = tree_mask(chain, 2).dense(9)
    assert torch.equal(dense, attn.causal().dense(9))
    assert torch.equal(tree_positions(chain), torch.arange(7))


def test_each_row_may_have_its_own_tree():
    rows = torch.tensor([[-1, 0, 0, 1], [-1, 0, 1, 1]])
    both = tree_mask(rows, 1).dense(5, batch=2)
    for row, parents in zip(both, rows, strict=True):
        assert torch.equal(row, tree_mask(parents, 1).dense(5)[0])
    positions = tree_positions(rows, 1)
    assert torch.equal(positions[1], tree_positions(rows[1], 1))


def test_a_tree_mask_is_for_as_many_keys_as_it_was_made_for():
    mask = tree_mask(PARENTS)
    with pytest.raises(ValueError, match="one entry for each key, 8; got 7"):
        mask.dense(8)


def test_parents_that_make_no_tree_are_refused():
    with pytest.raises(ValueError, match="got parent 1 of node 1"):
        tree_mask([-1, 1])
    with pytest.raises(ValueError, match="got parent -2 of node 0"):
        tree_positions([-2])
    with pytest.raises(ValueError, match=r"with a node; got \(0,\)"):
        tree_mask(torch.zeros(0, dtype=torch.long))
    with pytest.raises(TypeError, match="must be integers; got torch.float32"):
        tree_mask([0.5])


@functools.cache
def rope():
    return varied("rope")


@pytest.mark.parametrize("kind", ("rope", "gpt", "none"))
def test_one_forward_gives_each_node_the_logits_of_its_own_path(kind):
    net, context = varied(kind), ids(1, 4)
    tokens = torch.randint(
        V, (1, len(PARENTS)), generator=torch.Generator().manual_seed(1)
    )
    tokens[0, 2] = tokens[0, 1]  # two children of one token
    whole = torch.cat([context, tokens], 1)
    positions = torch.cat([torch.arange(4), tree_positions(PARENTS, 4)])
    with torch.no_grad():
        logits = net(whole, tree_mask(PARENTS, 4), positions=positions)[0, 4:]
        caches = [attn.DynamicCache() for _ in net.blocks]
        net(context, caches=caches)
        cached = net(
            tokens,
            tree_mask(PARENTS, 4),
            positions=tree_positions(PARENTS, 4),
            caches=caches,
        )[0]
        for node in range(len(PARENTS)):
            nodes = path(PARENTS, node)
            alone = net(torch.cat([context, tokens[:, nodes]], 1))[0, -1]
            for found in (logits[node], cached[node]):
                assert (found - alone).abs().max() < 1e-12


def one_hot(*tokens):
    return torch.eye(10)[list(tokens)]


def test_the_longest_path_that_greedy_decoding_takes_is_accepted():
    logits = one_hot(1, 2, 9, 7, 9)
    found = verify_greedy([-1, 0, 1, 1, 0], [5, 1, 3, 2, 4], logits)
    assert found == ([0, 1, 3], [1, 2, 7])
    nothing = verify_greedy([-1, 0], [5, 2], one_hot(1, 9))
    assert nothing == ([0], [1]), "still a token for each forward pass"


def test_a_node_below_a_rejected_one_is_rejected():
    logits = one_hot(1, 2, 3)
    assert verify_greedy([-1, 0, 1], [5, 4, 2], logits).nodes == [0]


def test_of_two_equal_children_the_one_that_goes_on_is_taken():
    logits = one_hot(1, 2, 2, 3)
    found = verify_greedy([-1, 0, 0, 2], [5, 1, 1, 2], logits)
    assert found == ([0, 2, 3], [1, 2, 3])


def test_a_tree_that_does_not_fit_its_logits_is_refused():
    with pytest.raises(ValueError, match="each of 2 parents; got 1 tokens"):
        verify_greedy([-1, 0], [5], one_hot(1, 2))
    with pytest.raises(ValueError, match="must have one root.*; got 2"):
        verify_greedy([-1, -1], [5, 6], one_hot(1, 2))


def test_a_draft_is_what_followed_the_same_tokens_before():
    text = [1, 2, 3, 4, 9, 2, 3, 5, 2, 3]
    assert prompt_lookup(text, 2, 3) == ([4, 9, 2], [-1, 0, 1])
    both = prompt_lookup(text, 2, 3, branches=2)
    assert both == ([4, 9, 2, 5, 2, 3], [-1, 0, 1, -1, 3, 4])
    assert prompt_lookup([1, 2, 3], 2, 3) == ([], [])
    assert prompt_lookup([1], 2, 3) == ([], [])


def test_branches_share_their_common_beginning():
    text = [7, 1, 2, 7, 1, 3, 7]
    assert prompt_lookup(text, 1, 2, branches=2) == ([1, 2, 3], [-1, 0, 0])


def test_a_draft_of_one_branch_is_that_of_transformers():
    from transformers.generation import candidate_generator

    theirs = candidate_generator.PromptLookupCandidateGenerator(
        num_output_tokens=4, max_matching_ngram_size=3, max_length=100
    )
    for seed in range(60):
        text = ids(1, 12, seed) % 4
        want, _ = theirs.get_candidates(text)
        found = prompt_lookup(text[0], 3, 4)
        assert found.tokens == want[0, 12:].tolist()
        assert found.parents == list(range(-1, len(found.tokens) - 1))


LOOKUP = functools.partial(prompt_lookup, ngram=2, k=4)
DRAFTS = {
    "chain": LOOKUP,
    "tree": functools.partial(LOOKUP, branches=3),
    "nothing": lambda text: Draft([], []),
    "wrong": lambda text: Draft([0, 0, 1], [-1, 0, -1]),
    "all": lambda text: Draft(list(range(V)), [-1] * V),
}


def perfect(net, second=False):
    """Return a draft of what comes next, behind a wrong branch or not."""

    def draft(text):
        new = attn.generate(net, torch.tensor([text]), 3)[0, len(text) :]
        right = new.tolist()
        if not second:
            return Draft(right, [-1, 0, 1])
        wrong = [(right[0] + 1) % V]
        return Draft([*wrong, *right], [-1, -1, 1, 2])

    return draft


@pytest.mark.parametrize("name", DRAFTS)
def test_whatever_the_draft_the_text_is_that_of_generate(name):
    for seed in range(2):
        prompt = ids(1, 7, seed)
        out = speculative_decode(rope(), prompt, 20, DRAFTS[name])
        assert torch.equal(out.ids, attn.generate(rope(), prompt, 20))
        assert len(set(out.ids[0, 7:].tolist())) > 2
        assert out.num_forwards <= 20
    if name == "all":
        assert out.num_forwards == 10, "one guess of each two is right"


@pytest.mark.parametrize("second", (False, True))
def test_a_perfect_draft_of_three_saves_three_passes_of_four(second):
    prompt = ids(1, 5)
    draft = perfect(rope(), second)
    out = speculative_decode(rope(), prompt, 20, draft)
    assert torch.equal(out.ids, attn.generate(rope(), prompt, 20))
    assert out.num_forwards == 5


@pytest.mark.parametrize("kind", ("alibi", "gpt", "window"))
def test_drafts_of_one_branch_suit_every_model(kind):
    options = {"window": (2, 0)} if kind == "window" else {}
    net = varied("rope" if options else kind, **options)
    prompt = ids(1, 5)
    out = speculative_decode(net, prompt, 12, perfect(net))
    assert torch.equal(out.ids, attn.generate(net, prompt, 12))
    if kind != "gpt":
        with pytest.raises(ValueError, match="no branches for a model with"):
            speculative_decode(net, prompt, 12, perfect(net, second=True))


@pytest.mark.parametrize("draft", ([1, 2], Draft([V], [-1]), Draft([1], [0])))
def test_what_is_no_draft_is_refused(draft):
    with pytest.raises((TypeError, ValueError), match="must .*; got "):
        speculative_decode(rope(), ids(1, 5), 9, lambda text: draft)


def test_a_smaller_model_drafts_its_own_text_and_reads_what_is_new():
    small, read = varied("rope", num_layers=1), []
    small.register_forward_pre_hook(lambda _, x: read.append(x[0].shape[1]))
    draft = ModelDraft(small, k=2, max_texts=2)
    a, b, c = [1, 2, 3], [4, 5], [7, 8]
    for text, unread in ((a, 3), (b, 2), ([*a, 6], 1), (c, 2), (b, 2), (c, 1)):
        read.clear()
        guess = draft(text)
        assert read == [unread, 1], "the oldest of three is forgotten"
        new = attn.generate(small, torch.tensor([text]), 2)[0, len(text) :]
        assert guess == (new.tolist(), [-1, 0])


def test_no_guess_is_read_beyond_the_last_token():
    """A model with learned positions has none for it."""
    net, prompt = varied("gpt"), ids(1, 5)  # 16 positions

    def draft(text):
        return Draft([1] * 6, list(range(-1, 5)))

    out = speculative_decode(net, prompt, 12, draft)
    assert torch.equal(out.ids, attn.generate(net, prompt, 12))


def test_a_text_ends_with_its_eos_within_a_draft():
    prompt = ids(1, 5)
    eos = int(attn.generate(rope(), prompt, 3)[0, -1])
    out = speculative_decode(rope(), prompt, 20, perfect(rope()), eos=eos)
    want = attn.generate(rope(), prompt, 20, eos=eos)
    assert torch.equal(out.ids, want)


# Every ratio and every edge is a multiple of 1 / 4: the middles of 4 equal
# parts are all the coins that matter.
P = torch.tensor([4, 2, 2, 0], dtype=torch.float64) / 8
Q = torch.tensor([2, 4, 0, 2], dtype=torch.float64) / 8
COINS = (torch.arange(4, dtype=torch.float64) + 0.5) / 4


def fractions(probs):
    return [Fraction(x) for x in probs.tolist()]


def law(draft, target, drafts):
    """Return the exact law of what comes out, over all drafts and coins.

    ``draft(prefix)`` and ``target(prefix)`` are the laws behind a prefix.
    """
    found = defaultdict(Fraction)
    for tokens in itertools.product(range(4), repeat=drafts):
        q = [draft(tokens[:i]) for i in range(drafts)]
        p = [target(tokens[:i]) for i in range(drafts + 1)]
        chance = Fraction(1)
        for row, token in zip(q, tokens, strict=True):
            chance *= Fraction(row[token].item())
        if not chance:
            continue
        for coins in itertools.product(COINS, repeat=drafts + 1):
            out = rejection_sample(
                tokens, torch.stack(q), torch.stack(p),
                coins=torch.stack(coins),
            )  # fmt: skip
            found[tuple(out)] += chance / len(COINS) ** (drafts + 1)
    return found


def test_the_law_of_two_tokens_is_exactly_the_models():
    """The second law depends on the first token."""
    rows = [P, P.flip(0), P.roll(1), P.roll(2)]

    def target(prefix):
        return rows[prefix[-1]] if prefix else P

    found = law(lambda prefix: Q.roll(len(prefix)), target, 2)
    first, pairs = defaultdict(Fraction), defaultdict(Fraction)
    for out, x in found.items():
        first[out[0]] += x
        if len(out) > 1:
            pairs[out[:2]] += x
    assert [first[t] for t in range(4)] == fractions(P)
    for token in range(4):
        total = sum(x for pair, x in pairs.items() if pair[0] == token)
        for second in range(4) if total else ():
            want = Fraction(target((token,))[second].item())
            assert pairs[token, second] / total == want


def test_as_many_are_accepted_as_both_laws_share():
    found = law(lambda _: Q, lambda _: P, 1)
    accepted = sum(x for out, x in found.items() if len(out) == 2)
    shared = sum(map(min, fractions(P), fractions(Q)))
    assert accepted == shared == Fraction(1, 2)


def test_acceptance_and_residual_are_the_formulas_of_the_paper():
    assert acceptance(P, Q).tolist() == [1, 0.5, 1, 0]
    assert residual(P, Q).tolist() == [0.5, 0, 0.5, 0]
    assert torch.equal(residual(P, P), P), "nothing is rejected there"
    for x in (acceptance(P, P * 0), acceptance(P * 0, P * 0)):
        assert x.isfinite().all()


def test_equal_laws_accept_every_token():
    probs = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    probs = probs.softmax(-1)
    g = torch.Generator().manual_seed(1)
    tokens = [int(torch.multinomial(x, 1, generator=g)) for x in probs[:3]]
    for _ in range(20):
        out = rejection_sample(tokens, probs[:3], probs, g)
        assert out[:3] == tokens and len(out) == 4


def test_random_numbers_repeat_from_a_generator_and_leave_others_alone():
    p, q = torch.stack([P, P]), Q[None]
    before = torch.get_rng_state()
    texts = [
        [
            rejection_sample([1], q, p, torch.Generator().manual_seed(i))
            for i in range(20)
        ]
        for _ in range(2)
    ]
    assert texts[0] == texts[1] and len({tuple(x) for x in texts[0]}) > 3
    assert torch.equal(torch.get_rng_state(), before)


def test_no_draft_is_plain_sampling():
    out = rejection_sample([], Q[None][:0], P[None], coins=COINS[:1])
    assert out == [0]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
def test_a_token_without_probability_never_comes_out(dtype):
    p = torch.stack([P, P]).to(dtype)
    for coin in (0.0, 1 - 1e-9):
        coins = torch.full((2,), coin, dtype=torch.float64)
        for token in (0, 1, 3):
            out = rejection_sample([token], Q[None].to(dtype), p, coins=coins)
            assert 3 not in out


def test_probabilities_that_did_not_draw_the_draft_are_refused():
    p = torch.stack([P, P])
    with pytest.raises(ValueError, match="after temperature and filters"):
        rejection_sample([2], Q[None], p)
    with pytest.raises(ValueError, match=r"shape \(2, V\) for 1 drafted"):
        rejection_sample([1], Q[None], P[None])
    with pytest.raises(ValueError, match="each row with sum 1.*softmax"):
        rejection_sample([1], Q[None] * 2, p)
    with pytest.raises(ValueError, match=r"coins must have shape \(2,\)"):
        rejection_sample([1], Q[None], p, coins=torch.ones(2))
    with pytest.raises(TypeError, match="must be a float tensor; got torch"):
        rejection_sample([1], Q[None].long(), p)
