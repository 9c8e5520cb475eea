"""Notebooks as learners leave them: untouched, half, wrongly or all solved.

They hold the imports, what exercises are given, the exercises and the checks
of a chapter, without the demonstrations, so that running one takes seconds.
"""

import copy
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
    """Run ``pytest --nbval`` as a teacher would.

    Returns:
        The result of the process, and the points that it printed: of each
        notebook's exercises the sign, the points and their maximum.
    """
    command = [*python, "pytest", "--nbval", "-q", "--tb=no"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(path.parent)]
    result = subprocess.run(
        [*command, *options, str(path)],
        cwd=path.parent,
        capture_output=True,
        text=True,
    )
    scores, own = {}, {}
    for line in result.stdout.rpartition(" points =")[2].splitlines():
        if found := re.match(r"  ([✓✗·]) (\S+) +(\d+)/(\d+)", line):
            own[found[2]] = found[1], int(found[3]), int(found[4])
        elif found := re.match(r"(\S+)\.ipynb  (\d+/\d+)$", line):
            own = scores[found[1].rpartition("/")[2]] = {}
    return result, scores


def total(*scores):
    """The points of the exercises of notebooks, and all that there are."""
    every = [x for own in scores for x in own.values()]
    return sum(x[1] for x in every), sum(x[2] for x in every)


def junit_of(path):
    """Yield each cell's case in a JUnit file, and its properties."""
    for case in ElementTree.parse(path).iter("testcase"):
        properties = case.iter("property")
        yield case, {p.get("name"): p.get("value") for p in properties}


def require_untouched_score(path, nbval):
    """Assert that an untouched chapter fails in its checks, and only there.

    Args:
        path: the chapter.
        nbval: as ``pytest_nbval``.
    """
    junit = path.with_suffix(".xml")
    _, score = nbval(path, f"--junitxml={junit}")
    failed = {
        about.get("exercise", case.get("name"))
        for case, about in junit_of(junit)
        if case.find("failure") is not None
    }
    worth = cells.points(notebooks.read(path))
    assert failed == set(worth)
    assert score == {path.stem: {x: ("✗", 0, worth[x]) for x in worth}}
