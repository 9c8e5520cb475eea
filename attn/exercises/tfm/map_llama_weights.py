"""Cases and properties of ``tfm-map_llama_weights``."""

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import dtypes, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.positions import convert_pairing

_PARTS = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "q_proj.weight",
    "self_attn.k_proj": "k_proj.weight",
    "self_attn.v_proj": "v_proj.weight",
    "self_attn.o_proj": "out_proj.weight",
    "post_attention_layernorm": "feed_forward_norm",
    "mlp.gate_proj": "feed_forward.gate_proj.weight",
    "mlp.up_proj": "feed_forward.up_proj.weight",
    "mlp.down_proj": "feed_forward.down_proj.weight",
}
_AROUND = {
    "model.embed_tokens.weight": "embedding.weight",
    "model.norm.weight": "norm",
    "lm_head.weight": "head.weight",
}


def map_llama_weights(
    state: dict[str, Tensor],
    num_heads: int,
    num_kv_heads: int,
    interleaved: bool = False,
) -> dict[str, Tensor]:
    """Look each name up; ``attn``'s own function permutes: the reference."""
    heads = {"self_attn.q_proj": num_heads, "self_attn.k_proj": num_kv_heads}
    found = {}
    for name, x in state.items():
        inside = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name)
        if inside:
            layer, part = inside.groups()
            if interleaved and part in heads:
                D = len(x) // heads[part]
                x = convert_pairing(x, "half", dim=0, head_dim=D)
            found[f"blocks.{layer}.{_PARTS[part]}"] = x
        elif name in _AROUND:
            found[_AROUND[name]] = x
    found.setdefault("head.weight", found["embedding.weight"])
    return found


SIZES = {  # layers, H, Hkv, D, the hidden features, V
    "there is one layer, and every query head has its own key head": [
        (1, 2, 2, 4, 10, 9),
        (1, 3, 3, 2, 7, 5),
    ],
    "there are two layers, and heads share keys": [
        (2, 4, 2, 4, 10, 9),
        (2, 3, 1, 4, 14, 11),
        (1, 5, 5, 2, 6, 7),
    ],
    "there are twelve layers, and two digits in a name": [(12, 2, 1, 2, 3, 3)],
    "all matrices are square, so that a transposed one fits": [
        (1, 2, 2, 2, 4, 4),
    ],
}
UNTIED = {
    "the head is not tied": [(1, 2, 1, 4, 10, 9), (2, 4, 2, 2, 10, 9)],
    "all matrices are square, so that a transposed one fits": [
        (2, 2, 2, 4, 8, 8),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def llama(
        layers: int, H: int, Hkv: int, D: int, hidden: int, V: int, tied=True
    ) -> dict[str, Tensor]:
        """Draw a state dict, in the order of transformers."""
        E = H * D
        inside = {
            "self_attn.q_proj": (E, E),
            "self_attn.k_proj": (Hkv * D, E),
            "self_attn.v_proj": (Hkv * D, E),
            "self_attn.o_proj": (E, E),
            "mlp.gate_proj": (hidden, E),
            "mlp.up_proj": (hidden, E),
            "mlp.down_proj": (E, hidden),
            "input_layernorm": (E,),
            "post_attention_layernorm": (E,),
        }
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (V, E)}
        for i in range(layers):
            shapes |= {f"model.layers.{i}.{x}": y for x, y in inside.items()}
        shapes |= {"model.norm": (E,)} | ({} if tied else {"lm_head": (V, E)})
        return {f"{x}.weight": g.randn(*shape) for x, shape in shapes.items()}

    tied = "head.weight", "embedding.weight"
    for when, sizes in entries(SIZES):
        _, H, Hkv, *_ = sizes
        yield Case(when, (llama(*sizes), H, Hkv), one_tensor=tied)
    for when, sizes in entries(UNTIED):
        _, H, Hkv, *_ = sizes
        yield Case(when, (llama(*sizes, tied=False), H, Hkv))

    when = "it is an old file, with buffers of the rotation"
    state = llama(2, 4, 2, 4, 10, 9)
    for i in range(2):
        name = f"model.layers.{i}.self_attn.rotary_emb.inv_freq"
        state[name] = torch.rand(2, generator=g)
    yield Case(when, (state, 4, 2))

    when = "the tensors come in another order"
    names = list(state := llama(3, 2, 1, 2, 3, 3, tied=False))
    order = torch.randperm(len(names), generator=g).tolist()
    names = sorted((names[n] for n in order), key=lambda x: ".0." in x)
    yield Case(when, ({name: state[name] for name in names}, 2, 1))

    when = "the file is interleaved, of one head"
    yield Case(when, (llama(1, 1, 1, 8, 10, 9), 1, 1, True))

    when = "the file is interleaved"
    yield Case(when, (llama(2, 4, 2, 6, 10, 9), 4, 2, True))
    yield Case(when, (llama(1, 6, 2, 8, 10, 9, tied=False), 6, 2, True))
    yield Case(when, (llama(2, 3, 3, 8, 24, 24), 3, 3, True))
    yield Case(when, (llama(1, 4, 1, 6, 10, 9), 4, 1, True))


exercise = Exercise(
    id="tfm-map_llama_weights",
    points=3,
    reference=map_llama_weights,
    cases=_cases,
    also=(
        dtypes(torch.bfloat16),
        views("the weights are views of other tensors"),
    ),
    properties=(
        Property(
            "A name still has self_attn in it: your block has its four maps "
            "at the top, q_proj to out_proj.",
            lambda case, out: (
                not isinstance(out, dict)
                or not any("self_attn" in x for x in out)
            ),
        ),
    ),
    breaks={
        "H = 1": lambda c: 1 < c.args[2] < c.args[1],
        "weight = 1": lambda c: all(
            len(x.unique()) > 1 for x in c.args[0].values()
        ),
        "contiguous strides": lambda c: (
            not all(x.is_contiguous() for x in c.args[0].values())
        ),
    },
)
