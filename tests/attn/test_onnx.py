"""ONNX's own cases for the operators that ``attn`` has, all of them.

``attend`` and ``rotate`` translate a node into our arguments. They hold no
mathematics: they rename, reshape, and put past and new keys one after the
other. A norm's operator goes over all axes from one on, the modules over the
last: with these axes flattened both are the same.
"""

import importlib
import warnings
from unittest import mock

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx.reference.ops import op_attention

import attn
from tests.attn.cases import assert_exact
from tests.attn.implementations import every_implementation

NUMBERS = {
    "Attention": 93,
    "RotaryEmbedding": 8,
    "LayerNormalization": 19,
    "RMSNormalization": 19,
}
NORMS = {
    "LayerNormalization": (attn.LayerNorm, F.layer_norm),
    "RMSNormalization": (attn.RMSNorm, F.rms_norm),
}


def cases_of(operator):
    """The cases whose graph begins with this operator. Each comes a second
    time, expanded into other operators; those are left out.

    A module makes its cases when it is imported, with a seed of its own.
    ONNX imports the modules of all operators, which takes seconds.
    """
    with warnings.catch_warnings(action="ignore"):
        from onnx.backend.test.case import node

        importlib.import_module(f"{node.__name__}.{operator.lower()}")
        with mock.patch.object(node, "import_recursive"):
            made = node.collect_testcases()
    graphs = ((case, case.model.graph.node) for case in made)
    return [c for c, nodes in graphs if nodes[0].op_type == operator]


def tensor(array):
    if array.dtype.name == "bfloat16":  # NumPy has none: exact in float32
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def unpacked(case):
    """Return the node's arrays by name, its attributes, its outputs."""
    (node,) = case.model.graph.node
    ((arrays, expected),) = case.data_sets
    inputs = dict(zip(filter(None, node.input), arrays, strict=True))
    outputs = dict(zip(filter(None, node.output), expected, strict=True))
    attributes = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
    }
    return inputs, attributes, outputs


CASES = {operator: cases_of(operator) for operator in NUMBERS}


def test_all_cases_of_onnx_are_collected():
    for operator, number in NUMBERS.items():
        names = [case.name for case in CASES[operator]]
        assert len(names) == len({*names}) == number


# --- attention ---------------------------------------------------------------


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
        "window": tuple(None if size < 0 else size for size in sizes),
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
    given = {k: v for k, v in attributes.items() if k != "softmax_precision"}
    with np.errstate(all="ignore"):
        results = op_attention._compute_attention(
            **exact, **given, _validate_attention25=False
        )
    names = ("Y", "present_key", "present_value", "qk_matmul_output")
    return dict(zip(names, map(torch.from_numpy, results), strict=True))


@every_implementation
@pytest.mark.parametrize(
    "case", CASES["Attention"], ids=lambda case: case.name[5:]
)
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


# --- norms -------------------------------------------------------------------


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


# --- rotations ---------------------------------------------------------------


def rotate(inputs, attributes):
    """ONNX's operator by ``attn``'s functions: it renames and reshapes."""
    x, cos, sin = (inputs[k] for k in ("input", "cos_cache", "sin_cache"))
    if "position_ids" in inputs:
        cos, sin = (table[inputs["position_ids"]] for table in (cos, sin))
    interleaved = bool(attributes.get("interleaved", 0))
    cos, sin = (  # each angle once there, once for each element here
        table.repeat_interleave(2, -1)
        if interleaved
        else torch.cat([table, table], -1)
        for table in (cos, sin)
    )
    packed = x.dim() == 3
    x = attn.split_heads(x, attributes["num_heads"]) if packed else x
    out = attn.apply_rope(x, cos, sin, interleaved)
    return attn.merge_heads(out) if packed else out


@pytest.mark.parametrize(
    "case", CASES["RotaryEmbedding"], ids=lambda case: case.name[5:]
)
def test_apply_rope_equals_the_cases_of_onnx(case):
    arrays, attributes, expected = unpacked(case)
    inputs = {name: tensor(x) for name, x in arrays.items()}
    exact = {
        name: x.double() if x.is_floating_point() else x
        for name, x in inputs.items()
    }
    rival = tensor(expected["output"])
    assert_exact(rotate(inputs, attributes), rotate(exact, attributes), rival)
    assert_exact(rival, rotate(exact, attributes))
