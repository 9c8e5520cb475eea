"""Continuous batching: no token gets lost, and every page comes back."""

import random

import pytest
import torch

import attn
from attn.serving import PrefixCache, Request, Scheduler


def scheduler_of(num_pages=16, page_size=2, prefix=False, **options):
    pool = attn.PageAllocator(num_pages, page_size)
    cache = PrefixCache(pool) if prefix else None
    return Scheduler(pool, prefix_cache=cache, **options)


def run(scheduler, token=lambda request: 7):
    """Run to the end; return every step's output."""
    outputs = []
    while scheduler.has_unfinished:
        output = scheduler.schedule()
        assert output.num_scheduled_tokens, "every step computes something"
        by_id = {x.id: x for x in scheduler.running}
        tokens = {name: token(by_id[name]) for name in output.samples}
        outputs.append(output)
        scheduler.update(output, tokens)
    return outputs


def counts(outputs):
    return [x.num_scheduled_tokens for x in outputs]


def test_requests_join_and_leave_at_every_step():
    scheduler = scheduler_of(max_num_seqs=2)
    for name, new in (("a", 3), ("b", 1), ("c", 1)):
        scheduler.add(Request(name, [1, 2], new))
    assert counts(run(scheduler)) == [
        {"a": 2, "b": 2},
        {"a": 1, "c": 2},
        {"a": 1},
    ]


def test_the_budget_is_for_running_requests_first_then_for_new_ones():
    scheduler = scheduler_of(max_num_batched_tokens=4)
    scheduler.add(Request("a", [1], 4))
    scheduler.add(Request("b", [1] * 7, 1))
    outputs = run(scheduler)
    assert counts(outputs) == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 3},
        {"a": 1, "b": 1},
        {"a": 1},
    ]
    assert [x.samples for x in outputs[:3]] == [("a",), ("a",), ("a", "b")]


def test_without_chunks_a_prompt_waits_until_all_of_it_fits():
    scheduler = scheduler_of(max_num_batched_tokens=4, chunked_prefill=False)
    scheduler.add(Request("a", [1, 2], 3))
    scheduler.add(Request("b", [1] * 4, 1))
    assert counts(run(scheduler)) == [{"a": 2}, {"a": 1}, {"a": 1}, {"b": 4}]


def test_a_token_is_sampled_only_where_a_prompt_is_read_to_its_end():
    scheduler = scheduler_of(max_num_batched_tokens=2)
    scheduler.add(Request("a", [1] * 5, 1))
    output = scheduler.schedule()
    assert output.samples == ()
    with pytest.raises(ValueError, match=r"was read, \[\]; got \['a'\]"):
        scheduler.update(output, {"a": 7})
    scheduler.update(output, {})
    assert [x.samples for x in run(scheduler)] == [(), ("a",)]


def test_the_last_token_is_never_read():
    scheduler = scheduler_of()
    scheduler.add(Request("a", [1, 2, 3], 4))
    assert sum(sum(x.values()) for x in counts(run(scheduler))) == 3 + 4 - 1


def test_a_request_ends_with_its_eos_or_one_of_several():
    for eos in (9, [5, 9]):
        scheduler = scheduler_of()
        request = Request("a", [1], 10, eos=eos)
        scheduler.add(request)
        run(scheduler, lambda x: 9 if len(x.output_ids) == 2 else 3)
        assert request.output_ids == [3, 3, 9]


def test_the_latest_request_gives_its_pages_back_and_keeps_its_tokens():
    scheduler = scheduler_of(num_pages=4, page_size=2)
    a, b = Request("a", [1, 2, 3], 4), Request("b", [4, 5, 6], 4)
    scheduler.add(a)
    scheduler.add(b)
    numbers = iter(range(100, 200))
    outputs = []
    while scheduler.has_unfinished:
        output = scheduler.schedule()
        outputs.append(output)
        if output.preempted:
            kept = list(b.output_ids)
            assert kept and not b.pages and not b.num_computed_tokens
            assert scheduler.waiting[0] is b
        scheduler.update(output, {x: next(numbers) for x in output.samples})
    preempted = [x for o in outputs for x in o.preempted]
    assert preempted == ["b"], "never the one that came first"
    assert b.output_ids[: len(kept)] == kept and len(b.output_ids) == 4
    again = next(o for o in outputs if o.num_scheduled_tokens.get("b", 0) > 3)
    # The prompt and the tokens it had produced, in one go.
    assert again.num_scheduled_tokens == {"b": 3 + len(kept)}


def test_a_preempted_request_is_served_before_those_that_came_later():
    scheduler = scheduler_of(num_pages=4, page_size=2, max_num_seqs=2)
    for name in "abc":
        scheduler.add(Request(name, [1, 2, 3], 4))
    order = [name for x in counts(run(scheduler)) for name in x]
    assert order.index("c") > max(i for i, x in enumerate(order) if x == "b")


def test_a_watermark_keeps_pages_for_the_tokens_of_those_that_run():
    def preemptions(watermark):
        scheduler = scheduler_of(num_pages=4, watermark=watermark)
        for name in "ab":
            scheduler.add(Request(name, [1, 2, 3], 4))
        return sum(len(x.preempted) for x in run(scheduler))

    assert preemptions(0) == 1 and preemptions(1) == 0


def test_a_full_watermark_does_not_block_the_only_request():
    scheduler = scheduler_of(num_pages=4, watermark=4)
    scheduler.add(Request("a", [1, 2, 3], 4))
    assert run(scheduler)


def test_guesses_give_way_to_the_tokens_and_pages_of_others():
    for options, read in (
        ({}, {"a": 4, "b": 1}),
        ({"max_num_batched_tokens": 4}, {"a": 3, "b": 1}),
        ({"num_pages": 4}, {"a": 1, "b": 1}),
    ):
        scheduler = scheduler_of(**options)
        a, b = Request("a", [1] * 3, 5), Request("b", [1], 3)
        scheduler.add(a), scheduler.add(b)
        output = scheduler.schedule()
        scheduler.update(output, dict.fromkeys(output.samples, 7))
        a.draft_ids = [7, 7, 7]
        output = scheduler.schedule()
        assert output.num_scheduled_tokens == read and not output.preempted
        assert len(output.drafts.get("a", [])) == read["a"] - 1


@pytest.mark.parametrize("prefix", (False, True))
@pytest.mark.parametrize("chunked", (False, True))
def test_everything_ends_in_order_and_every_page_returns(prefix, chunked):
    for seed in range(20):
        r = random.Random(seed)
        scheduler = scheduler_of(
            num_pages=r.randint(8, 14),
            page_size=r.randint(1, 4),
            prefix=prefix,
            chunked_prefill=chunked,
            max_num_seqs=r.randint(1, 5),
            max_num_batched_tokens=r.randint(8, 12),
        )
        requests = [
            Request(
                i,
                [r.randint(0, 1) for _ in range(r.randint(1, 5))],
                r.randint(1, 4),
            )
            for i in range(12)
        ]
        for x in requests:
            scheduler.add(x)

        def token(request, r=r, scheduler=scheduler, requests=requests):
            if r.random() < 0.05:  # between schedule and update, too
                scheduler.abort(r.choice(requests))
            return len(request.output_ids) % 2

        outputs = run(scheduler, token)
        pool = scheduler.pool
        for x in requests:
            assert x.aborted or len(x.output_ids) == x.max_new_tokens
        finished = [x for o in outputs for x in o.finished]
        finished += scheduler.schedule().finished
        assert sorted(finished) == list(range(12)), "each is told once"
        budget = scheduler.max_num_batched_tokens
        for o in outputs:
            assert sum(o.num_scheduled_tokens.values()) <= budget
            assert len(o.num_scheduled_tokens) <= scheduler.max_num_seqs
            assert not set(o.preempted) & set(o.num_scheduled_tokens)
        kept = scheduler.prefix_cache.num_pages if prefix else 0
        assert len(pool.free_pages) == pool.num_pages - kept
        assert sum(pool.ref_counts) == kept
        if prefix:
            assert scheduler.prefix_cache.evict(kept) == kept
            assert sorted(pool.free_pages) == list(range(pool.num_pages))


def test_a_shared_beginning_is_computed_once():
    scheduler = scheduler_of(prefix=True, max_num_seqs=1)
    for name in "ab":
        scheduler.add(Request(name, [1, 2, 3, 4, 5], 1))
    assert counts(run(scheduler)) == [{"a": 5}, {"b": 1}]


def test_stored_prefixes_give_way_to_requests():
    scheduler = scheduler_of(num_pages=4, prefix=True, max_num_seqs=1)
    scheduler.add(Request("a", [1] * 6, 1))
    scheduler.add(Request("b", [2] * 7, 1))
    outputs = run(scheduler)
    assert counts(outputs) == [{"a": 6}, {"b": 7}]
    assert not any(x.preempted for x in outputs)


def test_each_step_is_computed_once():
    scheduler = scheduler_of()
    scheduler.add(Request("a", [1], 3))
    output = scheduler.schedule()
    with pytest.raises(ValueError, match="got another call of schedule"):
        scheduler.schedule()
    scheduler.update(output, {"a": 7})
    with pytest.raises(ValueError, match="each is used once"):
        scheduler.update(output, {"a": 7})


def test_a_request_that_can_never_run_is_refused():
    scheduler = scheduler_of(num_pages=3, page_size=2)
    with pytest.raises(ValueError, match="3 pages of 2 tokens.*up to 7"):
        scheduler.add(Request("a", [1] * 4, 4))
    scheduler.add(Request("b", [1] * 4, 3))
    with pytest.raises(ValueError, match="id of its own; got 'b' again"):
        scheduler.add(Request("b", [1], 1))
    small = scheduler_of(max_num_batched_tokens=4, chunked_prefill=False)
    with pytest.raises(ValueError, match="4, without chunked_prefill"):
        small.add(Request("a", [1] * 4, 2))
    begun = Request("c", [1], 2)
    begun.append(3)
    with pytest.raises(ValueError, match="must be new; got 'c'"):
        scheduler.add(begun)


def test_wrong_arguments_are_refused():
    pool = attn.PageAllocator(2, 2)
    with pytest.raises(ValueError, match="prefix_cache must be of the same"):
        Scheduler(attn.PageAllocator(2, 2), prefix_cache=PrefixCache(pool))
    with pytest.raises(ValueError, match="max_num_seqs must be an int"):
        Scheduler(pool, max_num_seqs=0)
    with pytest.raises(ValueError, match="prompt_ids must have a token"):
        Request("a", [], 1)
    with pytest.raises(ValueError, match="max_new_tokens must be an int"):
        Request("a", [1], 0)
    with pytest.raises(TypeError, match=r"of one text; got .* shape \(1, 2\)"):
        Request("a", torch.ones(1, 2, dtype=torch.long), 1)
    with pytest.raises(ValueError, match="prompt_ids must be an int"):
        Request("a", [1, -1], 1)


def test_a_tensor_is_a_prompt_like_its_list():
    assert Request("a", torch.tensor([3, 4]), 1).prompt_ids == [3, 4]


def test_pages_are_counted_and_a_wrong_release_is_refused():
    pages = attn.PageAllocator(2, 4)
    assert pages.pages_for(0) == 0 and pages.pages_for(5) == 2
    page = pages.allocate()
    pages.retain(page)
    pages.release(page)
    assert page not in pages.free_pages, "one of two references is left"
    pages.release(page)
    for call in (pages.release, pages.retain):
        with pytest.raises(ValueError, match=f"in use; got page {page}"):
            call(page)
    pages.allocate(), pages.allocate()
    with pytest.raises(ValueError, match="free page must be left; got 0 of 2"):
        pages.allocate()
