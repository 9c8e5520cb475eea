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
from functools import cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from attn.grading.classroom import reading

METADATA = "submission_metadata.yml"
_NAME = re.compile(
    r"(?P<moodle>.+?)_(\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?"
    r"|submission_(?P<gradescope>\d+)"
    r"|(?P<canvas>[^\W_][^\W_-]*(?:-[^\W_]+)*)"
    r"_(?:LATE_)?(\d+)_(\d{3,})_.+?(?:-(\d{1,3}))?(?:\.\w+){0,2}"
)


class Author(NamedTuple):
    """A learner, as a platform's names give one."""

    name: str
    ids: tuple[str, ...] = ()
    attempt: tuple[int, ...] = ()  # sorts a learner's, if there is an order
    scope: Path | None = None  # in which the first is unique, if not in all


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
    named = [
        _named(root) or _named(root / below.parts[0], len(below.parts) == 1)
        for root, below in places
    ]
    by_entry = len({root for root, _ in places}) == 1 or all(named)
    found = [
        _authors(*name) if name and (by_entry or name[0] == root) else []
        for name, (root, _) in zip(named, places, strict=True)
    ]
    # Each upload to Canvas has its numbers. What shares them is none.
    uploads = Counter(x for own in found for x in own if len(x.attempt) == 2)
    # Two learners of one name have their ids behind it. Moodle numbers them
    # in each assignment.
    ids: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for x in chain(*found):
        ids[x.name, x.scope].update(x.ids[:1])
    return [
        [
            x._replace(name=f"{x.name} ({x.ids[0]})")
            if len(ids[x.name, x.scope]) > 1
            else x
            for x in own
            if uploads[x] < 2
        ]
        for own in found
    ]


def _named(
    path: Path, is_file: bool = False
) -> tuple[Path, re.Match[str]] | None:
    name = _NAME.fullmatch(path.name)
    if name is None or (name["canvas"] and not is_file):
        return None
    return path, name


def _authors(path: Path, name: re.Match[str]) -> list[Author]:
    """Return the authors that a name gives; Gradescope's are beside it."""
    if whose := name["canvas"]:
        number, file, again = name.groups("0")[4:]
        return [Author(whose, (number,), (int(file), int(again)))]
    if whose := name["moodle"]:
        is_blind = whose == "Participant"
        whose = f"{whose} {name[2]}" if is_blind else whose
        return [Author(whose, (name[2],), scope=path.parent)]
    attempt = (int(name["gradescope"]),)
    beside, people = path.parent / METADATA, []
    entries = _metadata(beside) if os.path.lexists(beside) else {}
    listed = reading.get(entries.get(path.name), ":submitters")
    for x in listed if isinstance(listed, list) else ():
        # All text is: anything else may be without end.
        texts = (reading.get(x, k) for k in (":name", ":sid", ":email"))
        known = [t.strip() if isinstance(t, str) else "" for t in texts]
        if any(known):
            ids = tuple(filter(None, known[1:]))
            people.append(Author(known[0] or ids[0], ids, attempt))
    return people or [Author(path.name, (name["gradescope"],), attempt)]


@cache
def _metadata(path: Path) -> dict[str, Any]:
    """Return what the file says of each submission, all of it as text."""
    import yaml

    try:
        text, _ = reading.decode(reading.load(path))
        data = yaml.load(text, yaml.BaseLoader)
    except (reading.Unreadable, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} must be YAML; {reason}") from None
    return data if isinstance(data, dict) else {}
