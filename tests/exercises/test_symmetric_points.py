"""Each exercise's inputs leave every symmetric point that applies to it.

At a symmetric point a mistake cancels: with one key every softmax is right,
with as many queries as keys a transposed mask still fits. The ten points are
those at which most of the known mistakes were found to hide.
"""

import pytest
import torch

from attn.exercises.spec import every_exercise

EXERCISES = {x.id: x for x in every_exercise()}

POINTS = {
    "position 0": "an offset, a rotation or a row index does nothing",
    "S = 1": "every softmax over one key is 1",
    "H = 1": "head and batch axes cannot be mixed up",
    "L = S": "a transposed or top-left mask still fits",
    "p = 0.5": "p and 1 - p are the same",
    "cap = 50": "a cap far above the scores does nothing",
    "weight = 1": "a weight that is left out, or used twice, does nothing",
    "identity block table": "an ignored table does nothing",
    "zeroed memory": "reading what was never written gives 0",
    "contiguous strides": "reshape and transpose agree",
}

NOWHERE_YET = {"identity block table": "no exercise has a paged cache"}


def tensors(case):
    found = [*case.args, *case.kwargs.values()]
    return [x for x in found if isinstance(x, torch.Tensor)]


def is_view(case):
    return any(not x.is_contiguous() for x in tensors(case))


def amid_nan(case):
    """In a larger memory that is not zero."""
    x = case.args[0]
    around = torch.empty(0).to(x.dtype).set_(x.untyped_storage())
    return len(around) > x.numel() and bool((around[:4] != 0).all())


def arguments(case, *names):
    """Arguments by name, whether they came by position or by keyword."""
    given = dict(zip(names, case.args, strict=False))
    return [{**given, **case.kwargs}.get(name) for name in names]


def softmax_axis(case):
    x, dim = arguments(case, "x", "dim")
    return x.shape[-1 if dim is None else dim]


def many_queries(case):
    return case.args[0].shape[-2] != case.args[1].shape[-2]


def many_keys(case):
    return case.args[1].shape[-2] > 1


def heads(case):
    return case.args[0].dim() >= 4 and case.args[0].shape[-3] > 1


def offset(case):
    return bool(arguments(case, "q_len", "kv_len", "q_offset")[2])


def window_offset(case):
    return bool(arguments(case, "q_len", "kv_len", "size", "q_offset")[3])


def not_square(case):
    return case.args[0] != case.args[1]


def batch(case):
    return len(case.args[0]) > 1


def several(case):
    """Heads, as the second argument of a function that cuts or counts."""
    return arguments(case, "", "num_heads")[1] not in (None, 1)


def kv_heads(case):
    """More than one key head, each shared."""
    query, key = arguments(case, "query", "key")
    return 1 < key.shape[-3] < query.shape[-3]


def positions_from_zero(case):
    positions = case.args[1]
    return bool(positions.any()) and bool((positions[..., 0] != 0).any())


def turns(case):
    """Several pairs, so that the layout and the order matter."""
    return len(case.args[2]) > 1


LEFT_BY = {
    "sdp-softmax": {
        "S = 1": lambda c: softmax_axis(c) > 1,
        "L = S": lambda c: len(set(c.args[0].shape)) == c.args[0].dim() > 1,
        "contiguous strides": is_view,
    },
    "sdp-attention_loops": {
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
    "sdp-attention": {
        "S = 1": many_keys,
        "H = 1": heads,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
    "sdp-logit_variance": {
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
    "sdp-SelfAttention": {
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: c.args[0].dim() >= 3 and c.args[0].shape[0] > 1,
        "L = S": lambda c: c.init["embed_dim"] != c.init["head_dim"],
        "weight = 1": lambda c: all(
            len(w.unique()) > 1 for w in c.state.values()
        ),
        "contiguous strides": is_view,
    },
    "mask-causal": {
        "position 0": offset,
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": not_square,
    },
    "mask-padding": {
        "S = 1": lambda c: arguments(c, "lengths", "kv_len")[1] > 1,
        "H = 1": batch,
        "L = S": lambda c: len(c.args[0]) != arguments(c, "", "kv_len")[1],
    },
    "mask-apply_mask": {
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": heads,
        "L = S": lambda c: c.args[0].shape[-1] != c.args[0].shape[-2],
        "contiguous strides": is_view,
    },
    "mask-combine": {
        "S = 1": lambda c: all(x.shape[-1] > 1 for x in c.args),
        "H = 1": lambda c: any(x.dim() > 2 for x in c.args),
        "L = S": lambda c: any(
            x.dim() > 1 and x.shape[-1] != x.shape[-2] for x in c.args
        ),
        "weight = 1": lambda c: any(
            x.is_floating_point()
            and x.isfinite().any()
            and x.unique().numel() > 2
            for x in c.args
        ),
        "contiguous strides": is_view,
    },
    "mask-sliding_window": {
        "position 0": window_offset,
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": not_square,
        "weight = 1": lambda c: (
            1 < arguments(c, "", "", "size")[2] < c.args[1]
        ),
    },
    "mha-split_heads": {
        "H = 1": several,
        "L = S": lambda c: len(set(c.args[0].shape)) == c.args[0].dim(),
        "contiguous strides": is_view,
    },
    "mha-merge_heads": {
        "H = 1": lambda c: c.args[0].shape[-3] > 1,
        "L = S": lambda c: len(set(c.args[0].shape)) == c.args[0].dim(),
        "contiguous strides": is_view,
    },
    "mha-MultiHeadAttention": {
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: c.init["num_heads"] > 1,
        "L = S": lambda c: (
            c.kwargs.get("kv_input") is not None
            and c.kwargs["kv_input"].shape != c.args[0].shape
        ),
        "weight = 1": lambda c: len(c.state["out_proj.weight"].unique()) > 1,
    },
    "mha-pack_projections": {
        "H = 1": lambda c: c.kwargs.get("num_heads", 1) > 1,
        "L = S": lambda c: len(c.args[0]) != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
    "mha-attention_dropout": {
        "p = 0.5": lambda c: c.args[2] not in (0.0, 0.5, 1.0),
        "contiguous strides": is_view,
    },
    "gqa-repeat_kv": {
        "H = 1": lambda c: c.args[0].shape[-3] > 1 and c.args[1] > 1,
        "L = S": lambda c: c.args[0].shape[-3] != c.args[1] > 1,
        "contiguous strides": is_view,
    },
    "gqa-grouped_attention": {
        "S = 1": many_keys,
        "H = 1": kv_heads,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
    "gqa-GroupedQueryAttention": {
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: 1 < c.init["num_kv_heads"] < c.init["num_heads"],
        "L = S": lambda c: bool(c.init.get("head_dim")),
        "weight = 1": lambda c: all(
            len(w.unique()) > 1 for w in c.state.values()
        ),
    },
    "gqa-kv_cache_bytes": {
        "H = 1": lambda c: len({*c.args[:5]}) == len(c.args[:5]) == 5,
    },
    "gqa-pool_heads": {
        "H = 1": lambda c: 1 < c.args[2] < c.args[1],
        "L = S": lambda c: c.args[1] // c.args[2] != c.args[2],
        "contiguous strides": is_view,
    },
    "rope-frequencies": {
        "H = 1": lambda c: c.args[0] > 2,
        "weight = 1": lambda c: (
            arguments(c, "", "base")[1] not in (None, 10000.0)
        ),
    },
    "rope-apply_rope": {
        "position 0": positions_from_zero,
        "H = 1": lambda c: heads(c) and turns(c),
        "L = S": lambda c: c.args[1].dim() == 2,
        "weight = 1": lambda c: 2 * len(c.args[2]) < c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
    "rope-apply_rope_interleaved": {
        "position 0": positions_from_zero,
        "H = 1": lambda c: heads(c) and turns(c),
        "L = S": lambda c: c.args[1].dim() == 2,
        "weight = 1": lambda c: 2 * len(c.args[2]) < c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
    "rope-permute_weights": {
        "H = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: len(c.args[0]) != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
    "rope-llama3_scaling": {
        "weight = 1": lambda c: arguments(c, "", "factor")[1] not in (None, 8),
    },
    "rope-yarn_scaling": {
        "weight = 1": lambda c: c.args[2] != 1 and len(c.args) > 4,
    },
    "sdpa-scaled_dot_product_attention": {
        "S = 1": many_keys,
        "H = 1": heads,
        "L = S": many_queries,
        "p = 0.5": lambda c: c.kwargs.get("dropout_p", 0.5) not in (0.5, 1.0),
        "contiguous strides": is_view,
    },
    "sdpa-causal_lower_right": {
        "S = 1": lambda c: c.args[1] > 1,
        "L = S": not_square,
    },
    "sdpa-softcap": {
        "H = 1": heads,
        "L = S": lambda c: c.args[0].shape[-1] != c.args[0].shape[-2],
        "cap = 50": lambda c: c.args[0].abs().max() > c.args[1],
        "contiguous strides": is_view,
    },
    "sdpa-sinks": {
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": lambda c: len(c.args[1]) > 1,
        "L = S": lambda c: len(set(c.args[0].shape)) == c.args[0].dim(),
        "weight = 1": lambda c: bool((c.args[1] != 0).all()),
        "contiguous strides": is_view,
    },
    "mask-document": {
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "H = 1": batch,
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
    "flash-online_softmax": {
        "S = 1": lambda c: len(c.args[0]) > 1,
        "contiguous strides": lambda c: not c.args[0][0].is_contiguous(),
    },
    "flash-merge_states": {
        "contiguous strides": lambda c: not c.args[0][0].is_contiguous(),
    },
    "flash-tiled_forward": {
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
    "flash-tiled_backward": {
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
    "fwd-row_softmax_kernel": {
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: len({*c.args[0].shape, c.args[1]}) == 3,
        "zeroed memory": amid_nan,
        "contiguous strides": is_view,
    },
    "fwd-attention_forward_kernel": {
        "position 0": lambda c: c.kwargs.get("q_offset", 0) > 0,
        "S = 1": many_keys,
        "H = 1": kv_heads,
        "L = S": many_queries,
        "zeroed memory": amid_nan,
        "contiguous strides": is_view,
    },
    "fwd-causal_ranges": {
        "position 0": lambda c: c.args[0] > 0,
        "S = 1": lambda c: c.args[2] > 1,
        "L = S": lambda c: len({c.args[1] - c.args[0] + 1, *c.args[2:]}) == 3,
    },
}


def test_the_list_is_complete():
    assert len(POINTS) == 10
    assert set(LEFT_BY) == set(EXERCISES)
    applied = {point for claims in LEFT_BY.values() for point in claims}
    assert applied | set(NOWHERE_YET) == set(POINTS)
    assert not applied & set(NOWHERE_YET)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize(
    ("exercise", "point"),
    [(name, point) for name, claims in LEFT_BY.items() for point in claims],
)
def test_some_input_leaves_the_point(exercise, point, seed):
    cases = EXERCISES[exercise].generate(seed)
    left = [case.stage for case in cases if LEFT_BY[exercise][point](case)]
    assert left, f"{exercise} never leaves {point!r}: {POINTS[point]}"


def test_inputs_are_fresh_for_every_seed():
    for exercise in EXERCISES.values():
        first, second = (str(exercise.generate(seed)) for seed in (0, 1))
        assert first != second, exercise.id
