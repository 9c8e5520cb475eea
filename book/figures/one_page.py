"""Draw the eight steps of "Attention in one page": one head, one question.

    python -m book.figures.one_page

Each step is a drawing of the same sixteen rows, one a token, so that a script
can turn one into the next. The model runs in float64: the drawings are the
same on every machine. They are committed; the book is built without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from attn import attention_weights, causal
from book.figures.attention_heads import exact_model
from book.figures.front_page import HEAD, LAYER, SENTENCE

FOLDER = Path(__file__).parent / "five-minutes"
ENDS = {"[CLS]": "start", "[SEP]": "end"}
WIDE, HIGH = 360, 352
LEFT, TOP, ROW = 88, 26, 19
LEAST = 0.005  # a smaller share has no number


@dataclass(frozen=True)
class Question:
    """Hold what MiniLM computes for one token, in one head of twelve.

    Args:
        tokens: ``L`` words, as a newcomer reads them.
        at: which of them is the query.
        query: ``(D,)``.
        key: ``(L, D)``; ``value`` alike.
        scores: of the query with each key, scaled, ``(L,)``.
        weights: of all heads of the layer, ``(H, L, L)``.
    """

    tokens: list[str]
    at: int
    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    weights: Tensor

    @property
    def shares(self) -> Tensor:
        return self.weights[HEAD, self.at]

    @property
    def masked(self) -> Tensor:
        """What is left of the shares where no later token may be read."""
        length = len(self.tokens)
        row = causal().dense(length, length)[0, 0, self.at]
        return self.scores.masked_fill(~row, -torch.inf).softmax(0)

    @property
    def mix(self) -> Tensor:
        return self.shares @ self.value


def question(sentence: str = SENTENCE, word: str = "it") -> Question:
    model = exact_model()
    states, _ = model.run(sentence)
    qkv = model.qkv(states[LAYER], LAYER)
    tokens = model.tokens(sentence)
    at = tokens.index(word)
    query, key, value = (x[HEAD] for x in qkv)
    return Question(
        [ENDS.get(x, x) for x in tokens],
        at,
        query[at],
        key,
        value,
        key @ query[at] / query.shape[-1] ** 0.5,
        attention_weights(qkv[0], qkv[1]).weights,
    )


@dataclass
class Picture:
    """Collect a step's rows: a bar and a number each, and what is around."""

    says: str
    bars: list[tuple[float, float]] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    right: bool = False  # numbers at the right edge, else after the bar
    kinds: dict[int, str] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)

    def svg(self, tokens: list[str], at: int) -> str:
        bars = self.bars or [(LEFT, 0.0)] * len(tokens)
        numbers = self.numbers or [""] * len(tokens)
        rows = []
        for i, token in enumerate(tokens):
            kind = f"token {self.kinds.get(i, '')}{' asks' if i == at else ''}"
            x, width = bars[i]
            end = WIDE - 4 if self.right else max(x, x + width) + 6
            rows.append(
                f'<g class="{" ".join(kind.split())}">'
                f'<rect class="ground" x="2" y="{y(i)}" width="{LEFT - 8}" '
                f'height="{ROW - 2}" rx="3"/>'
                f'<rect class="bar" x="{x:.1f}" y="{y(i) + 2}" '
                f'width="{width:.1f}" height="{ROW - 6}" rx="2"/>'
                f"{text(LEFT - 12, y(i) + 13, token, 'end')}"
                f"{text(end, y(i) + 13, numbers[i], 'end' * self.right)}</g>"
            )
        return (
            f'<svg class="still" viewBox="0 0 {WIDE} {HIGH}" role="img" '
            f'aria-label="{self.says}">'
            f'<g class="more">{"".join(self.more)}</g>{"".join(rows)}</svg>\n'
        )


def y(row: float) -> float:
    return TOP + ROW * row


def text(x: float, at: float, words: str, anchor: str = "") -> str:
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{at:.0f}"{anchor}>{words}</text>'


def head(x: float, words: str) -> str:
    return text(x, 15, words)


def percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%" if share >= LEAST else ""


def signed(x: float) -> str:
    return f"{x:.1f}".replace("-", "−")


def strip(
    x: float, row: float, numbers: Tensor, unit: float, kind: str
) -> str:
    """Draw a list of numbers as strokes, up from the line or down."""
    step = 3.6
    strokes = (
        f"M{x + step * i:.1f} {y(row) + 8.5:.1f}v{-unit * n:.1f}"
        for i, n in enumerate(numbers.tolist())
    )
    return f'<path class="strip {kind}" d="{"".join(strokes)}"/>'


def grid(columns: Iterable[Tensor], width: float, names: list[str]) -> str:
    """Draw columns of shares as cells, the darker the larger."""
    return "".join(
        f'<rect class="cell" x="{LEFT + width * j:.1f}" y="{y(i)}" '
        f'width="{width - 2:.1f}" height="{ROW - 2}" rx="2" '
        f'style="--shade: {share**0.7:.2f}"/>'
        for j, column in enumerate(columns)
        for i, share in enumerate(column.tolist())
    ) + "".join(
        text(LEFT + width * (j + 0.5) - 1, 21, name, "middle")
        for j, name in enumerate(names)
    )


def frame(x: float, at: float, width: float, height: float) -> str:
    return (
        f'<rect class="frame" x="{x:.1f}" y="{at:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="3"/>'
    )


def sentence(q: Question) -> Picture:
    start = y(q.at) + 8.5
    curves = []
    for i, share in enumerate(q.shares.tolist()):
        end, away = y(i) + 8.5, 12 + 23 * abs(i - q.at) ** 0.9
        loop = 14 * (i == q.at)
        curves.append(
            f'<path class="arc" style="--weight: {share:.3f}" '
            f'd="M{LEFT - 4} {start}C{LEFT + away:.0f} {start - loop} '
            f'{LEFT + away:.0f} {end + loop} {LEFT - 4} {end}"/>'
        )
    animal = q.tokens.index("animal")
    share = text(244, y(animal) + 13, percent(q.shares[animal].item()))
    curves.append(f'<g class="much">{share}</g>')
    says = "The tokens of the sentence, one below the other. From it, a curve "
    says += "to each token: by far the thickest leads to animal."
    return Picture(says, kinds={animal: "found"}, more=curves)


def query_and_keys(q: Question) -> Picture:
    more = [strip(LEFT + 2, i, k, 2.4, "key") for i, k in enumerate(q.key)]
    more += [
        strip(230, q.at, q.query, 2.4, "query"),
        head(LEFT, "a key each"),
        head(228, "the query of “it”"),
    ]
    return Picture(
        "Beside each token, its key: 32 strokes, up or down. Beside it, "
        "also its query, 32 strokes.",
        more=more,
    )


def products(q: Question) -> Picture:
    zero, unit = 262, 15
    each = q.key * q.query / q.query.shape[-1] ** 0.5
    more = [strip(LEFT + 2, i, x, 4, "key") for i, x in enumerate(each)]
    more += [
        head(LEFT, "32 products"),
        head(228, "sum / √32: the score"),
        f'<path class="axis" d="M{zero} {TOP}V{y(len(q.tokens))}"/>',
    ]
    sums = q.scores.tolist()
    return Picture(
        "Beside each token the 32 products of query and key, and their sum "
        "as a bar: the longest is that of animal.",
        [(zero + min(0, unit * x), abs(unit * x)) for x in sums],
        [signed(x) for x in sums],
        right=True,
        more=more,
    )


def of_shares(shares: Tensor, says: str, title: str) -> Picture:
    return Picture(
        says,
        [(LEFT, 300 * x) for x in shares.tolist()],
        [percent(x) for x in shares.tolist()],
        more=[head(LEFT, title)],
    )


def softmax(q: Question) -> Picture:
    says = "A bar for each token, its share of the attention of it: animal "
    says += "has two thirds."
    return of_shares(q.shares, says, "shares of 100 %")


def mix(q: Question) -> Picture:
    rows = enumerate(zip(q.value, q.shares, strict=True))
    more = [
        strip(LEFT + 2, i, v, 3.4, "key") + strip(242, i, w * v, 3.4, "query")
        for i, (v, w) in rows
    ]
    bottom = len(q.tokens) + 0.15
    more += [
        head(LEFT, "a value each"),
        head(240, "share × value"),
        f'<path class="axis" d="M238 {y(bottom) - 4:.0f}H358"/>',
        strip(242, bottom, q.mix, 3.4, "query"),
        text(234, y(bottom) + 13, "the sum, for “it”", "end"),
    ]
    return Picture(
        "Beside each token its value, 32 strokes, and the same times its "
        "share: only that of animal can be seen. Below, their sum.",
        [(LEFT + 114, 0.0)] * len(q.tokens),
        [percent(x) for x in q.shares.tolist()],
        more=more,
    )


def mask(q: Question) -> Picture:
    says = "The same bars. The tokens after it are crossed out, and have no "
    says += "share; the others have a little more."
    picture = of_shares(q.masked, says, "no later token may be read")
    for i in range(q.at + 1, len(q.tokens)):
        picture.kinds[i] = "off"
        picture.numbers[i] = "0\N{NO-BREAK SPACE}%"
    return picture


def heads(q: Question) -> Picture:
    width = 22
    names = [str(n) for n in range(1, len(q.weights) + 1)]
    cells = grid(q.weights[:, q.at], width, names)
    height = y(len(q.tokens)) - 4
    return Picture(
        "Twelve columns, one a head: where each has it look, as dark cells. "
        "The second column is the head of the steps before.",
        more=[cells, frame(LEFT + width * HEAD - 2, 8, width + 2, height)],
    )


def all_at_once(q: Question) -> Picture:
    width = 16.6
    names = [x[0] for x in q.tokens]
    cells = grid(q.weights[HEAD].T, width, names)
    right = width * len(q.tokens)
    return Picture(
        "A square of cells, a row for each token that asks and a column for "
        "each that answers. The row of it is framed.",
        more=[cells, frame(LEFT - 3, y(q.at) - 2, right + 3, ROW + 2)],
    )


STEPS: tuple[Callable[[Question], Picture], ...] = (
    sentence,
    query_and_keys,
    products,
    softmax,
    mix,
    mask,
    heads,
    all_at_once,
)


def drawings() -> dict[str, str]:
    """Return the drawings by the names of their files."""
    q = question()
    return {
        f"{n}.svg": step(q).svg(q.tokens, q.at)
        for n, step in enumerate(STEPS, start=1)
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in drawings().items():
        (FOLDER / name).write_text(drawing, "utf-8")


if __name__ == "__main__":
    main()
