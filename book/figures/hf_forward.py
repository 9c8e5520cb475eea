"""Record what runs in a forward pass of transformers, and who sees whom.

python -m book.figures.hf_forward
"""

from __future__ import annotations

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
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
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
    """Run one forward pass; return its calls, and the pairs that count.

    Returns:
        ``masks``: what each call of the mask function returned. ``layers``:
        for each layer, which of them it got (-1: from nobody) and who
        sees whom, rows of 0 and 1.
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
    masks: list[Any] = []
    layers: list[dict[str, Any]] = []

    def make(**kwargs: Any) -> Any:
        masks.append(makers[name](**kwargs))
        return masks[-1]

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
        seen = (weights[0, :, 0] > 1e-6).int().tolist()  # (L, S)
        rows = ("".join(map(str, row)) for row in seen)
        made_by = [i for i, x in enumerate(masks) if x is mask]
        layers.append({"mask": (made_by or [-1])[0], "sees": "/".join(rows)})
        return function(*tensors, value, mask, **kwargs)

    AttentionInterface.register("recorded", attend)
    tables = AttentionMaskInterface._global_mapping
    tables.pop("recorded", None)
    if name in makers:
        AttentionMaskInterface.register("recorded", make)
    fields = dict(_SIZES)
    if model == "gemma3_text":
        kinds = ["sliding_attention", "full_attention"]
        fields |= {"sliding_window": 3, "layer_types": kinds * (LAYERS // 2)}
    kind = "llama" if model == "sets" else model
    torch.manual_seed(0)
    made = AutoModel.from_config(
        AutoConfig.for_model(kind, **fields), attn_implementation="recorded"
    ).eval()
    if model == "sets":
        made.config.is_causal = False
    real = torch.ones(1, TOKENS, dtype=torch.long)
    if padding == "left":
        real[:, :PADDING] = 0
    ids = torch.arange(TOKENS)[None] % 9
    with torch.no_grad():
        before = TOKENS - 1 if phase == "token" else TOKENS
        out = made(ids[:, :before], attention_mask=real[:, :before])
        if phase == "token":
            masks.clear()
            layers.clear()
            made(
                ids[:, before:],
                attention_mask=real,
                past_key_values=out.past_key_values,
            )
    tables.pop("recorded", None)
    del AttentionInterface._global_mapping["recorded"]
    return {"masks": [_described(x) for x in masks], "layers": layers}


def _unskipped(**kwargs: Any) -> Any:
    from transformers import masking_utils

    kwargs["allow_is_causal_skip"] = False
    kwargs["allow_is_bidirectional_skip"] = False
    return masking_utils.sdpa_mask(**kwargs)


def _described(mask: Any) -> str:
    if mask is None:
        return "None"
    kind = "bool" if mask.dtype == torch.bool else "additive"
    return f"{kind}, {' × '.join(map(str, mask.shape))}"


def numbers() -> dict[str, object]:
    runs: dict[str, Any] = {}
    patterns: dict[str, int] = {}
    for chosen in product(*CHOICES.values()):
        run = record(*chosen)
        for layer in run["layers"]:
            seen = layer["sees"]
            layer["sees"] = patterns.setdefault(seen, len(patterns))
        runs["|".join(chosen)] = [
            run["masks"],
            [[x["mask"], x["sees"]] for x in run["layers"]],
        ]
    return {
        "padding": PADDING,
        "choices": {k: list(v.items()) for k, v in CHOICES.items()},
        "patterns": list(patterns),
        "runs": runs,
    }


if __name__ == "__main__":
    bake("hf_forward", numbers())
