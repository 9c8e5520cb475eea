"""Show teachers the mistakes that people make, a page for each chapter.

The pages are made from the files that the checks read, when the book is
built. They are in no table of contents: the search and the printed book leave
them out, and a new chapter has its page by itself.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from docutils.nodes import make_id
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, PythonLexer
from sphinx.application import Sphinx

from attn.exercises import CHAPTERS, sources
from attn.exercises.changes import changes
from attn.grading.plain.targets import targets


def setup(app: Sphinx) -> None:
    app.connect("html-collect-pages", write)


def write(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a chapter's page: its name, what it holds, the template."""
    render, look = app.builder.templates.render, HtmlFormatter()
    for key, stem in CHAPTERS.items():
        about = {
            "key": key,
            "stem": stem,
            "title": f"Mistakes in chapter {int(stem[:2])}",
            "chapter": targets().places[stem].words,
            "mistakes": made(key),
            "solution": sources.solution,
            "inline": MarkdownIt("zero")
            .enable(["backticks", "emphasis"])
            .renderInline,
            "python": lambda x: highlight(x, PythonLexer(), look),
            "diff": lambda x: highlight(x, DiffLexer(), look),
            "make_id": make_id,
        }
        parts = ("body", "toc")
        html = {x: render(f"mistakes-{x}.jinja", about) for x in parts}
        yield f"book/mistakes/{key}", about | html, "page.html"


@cache
def made(key: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return name, explanation and diff of the mistakes in each exercise."""
    return {x: changes(f"{key}-{x}") for x in sources.names(key)}
