"""Attached models are fine-tuned as people do it, with sdpa's gradients."""

import contextlib
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from attn import hf
from attn.distributed import launch
from attn.hf import attention_interface
from tests.attn.graphs import in_one_graph
from tests.attn.hf_decoders import DECODERS, distance, model, pad, tokens
from tests.marks import exhaustive_but

#: Transformers' sdpa ignores a softcap, and has no sinks.
BY_EAGER = {"gemma2", "gpt_oss"}
WAYS: dict[str, dict[str, Any]] = {
    "padded": {},
    "frozen": {"frozen": True},
    "autocast": {"autocast": True},
    "autocast, cache": {"autocast": True, "use_cache": True},
    "checkpoint": {"reentrant": False},
    "checkpoint, reentrant": {"reentrant": True},
    "autocast, checkpoint": {"autocast": True, "reentrant": False},
    "autocast, reentrant": {"autocast": True, "reentrant": True},
    "compiled": {"compiled": True},
    "positions": {"packed": "positions"},
    "booleans": {"packed": "booleans"},
    "numbers": {"packed": "numbers"},
    "borders": {"packed": "borders"},
    "all": {"packed": "borders", "autocast": True, "reentrant": True},
}
#: Refused: chunks would not start where a text does. And transformers' masks
#: of gpt_oss ignore positions, so that its own texts are not apart.
LEFT_OUT = {(x, y) for x in ("llama4", "gpt_oss") for y in ("borders", "all")}
#: Ten seconds each: one of each kind of attention.
COMPILED = {"llama", "mistral", "gemma2", "gemma3", "cohere2"}
LEFT_OUT |= {(x, "compiled") for x in DECODERS.keys() - COMPILED}
#: Trained in every way, with those that have chunks, sinks or latents; the
#: others in these. test_hf_families has the gradients of padded rows of each.
EVERY_WAY = COMPILED | {"gpt2", "gpt_oss", "llama4", "deepseek_v3"}
SOME = {"autocast, reentrant", "numbers", "all"}
LEFT_OUT |= {
    (x, y) for x in DECODERS.keys() - EVERY_WAY for y in WAYS.keys() - SOME
}
CASES = [(x, y) for x in DECODERS for y in WAYS if (x, y) not in LEFT_OUT]
QUICK = [
    ("llama", "autocast, checkpoint"),
    ("llama", "all"),
    ("gemma2", "autocast"),
    ("gpt_oss", "autocast, reentrant"),
    ("mistral", "numbers"),
    ("gpt2", "frozen"),
]
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*use_cache|None of the inputs|.*checkpoint"
)
Results = dict[str, Tensor]


def batch(form: str = "") -> dict[str, Tensor]:
    """Return padded rows, or three texts in a row and what parts them."""
    if not form:
        real = pad("right")
        given = {"input_ids": tokens(), "attention_mask": real.long()}
        return given | {"labels": tokens().masked_fill(~real, -100)}
    ends = torch.tensor([0, 4, 5, 11])
    text = torch.arange(3).repeat_interleave(ends.diff())
    apart = (text[:, None] == text).tril()[None, None]
    numbers = torch.where(apart, 0.0, torch.finfo(torch.float32).min)
    given = {
        "positions": {},
        "booleans": {"attention_mask": apart},
        "numbers": {"attention_mask": numbers},
        "borders": {"cu_seq_lens_q": ends.int(), "cu_seq_lens_k": ends.int()},
    }[form]
    ids = tokens()[:1]
    given["labels"] = ids.index_fill(1, ends[:-1], -100)
    position_ids = (torch.arange(11) - ends[text])[None]
    return {"input_ids": ids, "position_ids": position_ids, **given}


def prepared(family: str, ours: bool, frozen: bool = False) -> nn.Module:
    network = model(family, "eager" if family in BY_EAGER else "sdpa").train()
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    names = [x for x, _ in network.named_parameters()]
    some = [x for x in names if "v_proj" in x] or names[4:8]
    for name, x in network.named_parameters():
        x.requires_grad_(not frozen or name in some)
    return hf.attach(network) if ours else network


def gradients(network: nn.Module) -> Results:
    found = {n: x.grad for n, x in network.named_parameters()}
    return {n: x for n, x in found.items() if x is not None}


def train(
    family: str,
    ours: bool,
    packed: str = "",
    autocast: bool = False,
    use_cache: bool = False,
    reentrant: bool | None = None,
    compiled: bool = False,
    frozen: bool = False,
) -> Results:
    """Return the loss and the gradients by name."""
    network = run = prepared(family, ours, frozen)
    if reentrant is not None:
        network.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if not ours:  # what transformers' attention takes
        instead = {"borders": "positions", "booleans": "numbers"}
        packed = instead.get(packed, packed)
    if compiled and ours:
        torch.compiler.reset()
        run, _ = in_one_graph(network)
    mixed = torch.autocast("cpu", torch.bfloat16)
    with mixed if autocast else contextlib.nullcontext():
        loss = run(**batch(packed), use_cache=use_cache).loss
    loss.backward()
    return {"loss": loss.detach(), **gradients(network)}


def assert_same(got: Results, want: Results, peer: Results, few: float):
    """Require an error of at most twice the peer's, and a few roundings."""
    assert got.keys() == want.keys() == peer.keys() and len(want) > 1
    largest = max(float(x.abs().max()) for n, x in want.items() if n != "loss")
    for name, x in want.items():
        size = float(x.abs().max()) + largest / 10
        error, other = ((y[name] - x).abs().max() for y in (got, peer))
        assert error <= 2 * other + few * size, name


@pytest.mark.parametrize("case", exhaustive_but(QUICK, CASES), ids=", ".join)
def test_loss_and_gradients_are_those_of_sdpa(case):
    family, options = case[0], dict(WAYS[case[1]])
    peer = want = train(family, False, **options)
    got, few = train(family, True, **options), 1e-4
    if options.pop("autocast", False):
        want, few = train(family, False, **options), 1e-2
    assert_same(got, want, peer, few)


def work(rank: int, family: str) -> Results:
    network = prepared(family, ours=True)
    parallel = DistributedDataParallel(network)
    half = {name: x[rank : rank + 1] for name, x in batch().items()}
    parallel(**half, use_cache=False).loss.backward()
    return gradients(network)


@pytest.mark.parametrize("family", exhaustive_but(["llama"], sorted(COMPILED)))
def test_two_processes_have_the_mean_of_their_gradients(family):
    network = prepared(family, ours=False)
    for row in range(2):
        one = {name: x[row : row + 1] for name, x in batch().items()}
        (network(**one, use_cache=False).loss / 2).backward()
    want = gradients(network)
    for got in launch(work, 2, family):
        assert_same(got, want, want, 1e-4)


# --- tensor parallelism: transformers' own plan, on two processes ------------


RANKS = 2
OPTIONS: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False}


def padded() -> dict[str, Tensor]:
    return {"input_ids": tokens(), "attention_mask": pad("left").long()}


def work_with_half(rank: int, family: str) -> Any:
    """Compute as one of the processes."""
    mesh = dist.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    network = model(family, "eager")
    plan = network._expand_parallel_plan(network.tp_plan)
    apply_tensor_parallelism(network, mesh, plan)
    hf.attach(network)
    heads = []
    real = attention_interface.api.attention

    def counted(query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Any:
        heads.append((query.shape[1], key.shape[1]))
        return real(query, key, *args, **kwargs)

    attention_interface.api.attention = counted
    with torch.no_grad():
        logits = network(**padded()).logits
        text = network.generate(**padded(), **OPTIONS)
    return logits, text, sorted(set(heads))


@pytest.mark.parametrize("family", ["llama", "mistral"])
@torch.no_grad()
def test_two_processes_with_half_of_the_heads_give_the_same_logits(family):
    network = model(family, "eager")
    want = network(**padded()).logits
    text = network.generate(**padded(), **OPTIONS)
    real = pad("left")
    for logits, tokens_, heads in launch(work_with_half, RANKS, family):
        assert distance(logits[real], want[real]) < 1e-5
        assert torch.equal(tokens_, text)
        assert heads == [(2, 1)], "of four on two"
