"""Find the submissions in what a teacher names: files, and folders of them.

A folder may be flat (``alice_05.ipynb``), hold a folder for each learner, be
a platform's (``names``), or nbgrader's ``LEARNER/ASSIGNMENT/``. No submission
is opened here.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from attn.grading.classroom import names as platforms
from attn.grading.classroom.names import Author

SUFFIXES = (".ipynb", ".py")
_NO_SUBMISSION = (".", "__pycache__", platforms.METADATA)


@dataclass(frozen=True)
class Submission:
    """One row of a batch.

    Args:
        path: of the file; of a folder, where that holds no file to grade.
        name: relative to what the teacher named; unique in a batch.
        learner: as a platform's name gives it; else the first folder below
            the named one, else the file's stem.
        ids, attempt, late, partners: as in ``Author``.
    """

    path: Path
    name: str
    learner: str
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()
    late: bool = False
    partners: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    root: Path  # the named folder, or the folder of the named file
    below: PurePath  # relative to it
    is_named: bool = False  # itself, and not its folder


def find(
    paths: Iterable[str | Path], skip: Path | None = None
) -> list[Submission]:
    """Return the submissions in files and folders, in a stable order.

    Each notebook and each Python file is one submission. Hidden files,
    ``.ipynb_checkpoints`` and ``__pycache__`` are left out; links inside a
    folder are not followed. A folder that cannot be listed is a submission
    of its own, and so are a learner's folder without a file to grade and,
    beside notebooks in the named folder, a file of another kind: no learner
    is forgotten. A submission of two learners is one of each.

    Args:
        paths: what the teacher names. A link among them is followed.
        skip: a folder of reports, which may be among the submissions.

    Raises:
        ValueError: a path does not exist, is neither a folder nor a file of
            these two kinds, or holds nothing to grade.
    """
    places: dict[Path, _Place] = {}
    reports = skip.resolve() if skip else None
    for path in map(Path, paths):
        below = [
            x
            for x in _below(path)
            if reports not in (x.root / x.below, *(x.root / x.below).parents)
        ]
        if not below:
            raise ValueError(
                f"a path must hold a notebook (.ipynb) or a .py; got {path}, "
                "a folder without one"
            )
        for place in below:
            places.setdefault(place.root / place.below, place)
    if not places:
        raise ValueError("paths must name a file or a folder; got none")
    names = _unique([*places.values()])
    learners = [*map(_learner, places.values(), names)]
    if _are_learners(places.values()):
        names = _unique([*places.values()], above=1)
        learners = [x.root.name for x in places.values()]
    shown = _told_apart(map(_printable, names))
    authors = platforms.authors([(x.root, x.below) for x in places.values()])
    return [
        submission
        for row in zip(places, shown, learners, authors, strict=True)
        for submission in _of_each(*row)
    ]


def _of_each(
    path: Path, name: str, learner: str, authors: list[Author]
) -> Iterator[Submission]:
    """Yield the submission of a file, or one for each of its authors."""
    if not authors:
        yield Submission(path, name, _printable(learner))
    for x in authors:
        whose = _printable(x.name)
        yield Submission(
            path,
            f"{name} ({whose})" if len(authors) > 1 else name,
            whose,
            tuple(map(_printable, x.ids)),
            x.attempt,
            x.late,
            tuple(map(_printable, x.partners)),
        )


def _below(named: Path) -> Iterator[_Place]:
    try:
        path = named.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"a path must exist; got {os.fspath(named)!r} ({error})"
        ) from None
    if path.is_dir():
        return _walk(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            "a path must be a folder, a notebook (.ipynb) or a .py; got "
            f"{named}"
        )
    return iter([_Place(path.parent, PurePath(path.name), is_named=True)])


def _walk(root: Path) -> Iterator[_Place]:
    folders, files, others = _list(root)
    flat = sorted([*files, *others]) if files else []
    yield from (_Place(root, PurePath(name)) for name in flat)
    for name in folders:
        inside = [*_deeper(root, PurePath(name))]
        is_file = name.lower().endswith(SUFFIXES)  # by its name
        if not inside and (is_file or not files):  # or a learner's folder
            inside = [PurePath(name)]
        yield from (_Place(root, below) for below in inside)


def _deeper(root: Path, below: PurePath) -> Iterator[PurePath]:
    """Yield what is to be graded in a folder, however deep it is."""
    waiting = [below]
    while waiting:
        folder = waiting.pop()
        if (root / folder).is_symlink():
            continue
        try:
            folders, files, _ = _list(root / folder)
        except ValueError:
            yield folder
            continue
        yield from (folder / name for name in files)
        waiting += [folder / name for name in reversed(folders)]


def _list(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the folders, of the files to grade, of others."""
    folders, files, others = [], [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(_NO_SUBMISSION):
                    continue
                if os.path.isdir(entry.path):  # never raises
                    folders.append(entry.name)
                elif entry.name.lower().endswith(SUFFIXES):
                    files.append(entry.name)
                else:
                    others.append(entry.name)
    except OSError as error:
        raise ValueError(
            f"a folder must be readable; got {folder} ({error.strerror})"
        ) from error
    return sorted(folders), sorted(files), others


def _unique(places: list[_Place], above: int = 0) -> list[str]:
    """Name each relative to what was named, and all differently.

    Equal names get the folders above the named ones in front; ``above`` is
    how many of these all names get.
    """
    depths = {x.root: above for x in places}
    while True:
        names = [
            str(PurePath(*_last(x.root.parts, depths[x.root]), x.below))
            for x in places
        ]
        count = Counter(names)
        pairs = zip(places, names, strict=True)
        again = {x.root for x, name in pairs if count[name] > 1}
        if not again:
            return names
        depths |= {root: depths[root] + 1 for root in again}


def _are_learners(places: Iterable[_Place]) -> bool:
    """Return whether the named folders are each a learner's: submitted/*.

    So they are if most of them hold one thing. What one learner puts into a
    folder gives neither that learner nor any other another name.
    """
    held: defaultdict[Path, set[str]] = defaultdict(set)
    for x in places:
        if x.is_named:
            return False
        held[x.root].add(x.below.parts[0])
    return 1 < len(held) < 2 * sum(len(x) == 1 for x in held.values())


def _last(parts: tuple[str, ...], count: int) -> tuple[str, ...]:
    return parts[len(parts) - count :]


def _learner(place: _Place, name: str) -> str:
    if len(place.below.parts) > 1:
        return place.below.parts[0]
    above = PurePath(name).parts[:-1]
    return above[0] if above else platforms.stem(place.below.name)


def _printable(text: str) -> str:
    """Escape what would break a line, a terminal or a report's encoding."""
    return "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode()
        for x in text
    )


def _told_apart(names: Iterable[str]) -> list[str]:
    """Number names that became equal when they were made printable."""
    seen: Counter[str] = Counter()
    shown = []
    for name in names:
        seen[name] += 1
        shown.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return shown
