"""Put cards, hints, solutions and places for figures on the chapters' pages.

A notebook holds an exercise as two code cells: the stub, whose nbgrader
metadata says ``solution: true``, and the check, which says ``grade: true``.
The page gets a card above the first, which sets the task as text (the stub
there has no docstring), a line below it that says where to write it, and
drop-downs below the second. Their text comes from ``attn/exercises`` and
``solutions``, read as source, their form from ``book/_templates``; the
notebooks do not change. What the page itself checks is tagged ``answers``.
``<!-- exercise sdp-softmax -->`` sets an exercise on a page of prose as well.

A code cell tagged ``touch-mask_workbench`` draws a stored figure; the page
gets a place for the one that can be touched below it. A chapter's first figure
comes before its imports. A room of the museum is a page.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

from attn.data.book import root
from attn.exercises import sources
from attn.exercises.cells import checked_id, exercise_id, points
from attn.exercises.wrapping import marked
from attn.publishing.myst_to_markdown.targets import figure_name
from attn_book.museum import on_page

Cell = dict[str, Any]
INDEX = root() / "book" / "page" / "data" / "index.json"
TOUCH = "touch-"
DOCSTRING = re.compile(r'^( *"""[^\n]+)\n(?:(?!""").)*"""$', re.M | re.S)
PLACE = re.compile(r"^<!-- exercise ([\w-]+) -->$", re.M)
NAMES = re.compile(r"^ *[\w.]+(?:, [\w.]+)+:", re.M)


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_to_page)


def add_to_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add what is not in the notebook to the chapter ``docname``."""
    templates = app.builder.templates
    if not docname.startswith("notebooks/"):
        source[0] = PLACE.sub(lambda x: alone(x[1], templates), source[0])
    else:
        notebook = on_page(json.loads(source[0]), docname)
        cells = notebook["cells"]
        first = next((i for i, x in enumerate(cells) if figure_name(x)), 2)
        cells.insert(2, cells.pop(first))
        cells[:] = with_additions(notebook, templates)
        source[0] = json.dumps(notebook)


def alone(name: str, templates: Any) -> str:
    """Return an exercise of a chapter for another page, as Markdown."""
    chapter = sources.notebook(sources.split_id(name)[0])
    about = {
        "name": name,
        "label": f"{name}-here",  # the exercise's own is the chapter's
        "points": points(chapter)[name],
        "checked_here": name in checked_on_pages(),
        "stub": bare(name),
    }
    return templates.render("exercise-alone.md.jinja", TOOLS | about)


def with_additions(notebook: Any, templates: Any) -> Iterator[Cell]:
    """Yield the cells, and new ones between them."""

    def new(template: str, **values: Any) -> Cell:
        text = templates.render(f"{template}.md.jinja", TOOLS | values)
        return new_markdown_cell(text)

    worth, checked_here = points(notebook), checked_on_pages()
    for cell in notebook["cells"]:
        tags = cell["metadata"].setdefault("tags", [])  # on the page, classes
        figures = [x.removeprefix(TOUCH) for x in tags if x.startswith(TOUCH)]
        if name := exercise_id(cell):
            about = {"points": worth.get(name, 0), "label": name}
            yield new("exercise-card", name=name, **about)
            tags += ["exercise", *["answers"] * (name in checked_here)]
            cell["source"] = bare(name)
        if checked := checked_id(cell):
            tags.append("check")
        yield cell
        if name:
            yield new("exercise-place", checked_here=name in checked_here)
        if checked:
            yield new("exercise-help", name=checked)
        for figure in figures:
            yield new("touch", name=figure)


@cache
def checked_on_pages() -> dict[str, Any]:
    """Return the exercises that pages check, with their chapters and sizes."""
    return json.loads(INDEX.read_text("utf-8"))


def solution(name: str) -> str:
    """Return one with the first line of each docstring: the card has all."""
    return DOCSTRING.sub(r'\1"""', sources.solution(name))


def bare(name: str) -> str:
    """Return the stub of an exercise whose task is on its card."""
    return sources.stub(name, docstrings=False).replace(":\n\n", ":\n")


def task(name: str) -> str:
    """Return the docstrings of an exercise as Markdown.

    What they use of reStructuredText, code and lists of fields, is Markdown
    as well. As ``eval-rst`` a page takes seconds: MyST gives the parser an
    empty line for each line of the notebook before it, ten thousand a cell.
    """
    (_, text), *methods = sources.docstrings(name).items()
    parts = [text, *(f"``{method}``: {text}" for method, text in methods)]
    return "\n\n".join(map(set_as_text, parts))


def set_as_text(docstring: str) -> str:
    """Turn a docstring's arguments and results into a list of fields."""
    # napoleon would write what is said of several names again for each.
    tied = NAMES.sub(lambda names: names[0].replace(",", "\0"), docstring)
    text = str(GoogleDocstring(tied, what="function")).replace("\0", ",")
    text = re.sub(r"^:(?:param|raises) (.+?):", r":\1:", text, flags=re.M)
    # A text like "C." begins a list for napoleon, which moves it down.
    return re.sub(r"^(:.+:)\n +", r"\1 ", text, flags=re.M)


#: What every template of an exercise may use.
TOOLS = {
    "marked": marked,
    "solution": solution,
    "sources": sources,
    "task": task,
}
