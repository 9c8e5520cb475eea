"""Record what runs in a forward pass of transformers, and what it reads.

python -m book.figures.hf_forward
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from book.figures.bake import bake

TOKENS, PADDING, LAYERS = 6, 2, 4
#: What one can choose: as the configuration names it, and in words.
CHOICES = {
    "name": {
        "eager": "eager",
        "sdpa": "sdpa",
        "own": "own, with its mask",
        "half": "own, without a mask",
    },
    "model": {
        "llama": "Llama",
        "gemma3_text": "Gemma 3, windows of 3",
        "sets": "a Llama of sets",
    },
    "padding": {"none": "none", "left": "two tokens, on the left"},
    "pass": {"prompt": "the prompt", "token": "one new token"},
}
_SIZES: dict[str, Any] = {
    "vocab_size": 9,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
    "initializer_range": 0.3,  # or all weights would be the same grey
}


def own(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Compute attention as somebody's first function for transformers."""
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo().min)
    return (scores.softmax(-1) @ value).transpose(1, 2), None


def record(name: str, model: str, padding: str, phase: str) -> dict[str, Any]:
    """Run one forward pass; return its calls, and what they read.

    Returns:
        ``masks``: for each call of the mask function, its arguments, the
        kind and shape of what it returned, and which pairs are allowed.
        ``layers``: for each call of the attention function, the number of
        its mask (-1: none was made), its arguments and result in words, and
        the weights of head 0, ``(L, S)``. ``states``: the stream after each
        layer, ``(LAYERS, TOKENS, E)``, that of cached tokens included.
    """
    from transformers import (
        AttentionInterface,
        AttentionMaskInterface,
        AutoConfig,
        AutoModel,
        masking_utils,
    )
    from transformers.integrations import sdpa_attention
    from transformers.models.llama import modeling_llama

    functions: dict[str, Any] = {
        "eager": modeling_llama.eager_attention_forward,
        "sdpa": sdpa_attention.sdpa_attention_forward,
    }
    makers: dict[str, Any] = {
        "eager": masking_utils.eager_mask,
        "sdpa": masking_utils.sdpa_mask,
        "own": _unskipped,
    }
    made_masks: list[Any] = []
    masks: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    states: list[list[Tensor]] = [[] for _ in range(LAYERS)]

    def make(**kwargs: Any) -> Any:
        mask = makers[name](**kwargs)
        made_masks.append(mask)
        masks.append({"called": _words(kwargs), **_described(mask)})
        return mask

    def attend(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Any]:
        # A value that says which key it belongs to comes back as a weight.
        S = key.shape[2]
        which = torch.eye(S).expand(*value.shape[:2], S, S)
        function = functions.get(name, own)
        tensors = (module, query, key)
        weights, _ = function(*tensors, which, mask, **kwargs)
        out, _ = function(*tensors, value, mask, **kwargs)
        made_by = [i for i, x in enumerate(made_masks) if x is mask]
        layers.append(
            {
                "mask": (made_by or [-1])[0],
                "query": _shape(query),
                "key": _shape(key),
                "kwargs": _words(kwargs),
                "returns": _shape(out),
                "weights": weights[0, :, 0],  # (L, S)
            }
        )
        return out, None

    AttentionInterface.register("recorded", attend)
    tables = AttentionMaskInterface._global_mapping
    tables.pop("recorded", None)
    if name in makers:
        AttentionMaskInterface.register("recorded", make)
    fields = dict(_SIZES)
    if model == "gemma3_text":
        kinds = ["sliding_attention", "full_attention"]
        fields |= {"sliding_window": 3, "layer_types": kinds * (LAYERS // 2)}
        fields |= {"query_pre_attn_scalar": fields["head_dim"]}
    kind = "llama" if model == "sets" else model
    torch.manual_seed(0)
    made = AutoModel.from_config(
        AutoConfig.for_model(kind, **fields), attn_implementation="recorded"
    ).eval()
    if model == "sets":
        made.config.is_causal = False
    for layer, own_states in zip(made.layers, states, strict=True):
        layer.register_forward_hook(
            lambda _, x, out, own_states=own_states: own_states.append(out)
        )
    real = torch.ones(1, TOKENS, dtype=torch.long)
    if padding == "left":
        real[:, :PADDING] = 0
    ids = (1 + torch.arange(TOKENS))[None] * real
    with torch.no_grad():
        before = TOKENS - 1 if phase == "token" else TOKENS
        out = made(ids[:, :before], attention_mask=real[:, :before])
        if phase == "token":
            for calls in (made_masks, masks, layers):
                calls.clear()
            made(
                ids[:, before:],
                attention_mask=real,
                past_key_values=out.past_key_values,
            )
    tables.pop("recorded", None)
    del AttentionInterface._global_mapping["recorded"]
    stream = torch.stack([torch.cat(x, 1)[0] for x in states])
    return {"masks": masks, "layers": layers, "states": stream}


def _unskipped(**kwargs: Any) -> Any:
    from transformers import masking_utils

    kwargs["allow_is_causal_skip"] = False
    kwargs["allow_is_bidirectional_skip"] = False
    return masking_utils.sdpa_mask(**kwargs)


def _described(mask: Any) -> dict[str, Any]:
    if mask is None:
        return {"kind": "None", "shape": "", "allowed": []}
    boolean = mask.dtype == torch.bool
    return {
        "kind": "bool" if boolean else "additive",
        "shape": _shape(mask),
        "allowed": (mask if boolean else mask == 0)[0, 0].int().tolist(),
    }


def _shape(x: Tensor) -> str:
    return " × ".join(map(str, x.shape))


def _words(kwargs: Mapping[str, Any]) -> str:
    """Write arguments as they were passed, those that steer attention."""
    plain = {
        name: f"{x:.3g}" if isinstance(x, float) else str(x)
        for name, x in kwargs.items()
        if (x is None or isinstance(x, int | float))
        and not name.startswith(("use_", "allow_"))
    }
    return ", ".join(f"{name}={x}" for name, x in plain.items())


def drift(states: Tensor, right: Tensor) -> list[list[int]]:
    """Return how far each token's state is off, in percent of its length."""
    off = (states - right).norm(dim=-1) / right.norm(dim=-1)
    return [[round(100 * x) for x in row] for row in off.tolist()]


def leaky(weights: Tensor, right: Tensor, real: Tensor) -> list[list[int]]:
    """Write weights in thousandths, with a sign for those that are wrong.

    Args:
        weights: ``(L, S)``; one that is read at all does not become 0.
        right: what the model's own attention gives, ``(L, S)``.
        real: whether each query is a real token, ``(L,)``.

    Returns:
        ``L`` rows; negative where a real token reads what ``right`` does not.
    """
    read = weights > 1e-6
    thousandths = torch.where(read, (1000 * weights).round().clamp(min=1), 0)
    wrong = read & (right <= 1e-6) & real[:, None]
    signed: list[list[int]] = (
        torch.where(wrong, -thousandths, thousandths).int().tolist()
    )
    return signed


def numbers() -> dict[str, object]:
    said: dict[str, int] = {}  # words that occur again and again, numbered
    right: dict[tuple[str, ...], dict[str, Any]] = {}
    runs: dict[str, Any] = {}
    for name, *rest in product(*CHOICES.values()):
        run = record(name, *rest)
        # The model's own attention comes first: it is right.
        model = right.setdefault(tuple(rest), run)
        layers = []
        for layer, its in zip(run["layers"], model["layers"], strict=True):
            mask, *words, weights = layer.values()
            real = torch.arange(TOKENS)[-len(weights) :] >= (
                PADDING if "left" in rest else 0
            )
            numbered = [said.setdefault(x, len(said)) for x in words]
            signed = leaky(weights, its["weights"], real)
            layers.append([mask, *numbered, signed])
        runs["|".join([name, *rest])] = {
            "masks": [list(mask.values()) for mask in run["masks"]],
            "layers": layers,
            "drift": drift(run["states"], model["states"]),
        }
    return {
        "padding": PADDING,
        "choices": {k: list(v.items()) for k, v in CHOICES.items()},
        "said": list(said),
        "runs": runs,
    }


if __name__ == "__main__":
    bake("hf_forward", numbers())
