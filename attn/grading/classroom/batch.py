"""Grade a class: each result is kept as it comes, and a stopped batch resumes.

A batch is a folder::

    batch.json       its paths, seed, points and time, with a seal
    results/*.json   a file for each submission, written in one step
    marks.csv        the teacher's own (``marks``)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attn.grading.classroom import contents, marks, pools, seal
from attn.grading.classroom.grade import Options, digest
from attn.grading.classroom.result import Result, from_json, to_json
from attn.grading.classroom.submissions import Submission

_BATCH = "batch.json"
_LOCK = ".lock"
_RESULTS = "results"
#: What a stored file that was changed may raise.
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError),
    *(RecursionError, contents.Unreadable),
)


@contextmanager
def opened(
    out: Path,
    paths: Sequence[Path],
    seed: int | None = None,
    timeout: float = 60.0,
    points: Mapping[str, float] | None = None,
    partial: bool = False,
) -> Iterator[Options]:
    """Open the folder of a batch for one process; make it if need be.

    Args:
        out: the folder: new, empty, or of the same batch.
        paths: what the teacher named. A batch may grow.
        seed: of the batch; else the one that the folder has, else drawn.
        timeout: seconds for each exercise.
        points: in place of the book's.
        partial: as in ``Options``.

    Raises:
        ValueError: the folder holds something else, or a batch with other
            options, or may be a learner's, or another process grades in it.
    """
    named = sorted(str(path.resolve()) for path in paths)
    worth = dict(points or {})
    options = {"timeout": timeout, "points": worth, "partial": partial}
    if _is_taken(out):
        raise ValueError(
            f"{out} must be a new folder, or one of attn grade; it holds "
            "other files: name another with --out"
        )
    if not _is_own(out, paths):
        raise ValueError(
            f"{out} is among the submissions and holds files, and no run of "
            "yours made it: a learner may have handed it in. Name another "
            "folder with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    # What is at its place, a link perhaps, is not written to.
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(out / _LOCK, flags, 0o600), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{out} must have one batch at a time; another attn grade "
                "runs in it"
            ) from None
        stored = _stored(out)
        if not any((out / _RESULTS).glob("*.json")):
            stored = {}  # as after a wrong argument
        if stored:
            _require_the_same(out, stored, named, seed, options)
        if seed is None:
            seed = stored["seed"] if stored else secrets.randbits(32)
        whole = {"paths": named, "seed": seed} | options
        _write(out / _BATCH, seal.sealed(whole))
        yield Options(seed, timeout, worth, partial)


def _is_taken(out: Path) -> bool:
    if not out.exists() or (out / _BATCH).exists():
        return False
    return not out.is_dir() or any(
        x.name not in (_LOCK, marks.NAME) for x in out.iterdir()
    )


def _is_own(out: Path, paths: Sequence[Path]) -> bool:
    """Return whether nothing in a folder can be a learner's.

    Elsewhere than among the submissions nothing can.
    """
    above = {out.resolve(), *out.resolve().parents}
    if not out.exists() or not any(x.resolve() in above for x in paths):
        return True
    return all(x.name == _LOCK for x in out.iterdir()) or bool(_stored(out))


def _stored(out: Path) -> dict[str, Any]:
    """Return the options of the batch in a folder; nothing if there is none.

    Nor if they were changed since: a seed that was chosen gives inputs that
    an answer can be made for. All is judged again, with another.

    Raises:
        ValueError: the file is damaged.
    """
    path = out / _BATCH
    if not path.exists():
        return {}
    try:
        data = json.loads(contents.load(path))
        kinds = {"paths": list, "seed": int, "points": dict}
        if not all(isinstance(data[x], kind) for x, kind in kinds.items()):
            raise TypeError
        float(data["timeout"])
    except _DAMAGE:
        raise ValueError(
            f"{path} must be as attn grade wrote it; name another "
            "folder with --out"
        ) from None
    try:
        own = {"timeout": float(data["timeout"])}
        return {"partial": False} | seal.opened(data) | own
    except ValueError:
        return {}


def _require_the_same(
    out: Path,
    stored: dict[str, Any],
    named: list[str],
    seed: int | None,
    options: dict[str, Any],
) -> None:
    differs = [f"--{x}" for x in sorted(options) if stored[x] != options[x]]
    if seed not in (None, stored["seed"]):
        differs.append(f"--seed (its seed is {stored['seed']})")
    if left := sorted(set(stored["paths"]) - set(named)):
        differs.append(f"its paths ({', '.join(left)})")
    if differs:
        raise ValueError(
            f"{out} holds a batch with other options: {'; '.join(differs)}. "
            "Resume it with its own, or name another folder with --out"
        )


def run(
    submissions: Sequence[Submission],
    options: Options,
    out: Path,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    work: pools.Work = pools.work,
    again: frozenset[str] = frozenset(),
) -> Iterator[Result]:
    """Yield a result for each submission, as they end; keep each in a file.

    What the folder has of these submissions comes first, and is not graded
    again.

    Args:
        submissions: of the batch.
        options: of the batch.
        out: its folder.
        jobs: processes on this machine; as many as it has cores by default.
        dask: the address of a Dask scheduler; its workers grade.
        work: grades one submission; a function of a module.
        again: the names of submissions to grade though there is a result.
    """
    folder = out / _RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    waiting = []
    for submission in submissions:
        path = folder / file_name(submission)
        result = _kept(path, submission, options)
        if result and submission.name not in again:
            yield result
        else:
            waiting.append(submission)
    pool = pools.processes if dask is None else pools.dask(dask)
    jobs = min(jobs or cores(), max(len(waiting), 1))
    files = {x.name: file_name(x) for x in waiting}
    for result in pools.run(waiting, options, pool, jobs, work):
        path = folder / files[result.submission]
        _write(path, seal.sealed(to_json(result)))
        yield result


def of_learners(
    submissions: Sequence[Submission], names: Sequence[str]
) -> frozenset[str]:
    """Return the names of the submissions of some learners.

    Args:
        submissions: of the batch.
        names: of learners, or a platform's ids.

    Raises:
        ValueError: there is no such learner.
    """
    for name in names:
        if not any(name in (x.learner, *x.ids) for x in submissions):
            learners = dict.fromkeys(x.learner for x in submissions)
            near = get_close_matches(name, learners, 3) or [*learners][:3]
            raise ValueError(
                f"--again must name a learner of the batch ({', '.join(near)}"
                f", …); got {name!r}"
            )
    return frozenset(
        x.name for x in submissions if {x.learner, *x.ids} & {*names}
    )


def file_name(submission: Submission) -> str:
    """Name a submission's file: safe in any file system, and its own."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", submission.name).strip("._")
    own = hashlib.sha256(submission.name.encode()).hexdigest()[:8]
    return f"{safe[-80:]}-{own}.json"


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _kept(
    path: Path, submission: Submission, options: Options
) -> Result | None:
    """Return a stored result, if grading again would give the same.

    One that was changed since it was written is no result.
    """
    try:
        result = from_json(seal.opened(json.loads(contents.load(path))))
    except _DAMAGE:
        return None
    same = result.submission == submission.name and bool(result.digest)
    same = same and result.learner == submission.learner
    same = same and result.digest == digest(submission, options)
    return result if same else None


def _write(path: Path, data: Any) -> None:
    """Write in one step: a crash leaves the old file, or none.

    What is at the draft's place, a link perhaps, is not written to.
    """
    draft = path.with_name(f".{path.name}.tmp")
    text = json.dumps(data, indent=1, ensure_ascii=False)
    draft.unlink(missing_ok=True)
    with open(draft, "x", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(draft, path)
