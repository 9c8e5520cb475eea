"""Draw the picture of the front page: one trained head, one sentence.

    python -m book.figures.front_page

Needs what ``make test`` installs. The results are committed, so that the book
can be built without torch: a drawing in the theme's colours for the page, and
a PNG for those who share its address.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.patches import Rectangle

from attn.data import minilm
from attn.plot import ORANGE, attention_map, figure, style
from attn.plot.svg import drawings

SENTENCE = "The animal didn't cross the street because it was too tired."
LAYER, HEAD = 3, 1  # counted from 0
TARGET = Path(__file__).parents[1] / "_static" / "front-page.png"
DRAWING = Path(__file__).parent / "intro" / "fig-front-page.svg"


def main() -> None:
    model = minilm.load()
    tokens = model.tokens(SENTENCE)
    weights = model.run(SENTENCE)[1][LAYER, HEAD]  # (L, L)
    row, column = tokens.index("it"), tokens.index("animal")
    picture, axes = figure(6.6, 6.0)
    attention_map(weights, tokens, ax=axes)
    axes.set(xlabel="to this word (key)", ylabel="from this word (query)")
    for label in (axes.get_yticklabels()[row], axes.get_xticklabels()[column]):
        label.set(color=ORANGE, fontweight="bold")
    frame = {"fill": False, "edgecolor": ORANGE, "linewidth": 1.8}
    axes.add_patch(Rectangle((-0.5, row - 0.5), len(tokens), 1, **frame))
    share = 100 * weights[row, column].item()
    axes.text(
        column + 0.75,
        row,
        f"{share:.0f} % of “it”’s attention is on “animal”",
        color=ORANGE,
        va="center",
    )
    DRAWING.parent.mkdir(exist_ok=True)
    for suffix, drawn in zip(("", "-narrow"), drawings(picture), strict=False):
        DRAWING.with_stem(DRAWING.stem + suffix).write_text(drawn, "utf-8")
    with style():
        metadata = {"Software": None}  # no version: a stable file
        picture.savefig(TARGET, bbox_inches="tight", metadata=metadata)


if __name__ == "__main__":
    main()
