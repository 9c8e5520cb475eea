"""FlashAttention in Triton, written to be read.

``fused_attention`` supports the whole contract but dropout, with gradients;
``decode_attention`` and ``varlen_attention`` are for generating. The kernels
are in ``forward``, ``backward`` and ``decode``, what they share in ``tile``.
They need a GPU, or ``TRITON_INTERPRET=1`` to run, slowly, in the interpreter
on any machine. ``attn.kernels.report`` shows what a compiler makes of them.
"""

from attn.kernels.attention import fused_attention
from attn.kernels.decode_varlen import decode_attention, varlen_attention

__all__ = ["decode_attention", "fused_attention", "varlen_attention"]
