"""References outside the library agree with autograd and transformers."""

import pytest
import torch
from torch.testing import assert_close

from attn.exercises.ring.lockstep import run_ranks, shards
from attn.exercises.ring.texts import CROSSED
from attn.exercises.spec import find
from attn.functional import scaled_dot_product_attention
from attn.grading.checks.clock import Clock


def attended(query, key, value, is_causal=False):
    """Return what one machine computes: the output, and its log-sum-exp."""
    options = {"is_causal": is_causal, "enable_gqa": True, "return_lse": True}
    return scaled_dot_product_attention(query, key, value, **options)


def backward(tensors, d_out, is_causal):
    """Return what a backward gets of one machine, and what it gives."""
    leaves = [x.clone().requires_grad_() for x in tensors]
    out, lse = attended(*leaves, is_causal)
    grads = torch.autograd.grad(out, leaves, d_out)
    return (*tensors, out.detach(), lse.detach(), d_out), grads


@pytest.mark.parametrize("seed", range(3))
def test_the_tiled_backward_equals_autograd(seed):
    exercise = find("flash-tiled_backward")
    for case in exercise.generate(seed):
        *tensors, _, _, d_out = (x.double() for x in case.args[:6])
        is_causal = case.kwargs.get("is_causal", case.args[8:] == (True,))
        given, expected = backward(tensors, d_out, is_causal)
        got = exercise.reference(*given, 3, 4, is_causal)
        for x, y in zip(got, expected, strict=True):
            assert_close(x, y, rtol=1e-9, atol=1e-10)


def test_masks_equal_those_that_transformers_makes():
    theirs = pytest.importorskip("transformers.masking_utils")
    exercise = find("iface-mask_function")
    for case in exercise.generate(0):
        kwargs = dict(case.kwargs)
        if (padding := kwargs["attention_mask"]) is not None:
            kwargs["attention_mask"] = padding.bool()
        expected = theirs.sdpa_mask(
            **kwargs,
            allow_is_causal_skip=False,
            allow_is_bidirectional_skip=False,
        )
        got = exercise.reference(**case.kwargs)
        assert torch.equal(got, expected.expand(got.shape)), case


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_bidirectional_llama_equals_the_librarys(implementation):
    pytest.importorskip("transformers")
    from attn import hf

    exercise = find("iface-bidirectional_llama")

    def library(model):
        made = hf.bidirectional_llama(model.config)
        made.load_state_dict(model.state_dict())
        torch.nn.init.zeros_(made.embed_tokens.weight)
        return made.eval()

    for case in exercise.generate(0):
        x, mask, _, *rest = case.args
        ours, theirs = (
            exercise.use(answer, x, mask, implementation, *rest)
            for answer in (exercise.reference, library)
        )
        states = ours.pop("states"), theirs.pop("states")
        assert_close(*states)
        words = ours.pop("embed_tokens"), theirs.pop("embed_tokens")
        assert torch.equal(*words)
        assert ours.pop("is the model that was given")
        assert not theirs.pop("is the model that was given")  # a class
        assert ours.pop("runs under") == implementation
        assert theirs.pop("runs under") == "attn"  # where none is named
        assert ours == theirs


def own_messages(exercise, seed=0):
    """Return the cases in which ranks get what the others send to them."""
    cases = [*exercise.generate(seed)]
    own = [x for x in cases if x.args[-1] != CROSSED]
    assert len(own) < len(cases)
    return own


def test_a_crossed_run_has_the_tensors_of_its_messages():
    exercise = find("ring-ring_forward")
    crossed = [x for x in exercise.generate(0) if x.args[-1] == CROSSED]
    for case in crossed:
        query, key, value, world_size, layout, is_causal, _ = case.args
        got = exercise.use(exercise.reference, *case.args)
        for rank in range(world_size):
            halves = (0.5 * x for x in (query, key, value))
            out, _ = attended(*halves, is_causal)
            part = shards(out, world_size, layout)[rank]
            assert_close(got[f"out of rank {rank}"], part)


def assert_shared(got, name, whole, world_size, layout):
    """Each rank has its own part of a tensor of one machine."""
    for rank, part in enumerate(shards(whole, world_size, layout)):
        mine = got[f"{name} of rank {rank}"].view_as(part)
        assert_close(mine, part, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(2))
def test_the_ring_backward_equals_autograd_on_one_machine(seed):
    exercise = find("ring-ring_backward")
    for case in own_messages(exercise, seed):
        *tensors, _, _, d_out = (x.double() for x in case.args[:6])
        world_size, *options = case.args[6:]
        layout, is_causal = options or ("contiguous", False)
        given, grads = backward(tensors, d_out, is_causal)
        got = exercise.use(exercise.reference, *given, world_size, *options)
        for name, whole in zip(("dq", "dk", "dv"), grads, strict=True):
            assert_shared(got, name, whole, world_size, layout)


@pytest.mark.parametrize("name", ["ring_forward", "all_to_all_heads"])
def test_attention_of_many_ranks_equals_that_of_one(name):
    exercise = find(f"ring-{name}")
    for case in own_messages(exercise):
        *tensors, world_size = (
            x.double() if torch.is_tensor(x) else x for x in case.args[:4]
        )
        options = case.args[4:]
        layout = options[0] if len(options) == 2 else "contiguous"
        layout = layout if name == "ring_forward" else "contiguous"
        out, lse = attended(*tensors, options[-1] if options else False)
        got = exercise.use(exercise.reference, *tensors, world_size, *options)
        assert_shared(got, "out", out, world_size, layout)
        if name == "ring_forward":
            assert_shared(got, "lse", lse[..., None], world_size, layout)


def test_decoding_against_a_spread_cache_equals_a_whole_one():
    exercise = find("ring-decode_attention")
    for case in own_messages(exercise):
        query, *parts = case.args
        key, value = (torch.cat(x, 2) for x in parts)
        expected, _ = attended(query.double(), key.double(), value.double())
        got = exercise.use(exercise.reference, query, *parts)
        for rank in range(len(parts[0])):
            mine = got[f"out of rank {rank}"].double()
            assert_close(mine, expected, rtol=2e-4, atol=1e-5)


def test_a_rank_that_is_silent_is_named_and_nothing_hangs():
    def work(rank, link):
        return link.gather() if rank != 1 else None

    with pytest.raises(RuntimeError, match="rank 1 has sent 0 times"):
        run_ranks(work, 3)


@pytest.mark.parametrize(("early", "counted"), [(True, 1), (False, 0)])
def test_a_tensor_that_changes_on_its_way_is_counted(early, counted):
    def work(rank, link):
        block = torch.full((2,), float(rank))
        for _ in range(2):
            wait = link.shift(block)
            if early and rank == 1:
                block += 1
            (block,) = wait()
            block += 1
        return block

    _, links = run_ranks(work, 3)
    assert [link.changed for link in links] == [0, 2 * counted, 0]


def test_the_tree_of_drafts_ends_where_its_parents_form_a_circle():
    """A diagnosis tries inputs that no case has: parents read backwards."""
    tree_mask = find("serve-tree_mask").reference
    with Clock(limit=2).running():
        mask, positions = tree_mask(torch.tensor([1, 0]), 3)
    assert mask.shape == (2, 5)
    assert positions.shape == (2,)


def test_a_step_of_the_delta_rule_equals_the_librarys():
    from attn.linear import gated_delta_rule

    g = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 1, 4, generator=g).double()
    state = torch.randn(2, 3, 4, 4, generator=g).double()
    decay = -torch.rand(2, 3, generator=g).double()
    beta = 2 * torch.rand(2, 3, generator=g).double()
    got = find("linear-gated_delta_step").reference(
        state, query[..., 0, :], key[..., 0, :], value[..., 0, :], decay, beta
    )
    out, last = gated_delta_rule(
        *(query, key, value, decay[..., None], beta[..., None]),
        initial_state=state,
        output_final_state=True,
    )
    for x, y in zip(got, (out[..., 0, :], last), strict=True):
        assert_close(x, y, rtol=1e-5, atol=1e-6)


def test_linear_attention_equals_the_librarys():
    from attn.linear import linear_attention

    g = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 7, 4, generator=g).double()
    out, (S, z) = find("linear-linear_attention").reference(query, key, value)
    expected, state = linear_attention(
        *(query, key, value),
        feature_map="elu",
        normalize=True,
        scale=1.0,
        output_final_state=True,
    )
    assert_close(out, expected)
    assert_close(torch.cat([S, z[..., None]], -1), state)


def test_a_scheduled_step_equals_that_of_the_librarys_scheduler():
    from attn import PageAllocator
    from attn.serving import Request, Scheduler

    reference = find("serve-schedule").reference
    g = torch.Generator().manual_seed(0)
    limits = {"max_num_seqs": 99, "max_num_batched_tokens": 24}
    for num_pages in (14, 20, 60):
        scheduler = Scheduler(PageAllocator(num_pages, 4), **limits)
        for name in "abcdefgh":
            prompt, answer = torch.randint(1, 24, (2,), generator=g).tolist()
            scheduler.add(Request(name, [1] * prompt, answer))
        while scheduler.has_unfinished:
            running = {
                x.id: (x.num_computed_tokens, x.num_tokens)
                for x in scheduler.running
            }
            waiting = {x.id: x.num_tokens for x in scheduler.waiting}
            free = len(scheduler.pool.free_pages)
            counts, *names = reference(running, waiting, free, 4, 24)
            step = scheduler.schedule()
            assert dict(step.num_scheduled_tokens) == counts
            assert list(step.preempted) == names[0]
            assert set(step.samples) == set(names[1])
            scheduler.update(step, dict.fromkeys(step.samples, 1))


def answers(exercise_id):
    """Each case's arguments, and what the reference makes of them."""
    exercise = find(exercise_id)
    for case in exercise.generate(0):
        yield case.args, exercise.reference(*case.args)


def test_pages_match_as_in_the_librarys_prefix_cache():
    from attn import PageAllocator
    from attn.serving import PrefixCache

    for (cached, ids, page_size), got in answers("serve-match_prefix"):
        pool = PageAllocator(500, page_size)
        pool.free_pages.clear()
        prefixes = PrefixCache(pool)
        for old, pages in cached:
            for page in pages:
                pool.ref_counts[page] = max(pool.ref_counts[page], 1)
            prefixes.insert(old, pages)
        match = prefixes.match_prefix(ids)
        assert (list(match.pages), match.length) == got, ids


def test_trees_pages_and_acceptance_are_those_of_the_library():
    from attn import serving

    for (parents, seq_len), (mask, positions) in answers("serve-tree_mask"):
        N = len(parents)
        theirs = serving.tree_mask(parents, seq_len)
        dense = theirs.dense(N, seq_len + N, q_offset=seq_len)[0, 0]
        assert torch.equal(mask, dense)
        assert torch.equal(positions, serving.tree_positions(parents, seq_len))

    for (target, q, tokens), (accept, after) in answers("serve-acceptance"):
        p = target[: len(tokens)]
        rates = serving.acceptance(p, q)
        assert_close(accept, rates[torch.arange(len(tokens)), tokens])
        same = (p == q).all(-1, keepdim=True)
        assert_close(after[:-1], serving.residual(p, q).masked_fill(same, 0))
        assert torch.equal(after[-1], target[-1])

    for (query, *rest), got in answers("serve-paged_attention"):
        theirs = serving.paged_attention(query[:, :, None], *rest)
        assert_close(got, theirs[:, :, 0])
