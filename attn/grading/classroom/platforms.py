"""Read learners from the names that learning platforms give to files.

Canvas: ``bellana_LATE_10293_84756_03_masks-1.ipynb``. Moodle:
``Anna Bell_12345_assignsubmission_file_/…``, a folder for each learner, or
flat. Gradescope: ``submission_123456/…``, with the learners in a file beside.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

from attn.grading.classroom import reading

METADATA = "submission_metadata.yml"
_DEEPEST = 50  # of its lists and mappings: YAML's parser in C calls itself
_CANVAS = re.compile(
    r"([^\W_][^\W_-]*(?:-[^\W_]+)*)_(?:LATE_)?(\d+)_(\d{3,})_.+?(?:-(\d{1,3}))?"
)
_MOODLE = re.compile(
    r"(.+?)_(\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?"
)
_GRADESCOPE = re.compile(r"submission_(\d+)")


@dataclass(frozen=True)
class Author:
    """A learner, as a platform's names give one.

    Args:
        name: of the learner.
        ids: of the learner on the platform, the first of them unique there
            (Moodle: in one assignment).
        attempt: sorts the attempts of one learner; empty if there is no
            order.
    """

    name: str
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()


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
    by_entry = len({root for root, _ in places}) == 1 or all(
        _is_folder(root.name) or _is_folder(below.parts[0]) or _of_file(below)
        for root, below in places
    )
    found: list[tuple[Path, list[Author]]] = []  # and where they are one
    for root, below in places:
        if _is_folder(root.name):
            found.append((root.parent, _of_folder(root)))
        elif by_entry and _is_folder(below.parts[0]):
            found.append((root, _of_folder(root / below.parts[0])))
        else:  # its metadata, too, would be a learner's
            found.append((root, _of_file(below) if by_entry else []))
    # Each upload to Canvas has its numbers. What shares them is none.
    uploads = Counter(y for _, x in found for y in x if len(y.attempt) == 2)
    # Two learners of one name have their ids behind it. Moodle numbers them
    # in each assignment.
    ids: defaultdict[tuple[Any, str], set[str]] = defaultdict(set)
    for root, own in found:
        for x in own:
            ids[not x.attempt and root, x.name].update(x.ids[:1])
    return [
        [
            replace(x, name=f"{x.name} ({x.ids[0]})")
            if len(ids[not x.attempt and root, x.name]) > 1
            else x
            for x in own
            if uploads[x] < 2
        ]
        for root, own in found
    ]


def stem(name: str) -> str:
    """Return a name without its ending, or the two that a browser gives."""
    return PurePath(name.removesuffix(".txt")).stem


def _is_folder(name: str) -> bool:
    return bool(_GRADESCOPE.fullmatch(name) or _MOODLE.fullmatch(name))


def _of_file(below: PurePath) -> list[Author]:
    name = stem(below.name) if len(below.parts) == 1 else ""
    if match := _CANVAS.fullmatch(name):
        whose, number, file, again = match.groups("0")
        return [Author(whose, (number,), (int(file), int(again)))]
    return _of_moodle(name)


def _of_moodle(name: str) -> list[Author]:
    if not (match := _MOODLE.fullmatch(name)):
        return []
    whose, number = match.groups()
    is_blind = whose == "Participant"
    return [Author(f"{whose} {number}" if is_blind else whose, (number,))]


def _of_folder(path: Path) -> list[Author]:
    """Return the authors of a folder; Gradescope names them beside it."""
    if not (match := _GRADESCOPE.fullmatch(path.name)):
        return _of_moodle(path.name)
    attempt = (int(match[1]),)
    beside, people = path.parent / METADATA, []
    entries = _metadata(beside) if os.path.lexists(beside) else {}
    listed = reading.get(entries.get(path.name), ":submitters")
    for x in listed if isinstance(listed, list) else ():
        # All text is: anything else may be without end.
        texts = (reading.get(x, k) for k in (":name", ":sid", ":email"))
        name, *ids = (t.strip() if isinstance(t, str) else "" for t in texts)
        ids = [*filter(None, ids)]
        if name or ids:
            people.append(Author(name or ids[0], tuple(ids), attempt))
    return people or [Author(path.name, (match[1],), attempt)]


@cache
def _metadata(path: Path) -> dict[str, Any]:
    """Return what the file says of each submission, all of it as text."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        text, _ = reading.decode(reading.load(path))
        kinds = (type(x).__name__ for x in yaml.parse(text, loader))
        deeper = (
            x.endswith("StartEvent") - x.endswith("EndEvent") for x in kinds
        )
        if any(x > _DEEPEST for x in accumulate(deeper)):
            raise ValueError(f"{path} must be nested at most {_DEEPEST} deep")
        data = yaml.load(text, loader)
    except (reading.Unreadable, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be YAML; {reason}") from None
    return data if isinstance(data, dict) else {}
