"""References outside the library agree with autograd and transformers."""

import pytest
import torch

from attn.exercises.spec import find


@pytest.mark.parametrize("seed", range(3))
def test_the_tiled_backward_equals_autograd(seed):
    exercise = find("flash-tiled_backward")
    for case in exercise.generate(seed):
        query, key, value, _, _, d_out, *_ = (
            x.double() if torch.is_tensor(x) else x for x in case.args
        )
        is_causal = case.kwargs.get("is_causal", case.args[8:] == (True,))
        leaves = [x.clone().requires_grad_() for x in (query, key, value)]
        scores = leaves[0] @ leaves[1].mT / query.shape[-1] ** 0.5
        if is_causal:
            allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~allowed, -torch.inf)
        lse = scores.logsumexp(-1)
        out = scores.softmax(-1) @ leaves[2]
        expected = torch.autograd.grad(out, leaves, d_out)
        got = exercise.reference(
            query,
            key,
            value,
            out.detach(),
            lse.detach(),
            d_out,
            3,
            4,
            is_causal,
        )
        for x, y in zip(got, expected, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-10)


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
        torch.testing.assert_close(*states)
        words = ours.pop("embed_tokens"), theirs.pop("embed_tokens")
        assert torch.equal(*words)
        assert ours.pop("is the model that was given")
        assert not theirs.pop("is the model that was given")  # a class
        assert ours.pop("runs under") == implementation
        assert theirs.pop("runs under") == "attn"  # where none is named
        assert ours == theirs
