"""Names in a figure: beside what they name, over nothing, in one colour."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from attn import plot
from attn.plot import looks
from attn.plot.labels import spread
from attn.plot.layout import settle
from attn.plot.narrow import narrow
from tests.marks import exhaustive_but

TOGETHER = {name: [0.0, 1.0] for name in "abcd"}
CURVES = {
    "one end": lambda: plot.lines(TOGETHER),
    "two ends": lambda: plot.lines(TOGETHER | {"e": [1, 0], "f": [1, 0]}),
    "near ends": lambda: plot.lines({str(n): [0, n] for n in range(8)}),
    "logarithmic": lambda: plot.lines(
        {"a": [1, 1e-8], "b": [2, 1e-8], "c": [1, 0.1]}, log="y"
    ),
    "in a panel": lambda: in_a_panel(),
}
QUICK = ["two ends", "logarithmic"]


def in_a_panel():
    picture, axes = plot.figure(6.4, 2.2, 1, 2)
    for ax in axes:
        plot.lines(TOGETHER, ax=ax)
    return picture


def layouts(picture):
    """The figure as settled for a page, and for a phone."""
    settle(picture)
    both = picture, narrow(picture, 1)
    for each in both:
        each.draw_without_rendering()
    return both


def boxes(ax):
    return {x.get_text(): Text.get_window_extent(x) for x in ax.texts}


def leaders(ax):
    """The lines to names that are drawn, and where each begins and ends."""
    shown = [x.arrow_patch for x in ax.texts if x.arrow_patch.get_visible()]
    return [
        (x, x.get_transform().transform(x.get_path().vertices)) for x in shown
    ]


@pytest.mark.parametrize("name", exhaustive_but(QUICK, CURVES))
def test_names_of_curves_cover_nothing_and_a_leader_is_no_curve(name):
    for picture in layouts(CURVES[name]()):
        for ax in picture.axes:
            assert ax.get_legend() is None
            edge, names = ax.get_window_extent(), boxes(ax)
            for one, other in itertools.combinations(names.values(), 2):
                assert not one.padded(-1).overlaps(other.padded(-1))
            assert all(box.x0 >= edge.x1 for box in names.values())
            for line, ends in leaders(ax):
                assert to_hex(line.get_edgecolor()) == plot.GREY
                assert line.get_linestyle() == ":"
                assert line.get_linewidth() < 1
                assert ends[:, 1].min() >= edge.y0 - 1
                assert ends[:, 1].max() <= edge.y1 + 1
                assert np.ptp(ends[:, 0]) < edge.width / 8
                assert ends[:, 0].min() > edge.x1 - edge.width / 20


def test_a_name_at_the_end_of_its_curve_needs_no_leader():
    for picture in layouts(plot.lines({"low": [1, 0], "high": [0, 1]})):
        assert leaders(picture.axes[0]) == []
    assert all(len(leaders(x.axes[0])) > 1 for x in layouts(in_a_panel()))


def test_names_follow_what_is_changed_after_the_curves():
    picture = plot.lines({"first": [9, 1], "last": [1, 9]})
    ax = picture.axes[0]
    ax.set(yscale="log", ylim=(0.1, 100))
    ax.invert_yaxis()
    for each in layouts(picture):
        ax = each.axes[0]
        for curve, box in zip(ax.lines, boxes(ax).values(), strict=True):
            end = ax.transData.transform(curve.get_xydata()[-1])[1]
            assert abs((box.y0 + box.y1) / 2 - end) < 2


def test_a_figure_saved_without_a_notebook_has_its_names_apart():
    heights = [x.get_position()[1] for x in plot.lines(TOGETHER).axes[0].texts]
    assert min(np.diff(sorted(heights))) > 0.03


def test_heights_are_spread_as_little_as_their_gap_needs():
    assert spread(np.array([0.0, 5, 9]), 2, 0, 10).tolist() == [0, 5, 9]
    assert spread(np.array([5.0, 5]), 2, 0, 10).tolist() == [4, 6]
    assert spread(np.array([0.0, 0, 9]), 2, 0, 10).tolist() == [0, 2, 9]
    assert spread(np.array([5.0, 5, 6]), 2, 0, 10) == pytest.approx(
        [10 / 3, 16 / 3, 22 / 3]
    )
    assert spread(np.array([10.0, 10, 10]), 3, 0, 10).tolist() == [4, 7, 10]


def on_a_slope(gap, width):
    picture, ax = plot.figure(width, 3)
    ax.plot([0, 10], [0, 10], color=plot.GREY)
    points = {f"point {n}": (5 + gap * n,) * 2 for n in range(-2, 3)}
    ax.plot(*zip(*points.values(), strict=True), "o")
    plot.name_points(ax, points, plot.BLUE)
    plot.name_points(ax, {"another": (9.8, 9.8)}, plot.ORANGE)
    return picture


@pytest.mark.grid
@pytest.mark.parametrize("gap", [1.2, 2])
@pytest.mark.parametrize("width", [4, 6.4])
def test_names_of_points_cover_no_name_and_no_line(gap, width):
    for picture in layouts(on_a_slope(gap, width)):
        ax = picture.axes[0]
        slope = np.linspace(0, 10, 500)[:, None].repeat(2, 1)
        drawn, names = ax.transData.transform(slope), boxes(ax)
        assert all(not x.count_contains(drawn) for x in names.values())
        for one, other in itertools.combinations(names.values(), 2):
            assert not one.overlaps(other)


def test_points_of_one_colour_have_their_names_on_one_side():
    for picture in layouts(on_a_slope(1.5, 6.4)):
        blue = [x for x in picture.axes[0].texts if x.get_color() == plot.BLUE]
        sides = {tuple(np.sign(x.get_position())) for x in blue}
        assert len(blue) == 5 and len(sides) == 1


def test_a_name_has_one_colour_whatever_it_is_drawn_with():
    for others in ([], ["LSTM"], ["mine", "yours"]):
        assert looks.looks([*others, "RNN"])[-1][0] == plot.color_of("RNN")
    assert plot.color_of("decode, G = 8") == plot.color_of("decode")
    assert plot.color_of("RNNs") is None
    listed = list(itertools.chain(*looks._COMPARED.values()))
    assert len(listed) == len(set(listed)) and len(listed) > 30


def test_curves_of_a_figure_differ_in_colour_first_and_then_in_dashes():
    other = looks.looks([f"c{n}" for n in range(8)])
    assert len(set(other)) == 8
    assert len({color for color, _ in other[:6]}) == 6
    mixed = looks.looks(["RNN", "a", "b", "RNN, deeper", "c"])
    assert len(set(mixed)) == 5
    assert mixed[0][0] == mixed[3][0] and mixed[0][1] != mixed[3][1]
