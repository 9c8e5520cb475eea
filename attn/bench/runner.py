"""Time the peers of a case side by side, as a busy machine slows all."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch

from attn.bench.baselines import Peer, build
from attn.bench.case import Case
from attn.profiling import benchmark_interleaved, peak_bytes


def not_runnable_reason(case: Case, dry: bool = False) -> str | None:
    """Return why this machine cannot run a case; None if it can."""
    needs_gpu = case.sizes.device == "cuda" and not dry
    is_here = torch.cuda.is_available() or not needs_gpu
    return None if is_here else "it needs a GPU"


def run_case(
    case: Case, *, repeats: int = 25, dry: bool = False
) -> dict[str, Any]:
    """Measure a case, in small with ``dry``: a case of a run of ``results``.

    Every peer runs once in each of ``repeats`` rounds.
    """
    device = case.sizes.device if torch.cuda.is_available() else "cpu"
    sizes = replace(case.sizes, device=device)
    sizes = sizes.small() if dry else sizes
    by_memory = any(goal.at_most is not None for goal in case.goals)
    measured: dict[str, dict[str, Any]] = {}
    with nullcontext() if case.gradients else torch.no_grad():
        peers = build(case, sizes)
        calls = {n: p.call for n, p in peers.items() if isinstance(p, Peer)}
        seconds = benchmark_interleaved(calls, repeats, device)
        for name, peer in peers.items():
            if isinstance(peer, str):
                measured[name] = {"missing": peer}
                continue
            measured[name] = {"work": peer.work, "seconds": seconds[name]}
            if by_memory:
                measured[name]["peak_bytes"] = peak_bytes(peer.call)
    shown = {n: x for n, x in asdict(sizes).items() if x is not None}
    del shown["device"], shown["dry"]
    return {
        "case": case.name,
        "title": case.title,
        "device": device,
        "sizes": shown,
        "unit": case.unit,
        "peers": measured,
    }
