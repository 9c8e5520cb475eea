"""Make a learner's copy of a chapter, and of the glossary."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id, without_check_outputs
from attn.publishing.museum import with_index
from attn.publishing.myst_to_markdown.targets import (
    figure_name,
    notebook,
    targets,
    term_cell,
)
from attn.publishing.myst_to_markdown.translation import to_markdown
from attn.publishing.touch_figures import output_of

Cell = dict[str, Any]
WHOLE = {"hide-cell", "remove-cell"}
FOLDED = WHOLE | {"hide-input", "remove-input"}
#: The tag of a cell whose figure the page makes interactive.
TOUCH = "touch-"


def copy_of(pristine: Any, *, set_up: bool, repository: str = "") -> Any:
    """Return a chapter as a learner gets it.

    Its text is plain Markdown, its checks show nothing, and what the book
    folds is folded.

    Args:
        pristine: the chapter, as JSON or nbformat reads it.
        set_up: keep the cell that installs attn where it is missing, below
            the title; a copy in a workspace, where attn is, needs none.
        repository: the address that this cell installs from, when known; a
            tag may follow, after ``@``.
    """
    copy = with_index(without_check_outputs(pristine))
    cells: list[Any] = []
    if not set_up:
        _hand_on_imports(copy["cells"])
    for cell in copy["cells"]:
        if cell["cell_type"] == "markdown":
            text = to_markdown(cell["source"], targets())
            cells.append({**cell, "source": text})
        elif not _installs(cell):
            if name := exercise_id(cell):
                cells[-1]["source"] += f"\n\n*{sources.effort(name)}*"
            cells += _code(cell)
        elif set_up:
            installer = _installing_from(repository, cell["source"])
            cell = {**cell, "source": installer}
            cells.append(_folded(cell, "Install attn where it is missing"))
        for tag in cell["metadata"].get("tags", []):
            if tag.startswith(TOUCH):
                cells.append(_interactive(tag.removeprefix(TOUCH)))
    if set_up and _installs(cells[0]):
        cells[:2] = cells[1], cells[0]  # the title comes first
    return {**copy, "cells": cells}


def translate(folder: Path, repository: str = "") -> None:
    """Replace the notebooks in a folder by copies, and add the glossary."""
    copies = {folder / "glossary.ipynb": glossary()}
    for path in folder.glob("*.ipynb"):
        pristine = json.loads(path.read_text("utf-8"))
        copies[path] = copy_of(pristine, set_up=True, repository=repository)
    for path, copy in copies.items():
        text = json.dumps(copy, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")


def glossary() -> Any:
    """Return the glossary as a notebook: a cell for each term."""
    cells = [markdown_cell("glossary", "# Glossary")]
    for term, text in targets().terms.items():
        definition = f"### {term}\n\n{to_markdown(text, targets())}"
        cells.append(markdown_cell(term_cell(term), definition))
    return notebook_of(cells)


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


def shown_cell(
    name: str, code: str, title: str, output: Any, *tags: str
) -> Cell:
    """Return a folded cell that shows an output before it has run."""
    cell = {
        "cell_type": "code",
        "id": name,
        "metadata": {"tags": [*tags, "nbval-skip"]},
        "source": code,
        "execution_count": None,
        "outputs": [output],
    }
    return _folded(cell, title)


def _installs(cell: Any) -> bool:
    code = cell["cell_type"] == "code"
    return code and 'find_spec("attn") is None' in cell["source"]


def _hand_on_imports(cells: list[Any]) -> None:
    """Give the next cell what the installing one imports for the chapter."""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    if not code or not _installs(code[0]):
        return
    rest = "\n".join(cell["source"] for cell in code[1:])
    used = [
        line
        for line in code[0]["source"].splitlines()
        if (imported := re.match(r"import (\w+)", line))
        and re.search(rf"\b{imported[1]}\.", rest)
    ]
    code[1]["source"] = "\n".join([*used, code[1]["source"]])


def _installing_from(repository: str, source: str) -> str:
    """Write down the address that is otherwise entered in the cell."""
    if not repository:
        return source
    known = f'os.environ.setdefault("ATTN_REPOSITORY", "{repository}")'
    return source.replace("import os\n", f"import os\n\n{known}\n", 1)


def _code(cell: Any) -> list[Any]:
    """Fold what the book folds; write a figure's caption below it.

    Jupyter shows no caption, and has no use for what the book says there.
    """
    metadata = dict(cell["metadata"])
    on_page = metadata.pop("mystnb", {})
    title = on_page.get("code_prompt_show", "Code that the text does not need")
    below = []
    if name := figure_name(cell):
        number = targets().place(name).words
        title = f"Code that draws {number}"
        caption = to_markdown(on_page["figure"]["caption"], targets())
        label = f"caption-{cell['id']}"[:64]
        below.append(markdown_cell(label, f"**{number}** {caption}"))
    cell = {**cell, "metadata": metadata}
    if FOLDED.intersection(metadata.get("tags", [])):
        cell = _folded(cell, title)
    return [cell, *below]


def _interactive(name: str) -> Cell:
    """Show a figure that the page makes interactive, before anything runs."""
    code = f'from attn.publishing import touch\n\ntouch("{name}")'
    title, output = "A figure to touch", output_of(name)
    return shown_cell(f"touch-{name}", code, title, output, "hide-input")


def _folded(cell: Any, title: str) -> Any:
    """Fold a cell's code, for JupyterLab and for Colab.

    JupyterLab shows the first line of what is folded, Colab the title. No
    file can fold a cell in VS Code (microsoft/vscode#158716).
    """
    source = cell["source"]
    if not source.startswith("%%"):  # which must be the first line
        source = f"# @title {title}\n{source}"
    jupyter = {**cell["metadata"].get("jupyter", {}), "source_hidden": True}
    if WHOLE.intersection(cell["metadata"].get("tags", [])):
        jupyter["outputs_hidden"] = True
    metadata = {**cell["metadata"], "jupyter": jupyter, "cellView": "form"}
    return {**cell, "metadata": metadata, "source": source}
