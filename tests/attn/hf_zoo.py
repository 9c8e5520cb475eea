"""Tiny models of transformers, and their logits in (true) float64.

Built offline from configurations. Every parameter is drawn again,
because transformers initialises biases to 0, norms to 1 and weights so small
that attention is nearly uniform, and then a wrong mapping can look right.
"""

import copy
import functools
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

VOCAB, LAYERS = 37, 3
COMMON = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LLAMA = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-2,
}
WITHOUT_EPS = {k: v for k, v in LLAMA.items() if k != "rms_norm_eps"}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "n_embd": 15,  # three heads of 5: odd
        "n_head": 3,
        "n_layer": LAYERS,
        "n_positions": 32,
        "layer_norm_epsilon": 1e-2,
    },
    "llama": LLAMA,
    "qwen3": LLAMA | {"head_dim": 10},
    "mistral": LLAMA | {"sliding_window": 3},
    "qwen2": LLAMA,
    "phi3": LLAMA,
    "starcoder2": WITHOUT_EPS | {"norm_epsilon": 1e-2},
    # Four heads of 8, of which 2 rotate.
    "stablelm": WITHOUT_EPS | {"layer_norm_eps": 1e-2, "hidden_size": 32},
    "gemma": LLAMA | {"head_dim": 10, "num_key_value_heads": 1},
    "gemma2": {
        **LLAMA,
        "head_dim": 10,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "sliding_window": 3,
        "query_pre_attn_scalar": 7,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gpt_neox": {
        "hidden_size": 28,  # four heads of 7, of which 4 rotate
        "num_attention_heads": 4,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 20,
        "max_position_embeddings": 32,
        "layer_norm_eps": 1e-2,
        "rotary_pct": 0.6,
    },
    "bloom": {
        "hidden_size": 15,  # three heads: not a power of two
        "n_head": 3,
        "n_layer": LAYERS,
        "layer_norm_epsilon": 1e-2,
    },
    "bert": {
        "hidden_size": 15,
        "num_attention_heads": 3,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 20,
        "max_position_embeddings": 32,
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-2,
    },
}
KINDS = {
    "Model": transformers.AutoModel,
    "ForCausalLM": transformers.AutoModelForCausalLM,
    "ForMaskedLM": transformers.AutoModelForMaskedLM,
    "ForSequenceClassification": (
        transformers.AutoModelForSequenceClassification
    ),
}


def config(family: str, **changes: Any) -> Any:
    """Return a tiny configuration of that family."""
    fields = {"vocab_size": VOCAB, **COMMON, **FAMILIES[family], **changes}
    return transformers.AutoConfig.for_model(family, **fields)


def model(family: str, kind: str | None = None, seed: int = 0, **changes: Any):
    """Return a tiny model of that family, with random parameters.

    Args:
        family: a key of ``FAMILIES``.
        kind: a key of ``KINDS``; by default the language model.
        seed: of the parameters.
        changes: fields of the configuration.
    """
    kind = kind or ("ForMaskedLM" if family == "bert" else "ForCausalLM")
    built = KINDS[kind].from_config(
        config(family, **changes), attn_implementation="eager"
    )
    return randomised(built, seed).eval()


@torch.no_grad()
def randomised(module: nn.Module, seed: int) -> nn.Module:
    """Draw norms about 1, biases about 0, matrices that keep variance."""
    g = torch.Generator().manual_seed(seed)
    for name, x in module.named_parameters():
        noise = torch.randn(x.shape, generator=g)
        if x.dim() > 1:
            x.copy_(noise * (1.5 * x.shape[-1] ** -0.5))
        else:
            x.copy_(noise * 0.3 + float(name.endswith("weight")))
    return module


class Double(TorchFunctionMode):
    """Compute in float64 what transformers casts to float32.

    Norms and softmax are float32 even in a float64 model (whose masks then
    overflow to NaN), which is no oracle for a float32 one. Rotary tables stay
    float32, as in attn.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}

        def widen(x):
            return torch.float64 if x is torch.float32 else x

        if func is Tensor.float and args[0].is_floating_point():
            func = Tensor.double
        elif func is Tensor.to and "device" not in kwargs:
            args = tuple(map(widen, args))
            kwargs = {k: widen(v) for k, v in kwargs.items()}
        elif func is not Tensor.to and "dtype" in kwargs:
            kwargs = {**kwargs, "dtype": widen(kwargs["dtype"])}
        return func(*args, **kwargs)


def output(result: Any) -> Tensor:
    """Return logits, or the last hidden states without a head."""
    logits = getattr(result, "logits", None)
    return result.last_hidden_state if logits is None else logits


@torch.no_grad()
def logits(theirs: nn.Module, ids: Tensor, **inputs: Any) -> Tensor:
    """Return the logits of transformers, in the model's dtype."""
    return output(theirs(ids, use_cache=False, **inputs))


@torch.no_grad()
def exact_logits(theirs: nn.Module, ids: Tensor, **inputs: Any) -> Tensor:
    """Return the logits of transformers, in float64."""
    with Double():
        return output(
            copy.deepcopy(theirs).double()(ids, use_cache=False, **inputs)
        )


@functools.cache
def ids(batch: int = 3, length: int = 9) -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCAB, (batch, length), generator=g)


def padding(side: str, length: int = 9) -> Tensor | None:
    """Return which tokens are real, (3, L), in rows of 9, 6 and 2."""
    if side == "none":
        return None
    real = torch.tensor([length, length - 3, 2])[:, None]
    place = torch.arange(length)
    return place >= length - real if side == "left" else place < real
