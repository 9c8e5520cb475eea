"""Attached models compile in one piece, and are exported and traced."""

from typing import Any

import pytest
import torch
import transformers as T
from torch import Tensor, nn

from attn import hf
from tests.attn import hf_zoo
from tests.attn.graphs import in_one_graph
from tests.attn.hf_decoders import DECODERS, distance, model, pad, tokens
from tests.marks import exhaustive_but

#: Their experts read a tensor's values, with eager attention too.
BREAKS = {"gpt_oss", "mixtral", "qwen3_moe", "deepseek_v3"}
#: As few as suffice: a graph is traced layer by layer.
ONE = {"num_hidden_layers": 1}


@pytest.fixture(autouse=True)
def a_fresh_compiler():
    hf.register()
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def inputs(side: str) -> dict[str, Any]:
    mask = {} if side == "none" else {"attention_mask": pad(side).long()}
    return {**mask, "use_cache": False}


def real(side: str) -> Tensor:
    return torch.ones(3, 11).bool() if side == "none" else pad(side)


#: The masks without padding are the specs that test_hf_mask_functions has.
WHOLE = {"llama", "gemma2", "llama4"}
MODELS = [(x, "left") for x in DECODERS if x not in BREAKS]
MODELS += [(x, "none") for x in DECODERS if x in WHOLE]
QUICK = [("llama", "left")]


@pytest.mark.parametrize("case", exhaustive_but(QUICK, MODELS), ids=", ".join)
def test_a_model_compiles_to_one_graph(case):
    """Padding once stopped Dynamo at the name of a mask function."""
    family, side = case
    changes = ONE if family == "llama" else {}
    compiled, counter = in_one_graph(model(family, "attn", **changes))
    with torch.no_grad():
        got = compiled(tokens(), **inputs(side)).logits
        want = model(family, "eager", **changes)(tokens(), **inputs(side))
    assert counter.frame_count == 1
    assert distance(got[real(side)], want.logits[real(side)]) < 1e-5


@pytest.mark.parametrize("side", exhaustive_but(["left"], ["none", "left"]))
@pytest.mark.parametrize(
    "family", exhaustive_but(["llama"], ["llama", "mistral"])
)
def test_generation_compiles_to_one_graph(family, side):
    """The steps with a static cache, however many; two with a window."""
    compiled = []

    def backend(graph, _):  # a function, as transformers copies its options
        compiled.append(graph)
        return graph.forward

    options = T.CompileConfig(backend=backend, fullgraph=True, mode=None)
    options._compile_all_devices = True
    changes = {} if family == "mistral" else ONE
    kwargs: dict[str, Any] = {
        **inputs(side),
        "max_new_tokens": 8,
        "do_sample": False,
        "eos_token_id": None,
        "use_cache": True,
    }
    got = model(family, "attn", **changes).generate(
        tokens(),
        cache_implementation="static",
        compile_config=options,
        **kwargs,
    )
    # The step that fills the window is transformers' second graph.
    assert len(compiled) == (2 if family == "mistral" else 1)
    want = model(family, "eager", **changes).generate(tokens(), **kwargs)
    assert torch.equal(got, want)


class Logits(nn.Module):
    """Tensors in and out, for a graph."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        kwargs = {"attention_mask": mask, "use_cache": False}
        return self.model(ids, **kwargs).logits


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")
@torch.no_grad()
def test_a_model_traced_without_padding_masks_padding():
    """Traced without padding, on other lengths, and run with both."""
    network = Logits(model("llama", "attn"))
    whole = torch.ones(3, 11).long()
    traced = torch.jit.trace(network, (tokens(), whole), check_trace=False)
    eager = Logits(model("llama", "eager"))
    for side, length in (("none", 11), ("left", 11), ("right", 7)):
        ids, seen = tokens()[:, :length], real(side)[:, :length]
        want = eager(ids, seen.long())
        assert distance(traced(ids, seen.long())[seen], want[seen]) < 1e-5


EXPORTED = [x for x in hf_zoo.FAMILIES if x not in ("bloom", "bert")]


@pytest.mark.parametrize("family", exhaustive_but(["gemma2"], EXPORTED))
@pytest.mark.parametrize("padded", [False, True])
def test_an_attached_model_exports_for_any_batch_and_length(padded, family):
    module = Logits(hf.attach(hf_zoo.model(family)))
    sizes = {i: torch.export.Dim(x, min=2, max=30) for i, x in enumerate("BL")}

    def inputs(*size: int) -> tuple[Tensor, ...]:
        ids = hf_zoo.ids(*size)
        real = torch.arange(size[1]).expand_as(ids) > 3 * (ids[:, :1] % 2)
        return (ids, real.long()) if padded else (ids,)

    example = inputs(2, 7)
    program = torch.export.export(
        module, example, dynamic_shapes=(sizes,) * len(example), strict=False
    )
    for other in ((3, 13), (2, 6), (2, 30)):
        args = inputs(*other)
        got, want = program.module()(*args), module(*args)
        assert distance(got[args[0] > 0], want[args[0] > 0]) < 1e-5
