"""Notebooks as learners leave them: untouched, half, wrongly or all solved.

They hold the imports, what exercises are given, the exercises and the checks
of a chapter, without the demonstrations, so that running one takes seconds.
"""

import copy
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import nbformat

from attn.exercises import cells, sources
from attn.exercises.spec import find
from attn.publishing import notebooks


def short(key):
    """A chapter's notebook without its demonstrations."""
    return shortened(notebooks.read(sources.notebook_path(key)))


def shortened(notebook):
    """The notebook, without text and demonstrations."""
    exercises = [cells.exercise_id(cell) for cell in notebook.cells]
    first = next(i for i, name in enumerate(exercises) if name)
    given = {x for name in exercises if name for x in find(name).given}
    keep = [
        cell
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code"
        and (
            cells.exercise_id(cell)
            or cells.checked_id(cell)
            or (i < first and _only_imports(cell.source))
            or given & _functions(cell.source)
        )
    ]
    notebook.cells = keep
    return notebook


def _functions(source):
    """Return the functions that a cell defines; a magic defines none."""
    return set(re.findall(r"^def (\w+)", source, re.M))


def _only_imports(source):
    lines = [
        x
        for x in source.splitlines()
        if x and not x.startswith((" ", ")", "#"))
    ]
    return all(x.startswith(("import ", "from ", "if ")) for x in lines)


def ids(notebook):
    return [name for c in notebook.cells if (name := cells.exercise_id(c))]


def cleared(notebook):
    """A copy without any output, as after "Clear all outputs"."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def answered(notebook, right=(), wrong=()):
    """A copy in which some exercises are answered, rightly or wrongly."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        name = cells.exercise_id(cell)
        if name in right:
            cell.source = sources.solution(name)
        elif name in wrong:
            cell.source = find(name).mistakes[0].source
    return notebook


def carded(notebook):
    """A copy as a learner's JupyterLab saves it: a card for what is printed.

    A line on stdout is a card; what is on stderr is one.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        printed, outputs = cell.get("outputs", []), []
        for output in printed:
            if output.output_type != "stream":
                outputs.append(output)
                continue
            text = output.text.removesuffix("\n")
            is_one = output.name == "stderr"
            for plain in [text] if is_one else text.splitlines():
                data = {"text/plain": plain, "text/html": "<b>a card</b>"}
                metadata = {"attn": {"stream": output.name}}
                outputs.append(
                    nbformat.v4.new_output(
                        "display_data", data, metadata=metadata
                    )
                )
        if printed:
            cell.outputs = outputs
    return notebook


def places_named(notebook):
    """The sources of cells whose outputs hold a file of a machine."""
    sources_of_cells = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = "\n".join(output.get("traceback", [output.get("text", "")]))
            if notebooks.PLACE.search(text):
                sources_of_cells.append(cell.source)
    return sources_of_cells


def written(notebook, folder, name="mine.ipynb"):
    """Write a notebook and return its path."""
    notebooks.write(notebook, folder / name)
    return folder / name


def pytest_nbval(path, *options, python=(sys.executable, "-m")):
    """Run ``pytest --nbval`` as a teacher would; returns (result, score)."""
    score = path.with_suffix(".json")
    command = [*python, "pytest", "--nbval", "-q"]
    command += [
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--rootdir",
        str(path.parent),
    ]
    command += ["--score-json", str(score), *options, str(path)]
    result = subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True
    )
    return result, json.loads(score.read_text()) if score.exists() else None


def require_untouched_score(path, nbval):
    """Assert that an untouched chapter fails in its checks, and only there.

    Args:
        path: the chapter.
        nbval: as ``pytest_nbval``.
    """
    junit = path.with_suffix(".xml")
    _, score = nbval(path, f"--junitxml={junit}")
    failed = set()
    for case in ElementTree.parse(junit).iter("testcase"):
        about = {p.get("name"): p.get("value") for p in case.iter("property")}
        if case.find("failure") is not None:
            failed.add(about.get("exercise", case.get("name")))
    worth = cells.points(notebooks.read(path))
    assert failed == set(worth)
    assert (score["points"], score["max_points"]) == (0, sum(worth.values()))
