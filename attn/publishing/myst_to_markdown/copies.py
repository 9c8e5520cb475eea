"""Make a learner's copy of a chapter, and of the glossary."""

from __future__ import annotations

import re
from typing import Any

from attn.exercises import APPENDICES, CHAPTERS, first_cell, sources
from attn.exercises.cells import (
    TOUCH,
    exercise_id,
    touched,
    touching,
    without_check_outputs,
)
from attn.publishing.museum import with_index
from attn.publishing.myst_to_markdown.targets import (
    GLOSSARY,
    Target,
    figure_name,
    notebook,
    targets,
    term_id,
)
from attn.publishing.myst_to_markdown.translation import to_markdown
from attn.publishing.touch_figures import touch

Cell = dict[str, Any]
WHOLE = {"hide-cell", "remove-cell"}
FOLDED = WHOLE | {"hide-input", "remove-input"}


def copy_of(pristine: Any, *, set_up: bool, repository: str = "") -> Any:
    """Return a chapter as a learner gets it.

    Its text is plain Markdown, its checks show nothing, and what the book
    folds is folded. The title has its number, and the end leads on.

    Args:
        pristine: the chapter, as JSON or nbformat reads it.
        set_up: whether its first code installs attn where it is missing; a
            copy in a workspace, where attn is, needs none of that.
        repository: the address to install from, when known; a tag may
            follow, after ``@``.
    """
    copy = with_index(without_check_outputs(pristine))
    cells: list[Any] = []
    first = _joined(copy["cells"], set_up)
    if repository:  # else it is entered in the cell
        known = f'os.environ.setdefault("ATTN_REPOSITORY", "{repository}")'
        text = f"import os\n\n{known}\n"
        first["source"] = first["source"].replace("import os\n", text, 1)
    title = next(x for x in copy["cells"] if x["cell_type"] == "markdown")
    here = targets().place(title["source"].partition(")=")[0][1:])
    title["source"] = title["source"].replace(here.words, here.title, 1)
    for cell in copy["cells"]:
        if cell["cell_type"] == "markdown":
            text = to_markdown(cell["source"], targets())
            cells.append({**cell, "source": text})
        else:
            if name := exercise_id(cell):
                cells[-1]["source"] += f"\n\n*{sources.effort(name)}*"
            cells += _code(cell)
        cells += map(_interactive, touched(cell))
    return {**copy, "cells": [*cells, _way_on(here)]}


def glossary() -> str:
    """Return the glossary as Markdown, with an id at each term."""
    text = "# Glossary\n"
    for term, meaning in targets().terms.items():
        text += f'\n### <span id="{term_id(term)}"></span>{term}\n\n'
        text += f"{to_markdown(meaning, targets())}\n"
    return text


def notebook_of(cells: list[Cell]) -> Any:
    """Return a notebook with the kernel of the chapters.

    Without one, JupyterLab opens a dialog to choose it.
    """
    kernel = notebook(CHAPTERS["why"])["metadata"]["kernelspec"]
    metadata = {"kernelspec": dict(kernel)}
    about = {"metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return {"cells": cells, **about}


def markdown_cell(name: str, text: str) -> Cell:
    """Return a cell of text, whose id is ``name``."""
    about = {"cell_type": "markdown", "id": name, "metadata": {}}
    return {**about, "source": text}


def shown_cell(name: str, code: str, result: Any, *tags: str) -> Cell:
    """Return a cell that shows its result before it has run."""
    data = {"text/html": result._repr_html_(), "text/plain": repr(result)}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {"tags": [*tags, "nbval-skip"]},
        "source": code,
        "execution_count": None,
        "outputs": [output],
    }


def _joined(cells: list[Any], set_up: bool) -> Any:
    """Make one cell of the imports and what runs before them; return it."""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    first = next(x for x in code if "remove-cell" not in _tags(x))
    before = code[: code.index(first)]
    for cell in before:
        cells.remove(cell)
    source = "\n\n".join(
        x["source"]
        for x in [*before, first]
        if set_up or 'find_spec("attn") is None' not in x["source"]
    )
    # The magic prints what it has done.
    first["source"] = source.replace(
        "%xmode Minimal", 'get_ipython().InteractiveTB.set_mode("Minimal")'
    )
    on_page = first["metadata"].setdefault("mystnb", {})
    if on_page.get("code_prompt_show", "Imports") == "Imports":
        on_page["code_prompt_show"] = first_cell.TITLE
        first["metadata"]["tags"] = ["hide-input", first_cell.TAG]
    return first


def _way_on(here: Target) -> Cell:
    """Return the last cell: it leads to what comes after a chapter."""
    stems = (*CHAPTERS.values(), *APPENDICES)
    places = [targets().places[stem] for stem in stems]
    places.append(Target("Glossary", link=GLOSSARY))
    following = places[places.index(here) + 1]
    link = f"[{following.title}]({following.link})"
    return markdown_cell("way-on", f"Next: {link}")


def _code(cell: Any) -> list[Any]:
    """Fold what the book folds; write a figure's caption below it.

    Jupyter shows no caption, and has no use for what the book says there.
    """
    metadata = dict(cell["metadata"])
    on_page = metadata.pop("mystnb", {})
    title = on_page.get("code_prompt_show", "Code that the text does not need")
    if re.match(r"@\w+\.shows\b", cell["source"]):  # it only states claims
        metadata["tags"] = sorted({*_tags(cell), "hide-input"})
        title = "Code of this check"
    below = []
    if name := figure_name(cell):
        number = targets().place(name).words
        title = f"Code that draws {number}"
        caption = to_markdown(on_page["figure"]["caption"], targets())
        label = f"caption-{cell['id']}"[:64]
        below.append(markdown_cell(label, f"**{number}** {caption}"))
    cell = {**cell, "metadata": metadata}
    if FOLDED.intersection(_tags(cell)):
        cell = _folded(cell, title)
    return [cell, *below]


def _interactive(name: str) -> Cell:
    """Show a figure that the page makes interactive, before anything runs."""
    shown = touch(name), "hide-input"
    cell = shown_cell(f"{TOUCH}{name}", touching(name), *shown)
    return _folded(cell, "A figure to touch")


def _tags(cell: Any) -> list[str]:
    return cell["metadata"].get("tags", [])


def _folded(cell: Any, title: str) -> Any:
    """Fold a cell's code, for JupyterLab and for Colab.

    JupyterLab shows the first line of what is folded, Colab the title. No
    file can fold a cell in VS Code (microsoft/vscode#158716).
    """
    source = cell["source"]
    if not source.startswith("%%"):  # which must be the first line
        source = f"# @title {title}\n{source}"
    jupyter = {**cell["metadata"].get("jupyter", {}), "source_hidden": True}
    if WHOLE.intersection(_tags(cell)):
        jupyter["outputs_hidden"] = True
    metadata = {**cell["metadata"], "jupyter": jupyter, "cellView": "form"}
    return {**cell, "metadata": metadata, "source": source}
