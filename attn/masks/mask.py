"""A mask as a predicate over absolute positions.

The same ``Mask`` gives a boolean matrix, an additive bias or a FlexAttention
block mask, and combines with ``&``, ``|`` and ``~``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attn import arguments
from attn.masks import predicates, values
from attn.masks.extent import Extent, check_q_offset, least
from attn.masks.predicates import Predicate

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


class Term(NamedTuple):
    """One factor of a conjunction, which a kernel can recognise.

    ``kind`` is the name of the pattern that made it, or ``"opaque"``.

    Example:
        >>> for term in (attn.causal() & attn.chunked(4)).terms:
        ...     print(term)
        Term(kind='causal', values=())
        Term(kind='chunked', values=(4,))
    """

    kind: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A predicate over positions: may this query attend to this key?

    A mask is data. Masks of the same predicate and equal arguments are equal
    (tensors by their elements), and each can be pickled if the predicate is a
    function of a module: ``functools.partial`` binds what it needs.

    Args:
        predicate: ``(b, h, q_idx, kv_idx) -> bool``, True = may attend.
            The indices are integer tensors that broadcast against each
            other; ``q_idx`` and ``kv_idx`` are absolute positions. This is
            FlexAttention's ``mask_mod`` and Hugging Face's mask function;
            FlexAttention numbers the queries from 0: see ``shift``.
        text: what ``repr`` prints.
        terms: the conjunction equal to the mask. A kernel that supports
            every term need not call the predicate.
        uses_query: whether the result depends on the query's position.
        extent: the positions that its own data covers.

    Example:
        >>> even = attn.Mask(lambda b, h, q_idx, kv_idx: kv_idx % 2 == 0)
        >>> (attn.causal() & even).dense(4)[0, 0].long()
        tensor([[1, 0, 0, 0],
                [1, 0, 0, 0],
                [1, 0, 1, 0],
                [1, 0, 1, 0]])
        >>> attn.sliding_window(4) | attn.prefix(1)
        sliding_window(4) | prefix(1)

    Source: PyTorch ``torch.nn.attention.flex_attention``, ``mask_mod``;
    transformers ``masking_utils``.
    """

    predicate: Predicate
    text: str = ""
    terms: tuple[Term, ...] = (Term("opaque"),)
    uses_query: bool = True
    extent: Extent = Extent()

    def __post_init__(self) -> None:
        form = " (b, h, q_idx, kv_idx) -> bool"
        arguments.function("predicate", self.predicate, form)
        arguments.text("text", self.text)
        arguments.flag("uses_query", self.uses_query)

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return self.predicate(b, h, q_idx, kv_idx)

    def __repr__(self) -> str:
        if self.text:
            return self.text
        name = getattr(self.predicate, "__name__", None)
        return f"Mask({name or repr(self.predicate)})"

    def __and__(self, other: Mask) -> Mask:
        """Allow what both allow."""
        return self._joined("&", predicates.both, other)

    def __or__(self, other: Mask) -> Mask:
        """Allow what either allows."""
        return self._joined("|", predicates.either, other)

    def __rand__(self, other: object) -> Mask:
        raise self._refusal("&", other)

    def __ror__(self, other: object) -> Mask:
        raise self._refusal("|", other)

    __array_ufunc__ = None  # an array gives & and | to the mask

    def _joined(self, operator: str, combine: Any, other: Mask) -> Mask:
        if not isinstance(other, Mask):
            raise self._refusal(operator, other)
        between = f" {operator} "
        return Mask(
            partial(combine, self, other),
            f"{self._inside(between)}{between}{other._inside(between)}",
            self.terms + other.terms if operator == "&" else (Term("opaque"),),
            self.uses_query or other.uses_query,
            self.extent.meet(other.extent),
        )

    def _refusal(self, operator: str, other: object) -> TypeError:
        """Return the error for an operator whose other side is no mask."""
        way_out = (
            "attn.Mask(function) is one"
            if callable(other)
            else f"mask.dense(L, S) {operator} tensor is a tensor, and "
            "attn.padding(valid) a Mask of booleans (B, S)"
        )
        return TypeError(
            f"both sides of {operator} must be a Mask; got "
            f"{type(other).__name__}: {way_out}"
        )

    def __bool__(self, *_: object) -> Any:
        """Refuse what would drop a mask, or one side of it."""
        raise TypeError(
            f"{self} must be combined with &, | and ~; got and, or, not, if, "
            "in or a loop, and it has neither a truth value nor elements"
        )

    __iter__ = __contains__ = __bool__

    def __invert__(self) -> Mask:
        """Allow what this mask does not."""
        return Mask(
            partial(predicates.negated, self),
            f"~{self._inside('~')}",
            uses_query=self.uses_query,
            extent=self.extent,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        return values.same(self._data, other._data)

    def __hash__(self) -> int:
        return values.digest(self._data)

    @property
    def _data(self) -> tuple[Any, ...]:
        """Return what counts: ``sliding_window(4)`` is ``window(3, 0)``."""
        return (self.predicate, self.terms, self.uses_query, self.extent)

    def __reduce__(self) -> tuple[Any, ...]:
        values.check_importable(self.predicate)
        predicate, *others = self._data
        return Mask, (predicate, self.text, *others)

    def __copy__(self) -> Mask:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Mask:
        predicate, terms = copy.deepcopy((self.predicate, self.terms), memo)
        return replace(self, predicate=predicate, terms=terms)

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
        return least([w[0] for w in windows]), least([w[1] for w in windows])

    @property
    def is_relative(self) -> bool:
        """Return whether ``bounds`` say everything that the terms say."""
        return all(term.kind in ("causal", "window") for term in self.terms)

    def shift(self, q: int = 0, kv: int = 0) -> Mask:
        """Return the mask of a block that starts at query q and key kv.

        These are absolute positions; those of the result count from there.
        """
        for name, start in (("q", q), ("kv", kv)):
            arguments.integer(name, start)
        if q == kv == 0:
            return self
        return Mask(
            partial(predicates.shifted, self, q, kv),
            f"({self}).shift(q={q}, kv={kv})",
            uses_query=self.uses_query,
            extent=self.extent.shift(q, kv),
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
        arguments.counts(0, q_len=q_len, kv_len=kv_len)
        arguments.counts(0, batch=batch, heads=heads)
        check_q_offset(q_offset, batch)
        rows = None if batch == 1 else batch
        self.extent.check(self, q_len, kv_len, rows, q_offset)
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
        allowed = self._call(b, h, q_idx + q_offset, kv_idx)
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

    def _call(self, *at: Tensor) -> Any:
        """Call the predicate; its own errors name the mask."""
        if torch.compiler.is_compiling():
            return self(*at)
        try:
            return self(*at)
        except (TypeError, RuntimeError) as error:
            raise TypeError(
                f"the predicate of {self} must be a function of tensors (b, "
                "h, q_idx, kv_idx), combined with &, |, ~ and comparisons, "
                f"without if, and, or; got {type(error).__name__}: {error}"
            ) from error

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
        is_dtype = isinstance(dtype, torch.dtype)
        if not is_dtype or not dtype.is_floating_point:
            raise TypeError(f"dtype must be floating; got {dtype!r}")
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
        arguments.counts(0, q_len=q_len, kv_len=kv_len)
        for name, size in {"batch": batch, "heads": heads}.items():
            if size is not None:
                arguments.count(name, size)
        arguments.count("block_size", block_size)
        self.extent.check(self, q_len, kv_len, batch, q_offset)
        shifted = self.shift(q=q_offset)
        return create_block_mask(
            lambda b, h, q_idx, kv_idx: shifted(b, h, q_idx, kv_idx),
            batch, heads, q_len, kv_len,
            device=str(device), BLOCK_SIZE=block_size,
        )  # fmt: skip
