"""The masks that models use, each a predicate over positions.

They combine with ``&``, ``|`` and ``~``: ``causal() & padding(valid)``.
``mask.py`` defines ``Mask`` and what it can do. A new mask is a function here,
its name in ``__all__``, and its test.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attn import arguments
from attn.masks import predicates
from attn.masks.extent import Extent, check_ids, value_range
from attn.masks.mask import Mask, Term

# The package and the API pages have these names from here.
__all__ = [
    "causal",
    "chunked",
    "documents",
    "padding",
    "prefix",
    "sliding_window",
    "window",
]


def causal() -> Mask:
    """Allow a token itself and the tokens before it.

    Example:
        >>> attn.causal().dense(3)[0, 0].long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])
    """
    return Mask(predicates.not_after, "causal()", (Term("causal"),))


def window(left: int | None = None, right: int | None = None) -> Mask:
    """Allow ``left`` neighbours before a token and ``right`` after it.

    The token itself is allowed too; None is no bound on that side.

    Example:
        >>> attn.window(1, 1).dense(4)[0, 0].long()
        tensor([[1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 0, 1, 1]])

    Source: ONNX ``Attention`` (``left_window_size``); FlashAttention
    ``window_size``.
    """
    for name, size in (("left", left), ("right", right)):
        if size is not None:
            arguments.count(name, size, 0)
    text = f"window(left={left}, right={right})"
    predicate = partial(predicates.near, left, right)
    return Mask(predicate, text, (Term("window", (left, right)),))


def sliding_window(size: int) -> Mask:
    """Allow the last ``size`` tokens, the token itself included.

    Row ``i`` keeps ``min(i + 1, size)`` keys; ``size=1``, the least, leaves
    only the token itself.

    Example:
        >>> attn.sliding_window(2).dense(4)[0, 0].long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]])

    Source: Jiang et al. 2023, "Mistral 7B"; Hugging Face's
    ``sliding_window``. FlashAttention's ``window_size=(size, 0)`` keeps one
    key more.
    """
    arguments.count("size", size)
    return replace(window(size - 1, 0), text=f"sliding_window({size})")


def chunked(size: int) -> Mask:
    """Allow the tokens of the same chunk: combine with ``causal()``.

    A chunk has ``size`` tokens, at least 1.

    Example:
        >>> attn.chunked(2).dense(4)[0, 0].long()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 1],
                [0, 0, 1, 1]])

    Source: transformers ``chunked_overlay`` (Llama 4).
    """
    arguments.count("size", size)
    return Mask(
        partial(predicates.same_chunk, size),
        f"chunked({size})",
        (Term("chunked", (size,)),),
    )


def prefix(length: int | Tensor) -> Mask:
    """Allow the first ``length`` keys: ``causal() | prefix(3)``.

    ``length`` is 0 or more, or an integer tensor with one length for each
    batch row, ``(B,)``.

    Example:
        >>> (attn.causal() | attn.prefix(2)).dense(3)[0, 0].long()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]])

    Source: Raffel et al. 2020 (T5), section 3.2.1, "prefix LM".
    """
    if isinstance(length, Tensor):
        check_ids("length", length, "(B,)")
        return Mask(
            partial(predicates.before_length, length),
            f"prefix(lengths {tuple(length.shape)})",
            uses_query=False,
            extent=Extent(batch=length.shape[0]),
        )
    arguments.count("length", length, 0)
    return Mask(
        partial(predicates.before, length),
        f"prefix({length})",
        (Term("prefix", (length,)),),
        uses_query=False,
    )


def documents(ids: Tensor) -> Mask:
    """Allow the tokens of the same document, in a packed sequence.

    ``ids`` are the document of each token, integers ``(S,)`` or ``(B, S)``.

    Example:
        >>> ids = torch.tensor([0, 0, 1])  # two texts, packed into one row
        >>> (attn.causal() & attn.documents(ids)).dense(3)[0, 0].long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 0, 1]])

    Source: transformers ``packed_sequence_mask_function``.
    """
    check_ids("ids", ids, "(S,)", "(B, S)")
    rows = ids if ids.dim() == 2 else ids[None]  # (B, S)
    return Mask(
        partial(predicates.same_document, rows),
        f"documents({tuple(ids.shape)})",
        (Term("documents", (rows,)),),
        extent=Extent(rows.shape[0], rows.shape[1], rows.shape[1]),
    )


def padding(valid: Tensor) -> Mask:
    """Mask out padding keys, given in any of the usual three forms.

    ``valid`` is one of

    - bool ``(S,)`` or ``(B, S)``, True for a real token;
    - integers ``(B, S)``, 1 for a real token and 0 for padding: a
      tokenizer's ``attention_mask``;
    - integers ``(B,)``: the number of real tokens of each row, which come
      first (padding on the right), at most ``S``.

    Values are checked when the mask is made, but not while compiling.

    Raises:
        TypeError: ``valid`` is no bool or integer tensor.
        ValueError: another shape, or other values; two integers or more
            ``(B,)`` that are all 0 or 1 could mean either, and are refused.

    Example:
        >>> lengths = torch.tensor([2, 3])
        >>> mask = attn.padding(lengths).dense(1, 3, batch=2)  # (B, 1, 1, S)
        >>> mask[:, 0, 0].long()
        tensor([[1, 1, 0],
                [1, 1, 1]])

    Source: transformers ``padding_mask_function``.
    """
    got: object = getattr(valid, "dtype", type(valid).__name__)
    is_tensor = isinstance(valid, Tensor)
    if not is_tensor or valid.is_floating_point() or valid.is_complex():
        raise TypeError(
            "valid must be a bool or integer tensor, True or 1 for a real "
            f"token, or the length of each row; got {got}"
        )
    if valid.dim() not in (1, 2):
        raise ValueError(
            "valid must have shape (S,) or (B, S), or (B,) for lengths; got "
            f"{tuple(valid.shape)}"
        )
    if valid.dtype != torch.bool and valid.dim() == 1:
        return _lengths(valid)
    least, most = value_range(valid)
    if least < 0 or most > 1:
        raise ValueError(
            "valid must be 1 for a real token and 0 for padding; got values "
            f"from {least} to {most}"
        )
    rows = valid.bool()  # (S,) or (B, S)
    rows = rows if rows.dim() == 2 else rows[None]  # (B, S)
    return Mask(
        partial(predicates.real, rows),
        f"padding({tuple(valid.shape)})",
        (Term("padding", (rows,)),),
        uses_query=False,
        extent=Extent(batch=rows.shape[0], kv_len=rows.shape[1]),
    )


def _lengths(lengths: Tensor) -> Mask:
    """Return ``padding`` of rows whose first ``lengths`` tokens are real."""
    least, most = value_range(lengths)
    if lengths.shape[0] > 1 and least >= 0 and most == 1:
        raise ValueError(
            "valid must not be ambiguous; got integers of shape "
            f"{tuple(lengths.shape)}, all 0 or 1: pass valid.bool() if they "
            "mark real tokens, prefix(valid) if they are lengths"
        )
    if least < 0:
        raise ValueError(f"valid must have lengths of 0 or more; got {least}")
    return Mask(
        partial(predicates.real_of_lengths, lengths),
        f"padding(lengths {tuple(lengths.shape)})",
        (Term("lengths", (lengths,)),),
        uses_query=False,
        extent=Extent(batch=lengths.shape[0], min_kv_len=most),
    )
