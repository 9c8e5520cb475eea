"""Repeat a chapter's experiments with other seeds and more steps."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from attn.publishing.claims import cells, record
from attn.publishing.claims.experiment import Experiment

SEEDS = (0, 1, 2, 3)

Run = tuple[int, int | None]  # its seed, and its steps if it has any


@cache
def sources(path: Path) -> list[str]:
    """Return the code of a chapter's cells, with solutions for stubs.

    A cell that is to fail counts as empty.
    """
    from attn.publishing import notebooks

    solved = notebooks.solved(notebooks.read(path))
    return [
        "" if "raises-exception" in x.metadata.get("tags", ()) else x.source
        for x in solved.cells
        if x.cell_type == "code"
    ]


def experiments(path: Path) -> list[str]:
    """Return the names of a chapter's experiments, in its order."""
    return [x for cell in sources(path) for x in cells.experiments(cell)]


def digest(path: Path, name: str) -> str:
    """Hash the code that an experiment and its claims are made of."""
    every = sources(path)
    return cells.digest([every[i] for i in cells.needed(every, name)])


def load(path: Path, name: str) -> Experiment:
    """Run the cells that an experiment needs, and return it.

    Raises:
        ValueError: the chapter claims nothing about the experiment.
    """
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    record.REPEATING = True
    names: dict[str, Any] = {"__name__": "__main__"}
    every = sources(path)
    for i in cells.needed(every, name):
        text = cells.without_magics(every[i])
        file = f"<{path.stem}, code cell {i}>"
        lines = text.splitlines(keepends=True)
        linecache.cache[file] = len(text), None, lines, file  # for Triton
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, file, "exec"), names)
    found = names[name]
    if not isinstance(found, Experiment) or not found.stated:
        raise ValueError(f"{path.stem}: no claim rests on {name}")
    return found


def plan(found: Experiment) -> list[Run]:
    """Return the runs of ``make claims``.

    Four seeds on the page's steps, then twice these and the longer run's;
    where claims are about that one, it has the four seeds as well.
    """
    runs: list[Run] = [(seed, found.steps) for seed in SEEDS]
    if found.steps is None or found.long_steps is None:
        return runs
    about_long = any(after == found.long_steps for _, after in found.stated)
    seeds = SEEDS if about_long else SEEDS[:1]
    runs.append((0, 2 * found.steps))
    return runs + [(seed, found.long_steps) for seed in seeds]


def repeat(
    path: Path, name: str, seeds: tuple[int, ...] = ()
) -> Iterator[dict[str, Any]]:
    """Yield each run of ``plan``: what it measured, and its claims.

    Where seeds are given, they are run with the page's steps.
    """
    found = load(path, name)
    runs = [(seed, found.steps) for seed in seeds] or plan(found)
    for seed, steps in runs:
        start = time.perf_counter()
        claims = found.claims(seed, steps)
        run = {
            "seed": seed,
            "steps": steps,
            "seconds": round(time.perf_counter() - start, 1),
            "claims": [asdict(x) | {"margin": x.margin} for x in claims],
        }
        if steps is not None and steps == found.long_steps:
            run["result"] = found(seed, steps)
        yield run


def entry(path: Path, name: str, about: dict[str, Any]) -> dict[str, Any]:
    """Return what is recorded of an experiment: all its runs, and about them.

    Spawned processes look functions up by their module, and a ``__main__``
    is none: these two are here.
    """
    runs = list(repeat(path, name))
    return {"digest": digest(path, name), "about": about, "runs": runs}


def one_thread() -> None:
    """Keep a process to one thread: others run beside it."""
    import torch

    torch.set_num_threads(1)
