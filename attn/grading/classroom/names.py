"""Read learners from the names that learning platforms give to files.

Canvas::

    bellana_LATE_10293_84756_03_masks-1.ipynb

Moodle, with a folder for each learner or flat::

    Anna Bell_12345_assignsubmission_file_/03_masks.ipynb
    Anna Bell_12345_assignsubmission_file_03_masks.ipynb

Gradescope, whose export names the learners in a file of its own::

    submission_123456/03_masks.ipynb
    submission_metadata.yml
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

from attn.grading.classroom import contents

METADATA = "submission_metadata.yml"
_DEEPEST = 50  # of its lists and mappings: YAML's parser in C calls itself

_CANVAS = re.compile(
    r"(?P<name>[^\W_][^\W_-]*(?:-[^\W_]+)*)_(?P<late>LATE_)?"
    r"(?P<id>\d+)_(?P<file>\d{3,})_(?P<rest>.+?)(?:-(?P<again>\d{1,3}))?"
)
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?"
)
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")


@dataclass(frozen=True)
class Author:
    """A learner, as a platform's names give one.

    Args:
        name: of the learner.
        ids: of the learner on the platform, the first of them unique there
            (Moodle: in one assignment).
        attempt: sorts the attempts of one learner; empty if there is no
            order.
        late: whether the platform says so.
        partners: the names of the other learners of the same submission.
    """

    name: str
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()
    late: bool = False
    partners: tuple[str, ...] = ()


_Named = tuple[Path, str, list[Author]]  # in a folder, its name, its authors


def authors(places: Sequence[tuple[Path, PurePath]]) -> list[list[Author]]:
    """Return the authors of each file that a platform's name gives.

    It is the name of the named folder, or that of an entry of it: what is
    deeper is named by a learner, and could be given another learner's name.
    So could an entry where each learner's folder is named (``submitted/*``):
    of several folders, entries count if all have a platform's names.

    Args:
        places: of each file, the folder that a teacher named, and the path
            from there.

    Raises:
        ValueError: Gradescope's metadata cannot be read.
    """
    is_one = len({root for root, _ in places}) == 1
    by_entry = is_one or all(
        _is_folder(root.name) or _is_entry(below) for root, below in places
    )
    return _told_apart([_named(*place, by_entry) for place in places])


def _named(root: Path, below: PurePath, by_entry: bool) -> _Named:
    entry = below.parts[0]
    if _is_folder(root.name):
        return root.parent, root.name, _of_folder(root.name, root.parent)
    if not by_entry:  # its metadata, too, would be a learner's
        return root, stem(entry), []
    if _is_folder(entry):
        return root, entry, _of_folder(entry, root)
    name = stem(entry)
    return root, name, _of_file(name) if len(below.parts) == 1 else []


def _is_folder(name: str) -> bool:
    """Return whether a platform gives a folder such a name."""
    return bool(_GRADESCOPE.fullmatch(name) or _MOODLE.fullmatch(name))


def _is_entry(below: PurePath) -> bool:
    name = stem(below.parts[0])
    is_file = len(below.parts) == 1 and _of_file(name)
    return _is_folder(below.parts[0]) or bool(is_file)


def stem(name: str) -> str:
    """Return a name without its ending, or the two that a browser gives."""
    return PurePath(name.removesuffix(".txt")).stem


def _of_file(name: str) -> list[Author]:
    """Return the author that a file's name gives, or none."""
    if match := _CANVAS.fullmatch(name):
        attempt = int(match["file"]), int(match["again"] or 0)
        ids = (match["id"],)
        return [Author(match["name"], ids, attempt, bool(match["late"]))]
    return _of_moodle(name)


def _of_folder(name: str, above: Path) -> list[Author]:
    """Return the authors that a folder's name gives, or none.

    Args:
        name: of the folder.
        above: the folder that holds it, and Gradescope's metadata.

    Raises:
        ValueError: the metadata cannot be read.
    """
    if not (match := _GRADESCOPE.fullmatch(name)):
        return _of_moodle(name)
    attempt = (int(match["id"]),)
    people = [*_submitters(above / METADATA, name)]
    return [replace(x, attempt=attempt) for x in people] or [
        Author(name, (match["id"],), attempt)
    ]


def _of_moodle(name: str) -> list[Author]:
    if not (match := _MOODLE.fullmatch(name)):
        return []
    is_blind = match["name"] == "Participant"
    shown = f"Participant {match['id']}" if is_blind else match["name"]
    return [Author(shown, (match["id"],))]


def _submitters(path: Path, name: str) -> Iterator[Author]:
    if not os.path.lexists(path):
        return
    entry = _metadata(path, os.lstat(path).st_mtime_ns).get(name)
    people = entry.get(":submitters") if isinstance(entry, dict) else None
    for person in people if isinstance(people, list) else ():
        if isinstance(person, dict):
            found = (person.get(x) for x in (":name", ":sid", ":email"))
            # All text is: anything else may be without end.
            texts = (x.strip() if isinstance(x, str) else "" for x in found)
            called, *ids = texts
            ids = [x for x in ids if x]
            if called or ids:
                yield Author(called or ids[0], tuple(ids))


@cache
def _metadata(path: Path, _changed: int) -> dict[str, Any]:
    """Return what the file says of each submission, all of it as text."""
    import yaml

    try:
        text, _ = contents.decode(contents.load(path))
    except contents.Unreadable as error:
        raise ValueError(f"{path} must be a text file; {error}") from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = accumulate(map(_deeper, yaml.parse(text, loader)))
        if any(x > _DEEPEST for x in depth):
            raise ValueError(f"{path} must be nested at most {_DEEPEST} deep")
        data = yaml.load(text, loader)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be YAML; {reason}") from None
    return data if isinstance(data, dict) else {}


def _deeper(event: Any) -> int:
    """Return by how much what follows is nested deeper: 1, 0 or -1."""
    kind = type(event).__name__
    starts = kind in ("MappingStartEvent", "SequenceStartEvent")
    return starts - (kind in ("MappingEndEvent", "SequenceEndEvent"))


def _told_apart(found: Sequence[_Named]) -> list[list[Author]]:
    """Return the authors of each file, with a name for each learner.

    Two learners of one name get their ids behind it. Files that are one
    upload to Canvas by their numbers and have different names are no files
    of Canvas (``hw_2026_101_ann``, ``hw_2026_101_bo``): they have no author.
    """
    uploads = defaultdict(set)
    for _, name, _ in found:
        if match := _CANVAS.fullmatch(name):
            uploads[_upload(match)].add(match["rest"])
    people: defaultdict[tuple[object, str], set[str]] = defaultdict(set)
    kept = []
    for folder, name, named in found:
        match = _CANVAS.fullmatch(name)
        if match and len(uploads[_upload(match)]) > 1:
            named = []
        # Moodle numbers the learners of each assignment on their own.
        where = folder if _MOODLE.fullmatch(name) else None
        for x in named:
            people[where, x.name].update(x.ids[:1])
        kept.append((where, named))
    return [
        _together([_apart(x, len(people[where, x.name]) > 1) for x in named])
        for where, named in kept
    ]


def _together(named: list[Author]) -> list[Author]:
    """Name the partners of each, with an id where two have one name."""
    return [
        replace(x, partners=tuple(y.name for y in named if y is not x))
        for x in named
    ]


def _upload(match: re.Match[str]) -> tuple[str, ...]:
    return match["name"], match["id"], match["file"]


def _apart(author: Author, is_shared: bool) -> Author:
    if not (is_shared and author.ids):
        return author
    return replace(author, name=f"{author.name} ({author.ids[0]})")
