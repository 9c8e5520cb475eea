"""The exercises: one folder per chapter, two files per exercise.

Nothing is imported here: the book reads this package without torch.
"""

CHAPTERS = {
    "why": "01_why_attention",
    "sdp": "02_scaled_dot_product",
    "mask": "03_masks",
    "mha": "04_multi_head",
    "gqa": "05_gqa",
    "pos": "06_positions",
    "rope": "07_rope",
    "sdpa": "08_sdpa",
    "tfm": "09_transformer",
    "cache": "10_kv_cache",
    "flash": "11_online_softmax",
    "fwd": "12_fused_forward",
    "bwd": "13_fused_backward_decode",
    "flex": "14_flex",
    "iface": "15_attention_interface",
    "serve": "16_serving",
    "ring": "17_many_machines",
    "latent": "18_latent_sparse",
    "linear": "19_linear",
}
"""Short key of an exercise id, and the file name of its chapter."""

APPENDICES = ("where_this_went", "museum")
"""File names of notebooks without exercises."""
