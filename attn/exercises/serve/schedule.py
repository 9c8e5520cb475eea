"""Cases and properties of ``serve-schedule``."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

Running = dict[str, tuple[int, int]]
Step = tuple[dict[str, int], list[str], list[str]]


def schedule(
    running: Running,
    waiting: dict[str, int],
    free_pages: int,
    page_size: int,
    max_num_batched_tokens: int,
) -> Step:
    """Go through one queue, from the front; preempt from its back."""
    queue = [(x, *counts, True) for x, counts in running.items()]
    queue += [(x, 0, total, False) for x, total in waiting.items()]
    held = {x: math.ceil(done / page_size) for x, done, *_ in queue}
    step: Step = ({}, [], [])
    counts, preempted, sampled = step
    for name, done, total, runs in queue:
        count = min(
            total - done, max_num_batched_tokens - sum(counts.values())
        )
        if name in preempted or not count:
            continue
        if not runs and preempted:
            break
        need = math.ceil((done + count) / page_size) - held[name]
        while need > free_pages and runs and name not in preempted:
            last = [x for x in running if x not in preempted][-1]
            preempted.append(last)
            free_pages += held[last]
        if name in preempted or need > free_pages:
            break
        counts[name] = count
        free_pages -= need
        if done + count == total:
            sampled.append(name)
    return step


STEPS = {  # running (done, total), waiting, free_pages, page_size, budget
    "one request is waiting": [
        ([], [5], 9, 3, 20),
        ([], [6], 2, 3, 6),
        ([], [7], 9, 4, 100),
    ],
    "one request is running, and has one token to compute": [
        ([(7, 8)], [], 5, 4, 10),
        ([(6, 7)], [], 3, 3, 9),
        ([(5, 6)], [], 0, 3, 7),
    ],
    "several are running": [
        ([(7, 8), (3, 4), (9, 10)], [], 6, 3, 16),
        ([(4, 5), (8, 9), (5, 6)], [], 3, 4, 3),
    ],
    "others are waiting as well": [
        ([(7, 8), (3, 4)], [5, 6], 9, 3, 30),
        ([(2, 3)], [4, 3, 9], 20, 5, 40),
    ],
    "a prompt is longer than the budget": [
        ([], [50], 30, 3, 12),
        ([(12, 50)], [], 30, 3, 12),
        ([(36, 50), (13, 14)], [7], 30, 3, 11),
        ([(48, 50)], [], 30, 3, 12),
    ],
    "the budget ends with a request that runs": [
        ([(7, 8), (20, 33), (3, 4)], [4], 30, 5, 9),
        ([(7, 8), (3, 4), (5, 6)], [4], 30, 5, 2),
        ([(7, 8), (3, 4)], [4], 30, 5, 2),
    ],
    "the budget ends with a request that waits": [
        ([(7, 8)], [9, 3], 30, 5, 6),
        ([(7, 8)], [5, 9], 30, 5, 6),
    ],
    "the pages end with a request that waits": [
        ([(7, 8)], [9, 2], 2, 3, 30),
        ([(7, 8)], [7], 2, 3, 30),
        ([(6, 7)], [9, 2], 3, 3, 30),
        ([(6, 7)], [7, 2], 4, 3, 30),
        ([], [30, 4], 3, 5, 30),
        ([], [12, 4], 3, 5, 30),
    ],
    "a part of a prompt finds pages, where all of it would not": [
        ([(5, 6)], [40], 3, 5, 11),
        ([(10, 60)], [], 2, 5, 10),
    ],
    "no page is left, and none is needed": [
        ([(7, 8), (4, 5)], [3], 0, 3, 20),
        ([(7, 8), (4, 6)], [], 0, 3, 20),
    ],
    "one request must be preempted": [
        ([(6, 7), (9, 10), (4, 5)], [], 0, 3, 20),
        ([(6, 7), (9, 10), (4, 5)], [], 1, 3, 20),
        ([(8, 9), (5, 6), (7, 8)], [], 0, 4, 20),
    ],
    "one is preempted, and others are waiting": [
        ([(6, 7), (5, 6), (7, 8)], [2], 0, 3, 20),
        ([(6, 7), (9, 10), (11, 12)], [1, 1], 1, 3, 20),
    ],
    "several must be preempted": [
        ([(9, 30), (3, 4), (6, 7), (2, 3)], [4], 1, 3, 40),
        ([(9, 10), (9, 21), (3, 4), (4, 5), (2, 3)], [], 0, 3, 40),
    ],
    "the request itself is preempted": [
        ([(7, 8), (6, 7)], [], 0, 3, 20),
        ([(6, 7)], [5], 0, 3, 20),
        ([(7, 8), (6, 20)], [2], 3, 3, 40),
    ],
    "the budget ends before the pages do": [
        ([(7, 8), (6, 7), (9, 10)], [], 0, 3, 1),
        ([(7, 8), (6, 30), (9, 10)], [], 2, 3, 7),
    ],
    "a page holds one token": [
        ([(7, 8), (3, 4), (2, 3)], [4], 1, 1, 20),
        ([(7, 8)], [4], 3, 1, 20),
    ],
    "requests finish a long prompt together": [
        ([(40, 43), (20, 27)], [11], 90, 16, 512),
        ([(40, 43), (20, 27)], [11], 90, 16, 10),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, running: Any, waiting: Any, *numbers: int) -> Case:
        letters = torch.randperm(26, generator=g).tolist()
        names = [chr(97 + x) for x in letters]
        runs = dict(zip(names, running, strict=False))
        waits = dict(zip(names[len(runs) :], waiting, strict=False))
        return Case(when, (runs, waits, *numbers))

    for when, step in entries(STEPS):
        yield case(when, *step)
    when = "many requests are on the way"
    for _ in range(4):
        runs = []
        for _ in range(g.between(6, 12)):
            done = g.between(1, 60)
            more = g.between(5, 40) if g.between(0, 3) == 0 else 1
            runs.append((done, done + more))
        waits = [g.between(3, 50) for _ in range(g.between(2, 5))]
        free = g.between(0, 9)
        yield case(when, runs, waits, free, g.between(3, 7), g.between(9, 64))


def _budget(case: Case, out: Any) -> bool:
    return sum(out[0].values()) <= case.args[4]


def _pages(case: Case, out: Any) -> bool:
    """Return whether the pages suffice for what an answer schedules."""
    running, _, free, size, _ = case.args
    done = {name: counts[0] for name, counts in running.items()}
    for name in out[1]:
        free += math.ceil(done[name] / size)
    for name, count in out[0].items():
        before = done.get(name, 0)
        free -= math.ceil((before + count) / size) - math.ceil(before / size)
    return free >= 0


def _some(case: Case, out: Any) -> bool:
    return all(out[0].values())


def _not_both(case: Case, out: Any) -> bool:
    return not set(out[0]) & set(out[1])


def _complete(case: Case, out: Any) -> bool:
    running, waiting = case.args[:2]
    totals = {**{x: (0, n) for x, n in waiting.items()}, **running}
    return all(
        name in out[0]
        and sum((totals[name][0], out[0][name])) == totals[name][1]
        for name in out[2]
    )


exercise = Exercise(
    id="serve-schedule",
    points=3,
    reference=schedule,
    cases=_cases,
    returns=(
        "the dict of tokens",
        "the list of requests preempted",
        "the list of those that sample",
    ),
    properties=(
        Property(
            "More tokens are scheduled than max_num_batched_tokens.", _budget
        ),
        Property(
            "The tokens need more pages than are free, those of preempted "
            "requests included.",
            _pages,
        ),
        Property("A request that computes 0 tokens is listed.", _some),
        Property("A request is scheduled and preempted at once.", _not_both),
        Property(
            "A request samples although this step does not compute its last "
            "token.",
            _complete,
        ),
    ),
    breaks={
        "position 0": lambda c: any(done for done, _ in c.args[0].values()),
    },
)
