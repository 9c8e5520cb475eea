"""Masks as predicates: who may attend to whom, said once.

A ``Mask`` answers one question, "may this query see this key?", for absolute
positions. The same object gives a boolean matrix, an additive bias or a
FlexAttention block mask, and combines with ``&``, ``|`` and ``~``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = [
    "Mask",
    "Term",
    "causal",
    "chunked",
    "documents",
    "padding",
    "prefix",
    "sliding_window",
    "window",
]

Predicate = Callable[[Any, Any, Any, Any], Any]


class Term(NamedTuple):
    """One factor of a conjunction, for a kernel to recognise.

    ``kind`` is the name of the function that made it, or ``"opaque"``.
    """

    kind: str
    values: tuple[Any, ...] = ()


class _Data(NamedTuple):
    """How far a mask's own data reaches; None means any position."""

    batch: int | None = None
    q_len: int | None = None
    kv_len: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """Which key a query may attend to, as a predicate over positions.

    Args:
        predicate: ``(b, h, q_idx, kv_idx) -> bool``, True = may attend.
            The indices are integer tensors that broadcast against each
            other; ``q_idx`` and ``kv_idx`` are absolute positions. This is
            FlexAttention's ``mask_mod`` and Hugging Face's mask function.
        text: what ``repr`` prints.
        terms: the conjunction that the mask stands for. A kernel that knows
            every term need not call the predicate.
        uses_query: whether the answer depends on the query's position.

    Source: PyTorch ``torch.nn.attention.flex_attention``, ``mask_mod``;
    transformers ``masking_utils``.
    """

    predicate: Predicate
    text: str = ""
    terms: tuple[Term, ...] = (Term("opaque"),)
    uses_query: bool = True
    data: _Data = _Data()

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise TypeError(
                f"predicate is a {type(self.predicate).__name__}: Mask needs "
                "a function (b, h, q_idx, kv_idx) -> bool"
            )

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return self.predicate(b, h, q_idx, kv_idx)

    def __repr__(self) -> str:
        if self.text:
            return self.text
        name = getattr(self.predicate, "__name__", None)
        return f"Mask({name or repr(self.predicate)})"

    def __and__(self, other: Mask) -> Mask:
        """Both must allow."""
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(
            lambda *at: self(*at) & other(*at),
            f"{self._inside(' & ')} & {other._inside(' & ')}",
            self.terms + other.terms,
            self.uses_query or other.uses_query,
            _smaller(self.data, other.data),
        )

    def __or__(self, other: Mask) -> Mask:
        """One of the two must allow."""
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(
            lambda *at: self(*at) | other(*at),
            f"{self._inside(' | ')} | {other._inside(' | ')}",
            uses_query=self.uses_query or other.uses_query,
            data=_smaller(self.data, other.data),
        )

    def __invert__(self) -> Mask:
        """Allow what was not allowed."""
        return Mask(
            lambda *at: ~self(*at),
            f"~{self._inside('~')}",
            uses_query=self.uses_query,
            data=self.data,
        )

    def _inside(self, operator: str) -> str:
        """The text as an operand, in brackets where they are needed."""
        text = repr(self)
        if " | " in text and operator != " | ":
            return f"({text})"
        return f"({text})" if " & " in text and operator == "~" else text

    def shift(self, q: int = 0, kv: int = 0) -> Mask:
        """The mask of a block that starts at query ``q`` and key ``kv``.

        Args:
            q: absolute position of the block's first query.
            kv: absolute position of the block's first key.

        Returns:
            A mask over positions counted from the start of the block.
        """
        for name, start in (("q", q), ("kv", kv)):
            if isinstance(start, bool) or not isinstance(start, int):
                raise TypeError(f"{name} is {start!r}: shift needs an int")
        if q == kv == 0:
            return self
        return replace(
            self,
            predicate=lambda b, h, i, j: self(b, h, i + q, j + kv),
            text=f"({self}).shift(q={q}, kv={kv})",
            terms=(Term("opaque"),),
            data=_Data(
                self.data.batch,
                None if self.data.q_len is None else self.data.q_len - q,
                None if self.data.kv_len is None else self.data.kv_len - kv,
            ),
        )

    def dense(
        self,
        q_len: int,
        kv_len: int | None = None,
        *,
        batch: int = 1,
        heads: int = 1,
        q_offset: int | Tensor = 0,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """The mask as booleans.

        Args:
            q_len, kv_len: number of queries and keys; as many keys as
                queries when ``kv_len`` is None.
            batch, heads: sizes of the first two axes.
            q_offset: position of the first query among the keys, or one
                for each batch row, ``(B,)``.
            device: where the result is made.

        Returns:
            bool ``(B, H, L, S)``, True = may attend; axes on which the mask
            does not depend are expanded, not copied.

        Raises:
            ValueError: the mask's own data (ids, valid tokens) does not
                reach as far as the positions asked for.
        """
        kv_len = q_len if kv_len is None else kv_len
        check_q_offset(q_offset, batch)
        self._check_reach(q_len, kv_len, batch, q_offset)
        b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
        h = torch.arange(heads, device=device).view(1, -1, 1, 1)
        q_idx = torch.arange(q_len, device=device).view(1, 1, -1, 1)
        kv_idx = torch.arange(kv_len, device=device).view(1, 1, 1, -1)
        if isinstance(q_offset, Tensor):
            q_offset = q_offset.to(q_idx.device).view(-1, 1, 1, 1)
        allowed = self(b, h, q_idx + q_offset, kv_idx)
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
            got = getattr(allowed, "dtype", type(allowed).__name__)
            raise TypeError(
                f"{self} gave {got}: a mask's predicate needs to return bool"
            )
        shape = (batch, heads, q_len, kv_len)
        try:
            return allowed.broadcast_to(shape)
        except RuntimeError:
            raise ValueError(
                f"{self} gave shape {tuple(allowed.shape)}: a mask's "
                f"predicate needs to return one that broadcasts to {shape}"
            ) from None

    def bias(
        self,
        dtype: torch.dtype,
        q_len: int,
        kv_len: int | None = None,
        **at: Any,
    ) -> Tensor:
        """The mask as numbers to add to the scores: 0 or ``-inf``.

        Args:
            dtype: floating dtype of the result.
            q_len, kv_len, at: as in ``dense``.

        Returns:
            ``(B, H, L, S)``.
        """
        if not dtype.is_floating_point:
            raise TypeError(f"dtype is {dtype}: a bias needs a float dtype")
        allowed = self.dense(q_len, kv_len, **at)
        zeros = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        return zeros.masked_fill(~allowed, -torch.inf)

    def block_mask(
        self,
        q_len: int,
        kv_len: int | None = None,
        *,
        batch: int | None = None,
        heads: int | None = None,
        q_offset: int = 0,
        device: torch.device | str = "cpu",
        block_size: int = 128,
    ) -> BlockMask:
        """The mask for ``flex_attention``.

        Args:
            q_len, kv_len, q_offset: as in ``dense``.
            batch, heads: None when the mask is the same for all.
            device: where the block mask is made.
            block_size: side of a block, a FlexAttention setting.

        Source: ``torch.nn.attention.flex_attention.create_block_mask``.
        """
        from torch.nn.attention.flex_attention import create_block_mask

        kv_len = q_len if kv_len is None else kv_len
        self._check_reach(q_len, kv_len, batch or 1, q_offset)
        shifted = self.shift(q=q_offset)
        return create_block_mask(
            lambda b, h, q_idx, kv_idx: shifted(b, h, q_idx, kv_idx),
            batch,
            heads,
            q_len,
            kv_len,
            device=str(device),
            BLOCK_SIZE=block_size,
        )

    def _check_reach(
        self, q_len: int, kv_len: int, batch: int, q_offset: int | Tensor
    ) -> None:
        data = self.data
        if data.batch not in (None, 1, batch):
            raise ValueError(
                f"{self} has {data.batch} rows and the batch {batch}: they "
                "need the same, or 1"
            )
        if data.kv_len is not None and kv_len > data.kv_len:
            raise ValueError(
                f"{self} covers {data.kv_len} keys and there are {kv_len}: "
                "it needs one entry for each key"
            )
        if data.q_len is None or isinstance(q_offset, Tensor):
            return  # an offset tensor is not read: positions out of reach
            # are not allowed to attend
        if q_offset < 0 or q_offset + q_len > data.q_len:
            raise ValueError(
                f"{self} covers positions 0 to {data.q_len - 1} and the "
                f"queries run from {q_offset} to {q_offset + q_len - 1}: it "
                "needs one entry for each query"
            )


def causal() -> Mask:
    """A token sees itself and what came before it."""
    return Mask(
        lambda b, h, q_idx, kv_idx: kv_idx <= q_idx,
        "causal()",
        (Term("causal"),),
    )


def window(left: int | None = None, right: int | None = None) -> Mask:
    """A token sees ``left`` neighbours before it and ``right`` after it.

    Args:
        left, right: neighbours besides the token itself, None = no bound.

    Source: ONNX ``Attention`` (``left_window_size``); FlashAttention
    ``window_size``.
    """

    def near(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        near_left = (
            kv_idx == kv_idx if left is None else q_idx - kv_idx <= left
        )
        return (
            near_left
            if right is None
            else near_left & (kv_idx - q_idx <= right)
        )

    for name, size in (("left", left), ("right", right)):
        if size is not None:
            _check_size(name, size, least=0)
    text = f"window(left={left}, right={right})"
    return Mask(near, text, (Term("window", (left, right)),))


def sliding_window(size: int) -> Mask:
    """A token sees the last ``size`` tokens, itself included.

    Row ``i`` keeps ``min(i + 1, size)`` keys; ``size=1`` leaves only the
    token itself.

    Args:
        size: keys kept, at least 1.

    Source: Jiang et al. 2023, "Mistral 7B"; Hugging Face's
    ``sliding_window``. FlashAttention's ``window_size=(size, 0)`` keeps one
    key more.
    """
    _check_size("size", size, least=1)
    return replace(window(size - 1, 0), text=f"sliding_window({size})")


def chunked(size: int) -> Mask:
    """A token sees the tokens of its own chunk: combine with ``causal()``.

    Args:
        size: tokens a chunk, at least 1.

    Source: transformers ``chunked_overlay`` (Llama 4).
    """
    _check_size("size", size, least=1)
    return Mask(
        lambda b, h, q_idx, kv_idx: q_idx // size == kv_idx // size,
        f"chunked({size})",
        (Term("chunked", (size,)),),
    )


def prefix(length: int | Tensor) -> Mask:
    """Every token sees the first ``length`` keys: ``causal() | prefix(3)``.

    Args:
        length: keys of the prefix, 0 or more; or one for each batch row,
            an integer tensor ``(B,)``.

    Source: Raffel et al. 2020 (T5), section 3.2.1, "prefix LM".
    """
    if isinstance(length, Tensor):
        _check_ids("length", length, "(B,)")
        lengths = length[:, None]  # (B, 1)
        return Mask(
            lambda b, h, q_idx, kv_idx: kv_idx < _entry(lengths, b, b * 0),
            f"prefix({length.tolist()})",
            uses_query=False,
            data=_Data(batch=len(length)),
        )
    _check_size("length", length, least=0)
    return Mask(
        lambda b, h, q_idx, kv_idx: kv_idx < length,
        f"prefix({length})",
        (Term("prefix", (length,)),),
        uses_query=False,
    )


def documents(ids: Tensor) -> Mask:
    """A token sees the tokens of its own document, in a packed sequence.

    Args:
        ids: the document of each token, integers ``(S,)`` or ``(B, S)``.

    Source: transformers ``packed_sequence_mask_function``.
    """
    _check_ids("ids", ids, "(S,)", "(B, S)")
    rows = ids if ids.dim() == 2 else ids[None]  # (B, S)
    return Mask(
        lambda b, h, q_idx, kv_idx: (
            _inside(q_idx, rows)
            & _inside(kv_idx, rows)
            & (_entry(rows, b, q_idx) == _entry(rows, b, kv_idx))
        ),
        f"documents({tuple(ids.shape)})",
        data=_Data(len(rows), rows.shape[1], rows.shape[1]),
    )


def padding(valid: Tensor) -> Mask:
    """Nobody sees a padding token.

    Args:
        valid: True for a real token, bool ``(S,)`` or ``(B, S)``. This is
            Hugging Face's ``attention_mask`` as booleans.
    """
    if not isinstance(valid, Tensor) or valid.dtype != torch.bool:
        got = getattr(valid, "dtype", type(valid).__name__)
        raise TypeError(
            f"valid is {got}: padding needs a bool tensor, True for a real "
            "token (attention_mask.bool())"
        )
    if valid.dim() not in (1, 2):
        raise ValueError(
            f"valid has shape {tuple(valid.shape)}: padding needs (S,) or "
            "(B, S)"
        )
    rows = valid if valid.dim() == 2 else valid[None]  # (B, S)
    return Mask(
        lambda b, h, q_idx, kv_idx: (
            _inside(kv_idx, rows) & _entry(rows, b, kv_idx)
        ),
        f"padding({tuple(valid.shape)})",
        uses_query=False,
        data=_Data(batch=len(rows), kv_len=rows.shape[1]),
    )


def _entry(rows: Tensor, b: Any, position: Any) -> Any:
    """``rows[b, position]``, where one row serves the whole batch."""
    row = b if len(rows) > 1 else b * 0
    return rows[row, position.clamp(0, max(rows.shape[1] - 1, 0))]


def _inside(position: Any, rows: Tensor) -> Any:
    return (position >= 0) & (position < rows.shape[1])


def _smaller(a: _Data, b: _Data) -> _Data:
    """The reach of two masks together; row counts must agree."""
    if a.batch not in (None, 1, b.batch) and b.batch not in (None, 1):
        raise ValueError(
            f"the masks have {a.batch} and {b.batch} rows: they need the same"
        )
    pairs = zip(a, b, strict=True)
    known = [[x for x in pair if x is not None] for pair in pairs]
    rows, q_len, kv_len = known
    return _Data(
        max(rows) if rows else None,
        min(q_len) if q_len else None,
        min(kv_len) if kv_len else None,
    )


def check_q_offset(q_offset: object, batch: int) -> None:
    """Refuse what is not a position, or one for each of the batch rows."""
    is_int = isinstance(q_offset, int) and not isinstance(q_offset, bool)
    if is_int:
        return
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not isinstance(q_offset, Tensor) or q_offset.dtype not in kinds:
        got = (
            q_offset.dtype if isinstance(q_offset, Tensor) else repr(q_offset)
        )
        raise TypeError(
            f"q_offset is {got}: it needs an int, or an integer tensor with "
            "one position for each batch row"
        )
    if q_offset.shape != (batch,):
        raise ValueError(
            f"q_offset has shape {tuple(q_offset.shape)}: it needs one "
            f"position for each batch row, ({batch},)"
        )


def _check_size(name: str, size: object, least: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{name} is {size!r}: it needs an int")
    if size < least:
        raise ValueError(f"{name} is {size}: it needs {least} or more")


def _check_ids(name: str, ids: object, *shapes: str) -> None:
    """``shapes`` are the accepted ones, one for each rank from 1 up."""
    got: object = getattr(ids, "dtype", type(ids).__name__)
    if not isinstance(ids, Tensor) or ids.is_floating_point():
        raise TypeError(f"{name} is {got}: it needs an integer tensor")
    if ids.dtype == torch.bool or ids.is_complex():
        raise TypeError(f"{name} is {got}: it needs an integer tensor")
    if not 1 <= ids.dim() <= len(shapes):
        raise ValueError(
            f"{name} has shape {tuple(ids.shape)}: it needs "
            + " or ".join(shapes)
        )
