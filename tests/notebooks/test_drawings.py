"""The drawings of the chapters' figures: there, current, the same again."""

import re
import shutil
import sys

import nbformat
import pytest

from attn.exercises import CHAPTERS, sources
from attn.publishing import notebooks, stored_drawings

CELL = """import torch, attn
from attn import plot
plot.attention_maps({"one": torch.eye(4), "two": torch.ones(4, 4)}, "abcd")"""
PAINT = re.compile(r' (?:fill|stroke)="([^"]*)"')
ALLOWED = re.compile(r"none|currentColor|var\(--figure-\w+\)|url\(#[\w-]+\)")


def figure_cell(svg):
    """The cell of a figure that has been drawn."""
    about = {"mystnb": {"figure": {"name": "fig-x", "caption": "…"}}}
    drawn = {"image/png": "", "image/svg+xml": svg}
    outputs = [nbformat.v4.new_output("display_data", drawn)]
    return nbformat.v4.new_code_cell(CELL, metadata=about, outputs=outputs)


@pytest.fixture
def chapter(tmp_path):
    """A place for a notebook, and one for its drawings."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book" / "figures").mkdir(parents=True)
    return tmp_path / "notebooks" / "x.ipynb"


def test_two_refreshes_draw_the_same_bytes(chapter, request):
    """In two kernels of other ancestors: no seed of hashes is the same."""
    cell = figure_cell("")
    drawn = []
    for start in ("real", "prefork"):
        if start == "prefork" and sys.platform == "linux":
            request.getfixturevalue("prefork_kernels")
        notebook = nbformat.v4.new_notebook(cells=[cell])
        run = notebooks.execute(notebook, chapter.parent, ATTN_SVG="1")
        stored_drawings.store(run.cells, chapter, notebooks.digest)
        files = sorted(stored_drawings.folder(chapter).iterdir())
        drawn.append({file.name: file.read_bytes() for file in files})
        shown = run.cells[0].outputs[0].data
        assert set(shown) == {"image/png", "text/plain"}
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == {"fig-x.svg", "fig-x-narrow.svg"}


def test_a_drawing_that_is_missing_or_old_is_noticed(chapter):
    svg = '<svg width="9"><g id="hatch" fill="url(#hatch)"/></svg>'
    cell = figure_cell(svg)

    def drift():
        lines = stored_drawings.drift([cell], chapter, notebooks.digest)
        return list(lines)

    assert drift() == ["fig-x: it has no drawing, fig-x.svg"]
    old = stored_drawings.folder(chapter) / "fig-old.svg"
    old.parent.mkdir()
    old.write_text(svg)
    stored_drawings.store([cell], chapter, notebooks.digest)
    assert drift() == [] and not old.exists()
    assert "image/svg+xml" not in cell.outputs[0].data
    text = (old.parent / "fig-x.svg").read_text()
    assert 'id="fig-x-hatch"' in text and "url(#fig-x-hatch)" in text
    cell.source += "\nplot.mask(attn.causal(), 4)"
    assert drift() == ["fig-x: the drawing is older than its cell"]


def test_outside_the_book_nothing_is_written(chapter):
    shutil.rmtree(chapter.parents[1] / "book")
    cell = figure_cell("<svg></svg>")
    stored_drawings.store([cell], chapter, notebooks.digest)
    assert set(cell.outputs[0].data) == {"image/png"}
    assert [x.name for x in chapter.parents[1].iterdir()] == ["notebooks"]


@pytest.mark.parametrize("key", CHAPTERS)
def test_the_drawings_are_of_the_palette_and_lighter_than_the_pngs(key):
    path, svgs = sources.notebook_path(key), 0
    pngs = sum(
        len(output.get("data", {}).get("image/png", "")) * 3 // 4
        for cell in notebooks.read(path).cells
        for output in cell.get("outputs", [])
    )
    for file in stored_drawings.folder(path).glob("*.svg"):
        text = file.read_text("utf-8")
        svgs += len(text.encode())
        for paint in PAINT.findall(text):
            assert ALLOWED.fullmatch(paint), (file.name, paint)
    assert 0 < svgs < pngs / 2
