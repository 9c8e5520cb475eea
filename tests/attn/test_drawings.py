"""Figures as SVG: text, the palette's variables, small, again for a phone."""

import functools
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import torch

from attn import plot
from attn.plot.layout import settle
from attn.plot.looks import COLORS, DARK, LEVELS
from attn.plot.markup import VARIABLES
from attn.plot.svg import drawings
from tests.attn.palette import GROUND, contrast, least_distance, mixed, themes
from tests.attn.test_plot import HEAD, PICTURES, TOKENS

PAINT = re.compile(
    r"none|currentColor|var\(--figure-[a-z]+\)|url\(#[\w-]*(hatch|clip\d+)\)"
)


def drawings_of(picture):
    """The drawings of a figure as shown: wide, and for a phone."""
    settle(picture)
    return drawings(picture, picture.columns)


@functools.cache
def drawn(name):
    """The drawings of a kind of figure, parsed."""
    torch.manual_seed(0)
    return [ElementTree.fromstring(x) for x in drawings_of(PICTURES[name]())]


def words(svg):
    return {x.text for x in svg.iter() if x.tag.endswith("text")}


@pytest.mark.parametrize("name", PICTURES)
def test_each_colour_is_a_css_variable_or_inherited(name):
    for svg in drawn(name):
        for node in svg.iter():
            for side in ("fill", "stroke", "clip-path"):
                assert PAINT.fullmatch(node.get(side, "none")), node.attrib
            assert node.get("style") is None
        assert not any(node.tag.endswith("image") for node in svg.iter())


@pytest.mark.parametrize("name", ["map", "heads", "lines", "histograms"])
def test_labels_stay_text_in_the_svg(name):
    torch.manual_seed(0)
    picture = PICTURES[name]()
    for svg in drawn(name):
        for ax in picture.axes:
            for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()):
                assert {*text.split("\n")} <= words(svg) | {""}


@pytest.mark.grid
@pytest.mark.parametrize("name", PICTURES)
def test_a_drawing_is_deterministic(name):
    torch.manual_seed(0)
    again = drawings_of(PICTURES[name]())
    for svg, text in zip(drawn(name), again, strict=True):
        same = ElementTree.fromstring(text)
        assert ElementTree.tostring(svg) == ElementTree.tostring(same)


@pytest.mark.grid
@pytest.mark.parametrize("name", PICTURES)
def test_a_drawing_is_smaller_than_its_png(name):
    torch.manual_seed(0)
    bundle, _ = PICTURES[name]()._repr_mimebundle_()
    for svg in drawn(name):
        assert len(ElementTree.tostring(svg)) < len(bundle["image/png"])


def test_panels_are_stacked_on_a_phone():
    wide, narrow = drawn("heads")
    assert int(wide.get("width")) > 560
    assert int(narrow.get("width")) <= 360
    assert int(narrow.get("height")) > int(wide.get("height"))
    assert words(narrow) == words(wide) >= {"one", "two", *TOKENS}


def test_a_gallery_has_two_masks_in_a_row_on_a_phone():
    masks = {name: torch.ones(4, 4).tril().bool() for name in "abcd"}
    _, narrow = drawings_of(plot.masks_grid(masks))
    svg = ElementTree.fromstring(narrow)
    titles = [x for x in svg.iter() if x.tag.endswith("text")]
    assert len({x.get("y") for x in titles}) == 2


def test_a_figure_without_columns_is_drawn_once():
    picture, ax = plot.figure(6, 2, columns=0)
    ax.text(0, 0, "one two three")
    assert len(drawings_of(picture)) == 1


def test_no_label_touches_the_next_on_a_phone():
    lengths = [2**n for n in range(8, 16)]
    picture = plot.lines({"a long name": lengths}, lengths, log="xy")
    wide, narrow = map(ElementTree.fromstring, drawings_of(picture))
    assert {"256", "32768"} <= words(wide)
    assert "32768" in words(narrow) and words(narrow) < words(wide)


def test_a_colour_outside_the_palette_is_refused():
    picture, ax = plot.figure(3, 2)
    ax.plot([0, 1], color="#123456")
    with pytest.raises(ValueError, match="attn.plot; got '#123456'"):
        drawings_of(picture)


def test_a_latex_formula_in_a_figure_is_refused():
    picture, ax = plot.figure(3, 2)
    ax.set(xlabel=r"$\sqrt{D}$")
    with pytest.raises(ValueError, match="no formula; got .*Unicode"):
        drawings_of(picture)


def test_powers_of_ten_are_written_in_unicode():
    picture = plot.lines({"a": [1e-5, 1e7]}, log="y")
    labels = words(ElementTree.fromstring(drawings_of(picture)[0]))
    assert labels & {"10⁵", "10⁶", "10⁷"} and labels & {"10⁻⁵", "10⁻⁴"}


def test_a_short_logarithmic_axis_has_several_labels():
    picture = plot.lines({"a": [60, 700]}, log="y")
    labels = words(ElementTree.fromstring(drawings_of(picture)[0]))
    assert {"100", "200", "500"} <= labels


def test_the_cells_of_a_map_are_shares_of_one_colour():
    wide = drawings_of(plot.attention_map(HEAD, TOKENS))[0]
    assert 'fill="var(--figure-heat)"' in wide
    assert 'opacity="1"' in wide and 'opacity=".12"' in wide
    at = wide.index("var(--figure-heat)")
    assert wide[at : wide.index("</g>", at)].count("M") >= 5


@pytest.mark.parametrize("theme", GROUND)
def test_every_variable_has_contrast_on_its_theme(theme):
    values, ground = themes()[theme], GROUND[theme]
    assert {f"var({name})" for name in values} > set(VARIABLES.values())
    for name, value in values.items():
        if name not in ("--figure-paper", "--figure-heat"):
            assert contrast(value, ground) >= 4.5, name
            # what is written on a bar
            ink = values["--figure-paper"]
            assert contrast(value, ink) >= 4.5, name


@pytest.mark.parametrize("theme", GROUND)
def test_numbers_have_contrast_on_every_cell_of_a_map(theme):
    values = themes()[theme]
    for level in range(LEVELS):
        share = level / (LEVELS - 1)
        cell = mixed(values["--figure-heat"], GROUND[theme], share)
        ink = values["--figure-paper" if share >= DARK else "--figure-ink"]
        assert contrast(cell, ink) >= 4.5, share


def test_colours_are_distinct_for_every_colour_blindness():
    sets = [
        [values[VARIABLES[color][4:-1]] for color in COLORS]
        for values in themes().values()
    ]
    for colors in (list(COLORS), *sets):
        assert len(set(colors)) == 6
        assert least_distance(colors) > 0.075
    same = [mpl.colors.to_hex(c) for c in ("red", "#b35900")]
    assert least_distance([*same, "#a06000"]) < 0.075, "it can fail"


def test_the_contrast_measure_can_fail():
    assert contrast("#797979", "#ffffff") < 4.5 < contrast("#000", "#fff")
    assert np.isclose(contrast("#000000", "#ffffff"), 21)
