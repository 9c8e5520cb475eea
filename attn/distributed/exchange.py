"""Send and receive: the only file in which ranks talk to each other.

gloo does not compare what is sent with what is expected. A sender with fewer
elements leaves the receiver's buffer as it was, another dtype is read as
bytes, and too many elements end the process. So ranks compare the shapes and
dtypes of a call before its data is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

_counters: list[Sent] = []


class Place(NamedTuple):
    """A process among those of a group; ``ranks`` are the global numbers."""

    rank: int
    size: int
    ranks: tuple[int, ...]
    group: dist.ProcessGroup | None


def find_place(group: dist.ProcessGroup | None, caller: str) -> Place:
    """Return where this process is in a group, or raise."""
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            f"{caller} needs a process group: call it in a function that "
            "attn.distributed.launch runs, or call "
            "torch.distributed.init_process_group first"
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(
            f"group must have this process, rank {dist.get_rank()}, as a "
            f"member of {caller}: call it on the members only"
        )
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    return Place(rank, len(ranks), tuple(ranks), group)


def agree(
    place: Place, caller: str, device: torch.device, **facts: Any
) -> None:
    """Require the same facts of a call on every rank, before it sends data.

    A digest is compared, 32 bytes. Only where one differs do the facts
    themselves travel: sizes, names and dtypes, never data.
    """
    if place.size == 1:
        return
    facts = {"the call": caller, **facts}
    digest = hashlib.sha256(repr(facts).encode()).digest()
    mine = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(device)
    digests = [torch.empty_like(mine) for _ in place.ranks]
    dist.all_gather(digests, mine, place.group)
    if all(torch.equal(x, mine) for x in digests):
        return  # on one rank as on all
    said: list[Any] = [None] * place.size
    dist.all_gather_object(said, facts, place.group)
    first = said[0]
    for rank, other in zip(place.ranks[1:], said[1:], strict=True):
        for name in first:
            if first[name] != other.get(name):
                where = "" if name == "the call" else f" of {caller}"
                raise ValueError(
                    f"{name} must be the same on every rank{where}; got "
                    f"{_shown(first[name])} on rank {place.ranks[0]} and "
                    f"{_shown(other.get(name))} on rank {rank}"
                )


class Sent:
    """The bytes that this rank has sent to others: see ``count_sent``.

    Example:
        >>> with attn.distributed.count_sent() as sent:
        ...     pass
        >>> sent.nbytes
        0
    """

    def __init__(self) -> None:
        self.nbytes = 0


@contextmanager
def count_sent() -> Iterator[Sent]:
    """Count the bytes that this rank sends inside the block.

    Counted are the elements of tensors that leave for other ranks, with
    collectives by their usual algorithm, in which a rank sends what it must
    and nothing twice: ``W - 1`` times its part for an all-gather,
    ``(W - 1) / W`` of its tensor for an all-to-all. The sizes that ranks
    compare first are not.

    Example:
        >>> def work(rank):
        ...     x = torch.zeros(1, 2, 16, 8)
        ...     with attn.distributed.count_sent() as sent:
        ...         attn.distributed.ring_attention(x, x, x)
        ...     return sent.nbytes
        >>> attn.distributed.launch(work, 3)  # key and value, passed on twice
        [4096, 4096, 4096]
    """
    counter = Sent()
    _counters.append(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)


def pass_on(
    tensors: Sequence[Tensor], place: Place
) -> Callable[[], list[Tensor]]:
    """Send tensors to the next rank; return what waits for the previous one's.

    Nothing may be written to the tensors before that function returns.
    """
    after, before = (
        place.ranks[(place.rank + step) % place.size] for step in (1, -1)
    )
    leaving = [x.contiguous() for x in tensors]
    coming = [torch.empty_like(x) for x in leaving]
    peers = [after] * len(leaving) + [before] * len(coming)
    ways = [dist.isend] * len(leaving) + [dist.irecv] * len(coming)
    _count(sum(x.nbytes for x in leaving))
    # All at once: ranks that all send first, and then receive, may hang.
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(way, x, peer, place.group)
            for way, x, peer in zip(ways, leaving + coming, peers, strict=True)
        ]
    )

    def arrive() -> list[Tensor]:
        for work, peer in zip(works, peers, strict=False):
            with naming(peer):
                work.wait()
        leaving.clear()  # kept until they are gone
        return coming

    return arrive


def circulate(
    tensors: Sequence[Tensor], place: Place
) -> Iterator[tuple[int, list[Tensor]]]:
    """Yield every rank's tensors with its rank in the group, own ones first.

    They travel from rank to rank, while the caller computes.
    """
    here = list(tensors)
    for step in range(place.size):
        last = step == place.size - 1
        arrive = None if last else pass_on(here, place)
        yield (place.rank - step) % place.size, here
        if arrive is not None:
            here = arrive()


def all_gather(x: Tensor, place: Place) -> Tensor:
    """Return the tensors of all ranks, ``(W, *x.shape)``."""
    if place.size == 1:
        return x[None]
    parts = [torch.empty_like(x) for _ in place.ranks]
    _count((place.size - 1) * x.nbytes)
    dist.all_gather(parts, x.contiguous(), place.group)
    return torch.stack(parts)


def all_to_all(x: Tensor, place: Place) -> Tensor:
    """Send ``x[i]`` to rank ``i``; return what all sent, ``(W, ...)``."""
    if place.size == 1:
        return x
    x = x.contiguous()
    out = torch.empty_like(x)
    _count(x.nbytes // place.size * (place.size - 1))
    dist.all_to_all_single(out, x, group=place.group)
    return out


@contextmanager
def naming(peer: int) -> Iterator[None]:
    """Name the rank in gloo's errors, which have an address."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            f"rank {dist.get_rank()} lost rank {peer}: {error}"
        ) from error


def _count(nbytes: int) -> None:
    for counter in _counters:
        counter.nbytes += nbytes


def _shown(fact: Any) -> str:
    if isinstance(fact, tuple):
        return " ".join(str(x).removeprefix("torch.") for x in fact)
    return str(fact)
