"""Read the book's bibliography: authors, year, title, address."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),", re.MULTILINE)
_FIELD = re.compile(r"(?:^|,)\s*(?P<name>\w+)\s*=\s*\{", re.MULTILINE)
_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308"}
_ACCENTS |= {"~": "\u0303", "c": "\u0327", "v": "\u030c", "=": "\u0304"}
_LETTERS = {r"\L": "Ł", r"\l": "ł", r"\o": "ø", r"\O": "Ø", r"\ss": "ß"}


@dataclass(frozen=True)
class Reference:
    """One entry: ``Vaswani et al., 2017``, its title and its address."""

    label: str
    title: str
    url: str


def read(path: Path) -> dict[str, Reference]:
    """Return the entries of a BibTeX file whose values are in braces."""
    text = path.read_text(encoding="utf-8")
    starts = list(_ENTRY.finditer(text))
    ends = [x.start() for x in starts[1:]] + [len(text)]
    return {
        start["key"]: _reference(_fields(text[start.end() - 1 : end]))
        for start, end in zip(starts, ends, strict=True)
    }


def _reference(fields: dict[str, str]) -> Reference:
    people = [
        _plain(_last_name(person))
        for person in fields["author"].split(" and ")
    ]
    names = f"{people[0]} et al." if people[2:] else " and ".join(people)
    url = fields.get("url", "")
    if not url and "doi" in fields:
        url = f"https://doi.org/{fields['doi']}"
    if not url and "eprint" in fields:
        url = f"https://arxiv.org/abs/{fields['eprint']}"
    label = f"{names}, {fields['year']}"
    return Reference(label, _plain(fields["title"]), url)


def _last_name(person: str) -> str:
    """Return the name that comes before the comma; braces hold a whole."""
    if person.startswith("{") or "," in person:
        return person.partition(",")[0]
    return person.rpartition(" ")[2]


def _fields(entry: str) -> dict[str, str]:
    fields, place = {}, 0
    while found := _FIELD.search(entry, place):
        place, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(entry[place], 0)
            place += 1
        fields[found["name"].lower()] = entry[found.end() : place - 1]
    return fields


def _plain(text: str) -> str:
    r"""Set TeX's letters as Unicode, and leave out braces: ``{\'e}`` is é."""
    for tex, letter in _LETTERS.items():
        text = re.sub(re.escape(tex) + r"(?![A-Za-z])\s*", letter, text)
    text = re.sub(
        r"""\\(['`^"~=]|[cv](?![A-Za-z]))\s*\{?(\w)\}?""",
        lambda x: unicodedata.normalize("NFC", x[2] + _ACCENTS[x[1]]),
        text,
    )
    return " ".join(re.sub(r"[{}]", "", text).split())
