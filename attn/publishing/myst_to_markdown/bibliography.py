"""Read the book's bibliography: authors, year, title, address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The fields that give an address, the best first, and their sites.
_SITES = {
    "url": "",
    "doi": "https://doi.org/",
    "eprint": "https://arxiv.org/abs/",
}


@dataclass(frozen=True)
class Reference:
    """Hold one entry: ``Vaswani et al., 2017``, its title and its address."""

    label: str
    title: str
    url: str


def read(path: Path) -> dict[str, Reference]:
    """Return the entries of a BibTeX file."""
    from pybtex.database.input.bibtex import Parser

    entries = Parser().parse_file(str(path)).entries
    return {key: _reference(entry) for key, entry in entries.items()}


def _reference(entry: Any) -> Reference:
    fields = entry.fields
    people = [
        _unicode(" ".join(person.prelast_names + person.last_names))
        for person in entry.persons["author"]
    ]
    names = f"{people[0]} et al." if people[2:] else " and ".join(people)
    urls = [site + fields[x] for x, site in _SITES.items() if x in fields]
    title = _unicode(fields["title"])
    return Reference(f"{names}, {fields['year']}", title, (*urls, "")[0])


def _unicode(text: str) -> str:
    r"""Set TeX's letters as Unicode, and leave out braces: ``{\'e}`` is é."""
    from pybtex.richtext import Text

    return str(Text.from_latex(text))
