"""Attached models are fine-tuned as people do it, with sdpa's gradients.

Every family of decoders in every way: mixed precision, checkpoints, packed
texts in four forms, frozen weights, compiled, on two processes.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from attn import hf
from attn.distributed import launch
from tests.attn.hf_decoders import DECODERS, model, pad, tokens
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
LEFT_OUT |= {
    (x, "compiled")
    for x in DECODERS.keys() - {"llama", "mistral", "gemma2", "gemma3", "gpt2"}
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


def packed(form: str) -> dict[str, Tensor]:
    """Return three texts in one row, and what keeps them apart."""
    lengths = (4, 1, 6)
    ids = tokens()[:1]
    starts = torch.tensor([0, *lengths]).cumsum(0)
    text = torch.arange(3).repeat_interleave(torch.tensor(lengths))
    labels = ids.index_fill(1, starts[:-1], -100)
    batch = {"input_ids": ids, "labels": labels}
    batch["position_ids"] = (torch.arange(11) - starts[text])[None]
    apart = (text[:, None] == text).tril()[None, None]
    if form == "borders":
        both = starts.int()
        batch |= {"cu_seq_lens_q": both, "cu_seq_lens_k": both}
    elif form == "booleans":
        batch["attention_mask"] = apart
    elif form == "numbers":
        lowest = torch.finfo(torch.float32).min
        batch["attention_mask"] = torch.where(apart, 0.0, lowest)
    return batch


def padded() -> dict[str, Tensor]:
    real = pad("right")
    labels = tokens().masked_fill(~real, -100)
    given = {"input_ids": tokens(), "attention_mask": real.long()}
    return {**given, "labels": labels}


def prepared(family: str, ours: bool, frozen: bool = False) -> nn.Module:
    network = model(family, "eager" if family in BY_EAGER else "sdpa").train()
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    if frozen:  # of query, key and value some need a gradient
        names = [x for x, _ in network.named_parameters()]
        some = [x for x in names if "v_proj" in x] or names[4:8]
        for name, x in network.named_parameters():
            x.requires_grad_(name in some)
    return hf.attach(network) if ours else network


def train(
    family: str,
    ours: bool,
    packed_as: str = "",
    autocast: bool = False,
    use_cache: bool = False,
    reentrant: bool | None = None,
    compiled: bool = False,
    frozen: bool = False,
) -> dict[str, Tensor]:
    """Return the loss and the gradients by name."""
    network = prepared(family, ours, frozen)
    if reentrant is not None:
        network.gradient_checkpointing_enable({"use_reentrant": reentrant})
    form = packed_as
    if not ours:  # what its attention takes
        form = {"borders": "positions", "booleans": "numbers"}.get(form, form)
    batch = packed(form) if packed_as else padded()
    run = network
    if compiled:
        torch.compiler.reset()
        run = torch.compile(network, backend="aot_eager")
    mixed = torch.autocast("cpu", torch.bfloat16)
    with mixed if autocast else contextlib.nullcontext():
        loss = run(**batch, use_cache=use_cache).loss
    loss.backward()
    found = {n: x.grad for n, x in network.named_parameters()}
    return {
        "loss": loss.detach(),
        **{n: x for n, x in found.items() if x is not None},
    }


def assert_same(
    got: dict[str, Tensor],
    want: dict[str, Tensor],
    peer: dict[str, Tensor],
    few: float,
) -> None:
    """Require an error of at most twice the peer's, and a few roundings."""
    assert got.keys() == want.keys() == peer.keys() and len(want) > 1
    largest = max(float(x.abs().max()) for n, x in want.items() if n != "loss")
    for name, x in want.items():
        size = float(x.abs().max()) + largest / 10
        error, other = ((y[name] - x).abs().max() for y in (got, peer))
        assert error <= 2 * other + few * size, name


@pytest.mark.parametrize("case", exhaustive_but(QUICK, CASES), ids=", ".join)
def test_loss_and_gradients_are_those_of_sdpa(case):
    family, way = case
    options = dict(WAYS[way])
    options["packed_as"] = options.pop("packed", "")
    try:
        peer = want = train(family, False, **options)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"transformers itself: {error}")
    got = train(family, True, **options)
    few = 1e-4
    if options.pop("autocast", False):
        want, few = train(family, False, **options), 1e-2
    assert_same(got, want, peer, few)


def work(rank: int, family: str) -> dict[str, Tensor]:
    network = prepared(family, ours=True)
    parallel = DistributedDataParallel(network, find_unused_parameters=True)
    half = {name: x[rank : rank + 1] for name, x in padded().items()}
    parallel(**half, use_cache=False).loss.backward()
    return {n: x.grad for n, x in network.named_parameters()}


@pytest.mark.parametrize(
    "family", exhaustive_but(["llama"], ["llama", "gemma2", "gpt2"])
)
def test_two_processes_have_the_mean_of_their_gradients(family):
    network = prepared(family, ours=False)
    for row in range(2):
        one = {name: x[row : row + 1] for name, x in padded().items()}
        (network(**one, use_cache=False).loss / 2).backward()
    want = {n: x.grad for n, x in network.named_parameters()}
    for got in launch(work, 2, family):
        assert_same(got, want, want, 1e-4)
