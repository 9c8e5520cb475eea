"""Find what references lead to: headings, figures, terms, sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS

GLOSSARY = "glossary.md"

#: A label, a heading, or any other line; what is in a fence is none of these.
_LINE = re.compile(r"(?m)^(?:\((\S+)\)=|#+ +(.+)|.*\S.*)$")
_FENCE = re.compile(r"(?ms)^(`{3,}).*?^\1$")
_TERM = re.compile(r"(?m)^(\S.*)\n((?:(?: {2,}.*|\s*)\n)+)")
#: The fields that give an address, the best first, and their sites.
_SITES = {
    "url": "",
    "doi": "https://doi.org/",
    "eprint": "https://arxiv.org/abs/",
}


class Target(NamedTuple):
    """The words of a place, its number and its link, if it has them."""

    words: str
    number: str = ""
    link: str = ""

    @property
    def title(self) -> str:
        """Return a chapter's title, after its number if it has one."""
        return f"{self.number} · {self.words}".removeprefix(" · ")


class Source(NamedTuple):
    """An entry of the bibliography, as ``Vaswani et al., 2017``."""

    label: str
    title: str
    url: str


class Targets:
    """Hold everything in the book that a chapter's text can refer to.

    Chapters and sections are in the notebooks of the learner's folder, where
    Jupyter scrolls to a cell by its id; the glossary is a file beside them.
    """

    def __init__(self) -> None:
        self.places: dict[str, Target] = {}
        for stem in (*CHAPTERS.values(), *APPENDICES):
            self._add(stem)
        self.sources = dict(_bibliography())
        text = (root() / "book" / "glossary.md").read_text("utf-8")
        inside = text.partition("```{glossary}\n")[2].partition("\n```")[0]
        terms = _TERM.findall(inside + "\n")
        self.terms = {term: " ".join(text.split()) for term, text in terms}

    def place(self, label: str) -> Target:
        """Return what a label of the notebooks names."""
        if label not in self.places:
            raise ValueError(
                f"nothing in the notebooks has the label {label!r}"
            )
        return self.places[label]

    def source(self, key: str) -> Source:
        """Return an entry of the bibliography."""
        if key not in self.sources:
            raise ValueError(f"the bibliography has no entry {key!r}")
        return self.sources[key]

    def term(self, name: str) -> tuple[str, str]:
        """Return a term as the glossary writes it, and its definition."""
        for term, text in self.terms.items():
            if term.lower() == name.lower():
                return term, text
        raise ValueError(f"the glossary has no term {name!r}")

    def _add(self, stem: str) -> None:
        """Number a notebook's figures, and find what its labels name."""
        chapter = str(int(stem[:2])) if stem[:2].isdigit() else ""
        figures = 0
        for cell in notebook(stem)["cells"]:
            if label := figure_name(cell):
                figures += 1
                number = f"{chapter}.{figures}".lstrip(".")
                self.places[label] = Target(f"Fig. {number}", number)
            if cell["cell_type"] != "markdown":
                continue
            link = f"{stem}.ipynb#cell-id={cell['id']}"
            labels: list[str] = []
            text = _FENCE.sub("", "".join(cell["source"]))
            for label, title in _LINE.findall(text):
                if label:
                    labels.append(label)
                    continue
                place = Target(title, "", link)
                if title and stem not in self.places:
                    place = Target(title, chapter, f"{stem}.ipynb")
                    self.places[stem] = place
                self.places |= dict.fromkeys(labels, place)
                labels.clear()


def _bibliography() -> Iterator[tuple[str, Source]]:
    """Yield each entry's key, and its authors, year, title and address."""
    from pybtex.database.input.bibtex import Parser
    from pybtex.richtext import Text

    def plain(tex: str) -> str:
        return str(Text.from_latex(tex))  # {\'e} is é

    path = root() / "book" / "references.bib"
    for key, entry in Parser().parse_file(str(path)).entries.items():
        fields, people = entry.fields, entry.persons["author"]
        names = [
            plain(" ".join(x.prelast_names + x.last_names)) for x in people
        ]
        authors = f"{names[0]} et al." if names[2:] else " and ".join(names)
        urls = [site + fields[x] for x, site in _SITES.items() if x in fields]
        label = f"{authors}, {fields['year']}"
        yield key, Source(label, plain(fields["title"]), (*urls, "")[0])


@cache
def targets() -> Targets:
    """Return the book's targets, read once."""
    return Targets()


def figure_name(cell: Any) -> str | None:
    """Return the label of the figure that a code cell draws."""
    about = cell["metadata"].get("mystnb", {}).get("figure", {})
    if "caption" not in about:
        return None
    return about.get("name", f"figure-{cell['id']}")


@cache
def notebook(stem: str) -> Any:
    """Read a pristine notebook as JSON, once; it is not to be changed."""
    path = root() / "notebooks" / f"{stem}.ipynb"
    return json.loads(path.read_text("utf-8"))


def term_id(term: str) -> str:
    """Return the id of a term in the glossary."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
