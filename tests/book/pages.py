"""The pages of the book, from its table of contents."""

import functools
import re
from pathlib import Path

from bs4 import BeautifulSoup

from book.paper import parts
from tests.marks import exhaustive_but

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {  # those that one can touch, and their pages
    "alibi_reach": "notebooks/06_positions",
    "attention_heads": "notebooks/02_scaled_dot_product",
    "block_tiles": "notebooks/14_flex",
    "cache_slots": "notebooks/10_kv_cache",
    "linear_state": "notebooks/19_linear",
    "logit_lens": "notebooks/09_transformer",
    "hf_forward": "notebooks/15_attention_interface",
    "key_choice": "notebooks/18_latent_sparse",
    "mask_workbench": "notebooks/03_masks",
    "online_softmax": "notebooks/11_online_softmax",
    "ring_turn": "notebooks/17_many_machines",
    "rope_dial": "notebooks/07_rope",
    "serve_timeline": "notebooks/16_serving",
    "soft_lookup": "notebooks/01_why_attention",
    "split_kv": "notebooks/13_fused_backward_decode",
    "tile_walk": "notebooks/11_online_softmax",
}


@functools.cache
def soup(path):
    """A built page, parsed once for all tests: no test may change it."""
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


API = sorted(f"book/api/{x.stem}" for x in ROOT.glob("book/api/*.md"))


def pages():
    """Every page, as a path without its ending."""
    printed = [page for _, part in parts(ROOT) for page in part]
    return [*printed, *(page for page in API if page not in printed)]


#: One page of each kind.
KINDS = [
    "book/intro",
    "book/api/masks",
    "notebooks/02_scaled_dot_product",
    "notebooks/museum",
]


def views():
    """Every page, as parameters: one of each kind is for `make test`."""
    return exhaustive_but(KINDS, pages())


def chapters():
    """Notebooks with a number; appendices have none."""
    return [page for page in pages() if re.match(r"notebooks/\d", page)]
