"""Attention whose memory is one matrix, of the same size for any text.

Softmax keeps every key and value. Here each token changes a state
``(D, Dv)`` and each query reads it: ``S += k v``, ``out = q S``. What a token
does to the state decides what it can hold:

======================== ============================= ====================
model                    function                      arguments
======================== ============================= ====================
linear attention         ``linear_attention``          a ``feature_map``
RetNet, Lightning        ``linear_attention``          ``g`` ``(H,)``
Mamba 2                  ``linear_attention``          ``g`` ``(B, H, L)``
GLA                      ``linear_attention``          ``g`` ``(B, H, L, D)``
DeltaNet                 ``gated_delta_rule``          ``beta``, ``g`` None
Gated DeltaNet           ``gated_delta_rule``          and ``g`` ``(B, H, L)``
Kimi Delta Attention     ``gated_delta_rule``          ``g`` ``(B, H, L, D)``
======================== ============================= ====================

Each function computes three forms of one definition: ``"recurrent"``, token
by token, as when a model writes; ``"parallel"``, all pairs of tokens at once;
and ``"chunk"``, parallel inside a chunk and recurrent between chunks. A graph
that is compiled or exported for any length has the parallel form, whatever
the mode: a loop is a graph of one length.
"""

from attn.linear.attention import linear_attention
from attn.linear.convolution import short_convolution
from attn.linear.delta import gated_delta_rule
from attn.linear.feature_maps import FEATURE_MAPS, elu_plus_one, taylor

__all__ = [
    "linear_attention",
    "gated_delta_rule",
    "short_convolution",
    "elu_plus_one",
    "taylor",
    "FEATURE_MAPS",
]
