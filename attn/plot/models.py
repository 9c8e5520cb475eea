"""Look inside a model: run it, and keep the weights of its heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments
from attn.plot.heads import ModelAttention

#: What can be read on an axis, and what a page can hold.
MOST_TOKENS, MOST_WEIGHTS = 64, 2**20


def model_attention(
    model: nn.Module,
    ids: Tensor,
    tokenizer: Any = None,
    *,
    field: str | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    head: tuple[int, int] | None = None,
    **inputs: Any,
) -> ModelAttention:
    """Run a model, and show the attention weights of all its heads.

    A model of transformers computes its weights by its own eager attention,
    or, after ``attn.hf.attach``, by ``attn.attention_weights`` of the queries
    and keys that arrive, with mask, window, softcap and sinks.

    Args:
        model: of transformers, eager or attached; or one of ``attn.nn`` that
            takes ``need_weights``. In eval mode.
        ids: token ids of one text, ``(L,)`` or ``(1, L)``.
        tokenizer: with ``decode``, for the words on the axes; the ids are
            written there when None.
        field: of the model's output, such as ``"cross_attentions"``; the
            first of its attentions when None.
        layers, heads: numbers of those shown; all when None. Layers are
            counted among those that have attention.
        head: layer and head of the large map at first; the first when None.
        inputs: further arguments of the model, such as
            ``decoder_input_ids`` or ``attention_mask``.

    Returns:
        What a notebook shows, and ``.save("heads.html")`` writes.

    Raises:
        ValueError: the model returns no weights, or is in training mode; a
            number is not one of its own; or there is too much to show.

    Example:
        >>> config = attn.TransformerConfig(
        ...     vocab_size=50, embed_dim=32, num_layers=2, num_heads=4,
        ...     positions="rope", is_causal=True,
        ... )
        >>> model = attn.Transformer(config).eval()
        >>> ids = torch.tensor([3, 14, 15, 9])
        >>> attn.plot.model_attention(model, ids, head=(1, 2))
        Transformer: layers 2, heads 4, queries 4, keys 4

    Source: transformers' ``output_attentions``.
    """
    ids = ids[None] if ids.dim() == 1 else ids
    written = inputs.get("decoder_input_ids", ids)
    _check(model, ids=ids, decoder_input_ids=written)
    field, every = _run(model, ids, field, inputs)
    layers = _numbers("layers", layers, len(every))
    heads = _numbers("heads", heads, every[0].shape[1])
    _check_size([every[i] for i in layers], heads)
    head = head or (layers[0], heads[0])
    if head[0] not in layers or head[1] not in heads:
        raise ValueError(
            f"head must be one of layers {layers} and one of heads {heads}; "
            f"got {head}"
        )
    weights = torch.stack([every[i][0, list(heads)] for i in layers])
    queries = ids if field.startswith("encoder") else written
    keys = written if field.startswith("decoder") else ids
    about = "" if field == "attentions" else f", {field.replace('_', ' ')}"
    return ModelAttention(
        weights.float().cpu(),
        _words(queries, weights.shape[-2], tokenizer),
        _words(keys, weights.shape[-1], tokenizer),
        tuple(layers),
        tuple(heads),
        head,
        f"{type(model).__name__}{about}",
    )


def _check(model: nn.Module, **texts: Tensor) -> None:
    """Raise unless there is one short text and no dropout."""
    if model.training:
        raise ValueError(
            "model must be in eval mode, for dropout changes weights; got "
            "training mode: call model.eval()"
        )
    for name, ids in texts.items():
        if ids.dim() != 2 or ids.shape[0] != 1:
            raise ValueError(
                f"{name} must have shape (1, L), one text; got "
                f"{tuple(ids.shape)}"
            )
        if ids.shape[1] > MOST_TOKENS:
            raise ValueError(
                f"{name} must have at most {MOST_TOKENS} tokens, so that they "
                f"can be read on an axis; got {ids.shape[1]}: choose a part "
                "of the text"
            )


def _run(
    model: nn.Module, ids: Tensor, field: str | None, inputs: dict[str, Any]
) -> tuple[str, list[Tensor]]:
    """Return the name of a model's attentions and those of each layer."""
    with torch.no_grad():
        if not hasattr(model, "set_attn_implementation"):
            return "attentions", model(ids, need_weights=True, **inputs)[1]
        out = model(ids, output_attentions=True, **inputs)
    found = {
        name: [weights for weights in out[name] if weights is not None]
        for name in out
        if name.endswith("attentions") and out[name]
    }
    if not any(found.values()):
        config: Any = model.config
        name = config._attn_implementation
        raise ValueError(
            "model must return its weights, as eager attention does; got "
            f"none from {name!r}: attn.hf.attach(model) computes them"
        )
    field = field or next(iter(found))
    arguments.choice("field", field, found)
    return field, found[field]


def _numbers(
    name: str, chosen: Sequence[int] | None, count: int
) -> Sequence[int]:
    chosen = range(count) if chosen is None else chosen
    if not chosen or not set(chosen) <= set(range(count)):
        raise ValueError(
            f"{name} must be numbers from 0 to {count - 1}; got {chosen}"
        )
    return chosen


def _check_size(maps: list[Tensor], heads: Sequence[int]) -> None:
    """Raise for more weights than a page can hold."""
    shapes = sorted({tuple(weights.shape[1:]) for weights in maps})
    if len(shapes) > 1:
        raise ValueError(
            "layers must have maps of one shape (H, L, S); got "
            f"{' and '.join(map(str, shapes))}"
        )
    L, S = shapes[0][1:]
    size = len(maps) * len(heads) * L * S
    if size > MOST_WEIGHTS:
        raise ValueError(
            "layers x heads x queries x keys must be at most "
            f"{MOST_WEIGHTS:,}; got {len(maps)} x {len(heads)} x {L} x {S} = "
            f"{size:,}: choose some, such as "
            f"layers=range(0, {len(maps)}, {-(-size // MOST_WEIGHTS)}), or "
            "heads=, or a shorter text"
        )


def _words(ids: Tensor, count: int, tokenizer: Any) -> tuple[str, ...]:
    """Return what is written for each token; its number where ids differ."""
    numbers = ids[0].tolist()
    if len(numbers) != count:  # states that came from elsewhere
        return tuple(map(str, range(count)))
    if tokenizer is None:
        return tuple(map(str, numbers))
    return tuple(
        _visible(tokenizer.decode([i], skip_special_tokens=False))
        for i in numbers
    )


def _visible(word: str) -> str:
    return word.strip() or word.replace(" ", "␣").replace("\n", "⏎")
