"""ONNX's own cases for its ``Attention`` operator, all of them.

``attend`` translates a node into our arguments. It holds no mathematics: it
renames, reshapes, and puts past and new keys one after the other.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from onnx.reference.ops import op_attention

import attn
from tests.attn.cases import assert_exact
from tests.attn.implementations import every_implementation
from tests.attn.onnx_cases import cases_of, tensor, unpacked

NUMBER_OF_CASES = 93
CASES = cases_of("Attention")


def bound(size: int) -> int | None:
    return None if size < 0 else size


def attend(inputs, attributes, attention=attn.scaled_dot_product_attention):
    """The ``Attention`` operator by ``attn``'s functions."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    packed = q.dim() == 3
    if packed:
        heads, kv_heads = (attributes[f"{x}_num_heads"] for x in ("q", "kv"))
        q = attn.split_heads(q, heads)
        k, v = (attn.split_heads(x, kv_heads) for x in (k, v))
    q_offset = 0
    if "past_key" in inputs:
        q_offset = inputs["past_key"].shape[2]
        k = torch.cat([inputs["past_key"], k], 2)
        v = torch.cat([inputs["past_value"], v], 2)
    length = k.shape[2]
    mask = inputs.get("attn_mask")
    if mask is not None:
        missing = length - mask.shape[-1]
        filler = False if mask.dtype == torch.bool else -torch.inf
        mask = F.pad(mask, (0, missing), value=filler)
        mask = mask[None] if mask.dim() == 1 else mask
    if "nonpad_kv_seqlen" in inputs:
        valid = inputs["nonpad_kv_seqlen"]
        q_offset = valid - q.shape[2]
        here = attn.padding(torch.arange(length) < valid[:, None])
        keep = here.dense(1, length, batch=len(valid))  # (B, 1, 1, S)
        if mask is None:
            mask = here
        elif mask.dtype == torch.bool:
            mask = mask & keep
        else:
            mask = mask.masked_fill(~keep, -torch.inf)
    sizes = [attributes.get(f"{x}_window_size", -1) for x in ("left", "right")]
    scaled = {"scale": attributes.get("scale"), "enable_gqa": True}
    capped = scaled | {"softcap": attributes.get("softcap", 0.0) or None}
    masked = capped | {
        "attn_mask": mask,
        "is_causal": bool(attributes.get("is_causal", 0)),
        "window": tuple(map(bound, sizes)),
        "q_offset": q_offset,
    }
    out = attention(q, k, v, **masked)
    stage = attributes.get("qk_matmul_output_mode", 0)
    settings = (scaled, capped, masked, masked)[stage]
    inner = attn.attention_weights(q, k, **settings)
    return {
        "Y": attn.merge_heads(out) if packed else out,
        "present_key": k,
        "present_value": v,
        "qk_matmul_output": inner.weights if stage == 3 else inner.scores,
    }


def by_onnx_in_float64(arrays, attributes):
    """ONNX's reference, without its rounding to a lower precision."""
    exact = {
        name: x if x.dtype in (np.bool_, np.int64) else x.astype(np.float64)
        for name, x in arrays.items()
    }
    settings = {
        k: v for k, v in attributes.items() if k != "softmax_precision"
    }
    with np.errstate(all="ignore"):
        results = op_attention._compute_attention(
            **exact, **settings, _validate_attention25=False
        )
    names = ("Y", "present_key", "present_value", "qk_matmul_output")
    return dict(zip(names, map(torch.from_numpy, results), strict=True))


def test_all_attention_cases_of_onnx_are_collected():
    assert len(CASES) == NUMBER_OF_CASES
    assert len({case.name for case in CASES}) == NUMBER_OF_CASES


@every_implementation
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[5:])
def test_attention_equals_the_cases_of_onnx(case, implementation):
    arrays, attributes, expected = unpacked(case)
    assert expected, "nothing to compare"
    inputs = {name: tensor(x) for name, x in arrays.items()}
    ours = attend(inputs, attributes, implementation)
    oracle = by_onnx_in_float64(arrays, attributes)
    for name, theirs in expected.items():
        rival = tensor(theirs)
        if name == "Y":
            assert ours[name].dtype == rival.dtype
        assert_exact(ours[name].to(rival.dtype), oracle[name], rival)
        # The oracle is theirs too: it must not be far from what they store.
        assert_exact(rival, oracle[name])
