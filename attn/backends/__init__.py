"""Ways to compute one contract: torch's, and where they are faster, ours.

``registry`` holds them under names, ``selection`` chooses one for a call and
says why, ``autotune`` measures them; the others are one backend each.
"""

from attn.backends.registry import Implementation, Registry
from attn.backends.sdpa_backends import TorchExplanation, explain_torch
from attn.backends.selection import Explanation

__all__ = [
    "Explanation",
    "Implementation",
    "Registry",
    "TorchExplanation",
    "explain_torch",
]
