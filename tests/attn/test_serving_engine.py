"""A served request has the tokens that it has alone, whatever runs beside."""

import contextlib
import functools
import itertools
import random
import re
import weakref

import pytest
import torch

import attn
from attn.serving import Draft, Engine, ModelDraft, Request, prompt_lookup
from tests.attn import hf_zoo
from tests.attn.models import V, model, new, small_llama, varied, vary
from tests.marks import exhaustive_but

NEW = 6
NO = Draft([], [])
KINDS = {
    "rope": {},
    "alibi": {},
    "gpt": {"max_positions": 15 + NEW},
    "rope, window": {"window": (2, 0)},
    "rope, GQA": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4},
    "parallel": {},
    "rope, hybrid": {"attention": ("gated_delta", "auto")},
    "none, states": {"attention": ("linear", "gated_delta")},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def model_of(kind):
    return varied(kind.split(",")[0], **KINDS[kind])


def prompts(count=7, seed=0):
    """Prompts of 1 to 15 tokens; most share a beginning."""
    r, shared = random.Random(seed), [1, 2, 3, 4, 5, 6, 7, 8]
    texts = []
    for i in range(count):
        own = [r.randrange(V) for _ in range(r.randint(1, 7))]
        texts.append(own if i % 3 == 2 else shared + own)
    return texts


def served(model, texts, new=NEW, **options):
    options = {"num_pages": 40, "page_size": 4, **options}
    engine = Engine(model, **options)
    for i, text in enumerate(texts):
        engine.add_request(Request(i, text, new))
    outputs = []
    while engine.scheduler.has_unfinished:
        outputs.append(engine.step())
    return engine, outputs


SAMPLING = {}, {"temperature": 0.8, "top_p": 0.9}


def alone(model, text, new=NEW, like=None):
    options = {}
    if like is not None:
        options = {"eos": like.eos, **SAMPLING[like.id % 2]}
        options["generator"] = torch.Generator().manual_seed(like.seed)
    out = attn.generate(model, torch.tensor([text]), new, **options)
    return out[0, len(text) :].tolist()


def check(model, texts, engine, new=NEW):
    tokens = engine.run()
    for i, text in enumerate(texts):
        assert tokens[i] == alone(model, text, new), i
        assert len(engine.margins[i]) == len(tokens[i])
    assert len(set().union(*tokens.values())) > 2, "they say something"
    # In float64, nothing here is a near-tie.
    assert min(map(min, engine.margins.values())) > 1e-9


@every_kind
def test_chunks_preemption_and_shared_prefixes_change_no_token(kind):
    """All three at once."""
    texts = prompts()
    engine, outputs = served(
        model_of(kind), texts, num_pages=9, max_num_batched_tokens=6,
    )  # fmt: skip
    check(model_of(kind), texts, engine)
    assert any(x.preempted for x in outputs)
    assert max(len(x.num_scheduled_tokens) for x in outputs) > 1
    read = sum(sum(x.num_scheduled_tokens.values()) for x in outputs)
    assert read != sum(len(x) + NEW - 1 for x in texts)


def test_a_ragged_step_is_one_forward_without_padding():
    """Parts of prompts, answers, and drafts."""
    net, seen = model_of("rope, hybrid"), []
    hook = net.register_forward_pre_hook(lambda _, x: seen.append(x[0].shape))
    options = {"max_num_batched_tokens": 6, "draft": DRAFTS["lookup"]}
    _, outputs = served(net, prompts(), **options)
    hook.remove()
    assert any(x.drafts and len(x.samples) > 1 for x in outputs)
    counts = [list(x.num_scheduled_tokens.values()) for x in outputs]
    assert seen == [(1, sum(x)) for x in counts]
    assert any(1 in x and max(x) > 1 for x in counts), "prompts and answers"


DRAFTS = {
    "none": None,
    "lookup": functools.partial(prompt_lookup, ngram=2, k=4, branches=2),
    "wrong": lambda text: Draft([1, 2, 3], [-1, 0, 1]),
    "model": lambda text: model_draft()(text),
}


@functools.cache
def model_draft():
    return ModelDraft(varied("rope", num_layers=1), k=3)


@pytest.mark.filterwarnings("ignore:request .* ends with:RuntimeWarning")
@pytest.mark.parametrize("seed", exhaustive_but([0, 1], [0, 1, 2]))
@pytest.mark.parametrize("draft", exhaustive_but(["lookup"], list(DRAFTS)))
@pytest.mark.parametrize(
    "kind", exhaustive_but(["rope, GQA", "rope, hybrid"], list(KINDS))
)
def test_faults_cost_those_they_hit_and_no_page_or_token(kind, draft, seed):
    """Requests arrive, are cancelled, and meet errors, at random."""
    r, net = random.Random(seed), model_of(kind)
    engine = Engine(
        net, num_pages=10, page_size=4, draft=DRAFTS[draft],
        max_num_batched_tokens=r.randint(4, 12),
    )  # fmt: skip
    for pool in engine.pools:
        pool.key.fill_(torch.nan), pool.value.fill_(torch.nan)
    raised = [torch.OutOfMemoryError("full"), KeyboardInterrupt()]
    plan = {r.randrange(2, 14): raised[0], r.randrange(14): raised[1]}
    due, held, heard, errors, steps = [], [], {}, {}, itertools.count()

    def hear(request, token):
        assert not request.aborted
        heard.setdefault(request.id, []).append(token)
        if r.random() < 0.02:
            errors[request.id] = OSError("the client is gone")
            raise errors[request.id]
        if r.random() < 0.02:
            engine.abort(r.choice(requests))

    def meet(*_):  # between two layers
        activations = torch.zeros(1)
        held.append(weakref.ref(activations))
        if due:
            raise due.pop()

    requests = [
        Request(i, text, NEW, [0], seed=i, on_token=hear, **SAMPLING[i % 2])
        for i, text in enumerate(prompts(9, seed))
    ]
    arrivals = list(requests)
    hook = net.blocks[1].register_forward_pre_hook(meet)
    while arrivals or engine.scheduler.has_unfinished:
        while arrivals and r.random() < 0.5:
            engine.add_request(arrivals.pop(0))
        if r.random() < 0.1:
            engine.abort(r.choice([*requests, r.randrange(9), "?"]))
        error = plan.get(next(steps))
        due[:] = [error] if error else []
        with contextlib.suppress(KeyboardInterrupt):
            counts = engine.step().num_scheduled_tokens
            if error and not due:
                errors |= dict.fromkeys(counts, error)
    hook.remove()
    raised[1].with_traceback(None)
    assert not any(x() is not None for x in held), "errors hold no tensors"
    for x in requests:
        want = alone(net, x.prompt_ids, like=x)
        mine, said = x.output_ids, heard.get(x.id, [])
        assert mine == want[: len(mine)] and said == mine[: len(said)]
        assert len(engine.margins[x.id]) == len(mine)
        assert x.error is errors.get(x.id)
        if x.finish_reason in ("stop", "length"):
            assert said == want and not x.aborted
        assert engine.abort(x) is False and not x.pages and not x.states
    assert any(x.finish_reason in ("stop", "length") for x in requests)
    pool, tree = engine.scheduler.pool, engine.scheduler.prefix_cache
    stored = tree.num_pages if tree else 0
    assert len(pool.free_pages) == pool.num_pages - stored
    assert not stored or tree.evict(stored) == stored
    assert all(x.ref_counts == [0] * 10 for x in engine.pools)


@pytest.mark.parametrize("kind", ("rope", "rope, hybrid"))
def test_a_right_draft_saves_steps_and_a_wrong_one_costs_none(kind):
    """A state forgets no guess: a step with a rejected one is read again."""
    net, text = model_of(kind), prompts(1)[0]
    new, steps = alone(net, text, 12), {}
    for add in (None, 0, 1):

        def draft(so_far, add=add):
            guesses = [(x + add) % V for x in new[len(so_far) - len(text) :]]
            first, rest = guesses[:1], guesses[1:3]  # and a sibling between
            parents = [-1, -1, 0, 2][: 2 + len(rest)]
            return Draft([*first, V - 1, *rest], parents)

        guess = None if add is None else draft
        engine, outputs = served(net, [text], 12, draft=guess)
        check(net, [text], engine, 12)
        steps[add] = len(outputs)
    assert steps == {None: 12, 0: 4, 1: 12}


def test_what_is_wrong_with_one_request_ends_that_one():
    """NaN comes from the embedding of token 7; drafts are of each text."""
    net = new("rope", tied=False).double().eval()
    with torch.no_grad():
        net.token_embedding.weight[7] = torch.nan
        net.head.weight[7] = 0  # nobody else writes it
    drafts = {1: [[1]], 2: Draft([V], [-1]), 3: Draft([1], [-1, 0])}
    engine = Engine(
        net, num_pages=9, page_size=4, draft=lambda x: drafts.get(x[0], NO),
    )  # fmt: skip
    for i in (7, 1, 2, 3, 4):
        engine.add_request(Request(i, [i], 4))
    with pytest.warns(RuntimeWarning, match="request . ends with"):
        assert engine.run()[4] == alone(net, [4], 4)
    errors = {i: x.error for i, x in engine._requests.items()}
    for i, message in {
        7: "must return numbers as logits; got nan for 7",
        1: "must return an attn.serving.Draft.*; got list",
        2: f"must be below the vocab_size, {V}; got {V}",
        3: "a parent for each token; got 1 tokens and 2 parents",
    }.items():
        assert re.search(message, str(errors.pop(i)))
    assert errors == {4: None}


def test_a_lowered_limit_ends_a_request_where_it_is():
    engine = Engine(model_of("rope"), num_pages=9, max_num_seqs=1)
    runs, waits = Request(0, [1, 2], NEW), Request(1, [1, 2], NEW)
    engine.add_request(runs), engine.add_request(waits)
    engine.step()
    runs.max_new_tokens, waits.max_new_tokens = 1, 0
    assert engine.step().finished == (0, 1)
    assert engine.run() == {0: alone(model_of("rope"), [1, 2], 1), 1: []}
    with pytest.raises(TypeError, match="the id of one; got list"):
        engine.abort([runs])


def test_a_kernel_attends_over_the_row_as_it_is(monkeypatch, record):
    pytest.importorskip("triton")
    from attn import kernels

    calls = record(kernels, "varlen_attention")
    torch.manual_seed(0)
    net = small_llama(attention="triton", window=(6, 0)).eval()
    texts = prompts(3)
    options = {"max_num_batched_tokens": 12, "draft": DRAFTS["wrong"]}
    engine, outputs = served(net, texts, new=3, **options)
    monkeypatch.undo()
    for i, text in enumerate(texts):
        assert engine.run()[i] == alone(net, text, 3)
    read = [sum(x.num_scheduled_tokens.values()) for x in outputs]
    rows = [len(query) for (query, *_), _ in calls]
    assert rows == [n for n in read for _ in net.blocks]


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", [x for x in hf_zoo.FAMILIES if x != "bert"])
def test_every_family_is_served_with_its_own_tokens(family):
    ours, texts = vary(attn.hf.load(hf_zoo.model(family))), prompts(5)
    engine, _ = served(
        ours, texts, num_pages=9, max_num_batched_tokens=6
    )  # chunks, preemption and shared prefixes
    check(ours, texts, engine)


def test_in_float32_tokens_differ_only_where_two_logits_nearly_tie():
    """Batch invariance: other widths round differently."""
    torch.manual_seed(0)
    model, texts = small_llama().eval(), prompts(6)
    engine, _ = served(model, texts, new=20, max_num_batched_tokens=16)
    for i, tokens in engine.run().items():
        margins = engine.margins[i]
        ties = [j for j, margin in enumerate(margins) if margin < 1e-5]
        until = min([len(tokens), *ties])
        assert tokens[:until] == alone(model, texts[i], 20)[:until]


def test_the_model_keeps_its_mode():
    training = model("rope").train()
    served(training, prompts(2))
    assert training.training and all(x.training for x in training.modules())


def test_pages_are_of_the_dtype_that_autocast_gives():
    with torch.autocast("cpu", torch.bfloat16):
        engine, _ = served(small_llama().eval(), prompts(2))
    assert all(map(len, engine.run().values()))


def test_a_model_or_a_request_that_cannot_be_served_is_refused():
    pages = {"num_pages": 8, "page_size": 4}
    with pytest.raises(TypeError, match="must be an attn.Transformer; got Li"):
        Engine(torch.nn.Linear(2, 2), **pages)
    with pytest.raises(ValueError, match="causal and end with logits"):
        Engine(model("rope", is_causal=False), **pages)
    with pytest.raises(ValueError, match=f"vocab_size, {V}; got {V}"):
        Engine(model("rope"), **pages).add_request(Request("a", [V], 1))
    with pytest.raises(ValueError, match="16 tokens to read.*; got 17"):
        Engine(model("gpt"), **pages).add_request(Request("a", [1], 17))


def test_an_id_is_used_once():
    engine, _ = served(model("rope"), [[1]])
    with pytest.raises(ValueError, match="id of its own; got 0 again"):
        engine.add_request(Request(0, [1], 1))


def test_a_cache_over_given_pages_writes_where_the_table_says():
    pool = attn.PagePool(4, 2, num_kv_heads=1, head_dim=1)
    table = [[2, 0], [3]]
    cache = attn.PagedCache.at(pool, table, [1, 0])
    x = torch.tensor([[1.0, 2.0], [3.0, 0.0]])[:, None, :, None]
    cache.update(x, x, torch.tensor([2, 1]))
    assert pool.key[2, 0, 1] == 1 and pool.key[0, 0, 0] == 2
    assert pool.key[3, 0, 0] == 3 and pool.free_pages == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="hold the 3 tokens.*; got 1 pages"):
        attn.PagedCache.at(pool, [[1]], [3])


def test_a_shared_page_is_copied_before_it_is_written_to_spare_pages_or_not():
    pool = attn.PagePool(4, 2, num_kv_heads=1, head_dim=1)
    first, spare = pool.allocate(), pool.allocate()
    cache = attn.PagedCache.at(pool, [[first, spare]], [1])
    pool.key[first] = pool.value[first] = 5.0
    other = cache.fork()
    new = torch.ones(1, 1, 1, 1)
    assert cache.update(new, new).key.flatten().tolist() == [5, 1]
    assert cache.pages[0][0] != first and cache.pages[0][1] == spare
    assert other.pages == [[first, spare]] and pool.key[first, 0, 1] == 5


def test_layers_share_pages_but_no_memory():
    pool = attn.PagePool(4, 2, num_kv_heads=1, head_dim=1)
    other = pool.another_layer()
    assert pool.allocate() == 0 and other.allocate() == 1
    assert pool.free_pages is other.free_pages
    assert pool.key.data_ptr() != other.key.data_ptr()
