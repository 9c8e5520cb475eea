"""Put the chapters on the front page and on the map, from their notebooks.

A chapter's metadata (``attn``) holds its summary, the drawing on its card
(``picture``), and which of the nine lines of attention it takes apart
(``lines``); the box below its picture, its needs and minutes. A new chapter
appears on both pages by itself: ``<!-- cards -->`` gives the place for the
template ``book/_templates/cards.md``.
"""

import re
from typing import Any

import yaml
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.cells import box, points
from attn.exercises.changes import chapter_changes
from attn.publishing.museum import exhibits
from attn.publishing.myst_to_markdown.targets import notebook, targets
from attn_book import claims, mistakes
from attn_book.figures import DRAWINGS
from attn_book.museum import rooms

PLACE = re.compile(
    "<!-- (start|nine_lines|cards|paths|ways|mistakes|claims|rooms) -->"
)
LABELS = {stem: f"ch-{key}" for key, stem in CHAPTERS.items()}


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_chapters)
    app.connect("html-page-context", list_exercises)


def add_chapters(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put templates in the page's marked places."""
    if not PLACE.search(source[0]):
        return
    chapters = [chapter(stem) for stem in LABELS]
    what = {
        "chapters": chapters,
        "parts": parts(chapters),
        "appendices": [entry(stem) for stem in APPENDICES],
        "lines": nine_lines(CHAPTERS["sdp"]),
        "mistakes": chapter_changes,
        "totals": mistakes.totals,
        "index": exhibits,
        "rooms": rooms,
        "notebook": notebook,
    }
    render = app.builder.templates.render
    source[0] = PLACE.sub(lambda x: render(f"{x[1]}.md", what), source[0])


def list_exercises(app: Sphinx, *page: Any) -> None:
    """Tell each page the exercises of every chapter."""
    page[2]["exercises"] = {x: list(points(notebook(x))) for x in LABELS}


def entry(stem: str) -> dict[str, Any]:
    """Return what the metadata say, the title, the label and the drawing."""
    about = notebook(stem)["metadata"].get("attn", {})
    if not about.keys() >= {"summary", "picture"}:
        raise ValueError(
            f"the metadata of {stem}.ipynb must hold a summary and a drawing "
            'of book/figures: "attn": {"summary": "…", "picture": "…"}'
        )
    return about | {
        "stem": stem,
        "label": LABELS.get(stem, stem),
        "title": targets().places[stem].words,
        "drawing": (DRAWINGS / f"{about['picture']}.svg").read_text("utf-8"),
    }


def chapter(stem: str) -> dict[str, Any]:
    """Return what a chapter's card and its row in the table show."""
    needed, minutes = box(notebook(stem))
    return entry(stem) | {
        "number": int(stem[:2]),
        "needs": [y for x, y in LABELS.items() if f"({x}.ipynb)" in needed],
        "minutes": minutes,
        "points": points(notebook(stem)),
        "claims": claims.chapter(stem),
    }


def parts(chapters: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the parts of the book that hold chapters, and these."""
    contents = yaml.safe_load((root() / "_toc.yml").read_text("utf-8"))
    found = []
    for part in contents["parts"]:
        stems = [x["file"].rpartition("/")[2] for x in part["chapters"]]
        own = [x for x in chapters if x["stem"] in stems]
        if own:
            found.append((part["caption"], own))
    return found


def nine_lines(stem: str) -> list[str]:
    """Return the lines of the cell ``def nine_lines``, highlighted."""
    cells = ("".join(x["source"]) for x in notebook(stem)["cells"])
    code = next(x for x in cells if x.startswith("def nine_lines("))
    shown = highlight(code, PythonLexer(), HtmlFormatter(nowrap=True))
    return shown.splitlines()
