"""Show teachers the mistakes that people make, a page for each chapter.

The pages are made from the files that the checks read, when the book is
built. They are in no table of contents: the search and the printed book leave
them out, and a new chapter has its page by itself.
"""

from collections.abc import Iterator
from typing import Any

from docutils.nodes import make_id
from markdown_it import MarkdownIt
from sphinx.application import Sphinx

from attn.exercises import CHAPTERS, sources
from attn.exercises.changes import chapter_changes
from attn.publishing.myst_to_markdown.targets import targets


def setup(app: Sphinx) -> None:
    app.connect("html-collect-pages", write)


def totals() -> tuple[int, int]:
    """Count the book's wrong answers, and the names that they are given."""
    lists = (x for key in CHAPTERS for x in chapter_changes(key).values())
    every = [x for one in lists for x in one]
    return sum(len(x[2]) for x in every), len({x[:2] for x in every})


def write(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a chapter's page: its name, what it holds, the template."""
    builder: Any = app.builder
    render = builder.templates.render
    inline = MarkdownIt("zero").enable(["backticks", "emphasis"])
    for key, stem in CHAPTERS.items():
        about = {
            "key": key,
            "stem": stem,
            "title": f"Mistakes in chapter {int(stem[:2])}",
            "chapter": targets().places[stem].words,
            "mistakes": chapter_changes(key),
            "solution": sources.solution,
            "inline": inline.renderInline,
            "highlight": builder.highlighter.highlight_block,
            "make_id": make_id,
        }
        for part in ("body", "toc"):
            about[part] = render(f"mistakes-{part}.jinja", about)
        yield f"book/mistakes/{key}", about, "page.html"
