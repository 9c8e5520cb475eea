"""FlashAttention in Triton, written to be read.

``fused_attention`` supports the whole contract but dropout, with gradients;
``decode_attention`` and ``varlen_attention`` are for generating. The kernels
are in ``forward``, ``backward`` and ``decode``, what they share in ``tile``.
They need a GPU, or ``TRITON_INTERPRET=1`` to run, slowly, in the interpreter
on any machine. ``attn.kernels.report`` shows what a compiler makes of them.
"""

from typing import TYPE_CHECKING, Any

from attn.kernels.attention import fused_attention

if TYPE_CHECKING:
    from attn.kernels.decode_varlen import decode_attention, varlen_attention

__all__ = ["decode_attention", "fused_attention", "varlen_attention"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in __all__:  # loads Triton
        from attn.kernels import decode_varlen

        return getattr(decode_varlen, name)
    raise AttributeError(f"module 'attn.kernels' has no attribute {name!r}")
