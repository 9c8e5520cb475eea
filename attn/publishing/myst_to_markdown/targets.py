"""Find what references lead to: headings, figures, terms, sources."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.publishing.myst_to_markdown import bibliography, myst

GLOSSARY = "glossary.ipynb"

_FIGURE, _FORMULA = "Fig. {}", "({})"
_TERM = re.compile(
    r"^(?P<term>\S.*)\n(?P<text>(?:(?:[ ]{2,}.*|\s*)\n)+)", re.M
)


@dataclass(frozen=True)
class Target:
    """Hold the words of a place, its number and its link, if it has them."""

    words: str
    number: str = ""
    link: str = ""


class Targets:
    """Hold everything in the book that a chapter's text can refer to.

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
        for entry in _TERM.finditer(inside + "\n"):
            self.terms[entry["term"]] = " ".join(entry["text"].split())

    def place(self, label: str) -> Target:
        """Return what a label of the notebooks names."""
        if label not in self.places:
            raise ValueError(
                f"nothing in the notebooks has the label {label!r}"
            )
        return self.places[label]

    def source(self, key: str) -> bibliography.Reference:
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
        """Number a notebook's figures and formulas in their order."""
        chapter = str(int(stem[:2])) if stem[:2].isdigit() else ""
        counts: Counter[str] = Counter()
        for cell in notebook(stem)["cells"]:
            for label, form in _numbered(cell):
                counts[form] += 1
                number = f"{chapter}.{counts[form]}".lstrip(".")
                self.places[label] = Target(form.format(number), number)
            labels: list[str] = []
            for token in _tokens(cell):
                if token.type == "myst_target":
                    labels.append(token.content)
                elif token.type == "inline":
                    title = token.content if token.tag[:1] == "h" else ""
                    link = f"{stem}.ipynb#cell-id={cell['id']}"
                    place = Target(title, "", link)
                    if title and stem not in self.places:
                        place = Target(title, chapter, f"{stem}.ipynb")
                        self.places[stem] = place
                    self.places |= dict.fromkeys(labels, place)
                    labels.clear()


def _tokens(cell: Any) -> Iterator[Any]:
    if cell["cell_type"] == "markdown":
        yield from myst.walk("".join(cell["source"]))


def _numbered(cell: Any) -> Iterator[tuple[str, str]]:
    """Yield the label of each figure and formula, and its number's form."""
    if label := figure_name(cell):
        yield label, _FIGURE
    for token in _tokens(cell):
        match myst.directive(token):
            case myst.Directive("math", options={"label": label}) if label:
                yield label, _FORMULA
            case myst.Directive("figure", body=body) as figure if body:
                yield figure.options.get("name", ""), _FIGURE


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


def kernelspec() -> dict[str, str]:
    """Return the kernel of the chapters, for a notebook beside them.

    Without one, JupyterLab opens a dialog to choose it.
    """
    return dict(notebook(CHAPTERS["why"])["metadata"]["kernelspec"])


def term_cell(term: str) -> str:
    """Return the id of a term's cell in the glossary."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
