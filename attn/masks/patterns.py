"""The masks that models use, each a predicate over positions.

They combine with ``&``, ``|`` and ``~``: ``causal() & padding(valid)``.
``mask.py`` defines ``Mask`` and what it can do. A new mask is a function here,
its name in ``__all__``, and its test.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn.masks.extent import Extent
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
    return Mask(_not_after, "causal()", (Term("causal"),))


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
            _check_size(name, size, least=0)
    text = f"window(left={left}, right={right})"
    predicate = partial(_near, left, right)
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
    _check_size("size", size, least=1)
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
    _check_size("size", size, least=1)
    return Mask(
        partial(_same_chunk, size),
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
        _check_ids("length", length, "(B,)")
        return Mask(
            partial(_before_length, length),
            f"prefix(lengths {tuple(length.shape)})",
            uses_query=False,
            extent=Extent(batch=length.shape[0]),
        )
    _check_size("length", length, least=0)
    return Mask(
        partial(_before, length),
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
    _check_ids("ids", ids, "(S,)", "(B, S)")
    rows = ids if ids.dim() == 2 else ids[None]  # (B, S)
    return Mask(
        partial(_same_document, rows),
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
    least, most = _range(valid)
    if least < 0 or most > 1:
        raise ValueError(
            "valid must be 1 for a real token and 0 for padding; got values "
            f"from {least} to {most}"
        )
    rows = valid.bool()  # (S,) or (B, S)
    rows = rows if rows.dim() == 2 else rows[None]  # (B, S)
    return Mask(
        partial(_real, rows),
        f"padding({tuple(valid.shape)})",
        (Term("padding", (rows,)),),
        uses_query=False,
        extent=Extent(batch=rows.shape[0], kv_len=rows.shape[1]),
    )


def _lengths(lengths: Tensor) -> Mask:
    """Return ``padding`` of rows whose first ``lengths`` tokens are real."""
    least, most = _range(lengths)
    if lengths.shape[0] > 1 and least >= 0 and most == 1:
        raise ValueError(
            "valid must not be ambiguous; got integers of shape "
            f"{tuple(lengths.shape)}, all 0 or 1: pass valid.bool() if they "
            "mark real tokens, prefix(valid) if they are lengths"
        )
    if least < 0:
        raise ValueError(f"valid must have lengths of 0 or more; got {least}")
    return Mask(
        partial(_real_of_lengths, lengths),
        f"padding(lengths {tuple(lengths.shape)})",
        (Term("lengths", (lengths,)),),
        uses_query=False,
        extent=Extent(batch=lengths.shape[0], min_kv_len=most),
    )


# The predicates. At the top of the module, where pickle finds them.


def _not_after(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return kv_idx <= q_idx


def _near(
    left: int | None,
    right: int | None,
    b: Any,
    h: Any,
    q_idx: Any,
    kv_idx: Any,
) -> Any:
    near = kv_idx == kv_idx if left is None else q_idx - kv_idx <= left
    return near if right is None else near & (kv_idx - q_idx <= right)


def _same_chunk(size: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx // size == kv_idx // size


def _before(length: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return kv_idx < length


def _before_length(
    lengths: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return kv_idx < _entry(lengths[:, None], b, b * 0)


def _same_document(
    ids: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    """Compare ``ids``, ``(1, S)`` or ``(B, S)``."""
    same = _entry(ids, b, q_idx) == _entry(ids, b, kv_idx)
    return _inside(q_idx, ids) & _inside(kv_idx, ids) & same


def _real(valid: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Look up ``valid``, ``(1, S)`` or ``(B, S)``."""
    return _inside(kv_idx, valid) & _entry(valid, b, kv_idx)


def _real_of_lengths(
    lengths: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return (kv_idx >= 0) & _before_length(lengths, b, h, q_idx, kv_idx)


def _range(x: Tensor) -> tuple[int, int]:
    """Return the least and the greatest value; 0 and 0 where unknown.

    The code of a compiled graph must not depend on the values of a tensor.
    """
    if x.dtype == torch.bool or x.is_meta or not x.numel():
        return 0, 0
    if torch.compiler.is_compiling():
        return 0, 0
    least, most = torch.aminmax(x)
    return int(least), int(most)


def _entry(rows: Tensor, b: Any, position: Any) -> Any:
    """Return ``rows[b, position]``; one row serves the whole batch."""
    position = torch.as_tensor(position)  # a plain int is allowed, too
    if isinstance(b, Tensor) and b.device != rows.device:
        raise ValueError(
            f"the mask's data must be on the device of the positions, "
            f"{b.device}; got {rows.device}"
        )
    row = b if rows.shape[0] > 1 else b * 0
    return rows[row, position.clamp(0, max(rows.shape[1] - 1, 0))]


def _inside(position: Any, rows: Tensor) -> Any:
    return (position >= 0) & (position < rows.shape[1])


def _check_size(name: str, size: object, least: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{name} must be an int; got {size!r}")
    if size < least:
        raise ValueError(f"{name} must be {least} or more; got {size}")


def _check_ids(name: str, ids: object, *shapes: str) -> None:
    """Require integers of one of the shapes, given from rank 1 up."""
    got: object = getattr(ids, "dtype", type(ids).__name__)
    if not isinstance(ids, Tensor) or ids.is_floating_point():
        raise TypeError(f"{name} must be an integer tensor; got {got}")
    if ids.dtype == torch.bool or ids.is_complex():
        raise TypeError(f"{name} must be an integer tensor; got {got}")
    if not 1 <= ids.dim() <= len(shapes):
        raise ValueError(
            f"{name} must have shape {' or '.join(shapes)}; got "
            f"{tuple(ids.shape)}"
        )
