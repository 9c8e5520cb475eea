"""A mask as a predicate over positions, and what can be made of it.

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

Predicate = Callable[[Any, Any, Any, Any], Any]


class Term(NamedTuple):
    """One factor of a conjunction, for a kernel to recognise.

    ``kind`` is the name of the function that made it, or ``"opaque"``.
    """

    kind: str
    values: tuple[Any, ...] = ()


class Data(NamedTuple):
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
    data: Data = Data()

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
            lambda *at: self(*at) ^ True,  # of a Python bool, ~ is a number
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

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Neighbours ``(left, right)`` that the terms leave a token.

        None where no term is a bound. What else the terms ask for is not
        in it; see ``is_relative``.
        """
        left = right = None
        for term in self.terms:
            before = after = None
            if term.kind == "causal":
                after = 0
            elif term.kind == "window":
                before, after = term.values
            if before is not None:
                left = before if left is None else min(left, before)
            if after is not None:
                right = after if right is None else min(right, after)
        return left, right

    @property
    def is_relative(self) -> bool:
        """Whether the terms only ask how far away a key is: ``bounds``."""
        return all(term.kind in ("causal", "window") for term in self.terms)

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
            data=Data(
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
        self.check_bounds(q_len, kv_len, batch, q_offset)
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
        self.check_bounds(q_len, kv_len, batch or 1, q_offset)
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

    def check_bounds(
        self, q_len: int, kv_len: int, batch: int, q_offset: int | Tensor
    ) -> None:
        """Refuse positions that the mask's own data does not cover.

        Args:
            q_len, kv_len, batch, q_offset: as in ``dense``.
        """
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


def _smaller(a: Data, b: Data) -> Data:
    """The reach of two masks together; row counts must agree."""
    if a.batch not in (None, 1, b.batch) and b.batch not in (None, 1):
        raise ValueError(
            f"the masks have {a.batch} and {b.batch} rows: they need the same"
        )
    pairs = zip(a, b, strict=True)
    rows, q_len, kv_len = ([x for x in p if x is not None] for p in pairs)
    return Data(
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
