"""Where no notebook of the book is, pytest runs as if attn were not there."""

import json
import os
import re
import sys

import nbformat
import pytest

from attn.data.book import root
from tests.marks import exhaustive_but
from tests.processes import run, run_python

CONFTEST = """
import sys

def pytest_addoption(parser):
    parser.addoption("--points", help="of this project")

def pytest_runtest_makereport(item, call):
    item.user_properties += [("points", 7), ("chapter", "mask")]

def pytest_terminal_summary(terminalreporter):
    heavy = {"torch", "numpy", "IPython", "matplotlib"}
    terminalreporter.write_line(f"loaded: {sorted(heavy & {*sys.modules})}")
"""
TEST = "def test_right():\n    pass\n\ndef test_wrong():\n    assert 1 > 2\n"
# A course of its own, whose ids look like those of the book.
Q1 = {"grade_id": "mask-q1", "points": 1, "solution": False, "grade": False}
CELLS = [
    ('import os\nprint(os.environ["THEIRS"])', "theirs\n", {}),
    ("answer = 41", "", {"nbgrader": {**Q1, "solution": True}}),
    ('print("✓ mask-q1")', "✓ mask-q1\n", {"nbgrader": {**Q1, "grade": True}}),
    ('print(os.environ.get("ATTN_NO_PROGRESS"))', "None\n", {}),
    ("1 + 1", "3\n", {}),
]


@pytest.fixture
def project(tmp_path):
    """Somebody's project, with a kernel of its own, and how it is tested."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TEST)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f"]
    spec = {
        "argv": [*start, "{connection_file}"],
        "display_name": "Theirs",
        "language": "python",
        "env": {"THEIRS": "theirs"},
    }
    kernel = tmp_path / "share" / "kernels" / "theirs"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "theirs", "display_name": ""}
    for number, (source, printed, metadata) in enumerate(CELLS):
        cell = nbformat.v4.new_code_cell(
            source, execution_count=number + 1, metadata=metadata
        )
        if printed:
            cell.outputs = [nbformat.v4.new_output("stream", text=printed)]
        notebook.cells.append(cell)
    nbformat.write(notebook, tmp_path / "course.ipynb")
    ours = {"ATTN_NO_PROGRESS", "PYTEST_ADDOPTS"}
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    environment["PYTHONPATH"] = str(root())
    environment["JUPYTER_PATH"] = str(tmp_path / "share")

    def tested(*options):
        words = (sys.executable, "-P", "-m", "pytest", *options)
        done = run(*words, cwd=tmp_path, env=environment)
        text = re.sub(r"(?m)^plugins: .*\n", "", done.stdout + done.stderr)
        return re.sub(r"in \d+\.\d+s|0x[0-9a-f]+", "", text)

    return tested


NBVAL = ("--nbval", "-v")


@pytest.mark.parametrize("options", exhaustive_but([NBVAL], [(), NBVAL]))
def test_a_project_of_others_is_tested_as_without_attn(options, project):
    """The plugin is on: a project of ours with it is scored."""
    options = (*options, "-p", "no:cacheprovider")
    with_attn = project(*options)
    assert with_attn == project(*options, "-p", "no:attn_score")
    assert ("loaded: []" in with_attn) == ("--nbval" not in options)
    failed, passed = (2, 5) if "--nbval" in options else (1, 1)
    assert f"{failed} failed, {passed} passed" in with_attn


def test_the_plugin_loads_no_library(tmp_path):
    code = (
        "import sys; before = {*sys.modules}; "
        "import attn.publishing.nbval_plugin as plugin; "
        "new = {x.partition('.')[0] for x in {*sys.modules} - before}; "
        "print(*sorted(new - sys.stdlib_module_names))"
    )
    environment = {**os.environ, "PYTHONPATH": str(root())}
    done = run_python(
        "import pytest\n" + code, cwd=tmp_path, env=environment, check=True
    )
    assert done.stdout.split() == ["attn"]
