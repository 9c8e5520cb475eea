"""Find the submissions in what a teacher names: files, and folders of them.

A folder may be flat (``alice_05.ipynb``), hold a folder for each learner, be
a platform's (``platforms``), or nbgrader's ``LEARNER/ASSIGNMENT/``. No
submission is opened here.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from attn.exercises import kept
from attn.grading.classroom import platforms
from attn.grading.classroom.platforms import Author
from attn.grading.classroom.result import clean

_SUFFIXES = (".ipynb", ".py")
_NO_SUBMISSION = (".", "__pycache__", kept.FOLDER, platforms.METADATA)
#: The folder that a teacher named, or that of a file; the path from there.
_Place = tuple[Path, PurePath]


@dataclass(frozen=True)
class Submission:
    """One row of a batch.

    Args:
        path: of the file; of a folder, where that holds no file to grade.
        name: relative to what the teacher named; unique in a batch.
        learner: as a platform's name gives it; else the first folder below
            the named one, else the file's stem.
        ids, attempt: as in ``Author``.
    """

    path: Path
    name: str
    learner: str
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()


def find(paths: Iterable[str | Path]) -> list[Submission]:
    """Return the submissions in files and folders, in a stable order.

    Each notebook and each Python file is one submission. Hidden files,
    ``.ipynb_checkpoints`` and ``__pycache__`` are left out; links inside a
    folder are not followed. A folder that cannot be listed is a submission
    of its own, and so are a learner's folder without a file to grade and,
    beside notebooks in the named folder, a file of another kind: no learner
    is forgotten. A submission of two learners is one of each.

    Args:
        paths: what the teacher names. A link among them is followed.

    Raises:
        ValueError: a path does not exist, is neither a folder nor a file of
            these two kinds, or holds nothing to grade.
    """
    named = [*map(_resolved, paths)]
    found: dict[Path, _Place] = {}
    for path in named:
        root = path if path.is_dir() else path.parent
        inside = _below(root) if path.is_dir() else [PurePath(path.name)]
        for x in inside:
            found.setdefault(root / x, (root, x))
    if not found:
        raise ValueError("paths must name a file or a folder; got none")
    places = [*found.values()]
    are_learners = all(x.is_dir() for x in named) and _are_learners(places)
    names = _names(places, above=int(are_learners))
    submissions = []
    for (root, below), name, authors in zip(
        places, names, platforms.authors(places), strict=True
    ):
        folders = PurePath(name).parts[:-1]
        if are_learners:
            folders = (root.name,)
        elif len(below.parts) > 1:
            folders = below.parts
        stem = PurePath(name.removesuffix(".txt")).stem  # as a browser has it
        for author in authors or [Author((*folders, stem)[0])]:
            more = f" ({author.name})" if len(authors) > 1 else ""
            own = f"{name}{more}", author.name, *author.ids
            # As different as before: one may have an escape in it.
            shown, learner, *ids = (clean(x.replace("\\", r"\\")) for x in own)
            submissions.append(
                Submission(
                    root / below, shown, learner, tuple(ids), author.attempt
                )
            )
    return submissions


def _resolved(named: str | Path) -> Path:
    try:
        path = Path(named).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"a path must exist; got {os.fspath(named)!r} ({error})"
        ) from None
    if not (path.is_dir() or _is_graded(path)):
        raise ValueError(
            "a path must be a folder, a notebook (.ipynb) or a .py; got "
            f"{named}"
        )
    return path


def _below(root: Path) -> list[PurePath]:
    """Return what is to be graded in a folder, however deep it is."""
    found: list[PurePath] = []
    top: list[PurePath] = []
    waiting = [PurePath()]
    while waiting:
        folder = waiting.pop()
        try:
            names = sorted(os.listdir(root / folder))
        except OSError as error:
            if not folder.parts:
                raise ValueError(
                    f"a folder must be readable; got {root} ({error.strerror})"
                ) from None
            found.append(folder)
            continue
        inside = [
            folder / x for x in names if not x.startswith(_NO_SUBMISSION)
        ]
        folders = [x for x in inside if os.path.isdir(root / x)]
        files = sorted({*inside} - {*folders})
        own = [x for x in files if _is_graded(x)]
        if not folder.parts:
            top = [x for x in folders if not own or _is_graded(x)]
            own = files if own else []
        found += own
        waiting += [x for x in folders[::-1] if not os.path.islink(root / x)]
    held = {x.parts[0] for x in found}
    found += [x for x in top if x.name not in held]  # a learner's, and empty
    if not found:
        raise ValueError(
            f"a path must hold a notebook (.ipynb) or a .py; got {root}, a "
            "folder without one"
        )
    return found


def _is_graded(path: PurePath) -> bool:
    return path.suffix.lower() in _SUFFIXES


def _names(places: Sequence[_Place], above: int) -> list[str]:
    """Name each relative to what was named, and all differently.

    They get ``above`` folders in front, and more where some are equal.
    """
    while True:
        names = [
            str(PurePath(*root.parts[::-1][:above][::-1], below))
            for root, below in places
        ]
        if len({*names}) == len(names):
            return names
        above += 1


def _are_learners(places: Sequence[_Place]) -> bool:
    """Return whether the named folders are each a learner's: submitted/*.

    So they are if most of them hold one thing. What one learner puts into a
    folder gives neither that learner nor any other another name.
    """
    held: defaultdict[Path, set[str]] = defaultdict(set)
    for root, below in places:
        held[root].add(below.parts[0])
    return 1 < len(held) < 2 * sum(len(x) == 1 for x in held.values())
