"""Times, taken in turns: what slows a machine down slows all peers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from attn.bench.baselines import Peer, Sizes
from attn.bench.cases import Case
from attn.profiling import benchmark_interleaved, peak_bytes

__all__ = ["run_case", "why_not"]


def why_not(case: Case, dry: bool = False) -> str | None:
    """Why a case cannot be measured here."""
    if case.device == "cuda" and not dry and not torch.cuda.is_available():
        return "it needs a GPU"
    return None


def run_case(
    case: Case, *, repeats: int = 25, dry: bool = False
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
    with nullcontext() if case.gradients else torch.no_grad():
        made = case.make(sizes)
        ready = {n: p for n, p in made.items() if isinstance(p, Peer)}
        runs = {name: peer.call for name, peer in ready.items()}
        seconds = benchmark_interleaved(runs, repeats, device)
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
