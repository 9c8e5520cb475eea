"""attach refuses, or the model computes as with eager attention: any family.

The families of `make test` are those that reading their classes leaves in
doubt, or that compute attention themselves. `make test-all` runs every family
of the installed transformers, and the book's table of them.
"""

import pytest
import torch
import transformers as T
from torch import nn

from attn import hf
from attn.hf import registration
from attn.hf.probing import Probe, Unsuitable
from attn.hf.reading import read
from tests.attn import hf_sweep
from tests.attn.hf_decoders import DECODERS, config, model
from tests.attn.hf_families import HYBRIDS, build, hybrid, inputs, output
from tests.attn.hf_sweep import ATTACHED, REFUSED, TENSORS, sweep
from tests.marks import exhaustive_but

GROUPS = 24


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("family", "outcome"),
    [
        # They extend, index or measure their mask, or check its type.
        ("deepseek_v4", TENSORS),
        ("doge", TENSORS),
        ("t5gemma2", TENSORS),
        ("paligemma", TENSORS),
        ("moonshine", TENSORS),
        # An indexer chooses the keys of each query.
        ("deepseek_v32", TENSORS),
        ("gpt2", ATTACHED),
        # Its layers pass the tokens on to attention, which ignores them.
        ("glm5_next_text", ATTACHED),
        ("time_series_transformer", ATTACHED),
        # Some of their classes compute attention inline, or all.
        ("longt5", REFUSED),
        ("informer", REFUSED),
        ("gemma4_audio", REFUSED),
        ("rwkv", REFUSED),
        ("git", REFUSED),
        ("inkling2_text", REFUSED),
    ],
)
def test_a_model_is_attached_and_equal_to_eager_or_refused(family, outcome):
    row = sweep(family)
    assert row is not None and row.outcome == outcome
    assert bool(row.reason) == (outcome == REFUSED)
    assert str(row) in hf_sweep.TABLE.read_text("utf-8").splitlines()


def test_the_table_is_of_the_installed_version():
    text = hf_sweep.TABLE.read_text("utf-8")
    assert f"With transformers {T.__version__}, 20" in text
    rows = [x for x in text.splitlines() if x.startswith("| `")]
    assert len(rows) >= 274
    assert (
        f" {len(hf_sweep.FAMILIES)} configurations, {len(rows)} give" in text
    )
    for outcome, words in {
        ATTACHED: "of these are attached",
        TENSORS: "more with masks as tensors",
        hf_sweep.NOTHING: "have no attention to replace",
        REFUSED: "are refused",
    }.items():
        count = sum(f"` | {outcome} | " in row for row in rows)
        assert f" {count} {words}" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_family_is_attached_or_refused_as_the_table_says(group):
    """Where it is not, `python -m tests.attn.hf_sweep` writes it again."""
    families = hf_sweep.FAMILIES[group::GROUPS]
    lines = hf_sweep.TABLE.read_text("utf-8").splitlines()
    stored = [x for x in lines if x.startswith("| `")]
    names = {f"| `{family}` |" for family in families}
    want = [x for x in stored if f"{x.split('` |')[0]}` |" in names]
    rows = [row for family in families if (row := sweep(family))]
    assert rows and [str(row) for row in rows] == want


@pytest.mark.parametrize("family", exhaustive_but(["bamba"], HYBRIDS))
def test_the_softmax_layers_of_a_hybrid_are_attached(family):
    network = hybrid(family)
    cases = inputs(network)
    want = hf_sweep.results(network, cases)
    assert want.keys() >= {"left padded", "gradients", "generated"}
    got = hf_sweep.results(hf.attach(network), cases, want)
    for case, tensor in want.items():
        hf_sweep.assert_close(got[case], tensor, case)


# --- what the sweep would find -----------------------------------------------


@torch.no_grad()
def leak(network: nn.Module) -> float:
    """Return how far the last token moves the outputs of earlier ones."""
    ids = inputs(network)["none"]["input_ids"]
    other = ids.clone()
    other[:, -1] = ids[:, 0]
    outs = [output(network, {"input_ids": x})[:, :-1] for x in (ids, other)]
    return (outs[0] - outs[1]).abs().max().item()


def test_git_attends_to_no_future_token_whatever_is_tried():
    """Attached by name alone its text half does, silently."""
    network = build("git")
    assert leak(network) == 0
    with pytest.raises(ValueError, match="GitSelfAttention .* inline") as info:
        hf.attach(network)
    assert leak(network) == 0
    network.set_attn_implementation(hf.register())
    assert leak(network) > 0.1, "refusing is necessary"
    part = "model.git.image_encoder"
    assert f"attn.hf.attach({part}) replaces that of a part" in str(info.value)


@torch.no_grad()
@pytest.mark.parametrize("family", ["granite_swa", "gpt_oss"])
def test_weights_are_those_that_eager_reports_with_a_sink(family):
    """Granite's leave the sink out, which scales the output afterwards."""
    network = build(family)
    kwargs = inputs(network)["right"] | {"output_attentions": True}
    want = network(**kwargs).attentions
    got = hf.attach(network)(**kwargs).attentions
    assert len(got) == len(want) == 2
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["git", "inkling2_text"])
def test_what_is_refused_is_left_as_it_was(family):
    network = build(family).train()
    network.get_submodule(next(iter(dict(network.named_children())))).eval()
    config, modes = network.config, [x.training for x in network.modules()]
    names = dict(registration.registered)
    known = dict(T.AttentionInterface._global_mapping)
    torch.manual_seed(3)
    with pytest.raises(ValueError):
        hf.attach(network)
    drawn = torch.rand(())
    torch.manual_seed(3)
    assert drawn == torch.rand(()), "the probe draws numbers of its own"
    assert network.config is config
    assert config._attn_implementation == "eager"
    assert [x.training for x in network.modules()] == modes
    assert all(p.grad is None for p in network.parameters())
    assert not any(x._forward_pre_hooks for x in network.modules())
    assert registration.registered == names
    assert T.AttentionInterface._global_mapping == known


def test_a_model_runs_only_where_reading_its_classes_leaves_doubt(monkeypatch):
    def ran(self, network):
        raise AssertionError("it ran")

    monkeypatch.setattr(Probe, "__init__", ran)
    for family in DECODERS.keys() - {"gpt2"}:
        with torch.device("meta"):
            network = T.AutoModelForCausalLM.from_config(config(family))
        hf.attach(network)
        assert network.config._attn_implementation == "attn", family
    with pytest.raises(AssertionError, match="it ran"):
        hf.attach(model("gpt2", "eager"))


def test_masks_are_tensors_where_a_doubtful_model_is_too_large(monkeypatch):
    network = build("doge")
    cases = inputs(network)
    want = {k: output(network, x) for k, x in cases.items()}
    monkeypatch.setattr("attn.hf.probing.LARGEST", 10)
    monkeypatch.setattr(Probe, "check", None)
    hf.attach(network)
    assert network.config._attn_implementation == "attn.tensors"
    for name, x in want.items():
        assert (output(network, cases[name]) - x).abs().max() < 1e-4


def test_a_model_whose_weights_are_elsewhere_is_not_run():
    settings = build("doge").config
    with torch.device("meta"):
        network = hf.attach(T.AutoModelForCausalLM.from_config(settings))
    assert network.config._attn_implementation == "attn.tensors"


def test_a_class_that_no_token_reaches_leaves_the_doubt():
    """Its audio encoder gets a mask from another part, with sound alone."""
    network = build("qwen2_audio")
    doubts = read(network).doubts
    names = {cls.__name__ for cls in doubts}
    assert "Qwen2AudioEncoder" in names
    assert not Probe(network).has_run(doubts)


def test_a_leak_is_seen_even_if_the_outputs_are_close(monkeypatch):
    """Small weights, as before training, hide it from a tolerance."""
    network = build("doge")
    probe = Probe(network)
    real = probe.outputs

    def leaking(one, kwargs):
        name = next(k for k, x in probe.inputs.items() if x is kwargs)
        moved = 5e-5 * (name == "another last token")
        return real[name] + moved * real[name].abs().max()

    monkeypatch.setattr("attn.hf.probing._output", leaking)
    with pytest.raises(Unsuitable, match="its last token changes the outp"):
        probe.check("eager")


def test_other_outputs_and_nans_are_seen(monkeypatch):
    network = build("doge")
    probe = Probe(network)
    for change in (torch.nan, 1.0):
        monkeypatch.setattr(
            "attn.hf.probing._output",
            lambda one, _, change=change: probe.outputs["tokens"] + change,
        )
        with pytest.raises(Unsuitable, match="its output for tokens differs"):
            probe.check("eager")
