"""Find what references lead to: headings, figures, terms, sources."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.publishing.myst_to_markdown import bibliography, blocks

GLOSSARY = "glossary.ipynb"

_HEADING = re.compile(r"#+ (?P<title>.+)(?:\n|$)")
_TERM = re.compile(
    r"^(?P<term>\S.*)\n(?P<text>(?:(?:[ ]{2,}.*|\s*)\n)+)", re.M
)


@dataclass(frozen=True)
class Target:
    """A place: its words, its number where it has one, and a link to it."""

    words: str
    number: str = ""
    link: str = ""


class Targets:
    """Everything in the book that a chapter's text can refer to.

    Chapters and sections are in the notebooks of the learner's folder, and
    so is the glossary. Jupyter scrolls to a cell by its id.
    """

    def __init__(self) -> None:
        self.places: dict[str, Target] = {}
        self.terms: dict[str, str] = {}
        self.sources = bibliography.read(root() / "book" / "references.bib")
        for stem in (*CHAPTERS.values(), *APPENDICES):
            self._add(stem)
        text = (root() / "book" / "glossary.md").read_text("utf-8")
        inside = text.partition("```{glossary}\n")[2].partition("\n```")[0]
        for found in _TERM.finditer(inside + "\n"):
            self.terms[found["term"]] = " ".join(found["text"].split())

    def _add(self, stem: str) -> None:
        """Number a notebook's figures and formulas in their order."""
        file, counts = f"{stem}.ipynb", {"Fig. {}": 0, "({})": 0}
        chapter = f"{int(stem[:2])}." if stem[:2].isdigit() else ""

        def numbered(name: str, form: str) -> None:
            counts[form] += 1
            number = f"{chapter}{counts[form]}"
            self.places[name] = Target(form.format(number), number)

        for cell in notebook(stem)["cells"]:
            if name := figure_name(cell):
                numbered(name, "Fig. {}")
            if cell["cell_type"] != "markdown":
                continue
            here = f"{file}#cell-id={cell['id']}"
            labels: list[str] = []
            for block in blocks.walk("".join(cell["source"])):
                match block:
                    case blocks.Label(name):
                        labels.append(name)
                    case blocks.Maths(_, name) if name:
                        numbered(name, "({})")
                    case blocks.Directive("figure", body=body) if body:
                        numbered(block.options.get("name", ""), "Fig. {}")
                    case blocks.Prose(text):
                        heading = _HEADING.match(text)
                        title = heading["title"] if heading else ""
                        place = Target(title, "", here)
                        if title and stem not in self.places:
                            place = Target(title, chapter[:-1], file)
                            self.places[stem] = place
                        self.places |= dict.fromkeys(labels, place)
                        labels.clear()

    def term(self, name: str) -> tuple[str, str]:
        """Return a term as the glossary writes it, and its definition."""
        for term, text in self.terms.items():
            if term.lower() == name.lower():
                return term, text
        raise ValueError(f"the glossary has no term {name!r}")


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
    path: Path = root() / "notebooks" / f"{stem}.ipynb"
    return json.loads(path.read_text("utf-8"))


def term_cell(term: str) -> str:
    """Return the id of a term's cell in the glossary."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
