"""Times, taken in turns: what slows a machine down slows all peers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from attn.bench.cases import Case
from attn.bench.peers import Peer, Sizes
from attn.measure import peak_bytes

__all__ = ["run_case", "why_not"]

L2_BYTES = 256 * 2**20  # more than any cache: writing them empties it


def why_not(case: Case, dry: bool = False) -> str | None:
    """Why a case cannot be measured here."""
    if case.device == "cuda" and not dry and not torch.cuda.is_available():
        return "it needs a GPU"
    return None


def run_case(
    case: Case, *, repeats: int = 15, dry: bool = False
) -> dict[str, Any]:
    """Measure one case.

    Args:
        case: what to compare.
        repeats: rounds; in each, every peer runs once.
        dry: small sizes, on whatever there is.

    Returns:
        What ``results`` describes, ready for JSON.
    """
    device = case.device if torch.cuda.is_available() else "cpu"
    sizes = case.sizes.but(device=device)
    sizes = sizes.small() if dry else sizes
    gradients = "backward" in case.name
    with nullcontext() if gradients else torch.no_grad():
        made = case.make(sizes)
        ready = {n: p for n, p in made.items() if isinstance(p, Peer)}
        seconds = _in_turns(ready, repeats, device)
        peaks = _peaks(case, ready)
    about: dict[str, dict[str, Any]] = {}
    for name, peer in made.items():
        if isinstance(peer, str):
            about[name] = {"missing": peer}
        else:
            about[name] = {"work": peer.work, "seconds": seconds[name]}
            about[name] |= peaks.get(name, {})
    return {
        "case": case.name,
        "title": case.title,
        "device": device,
        "sizes": _as_dict(sizes),
        "unit": case.unit,
        "peers": about,
    }


def _in_turns(
    peers: Mapping[str, Peer], repeats: int, device: str
) -> dict[str, list[float]]:
    flush = None
    if device == "cuda":
        flush = torch.empty(L2_BYTES, dtype=torch.uint8, device=device)
    spent: dict[str, list[float]] = {name: [] for name in peers}
    for peer in peers.values():  # twice before it counts
        peer.call()
        peer.call()
    order, shuffle = list(peers.items()), random.Random(0)
    for _ in range(repeats):
        shuffle.shuffle(order)  # nobody always follows the same one
        for name, peer in order:
            if flush is not None:
                flush.zero_()
            with _clock(device, spent[name]):
                peer.call()
    return spent


@contextmanager
def _clock(device: str, into: list[float]) -> Iterator[None]:
    if device != "cuda":
        start = time.perf_counter()
        yield
        into.append(time.perf_counter() - start)
        return
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    yield
    last.record()
    torch.cuda.synchronize()
    into.append(first.elapsed_time(last) / 1000)


def _peaks(case: Case, peers: Mapping[str, Peer]) -> dict[str, dict[str, int]]:
    """Memory of those whom a goal compares by it."""
    asked = {
        name
        for goal in case.goals
        if goal.memory
        for name in (goal.ours, *goal.against)
    }
    return {
        name: {"peak_bytes": peak_bytes(peers[name].call)}
        for name in peers
        if name in asked
    }


def _as_dict(sizes: Sizes) -> dict[str, Any]:
    kept = {k: v for k, v in vars(sizes).items() if v is not None}
    return {k: v for k, v in kept.items() if k not in ("device", "dry")}
