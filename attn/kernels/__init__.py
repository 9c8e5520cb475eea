"""FlashAttention in Triton, written to be read.

``fused_attention`` keeps the whole contract but dropout, with gradients;
``decode_attention`` and ``varlen_attention`` are for serving. The kernels
stand in ``forward``, ``backward`` and ``decode``, what they share in ``tile``.
They need a GPU, or ``TRITON_INTERPRET=1`` to run, slowly, in the interpreter
on any machine. What a compiler makes of them: ``attn.kernels.report``.
"""

from attn.kernels.attention import (
    Band,
    band_of,
    fused,
    fused_attention,
    unsupported_reasons,
)
from attn.kernels.decode_varlen import decode_attention, varlen_attention

__all__ = [
    "Band",
    "band_of",
    "decode_attention",
    "fused_attention",
    "fused",
    "varlen_attention",
    "unsupported_reasons",
]
