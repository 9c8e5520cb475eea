"""Read the book's bibliography: authors, year, title, address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The addresses that an entry may have, in the order of preference.
_ADDRESSES = {
    "url": "{}",
    "doi": "https://doi.org/{}",
    "eprint": "https://arxiv.org/abs/{}",
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
    people = [
        _unicode(" ".join(person.prelast_names + person.last_names))
        for person in entry.persons["author"]
    ]
    names = f"{people[0]} et al." if people[2:] else " and ".join(people)
    urls = (
        address.format(entry.fields[name])
        for name, address in _ADDRESSES.items()
        if name in entry.fields
    )
    label = f"{names}, {entry.fields['year']}"
    return Reference(label, _unicode(entry.fields["title"]), next(urls, ""))


def _unicode(text: str) -> str:
    r"""Set TeX's letters as Unicode, and leave out braces: ``{\'e}`` is é."""
    from pybtex.richtext import Text

    return str(Text.from_latex(text))
