"""A mask as a predicate over absolute positions.

The same ``Mask`` gives a boolean matrix, an additive bias or a FlexAttention
block mask, and combines with ``&``, ``|`` and ``~``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Predicate = Callable[[Any, Any, Any, Any], Any]


class Term(NamedTuple):
    """One factor of a conjunction, which a kernel can recognise.

    ``kind`` is the name of the pattern that made it, or ``"opaque"``.
    """

    kind: str
    values: tuple[Any, ...] = ()


class Extent(NamedTuple):
    """The positions that a mask's own data covers; None is any."""

    batch: int | None = None
    q_len: int | None = None
    kv_len: int | None = None
    min_kv_len: int = 0  # the keys that its lengths count


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A predicate over positions: may this query attend to this key?

    Args:
        predicate: ``(b, h, q_idx, kv_idx) -> bool``, True = may attend.
            The indices are integer tensors that broadcast against each
            other; ``q_idx`` and ``kv_idx`` are absolute positions. This is
            FlexAttention's ``mask_mod`` and Hugging Face's mask function.
        text: what ``repr`` prints.
        terms: the conjunction equal to the mask. A kernel that supports
            every term need not call the predicate.
        uses_query: whether the result depends on the query's position.
        extent: the positions that its own data covers.

    Source: PyTorch ``torch.nn.attention.flex_attention``, ``mask_mod``;
    transformers ``masking_utils``.
    """

    predicate: Predicate
    text: str = ""
    terms: tuple[Term, ...] = (Term("opaque"),)
    uses_query: bool = True
    extent: Extent = Extent()

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise TypeError(
                "predicate must be a function (b, h, q_idx, kv_idx) -> bool; "
                f"got {type(self.predicate).__name__}"
            )

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return self.predicate(b, h, q_idx, kv_idx)

    def __repr__(self) -> str:
        if self.text:
            return self.text
        name = getattr(self.predicate, "__name__", None)
        return f"Mask({name or repr(self.predicate)})"

    def __and__(self, other: Mask) -> Mask:
        """Allow what both allow."""
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(
            lambda *at: self(*at) & other(*at),
            f"{self._inside(' & ')} & {other._inside(' & ')}",
            self.terms + other.terms,
            self.uses_query or other.uses_query,
            _smaller(self.extent, other.extent),
        )

    def __or__(self, other: Mask) -> Mask:
        """Allow what either allows."""
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(
            lambda *at: self(*at) | other(*at),
            f"{self._inside(' | ')} | {other._inside(' | ')}",
            uses_query=self.uses_query or other.uses_query,
            extent=_smaller(self.extent, other.extent),
        )

    def __invert__(self) -> Mask:
        """Allow what this mask does not."""
        return Mask(
            lambda *at: self(*at) ^ True,  # ~ of a Python bool is an int
            f"~{self._inside('~')}",
            uses_query=self.uses_query,
            extent=self.extent,
        )

    def _inside(self, operator: str) -> str:
        """Return the text as an operand, in brackets where needed."""
        text = repr(self)
        if torch.compiler.is_compiling():
            return text  # Dynamo cannot search a text with symbolic sizes
        if " | " in text and operator != " | ":
            return f"({text})"
        return f"({text})" if " & " in text and operator == "~" else text

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Return the neighbours ``(left, right)`` that the terms allow.

        None on a side without a bound. Other conditions are not included;
        see ``is_relative``.
        """
        windows = [
            (None, 0) if t.kind == "causal" else t.values
            for t in self.terms
            if t.kind in ("causal", "window")
        ]
        return _least([w[0] for w in windows]), _least([w[1] for w in windows])

    @property
    def is_relative(self) -> bool:
        """Return whether ``bounds`` say everything that the terms say."""
        return all(term.kind in ("causal", "window") for term in self.terms)

    def shift(self, q: int = 0, kv: int = 0) -> Mask:
        """Return the mask of a block that starts at query q and key kv.

        These are absolute positions; those of the result count from there.
        """
        for name, start in (("q", q), ("kv", kv)):
            if isinstance(start, bool) or not isinstance(start, int):
                raise TypeError(f"{name} must be an int; got {start!r}")
        if q == kv == 0:
            return self
        batch, q_len, kv_len, _ = self.extent
        return Mask(
            lambda b, h, i, j: self(b, h, i + q, j + kv),
            f"({self}).shift(q={q}, kv={kv})",
            uses_query=self.uses_query,
            extent=Extent(
                batch,
                None if q_len is None else q_len - q,
                None if kv_len is None else kv_len - kv,
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
        """Return the mask as booleans.

        Args:
            q_len, kv_len: number of queries and keys; as many keys as
                queries when ``kv_len`` is None.
            batch, heads: sizes of the first two axes.
            q_offset: position of the first query among the keys, an int or
                a tensor: one, ``()``, or one for each batch row, ``(B,)``.
            device: of the result.

        Returns:
            bool ``(B, H, L, S)``, True = may attend; axes on which the mask
            does not depend are expanded, not copied.

        Raises:
            ValueError: the mask's own data (ids, valid tokens) does not
                cover the positions.
        """
        kv_len = q_len if kv_len is None else kv_len
        check_q_offset(q_offset, batch)
        self.check_bounds(q_len, kv_len, batch, q_offset)
        return self.tile(q_len, kv_len, batch, heads, q_offset, device)

    def tile(
        self,
        q_len: int,
        kv_len: int,
        batch: int,
        heads: int,
        q_offset: int | Tensor,
        device: torch.device | str | None,
    ) -> Tensor:
        """Return ``dense`` of some of the keys: its bounds are not checked."""
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
                f"the predicate of {self} must return bool; got {got}"
            )
        shape = (batch, heads, q_len, kv_len)
        try:
            return allowed.broadcast_to(shape)
        except RuntimeError:
            raise ValueError(
                f"the predicate of {self} must return a shape that "
                f"broadcasts to {shape}; got {tuple(allowed.shape)}"
            ) from None

    def bias(
        self,
        dtype: torch.dtype,
        q_len: int,
        kv_len: int | None = None,
        **at: Any,
    ) -> Tensor:
        """Return ``dense`` as a bias on the scores: 0 or ``-inf``.

        Arguments and shape are those of ``dense``; ``dtype`` is floating.
        """
        if not dtype.is_floating_point:
            raise TypeError(f"dtype must be floating; got {dtype}")
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
        """Return the mask for ``flex_attention``.

        Arguments are those of ``dense``, with ``batch`` or ``heads`` None when
        the mask is the same for all; ``block_size`` is the side of a block.

        Source: ``torch.nn.attention.flex_attention.create_block_mask``.
        """
        from torch.nn.attention.flex_attention import create_block_mask

        kv_len = q_len if kv_len is None else kv_len
        self.check_bounds(q_len, kv_len, batch or 1, q_offset)
        shifted = self.shift(q=q_offset)
        return create_block_mask(
            lambda b, h, q_idx, kv_idx: shifted(b, h, q_idx, kv_idx),
            batch, heads, q_len, kv_len,
            device=str(device), BLOCK_SIZE=block_size,
        )  # fmt: skip

    def check_bounds(
        self, q_len: int, kv_len: int, batch: int, q_offset: int | Tensor
    ) -> None:
        """Raise if the mask's own data does not cover these positions."""
        extent = self.extent
        if extent.batch not in (None, 1, batch):
            raise ValueError(
                f"{self} must have one row, or one for each batch row, "
                f"{batch}; got {extent.batch}"
            )
        if extent.kv_len is not None and kv_len > extent.kv_len:
            raise ValueError(
                f"{self} must have one entry for each key, {kv_len}; got "
                f"{extent.kv_len}"
            )
        if kv_len < extent.min_kv_len:
            raise ValueError(
                f"{self} must have lengths of at most the number of keys, "
                f"{kv_len}; got {extent.min_kv_len}"
            )
        if extent.q_len is None or isinstance(q_offset, Tensor):
            return  # no device sync: positions outside may not attend
        if q_offset < 0 or q_offset + q_len > extent.q_len:
            raise ValueError(
                f"{self} must have one entry for each query, at positions "
                f"{q_offset} to {q_offset + q_len - 1}; got entries 0 to "
                f"{extent.q_len - 1}"
            )


def _smaller(a: Extent, b: Extent) -> Extent:
    """Return the extent of two masks together."""
    if a.batch not in (None, 1, b.batch) and b.batch not in (None, 1):
        raise ValueError(
            f"the masks must have equally many rows; got {a.batch} and "
            f"{b.batch}"
        )
    return Extent(
        b.batch if a.batch in (None, 1) and b.batch else a.batch,
        _least([a.q_len, b.q_len]),
        _least([a.kv_len, b.kv_len]),
        max(a.min_kv_len, b.min_kv_len),
    )


def _least(sizes: list[int | None]) -> int | None:
    """Return the least of the sizes; None is no bound."""
    known = [x for x in sizes if x is not None]
    return min(known) if known else None


def check_q_offset(q_offset: object, batch: int) -> None:
    """Require a position, ``()``, or one for each batch row, ``(B,)``."""
    if isinstance(q_offset, int) and not isinstance(q_offset, bool):
        return
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not isinstance(q_offset, Tensor) or q_offset.dtype not in kinds:
        got = q_offset.dtype if isinstance(q_offset, Tensor) else q_offset
        raise TypeError(
            "q_offset must be an int, or an integer tensor with one position "
            f"for all batch rows or for each; got {got!r}"
        )
    if q_offset.shape not in ((), (batch,)):
        raise ValueError(
            "q_offset must have one position, (), or one for each batch row, "
            f"({batch},); got shape {tuple(q_offset.shape)}"
        )
