"""A cache whose size does not grow: the state of a recurrent layer."""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import torch
from torch import Tensor

from attn import arguments
from attn.cache import validation
from attn.cache.base import Cache


class StateSnapshot(NamedTuple):
    """The state after some tokens; see ``StateCache.snapshot``.

    Example:
        >>> cache = attn.StateCache()
        >>> cache.update(torch.zeros(1, 2, 8, 8), count=5)
        >>> cache.snapshot().seq_len
        5
    """

    state: Tensor | None  # (B, H, D, Dv)
    conv: Tensor | None  # (B, K - 1, E)
    seq_len: int | Tensor


class StateCache(Cache):
    """Holds the state of a linear attention layer, and its convolution's.

    A state is a sum over all tokens: none can be taken out of it again. To
    forget tokens (a draft that is rejected, a prompt that two texts begin
    with), take a ``snapshot`` before they are read; ``crop`` goes back to
    it, and refuses any other length. Tensors are replaced, never written
    to: snapshots and forks share memory until the next token.

    Args:
        max_snapshots: most that are kept for ``crop``; the oldest go first.

    Example:
        >>> cache = attn.StateCache()
        >>> cache.update(torch.zeros(1, 2, 8, 8), count=5)
        >>> before = cache.snapshot()
        >>> cache.update(torch.ones(1, 2, 8, 8), count=3)  # a draft
        >>> cache.crop(5)  # of which no token is accepted
        >>> cache.seq_len, cache.state.sum().item()
        (5, 0.0)

    Source: transformers' cache of linear attention layers; vLLM 0.30, which
    keeps such snapshots at the ends of blocks (``--mamba-cache-mode align``).
    """

    # Of a cache whose rows are texts packed into one row of tokens.
    cu_seqlens: Tensor | None = None

    def __init__(self, max_snapshots: int = 1):
        arguments.count("max_snapshots", max_snapshots, 0)
        self.max_snapshots = max_snapshots
        self.state: Tensor | None = None
        self.conv: Tensor | None = None
        self.seq_len = 0
        self.snapshots: tuple[StateSnapshot, ...] = ()

    @property
    def nbytes(self) -> int:
        """Return the bytes of the states, however long the text.

        Snapshots are counted, but for tensors that two of them share.
        """
        held = [self.state, self.conv]
        held += [x for s in self.snapshots for x in (s.state, s.conv)]
        own = {x.data_ptr(): x.nbytes for x in held if x is not None}
        return sum(own.values())

    def update(  # type: ignore[override]
        self,
        state: Tensor,
        conv: Tensor | None = None,
        count: int | Tensor = 1,
    ) -> None:
        """Replace the state by that after new tokens.

        Args:
            state: ``(B, H, D, Dv)``.
            conv: the last tokens of a short convolution, ``(B, K - 1, E)``.
            count: how many tokens are new, or in each row, ``(B,)``.

        Raises:
            ValueError, TypeError: shapes, dtype or device differ from the
                stored ones.
        """
        for name, x, old, axes in (
            ("state", state, self.state, "(B, H, D, Dv)"),
            ("conv", conv, self.conv, "(B, K - 1, E)"),
        ):
            _check(name, x, old, axes, is_first=self.state is None)
        if isinstance(count, Tensor):
            validation.lengths(count, state.shape[0], 2**62, name="count")
        else:
            arguments.count("count", count, 0)
        self.state, self.conv = state, conv
        self.seq_len = self.seq_len + count

    def snapshot(self) -> StateSnapshot:
        """Return the present state, and keep it for ``crop``."""
        taken = StateSnapshot(self.state, self.conv, self.seq_len)
        kept = (*self.snapshots, taken)
        self.snapshots = kept[max(0, len(kept) - self.max_snapshots) :]
        return taken

    def restore(self, snapshot: StateSnapshot) -> None:
        """Go back to a snapshot, and forget those of later tokens."""
        need = "what StateCache.snapshot returned"
        arguments.instance("snapshot", snapshot, StateSnapshot, need)
        self.state, self.conv, self.seq_len = snapshot
        read = _longest(snapshot.seq_len)
        self.snapshots = tuple(
            x for x in self.snapshots if _longest(x.seq_len) <= read
        )

    def fork(self) -> Self:
        return copy.copy(self)  # tensors are shared, and never written to

    def crop(self, length: int) -> None:
        """Go back to the first ``length`` tokens.

        Raises:
            ValueError: no snapshot was taken there, or it was dropped.
        """
        validation.crop(length, int(torch.as_tensor(self.seq_len).min()))
        start = StateSnapshot(None, None, 0)
        present = StateSnapshot(self.state, self.conv, self.seq_len)
        for known in (start, *self.snapshots, present):
            if isinstance(known.seq_len, int) and known.seq_len == length:
                return self.restore(known)
        there = [x.seq_len for x in self.snapshots]
        raise ValueError(
            "length must be that of a snapshot, as no token can be taken out "
            f"of a state: {there or 'none is kept'}; got {length}. Call "
            "snapshot() before the tokens that may have to go, and read "
            "those that stay again"
        )

    def reorder(self, rows: Tensor) -> None:
        if self.state is None:
            return
        validation.rows(rows, self.state.shape[0])

        def pick(x: StateSnapshot) -> StateSnapshot:
            return StateSnapshot(
                None if x.state is None else x.state[rows],
                None if x.conv is None else x.conv[rows],
                x.seq_len if isinstance(x.seq_len, int) else x.seq_len[rows],
            )

        now = StateSnapshot(self.state, self.conv, self.seq_len)
        self.state, self.conv, self.seq_len = pick(now)
        self.snapshots = tuple(map(pick, self.snapshots))


def _longest(seq_len: int | Tensor) -> int:
    return seq_len if isinstance(seq_len, int) else int(seq_len.max())


def _check(
    name: str, x: Tensor | None, old: Tensor | None, axes: str, is_first: bool
) -> None:
    """Require a tensor of these axes, like the stored one."""
    if x is None:
        if old is not None or name == "state":
            raise TypeError(f"{name} must be a tensor {axes}; got None")
        return
    if not isinstance(x, Tensor) or x.dim() != axes.count(",") + 1:
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(
            f"{name} must have shape {axes}; got {got}. Keys and values of a "
            "softmax layer belong in a DynamicCache"
        )
    if old is None and not is_first:
        raise ValueError(f"{name} must be None, as before; got a tensor")
    if old is None:
        return
    like = (old.shape, old.dtype, old.device)
    if (x.shape, x.dtype, x.device) != like:
        raise ValueError(
            f"{name} must be like the stored one, {tuple(old.shape)}, "
            f"{old.dtype} on {old.device}; got {tuple(x.shape)}, {x.dtype} on "
            f"{x.device}"
        )
