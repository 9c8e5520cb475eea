"""Read the attacks: cells as a learner would paste them, in Markdown."""

import re
from dataclasses import dataclass
from pathlib import Path

from attn.exercises import sources

ATTACKS = Path(__file__).parent / "attacks"
_ATTACK = re.compile(
    r"^## (?P<target>\S+) · (?P<waits>waits · )?(?P<tries>[^\n]+)\n\n"
    r"```python\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

#: Of each chapter, two exercises whose answers are quickly judged.
_OTHERS = {
    "why": ("why-soft_lookup", "why-causal_average"),
    "sdp": ("sdp-logit_variance", "sdp-softmax"),
    "mask": ("mask-padding", "mask-causal"),
    "mha": ("mha-split_heads", "mha-merge_heads"),
    "gqa": ("gqa-kv_cache_bytes", "gqa-pool_heads"),
    "pos": ("pos-alibi_slopes", "pos-sinusoidal"),
    "sdpa": ("sdpa-softcap", "sdpa-causal_lower_right"),
    "rope": ("rope-frequencies", "rope-apply_rope"),
    "tfm": ("tfm-rms_norm", "tfm-layer_norm"),
    "cache": ("cache-attention_cost", "cache-KVCache"),
    "flash": ("flash-merge_states", "flash-online_softmax"),
    "fwd": ("fwd-causal_ranges", "fwd-copy_tile_kernel"),
    "bwd": ("bwd-dq_kernel", "bwd-delta_kernel"),
    "flex": ("flex-score_mod", "flex-block_mask"),
    "iface": ("iface-mask_function", "iface-NoRope"),
    "serve": ("serve-match_prefix", "serve-tree_mask"),
    "ring": ("ring-shard_positions", "ring-decode_attention"),
    "latent": ("latent-block_choice", "latent-top_k_keys"),
    "linear": ("linear-short_convolution", "linear-linear_attention"),
}


@dataclass(frozen=True)
class Attack:
    """Describe one cell that attacks the grader.

    Args:
        family: the name of its file.
        target: the exercise whose cell it is pasted into.
        tries: what it tries, in a line.
        text: of the cell.
        waits: whether only a limit on time or memory ends it.
    """

    family: str
    target: str
    tries: str
    text: str
    waits: bool = False

    @property
    def key(self) -> str:
        """Return the chapter's key."""
        return self.target.partition("-")[0]

    @property
    def other(self) -> str:
        """Return an exercise of the chapter for the right answer beside it."""
        first, second = _OTHERS[self.key]
        return second if self.target == first else first

    def cells(self) -> dict[str, str]:
        """Return a submission: the attack, and one right answer."""
        return {
            self.target: self.text,
            self.other: sources.solution(self.other),
        }

    def __str__(self) -> str:
        return f"{self.family}: {self.target}: {self.tries}"


def attacks() -> list[Attack]:
    """Return every attack, in the order of the files."""
    files = sorted(
        ATTACKS.glob("*.md"), key=lambda x: int(x.stem.split("_")[0])
    )
    return [
        Attack(
            path.stem.partition("_")[2],
            cell["target"],
            cell["tries"],
            cell["text"],
            bool(cell["waits"]),
        )
        for path in files
        for cell in _ATTACK.finditer(path.read_text("utf-8"))
    ]
