"""What a cell hands to another program is not Python of the notebook."""

import pytest

from attn.grading.classroom.magics import without_magics
from attn.grading.classroom.other_cells import as_run
from attn.grading.classroom.reading import Cell

WRITTEN = "%%writefile lib/helpers.py\ndef f(x):\n    return x\n"


def run(*texts):
    return [x.source for x in as_run([Cell("code", x) for x in texts])]


@pytest.mark.parametrize(
    "magic",
    [
        *("%%bash", "%%script false", "%%html", "%%file -a a.py"),
        *("%%writefile a.b/c.py", "%%writefile my-a.py", "%%writefile a"),
    ],
)
def test_a_cell_that_runs_elsewhere_defines_nothing(magic):
    assert run(f"{magic}\ndef f():\n    return 1\n") == [f"{magic}\n\n\n"]
    text = f"{magic}\n# f\n"
    assert as_run([Cell("markdown", text)]) == [Cell("markdown", text)]


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%timeit"])
def test_a_cell_that_runs_here_is_kept(magic):
    text = f"{magic}\ndef f(): return 1\n"
    assert run(text, "# %%bash\nx = 1") == [text, "# %%bash\nx = 1"]


@pytest.mark.parametrize(
    ("use", "becomes"),
    [
        ("from helpers import f", "pass"),
        ("from helpers import f as g, h", "g = f"),
        ("if a:\n    from helpers import f  # it", "if a:\n    pass# it"),
        ("%run lib/helpers.py", "%run lib/helpers.py"),
        ("%run -i helpers.py", "%run -i helpers.py"),
        ("import helpers as h", "import helpers as h"),
    ],
)
def test_a_file_that_is_imported_or_run_is_a_cell(use, becomes):
    assert run(WRITTEN, use) == [WRITTEN, becomes]


def test_a_file_that_is_not_used_is_none():
    for use in ("import other", "from help import f", "helpers = 3"):
        assert run(WRITTEN, use)[0] == "%%writefile lib/helpers.py\n\n\n"


def test_several_magics_of_one_cell_are_left_out():
    text, left = without_magics("%%time\n\n%%capture a\nx = 1\n%%b")
    assert text.split("\n")[:4] == ["", "", "", "x = 1"]
    assert left[:2] == ("%%time", "%%capture a")
