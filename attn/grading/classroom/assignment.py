"""Write the teacher's version of chapters, from which nbgrader makes others.

It is a learner's copy with the solutions in it, each between the marks at
which nbgrader cuts. ``nbgrader generate_assignment`` turns it into the
learner's copy again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.publishing import myst_to_markdown, notebooks

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def write(folder: Path, chapters: Sequence[str] = ()) -> Iterator[Path]:
    """Write ``folder/05_gqa/05_gqa.ipynb`` of each chapter; yield the path.

    Args:
        folder: a course's ``source/``; made when it does not exist.
        chapters: names such as ``05_gqa``; all by default.

    Raises:
        ValueError: there is no such chapter.
        FileExistsError: the file exists; it is left as it is.
    """
    known = CHAPTERS.values()
    if unknown := [name for name in chapters if name not in known]:
        raise ValueError(
            f"chapter must be one of {', '.join(known)}; got {unknown[0]}"
        )
    for path in notebooks.pristine():
        if path.stem not in (chapters or known):
            continue
        target = folder / path.stem / path.name
        if target.exists():
            raise FileExistsError(
                f"{target} exists and is left as it is: name another folder"
            )
        copy = myst_to_markdown.copy_of(notebooks.read(path), set_up=False)
        for cell in copy["cells"]:
            if name := exercise_id(cell):
                cell["source"] = sources.marked(name, BEGIN, END)
        target.parent.mkdir(parents=True, exist_ok=True)
        notebooks.write(nbformat.from_dict(copy), target)
        yield target
