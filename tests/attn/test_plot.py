"""Figures: one style for both themes, hatched masks, words for the blind."""

import base64
import io
import itertools

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import PatchCollection
from matplotlib.image import imread

import attn
from attn import plot
from attn.plot.looks import BLUE, GREY, ORANGE
from tests.attn.palette import contrast
from tests.attn.refusals import refused
from tests.marks import exhaustive_but

pytestmark = pytest.mark.filterwarnings("error")
TOKENS = ["The", "cat", "sat", "down", "."]
HEAD = torch.eye(5) * 0.6 + 0.08
HEAD = HEAD / HEAD.sum(-1, keepdim=True)


def pixels(picture):
    """What a notebook would show: RGBA from 0 to 1."""
    bundle, _ = picture._repr_mimebundle_()
    return imread(io.BytesIO(bundle["image/png"]))


def hatched(ax):
    """How many cells are hatched."""
    collections = [c for c in ax.collections if c.get_hatch()]
    paths = [path for c in collections for path in c.get_paths()]
    return sum(len(path.to_polygons()) for path in paths)


PICTURES = {
    "map": lambda: plot.attention_map(HEAD, TOKENS, masked=attn.causal()),
    "large map": lambda: plot.attention_map(torch.rand(20, 30)),
    "heads": lambda: plot.attention_maps({"one": HEAD, "two": HEAD}, TOKENS),
    "mask": lambda: plot.mask(attn.sliding_window(2), 6),
    "gallery": lambda: plot.masks_grid(
        {"causal": attn.causal(), "dense": torch.ones(3, 4).bool()}, 5
    ),
    "lines": lambda: plot.lines({"a": [1, 2], "b": [1, 3]}, [8, 64], log="xy"),
    "histograms": lambda: plot.histograms({"a": np.arange(99.0)}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_is_shown_once_at_double_resolution_with_alt_text(name):
    torch.manual_seed(0)
    picture = PICTURES[name]()
    bundle, size = picture._repr_mimebundle_()
    assert set(bundle) == {"image/png", "text/plain"}
    height, width, _ = imread(io.BytesIO(bundle["image/png"])).shape
    assert size["image/png"]["width"] == width // 2
    assert size["image/png"]["height"] == height // 2
    assert size["image/png"]["width"] <= 720, "as wide as a page"
    text = plot.alt_text(picture)
    assert len(text) > 20 and text.endswith(".")
    assert bundle["text/plain"] == size["image/png"]["alt"] == text
    base64.b64encode(bundle["image/png"])
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == [], "pyplot would show it a second time"


@pytest.mark.parametrize("name", exhaustive_but(["large map"], PICTURES))
def test_a_figure_is_deterministic(name):
    torch.manual_seed(0)
    first = pixels(PICTURES[name]())
    torch.manual_seed(0)
    assert np.array_equal(first, pixels(PICTURES[name]()))


@pytest.mark.parametrize("name", PICTURES)
def test_the_background_of_a_figure_is_transparent(name):
    assert pixels(PICTURES[name]())[0, 0, 3] == 0


def test_every_colour_has_contrast_on_white_and_on_black():
    colors = (GREY, BLUE, ORANGE)
    for color, ground in itertools.product(colors, ("#ffffff", "#121212")):
        assert contrast(color, ground) >= 4.25


@pytest.mark.parametrize("name", ["map", "large map", "mask", "lines"])
def test_all_labels_are_grey_or_an_accent_colour(name):
    picture = PICTURES[name]()
    ours = {GREY, BLUE, ORANGE}
    for ax in picture.axes:
        labels = [ax.title, ax.xaxis.label, ax.yaxis.label]
        labels += [*ax.get_xticklabels(), *ax.get_yticklabels()]
        for label in labels:
            assert mpl.colors.to_hex(label.get_color()) in ours


def test_masked_cells_are_hatched_and_have_no_number():
    ax = plot.attention_map(HEAD, TOKENS, masked=attn.causal()).axes[0]
    assert hatched(ax) == 10
    numbers = [t.get_text() for t in ax.texts if t.get_text()]
    assert len(numbers) == 15 and numbers[0] == "0.68"
    masked = np.ma.getmaskarray(ax.images[0].get_array())
    assert np.array_equal(masked, np.triu(np.ones((5, 5)), 1))


def test_scores_of_minus_infinity_are_drawn_as_masked():
    scores = attn.attention_weights(
        torch.randn(4, 3), torch.randn(4, 3), is_causal=True
    ).scores
    picture = plot.attention_map(scores)
    assert hatched(picture.axes[0]) == 6
    assert "6 of 16 are masked" in plot.alt_text(picture)


def test_nan_is_drawn_and_named_in_the_alt_text():
    weights = HEAD.clone()
    weights[2] = torch.nan
    picture = plot.attention_map(weights)
    texts = [t.get_text() for t in picture.axes[0].texts]
    assert texts.count("NaN") == 5 and len(picture.axes[0].patches) == 5
    assert "5 are NaN" in plot.alt_text(picture)
    assert "largest" not in plot.alt_text(
        plot.attention_map(torch.full((2, 2), torch.nan))
    )


def test_numbers_are_drawn_in_small_maps_only():
    assert len(plot.attention_map(torch.rand(8, 8)).axes[0].texts) == 64
    large = plot.attention_map(torch.rand(9, 4))
    assert not large.axes[0].texts and len(large.axes) == 2, "a colour bar"


def test_queries_go_down_and_keys_go_across():
    picture = plot.attention_map(torch.rand(2, 3), ["a", "b"], ["x", "y", "z"])
    ax = picture.axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "z"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("query", "key")
    assert ax.yaxis_inverted()
    assert "2 queries down, 3 keys across" in plot.alt_text(picture)


def test_the_alt_text_names_the_largest_weight():
    weights = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    picture = plot.attention_map(weights, ["it", "is"], title="Head 3")
    assert plot.alt_text(picture) == (
        "Head 3: 2 queries down, 2 keys across. The largest is that of "
        "query 'it' for key 'is'."
    )


@pytest.mark.parametrize(
    "mask",
    (
        attn.causal(),
        attn.causal().dense(5)[0, 0],
        attn.causal().bias(torch.float32, 5)[0, 0],
        attn.causal().dense(5)[0, 0].numpy(),
        attn.causal().dense(5)[0, 0].tolist(),
    ),
    ids=("Mask", "bool", "additive", "array", "list"),
)
def test_a_mask_is_drawn_the_same_in_any_form(mask):
    picture = plot.mask(mask, 5)
    assert hatched(picture.axes[0]) == 10
    filled = picture.axes[0].collections[0]
    assert isinstance(filled, PatchCollection) and not filled.get_hatch()
    assert len(filled.get_paths()) == 15
    title = "causal()" if isinstance(mask, attn.Mask) else "Mask"
    assert plot.alt_text(picture) == (
        f"{title}: 5 queries down, 5 keys across; 15 of 25 pairs may attend. "
        "The first query sees 1, the last 5."
    )


def test_a_mask_is_placed_by_its_offset_and_sized_by_its_tokens():
    picture = plot.mask(
        attn.causal(), queries=TOKENS[3:], keys=TOKENS, q_offset=3
    )
    assert hatched(picture.axes[0]) == 1


def test_a_gallery_has_one_panel_for_each_mask():
    picture = plot.masks_grid({str(i): attn.causal() for i in range(5)}, 4)
    assert len(picture.axes) == 5
    assert [ax.get_title() for ax in picture.axes] == list("01234")
    assert plot.alt_text(picture).count("10 of 16 pairs") == 5


def test_given_axes_are_drawn_on_without_a_new_figure():
    picture, (left, right) = plot.figure(6, 3, 1, 2)
    assert plot.attention_map(HEAD, ax=left) is None
    assert plot.lines({"a": [1, 2]}, ax=right) is None
    assert left.images and right.lines
    plot.describe(picture, "A head, and a line.")
    assert plot.alt_text(picture) == "A head, and a line."


def test_the_style_ends_with_its_context():
    before = dict(mpl.rcParams)
    with plot.style():
        assert mpl.rcParams["text.color"] == GREY
    assert dict(mpl.rcParams) == before


def test_inputs_may_have_gradients_and_half_precision():
    weights = HEAD.bfloat16().requires_grad_()
    assert plot.attention_map(weights) is not None
    assert weights.grad is None


WRONG = {
    r"weights must .*\(L, S\); got \(1, 2, 3, 3\): pass one head": (
        lambda: plot.attention_map(torch.rand(1, 2, 3, 3))
    ),
    r"weights must .*\(L, S\); got \(0, 3\)": (
        lambda: plot.attention_map(torch.rand(0, 3))
    ),
    "weights must be numbers; got": lambda: plot.attention_map([["a", "b"]]),
    "queries must have one label for each of the 5; got 3": (
        lambda: plot.attention_map(HEAD, TOKENS[:3])
    ),
    "keys must have one label for each of the 5; got 6": (
        lambda: plot.mask(attn.causal(), 5, keys=[*TOKENS, "!"], kv_len=5)
    ),
    r"masked must be bool .*\(5, 5\); got bool \(5, 4\)": (
        lambda: plot.attention_map(HEAD, masked=torch.ones(5, 4).bool())
    ),
    "masked must be bool .*; got float32": (
        lambda: plot.attention_map(HEAD, masked=torch.ones(5, 5))
    ),
    r"q_len must be the number of queries of causal\(\).*; got None": (
        lambda: plot.mask(attn.causal())
    ),
    r"mask must .*\(L, S\); got \(1, 3, 3\)": (
        lambda: plot.mask(torch.ones(1, 3, 3).bool())
    ),
    "masks and columns must be at least one; got 0": (
        lambda: plot.masks_grid({}, 4)
    ),
    "curves must hold at least one.*; got 0": lambda: plot.lines({}),
    r"curve 'a' must .*each x, \(2,\); got \(3,\)": (
        lambda: plot.lines({"a": [1, 2, 3]}, [1, 2])
    ),
    "log be .*'xy'; got 1 and 'z'": lambda: plot.lines({"a": [1]}, log="z"),
    "samples must .*with values; got 1": lambda: plot.histograms({"a": []}),
}
test_invalid_inputs_of_a_figure_raise_clear_errors = refused(WRONG)


def test_a_table_is_aligned_text_and_html_with_signs_beside_colours():
    class Link:
        __str__ = lambda self: "here"  # noqa: E731
        _repr_html_ = lambda self: '<a href="x">here</a>'  # noqa: E731

    rows = [("a < b", 9, True, Link()), ("c", "10", "✗ missed", "")]
    table = plot.Table(("case", "ms", "it is", "where"), rows, "Two rows")
    assert repr(table).splitlines() == [
        "Two rows",
        "case   ms  it is     where",
        "a < b   9  ✓ yes     here",
        "c      10  ✗ missed",
    ]
    html = table._repr_html_()
    assert "<caption>Two rows</caption>" in html
    assert '<th scope="col" style="text-align: right">ms</th>' in html
    assert '<td style="text-align: left">a &lt; b</td>' in html
    assert '<b class="yes">✓ yes</b>' in html
    assert '<b class="no">✗ missed</b>' in html
    assert '<a href="x">here</a>' in html
    assert repr(plot.Table(("one", "two"), [])) == "one  two"


def test_a_table_has_a_head_over_the_columns_of_a_group():
    head = ("rate", ("early", "a"), ("early", "b"), ("late", "a"))
    table = plot.Table(head, [("1", "2.5", "✓ 0.0", 3)])
    assert repr(table).splitlines() == [
        "rate  early, a  early, b  late, a",
        "   1       2.5     ✓ 0.0        3",
    ]
    top, below, row = table._repr_html_().split("<tr>")[1:]
    assert top.count('scope="col" rowspan="2"') == 1
    assert 'colspan="2" style="text-align: center">early</th>' in top
    assert 'colspan="1" style="text-align: center">late</th>' in top
    assert below.count('<th scope="col" style="text-align: right">') == 3
    assert row.count('style="text-align: right"') == 4
