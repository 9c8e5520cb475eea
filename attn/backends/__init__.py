"""Ways to compute one contract: torch's, and where they are faster, ours.

``registry`` holds them under names and selects one for a call, ``explain``
says why, ``autotune`` measures, ``mask_formats`` converts masks; the others
are one backend each. ``attn.api`` registers them.
"""

from attn.backends.explain import Explanation
from attn.backends.registry import Implementation, Registry
from attn.backends.sdpa_backends import TorchExplanation, explain_torch

__all__ = [
    "Explanation",
    "Implementation",
    "Registry",
    "TorchExplanation",
    "explain_torch",
]
