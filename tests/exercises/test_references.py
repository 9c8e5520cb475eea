"""References that do not come from the library are checked by others."""

import pytest
import torch

from attn.exercises.spec import find


@pytest.mark.parametrize("seed", range(3))
def test_the_tiled_backward_is_what_autograd_gives(seed):
    exercise = find("flash-tiled_backward")
    for case in exercise.generate(seed):
        query, key, value, _, _, d_out, *_ = (
            x.double() if torch.is_tensor(x) else x for x in case.args
        )
        is_causal = case.kwargs.get("is_causal", case.args[8:] == (True,))
        given = [x.clone().requires_grad_() for x in (query, key, value)]
        scores = given[0] @ given[1].mT / query.shape[-1] ** 0.5
        if is_causal:
            allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~allowed, -torch.inf)
        lse = scores.logsumexp(-1)
        out = scores.softmax(-1) @ given[2]
        expected = torch.autograd.grad(out, given, d_out)
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
