"""FlashAttention in Triton, written to be read.

``fused_attention`` supports the whole contract but dropout, with gradients,
``varlen_attention`` texts that are stored end to end, with gradients too;
``decode_attention`` is for generating. The kernels are in ``forward``,
``backward`` and ``decode``, what they share in ``tile``.
``linear_attention_chunks`` computes linear attention with decay. They need a
GPU, or ``TRITON_INTERPRET=1`` to run, slowly, in the interpreter on any
machine. ``attn.kernels.report`` shows what a compiler makes of them.
"""

from attn.kernels.attention import fused_attention
from attn.kernels.decode_varlen import decode_attention, varlen_attention
from attn.kernels.linear_attention import linear_attention_chunks

__all__ = [
    "fused_attention",
    "decode_attention",
    "varlen_attention",
    "linear_attention_chunks",
]
