"""Notebooks as learners leave them: untouched, half, wrongly or all solved.

They hold the imports, what exercises are given, the exercises and the checks
of a chapter, without the demonstrations, so that running one takes seconds.
"""

import copy
import re
import sys
import xml.etree.ElementTree as ElementTree

import nbformat

from attn.exercises import cells, sources
from attn.exercises.spec import find
from attn.publishing import notebooks
from tests.processes import run


def short(key):
    """A chapter's notebook without its demonstrations."""
    return shortened(notebooks.read(sources.notebook_path(key)))


def shortened(notebook):
    """The notebook, without text and demonstrations."""
    given = {x for name in ids(notebook) for x in find(name).given}
    other = re.compile(r"^(?!import |from |if )[^ )#\n]", re.M)
    keep, begun = [], False
    for cell in notebook.cells:
        begun = begun or bool(cells.exercise_id(cell))
        imports = "attn.grading" in cell.source
        imports |= not other.search(cell.source)
        if cell.cell_type == "code" and (
            cells.exercise_id(cell)
            or cells.checked_id(cell)
            or not begun
            and imports
            or given.intersection(re.findall(r"(?m)^def (\w+)", cell.source))
        ):
            keep.append(cell)
    notebook.cells = keep
    return notebook


def ids(notebook):
    """The exercises of a notebook, in order."""
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

    def cards(output):
        if output.output_type != "stream":
            return [output]
        text, stream = output.text.removesuffix("\n"), output.name
        return [
            nbformat.v4.new_output(
                "display_data",
                {"text/plain": plain, "text/html": "<b>a card</b>"},
                metadata={"attn": {"stream": stream}},
            )
            for plain in ([text] if stream == "stderr" else text.splitlines())
        ]

    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if printed := cell.get("outputs"):
            cell.outputs = [card for x in printed for card in cards(x)]
    return notebook


def flaws(notebook):
    """What is not fit to be read: wide code, warnings, errors, paths.

    A traceback names a path, unless the chapter asks for %xmode Minimal.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        yield from (x for x in cell.source.splitlines() if len(x) > 79)
        tags = cell.metadata.get("tags", [])
        for output in cell.outputs:
            text = "\n".join(output.get("traceback", [output.get("text", "")]))
            is_error = output.output_type == "error"
            if (
                notebooks.PLACE.search(text)
                or output.get("name") == "stderr"
                or is_error
                and "raises-exception" not in tags
            ):
                yield text


def written(notebook, folder, name="mine.ipynb"):
    """Write a notebook and return its path."""
    notebooks.write(notebook, folder / name)
    return folder / name


def pytest_nbval(path, *options, python=None):
    """Run ``pytest --nbval`` as a teacher would.

    Args:
        path: a notebook, or a folder of them.
        options: of pytest.
        python: how a server runs a module, which starts the kernels too.

    Returns:
        The result of the process, and the points that it printed: of each
        notebook's exercises the sign, the points and their maximum.
    """
    command = [*(python or (sys.executable, "-m")), "pytest", "--nbval"]
    command += ["-q", "--tb=no", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(path.parent)]
    command += ["--nbval-kernel-name", "python3"] if python else []
    result = run(*command, *options, path, cwd=path.parent)
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
