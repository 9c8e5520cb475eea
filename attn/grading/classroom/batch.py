"""Grade a class: each result is kept as it comes, and a stopped batch resumes.

A batch is a folder::

    batch.json       its paths, seed, points, time and isolation
    results/*.json   a file for each submission, written in one step
    marks.csv        the teacher's own (``tables``)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attn.data.files import write
from attn.grading.classroom import pools, tables
from attn.grading.classroom.grade import Options, digest
from attn.grading.classroom.result import Result, from_json, json_of
from attn.grading.classroom.submissions import Submission

_BATCH, _LOCK, _RESULTS = "batch.json", ".lock", "results"
#: What a damaged file may raise.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, RecursionError)


@contextmanager
def opened(
    out: Path, paths: Sequence[Path], seed: int | None = None, **options: Any
) -> Iterator[Options]:
    """Open the folder of a batch for one process; make it if need be.

    Args:
        out: the folder: new, empty, or of the same batch.
        paths: what the teacher named. A batch may grow.
        seed: of the batch; else the one that the folder has, else drawn.
        options: the others, as in ``Options``.

    Raises:
        ValueError: the folder holds something else, or a batch with other
            options, or is among the submissions, or another process grades
            in it.
    """
    named = sorted(str(path.resolve()) for path in paths)
    for path in {*named} & {
        *map(str, (out.resolve(), *out.resolve().parents))
    }:
        raise ValueError(
            f"{out} is in {path}, where a learner may have put files: name "
            "a folder elsewhere with --out"
        )
    if out.exists() and not (out / _BATCH).exists():
        others = [out] if out.is_file() else [*out.iterdir()]
        if any(x.name not in (_LOCK, tables.MARKS) for x in others):
            raise ValueError(
                f"{out} must be a new folder, or one of attn grade; it holds "
                f"{others[0].name}: name another with --out"
            )
    out.mkdir(parents=True, exist_ok=True)
    with open(out / _LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{out} must have one batch at a time; another attn grade "
                "runs in it"
            ) from None
        if any((out / _RESULTS).glob("*.json")):  # not after a wrong argument
            seed = _same_seed(out, named, seed, options)
        seed = secrets.randbits(32) if seed is None else seed
        chosen = Options(seed, **options)
        write(out / _BATCH, json_of({"paths": named} | asdict(chosen)))
        yield chosen


def _same_seed(
    out: Path, named: list[str], seed: int | None, options: dict[str, Any]
) -> int:
    """Return the seed of the batch in a folder, if its options are these."""
    try:
        stored = json.loads((out / _BATCH).read_text("utf-8"))
        left, own = sorted({*stored["paths"]} - {*named}), int(stored["seed"])
        differs = [f"--{x}" for x in options if stored[x] != options[x]]
    except _DAMAGE:
        raise ValueError(
            f"{out / _BATCH} must be as attn grade wrote it; name another "
            "folder with --out"
        ) from None
    if seed not in (None, own):
        differs.append(f"--seed (its seed is {own})")
    if left:
        differs.append(f"its paths ({', '.join(left)})")
    if differs:
        raise ValueError(
            f"{out} holds a batch with other options: {'; '.join(differs)}. "
            f"Resume it with its own, or add --out {out.name}-2 for this one"
        )
    return own


def run(
    submissions: Sequence[Submission],
    options: Options,
    out: Path,
    pool: pools.Pool,
    jobs: int = 1,
) -> Iterator[Result]:
    """Yield a result for each submission, as they end; keep each in a file.

    What the folder has of these submissions comes first, and is not graded
    again. What ``pool`` starts, processes or a cluster, grades the others,
    ``jobs`` at a time.
    """
    kept = {x.name: _kept(out, x, options) for x in submissions}
    yield from filter(None, kept.values())
    waiting = {x.name: x for x in submissions if not kept[x.name]}
    jobs = min(jobs, len(waiting))
    for result in pools.run([*waiting.values()], options, pool, jobs):
        name = file_name(waiting[result.submission])
        write(out / _RESULTS / name, json_of(asdict(result)))
        yield result


def file_name(submission: Submission) -> str:
    """Name a submission's file: safe in any file system, and its own."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", submission.name).strip("._")
    own = hashlib.sha256(submission.name.encode()).hexdigest()[:8]
    return f"{safe[-80:]}-{own}.json"


def _kept(
    out: Path, submission: Submission, options: Options
) -> Result | None:
    """Return a stored result, if grading again would give the same."""
    path = out / _RESULTS / file_name(submission)
    try:
        result = from_json(json.loads(path.read_text("utf-8")))
    except _DAMAGE:
        return None
    now = submission.name, digest(submission, options)
    return result if (result.submission, result.digest) == now else None
