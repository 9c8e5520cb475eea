"""ONNX's own cases for ``LayerNormalization`` and ``RMSNormalization``.

The operators normalise over all axes from one on; the modules over the last.
With these axes flattened both are the same.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from attn.nn import LayerNorm, RMSNorm
from tests.attn.cases import assert_exact
from tests.attn.onnx_cases import cases_of, tensor, unpacked

NORMS = {
    "LayerNormalization": (LayerNorm, F.layer_norm),
    "RMSNormalization": (RMSNorm, F.rms_norm),
}
NUMBER_OF_CASES = 19  # of each
CASES = {name: cases_of(name) for name in NORMS}


def test_all_norm_cases_of_onnx_are_collected():
    for cases in CASES.values():
        assert len({case.name for case in cases}) == NUMBER_OF_CASES


@pytest.mark.parametrize(
    "operator,case",
    [(name, case) for name in NORMS for case in CASES[name]],
    ids=lambda x: x if isinstance(x, str) else x.name[5:],
)
@torch.no_grad()
def test_norms_equal_the_cases_of_onnx(operator, case):
    arrays, attributes, expected = unpacked(case)
    x, *parameters = map(tensor, arrays.values())
    axis, eps = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    make, torchs = NORMS[operator]
    flat = x.flatten(axis)
    norm = make(flat.shape[-1], eps=eps)
    names = ("weight", "bias")[: len(parameters)]
    norm.load_state_dict(
        {k: w.flatten() for k, w in zip(names, parameters, strict=True)}
    )
    wide = [w.double() for w in parameters]
    oracle = torchs(x.double(), x.shape[axis:], *wide, eps=eps)
    rival = tensor(expected["Y"])  # statistics are left out
    assert_exact(norm(flat).view_as(x), oracle, rival)
    assert_exact(rival, oracle)
