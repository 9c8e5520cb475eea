"""The data of masks: ids, valid tokens, lengths, and what they cover."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attn import tracing


class Extent(NamedTuple):
    """The positions that a mask's own data covers; None is any."""

    batch: int | None = None
    q_len: int | None = None
    kv_len: int | None = None
    min_kv_len: int = 0  # the keys that its lengths count

    def meet(self, other: Extent) -> Extent:
        """Return the extent of two masks together."""
        one = self.batch in (None, 1)
        if not (one or other.batch in (None, 1, self.batch)):
            raise ValueError(
                f"the masks must have equally many rows; got {self.batch} and "
                f"{other.batch}"
            )
        return Extent(
            other.batch if one and other.batch else self.batch,
            least([self.q_len, other.q_len]),
            least([self.kv_len, other.kv_len]),
            max(self.min_kv_len, other.min_kv_len),
        )

    def shift(self, q: int, kv: int) -> Extent:
        """Return the extent of a block that starts at query q and key kv."""
        return Extent(
            self.batch,
            None if self.q_len is None else self.q_len - q,
            None if self.kv_len is None else self.kv_len - kv,
        )

    def check(
        self,
        mask: object,
        q_len: int,
        kv_len: int,
        batch: int | None,
        q_offset: int | Tensor,
    ) -> None:
        """Raise if the data of ``mask`` does not cover these positions.

        ``batch`` is None where the caller named none.
        """
        if self.batch not in (None, 1, batch):
            way_out = (
                f": pass batch={self.batch}; plot.mask draws one row, "
                f"dense(L, S, batch={self.batch})[0, 0]"
            )
            raise ValueError(
                f"{mask} must have one row, or one for each batch row, "
                f"{batch or 1}; got {self.batch}"
                f"{way_out if batch is None else ''}"
            )
        if self.kv_len is not None and kv_len > self.kv_len:
            raise ValueError(
                f"{mask} must have one entry for each key, {kv_len}; got "
                f"{self.kv_len}"
            )
        if kv_len < self.min_kv_len:
            raise ValueError(
                f"{mask} must have lengths of at most the number of keys, "
                f"{kv_len}; got {self.min_kv_len}"
            )
        if self.q_len is None or isinstance(q_offset, Tensor):
            return  # no device sync: positions outside may not attend
        if q_offset < 0 or q_offset + q_len > self.q_len:
            raise ValueError(
                f"{mask} must have one entry for each query, at positions "
                f"{q_offset} to {q_offset + q_len - 1}; got entries 0 to "
                f"{self.q_len - 1}"
            )


def least(sizes: list[int | None]) -> int | None:
    """Return the least of the sizes; None is no bound."""
    known = [x for x in sizes if x is not None]
    return min(known) if known else None  # Dynamo has no default of min


def check_q_offset(q_offset: object, batch: int) -> None:
    """Require a position, ``()``, or one for each batch row, ``(B,)``."""
    is_int = isinstance(q_offset, int | torch.SymInt)
    if is_int and not isinstance(q_offset, bool):
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


def value_range(x: Tensor) -> tuple[int, int]:
    """Return the least and the greatest value; 0 and 0 where unknown.

    The code of a compiled graph must not depend on the values of a tensor.
    """
    if x.dtype == torch.bool or not (x.numel() and tracing.has_values(x)):
        return 0, 0
    least, most = torch.aminmax(x)
    return int(least), int(most)


def check_ids(name: str, ids: object, *shapes: str) -> None:
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
