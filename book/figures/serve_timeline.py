"""Bake the schedules of chapter 16: fixed batches, and one made each step.

    python -m book.figures.serve_timeline

Sixteen requests, all there at once, on four rows. A dial makes their answers
more unequal, another takes pages away.
"""

from __future__ import annotations

from functools import cache

import torch

from attn import PageAllocator
from attn.serving import Request, Scheduler, simulate, simulate_static
from book.figures.bake import bake

REQUESTS, ROWS, PROMPT, PAGE = 16, 4, 4, 4
SIGMAS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5]
PAGES = [8, 10, 12, 16, 32]
NAMES = "abcdefghijklmnop"

Segment = tuple[int, int, int, int]  # row, first step, steps, request


def answers(sigma: float) -> list[int]:
    """Draw the lengths of the answers, 8 tokens on average."""
    g = torch.Generator().manual_seed(6)
    z = torch.randn(REQUESTS, generator=g).double()
    lengths = 8 * (sigma * z - sigma**2 / 2).exp()
    return lengths.round().clamp(1, 28).int().tolist()


def requests(sigma: float) -> list[Request]:
    return [
        Request(name, [1] * PROMPT, n)
        for name, n in zip(NAMES, answers(sigma), strict=True)
    ]


def one(_counts: object) -> float:
    """Let every step take the same time."""
    return 1.0


@cache
def static(sigma: float) -> dict[str, object]:
    """Return the rows of fixed batches, and how many steps they take."""
    trace = simulate_static(requests(sigma), one, ROWS)
    segments, lengths = [], answers(sigma)
    start = 0
    for i in range(0, REQUESTS, ROWS):
        batch = lengths[i : i + ROWS]
        segments += [(row, start, n, i + row) for row, n in enumerate(batch)]
        start += max(batch)
    assert start == len(trace.steps)
    return {"steps": start, "segments": segments, "preempted": []}


@cache
def continuous(sigma: float, num_pages: int) -> dict[str, object]:
    """Return the same for a schedule of each step, and who was preempted."""
    scheduler = Scheduler(
        PageAllocator(num_pages, PAGE),
        max_num_seqs=ROWS,
        max_num_batched_tokens=64,
    )
    trace = simulate(requests(sigma), one, scheduler)
    rows: dict[str, int] = {}
    segments: list[list[int]] = []
    at: dict[str, int] = {}  # the segment that goes on
    preempted = []
    for step, each in enumerate(trace.steps):
        for name in each.preempted:
            preempted.append((rows.pop(name), step, NAMES.index(name)))
            del at[name]
        here = each.num_scheduled_tokens
        for name in [x for x in rows if x not in here]:
            del rows[name], at[name]  # it has ended
        for name in here:
            if name not in rows:
                free = set(range(ROWS)) - set(rows.values())
                rows[name] = min(free)
                at[name] = len(segments)
                segments.append([rows[name], step, 0, NAMES.index(name)])
            segments[at[name]][2] += 1
    return {
        "steps": len(trace.steps),
        "segments": segments,
        "preempted": preempted,
        "computed": sum(
            sum(x.num_scheduled_tokens.values()) for x in trace.steps
        ),
    }


def numbers() -> dict[str, object]:
    return {
        "rows": ROWS,
        "page": PAGE,
        "prompt": PROMPT,
        "names": NAMES,
        "sigmas": SIGMAS,
        "pages": PAGES,
        "answers": [answers(sigma) for sigma in SIGMAS],
        "static": [static(sigma) for sigma in SIGMAS],
        "continuous": [
            [continuous(sigma, n) for n in PAGES] for sigma in SIGMAS
        ],
    }


if __name__ == "__main__":
    bake("serve_timeline", numbers())
