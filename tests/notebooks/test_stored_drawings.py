"""The stored drawings: there, current; names apart, each in one colour."""

import functools
import itertools
import re
import shutil
import sys
from collections import defaultdict
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Affine2D

from attn.data.book import root
from attn.exercises import CHAPTERS, sources
from attn.plot.looks import GREY, color_of
from attn.plot.markup import VARIABLES
from attn.publishing import notebooks, stored_drawings

FIGURES = root() / "book" / "figures"
FOLDERS = sorted(x.name for x in FIGURES.iterdir() if any(x.glob("*.svg")))
#: Points that two names may share: half a pixel on each side.
TOUCH = 0.7


def numbers(text):
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


@functools.cache
def measured(text, size, weight):
    """Width, height and depth of a text in DejaVu Sans, as wide as any."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, False)


def box(text, group):
    """The corners of a text's box, less what names may share, (4, 2)."""
    size = float(group.get("font-size", 10))
    weight = group.get("font-weight", "normal")
    width, height, depth = measured(text.text, size, weight)
    at = np.array([float(text.get(side, 0)) for side in "xy"])
    moves = dict(re.findall(r"(\w+)\(([^)]*)\)", text.get("transform", "")))
    at += numbers(moves.get("translate", "0 0"))
    angle, *pivot = numbers(moves.get("rotate", "0"))
    anchor = text.get("text-anchor", group.get("text-anchor"))
    share = {"middle": 0.5, "end": 1.0}.get(anchor, 0.0)
    left, right = -share * width + TOUCH, (1 - share) * width - TOUCH
    top, foot = depth - height + TOUCH, depth - TOUCH
    corners = (left, top), (right, top), (right, foot), (left, foot)
    turn = Affine2D().translate(*at).rotate_deg_around(*(pivot or at), angle)
    return turn.transform(corners)


def apart(one, other):
    """Whether a line along a side of either box is between the two."""
    for corners in (one, other):
        for side in np.diff(corners[:3], axis=0):
            a, b = one @ side, other @ side
            if a.max() <= b.min() or b.max() <= a.min():
                return True
    return False


def collisions(svg):
    """Yield the pairs of texts of a drawing that cover each other."""
    boxes = [
        (text.text, box(text, group))
        for group in ElementTree.fromstring(svg)
        for text in group
        if text.tag.endswith("text") and (text.text or "").strip()
    ]
    for (a, one), (b, other) in itertools.combinations(boxes, 2):
        if not apart(one, other):
            yield a, b


def colors_of_names(folder):
    """The colours in which the figures of a chapter write each name."""
    found = defaultdict(set)
    for file in (FIGURES / folder).glob("*.svg"):
        for group in ElementTree.parse(file).getroot():
            fill = group.get("fill", "")
            fill = VARIABLES[GREY] if fill == "currentColor" else fill
            for text in group:
                if text.tag.endswith("text") and text.text:
                    found[text.text].add(fill)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_text_of_a_figure_covers_another(folder):
    files = sorted((FIGURES / folder).glob("*.svg"))
    assert files
    found = {x.stem: [*collisions(x.read_text("utf-8"))] for x in files}
    assert {name: pairs for name, pairs in found.items() if pairs} == {}


def test_texts_that_cover_each_other_are_found_turned_or_not():
    def svg(*texts):
        return f"<svg><g>{''.join(texts)}</g></svg>"

    flat = '<text x="0" y="0">one</text>'
    near = '<text x="5" y="2">two</text>'
    below = '<text x="0" y="12">three</text>'
    upright = '<text transform="rotate(-90 9 9)" x="9" y="9">four</text>'
    beside = '<text transform="rotate(-90 40 9)" x="40" y="9">five</text>'
    assert [*collisions(svg(flat, near, below))] == [("one", "two")]
    assert [*collisions(svg(flat, upright, beside))] == [("one", "four")]


PAINTS = set(VARIABLES.values()) - {"var(--figure-paper)", "var(--figure-ink)"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_name_has_one_colour_in_a_chapter_and_that_of_the_book(folder):
    for name, colors in colors_of_names(folder).items():
        curves = (colors & PAINTS) - {VARIABLES[GREY]}
        assert len(curves) <= 1, name
        fixed = color_of(name)
        if curves and fixed:
            assert curves == {VARIABLES[fixed]}, name


def test_the_chapters_compare_names_of_the_table():
    seen = {
        name
        for folder in FOLDERS
        for name, colors in colors_of_names(folder).items()
        if color_of(name) and colors & PAINTS
    }
    assert {"RNN", "LSTM", "ALiBi", "RoPE", "YaRN", "PyTorch"} <= seen


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
