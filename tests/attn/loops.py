"""The whole contract again, in plain Python numbers and loops.

Written from the words of the contract and not from the code: nothing here
is a tensor operation, so a mistake in broadcasting, head order, masking or
softmax cannot be made twice.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    may_attend: Callable[[int, int, int, int], bool] | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Sequence[float] | None = None,
    window: tuple[int | None, int | None] | None = None,
    offsets: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention for one row, one head, one query, one key at a time.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        may_attend: of batch row, head, position of query and of key.
        bias: added to the scores, ``(B, H, L, S)``.
        is_causal, scale, softcap, window: as in ``attn``.
        sinks: one logit a head.
        offsets: position of the first query, one for each batch row.

    Returns:
        ``(B, H, L, Dv)`` and the log-sum-exp, ``(B, H, L)``, in float64.
    """
    (B, H, L, D), (_, Hkv, S, Dv) = query.shape, value.shape
    q, k, v = query.tolist(), key.tolist(), value.tolist()
    added = None if bias is None else bias.tolist()
    out = torch.zeros(B, H, L, Dv, dtype=torch.float64)
    lse = torch.full((B, H, L), -math.inf, dtype=torch.float64)
    left, right = window or (None, None)

    def allowed(b: int, h: int, here: int, j: int) -> bool:
        if is_causal and j > here:
            return False
        if left is not None and j < here - left:
            return False
        if right is not None and j > here + right:
            return False
        return may_attend is None or bool(may_attend(b, h, here, j))

    for b in range(B):
        for h in range(H):
            shared = h // (H // Hkv)
            for i in range(L):
                here = i + (offsets[b] if offsets else 0)
                scores = {}
                for j in range(S):
                    products = (
                        q[b][h][i][d] * k[b][shared][j][d] for d in range(D)
                    )
                    s = math.fsum(products)
                    s *= 1 / math.sqrt(D) if scale is None else scale
                    if softcap is not None:
                        s = softcap * math.tanh(s / softcap)
                    if added is not None:
                        s += added[b][h][i][j]
                    if allowed(b, h, here, j) and s > -math.inf:
                        scores[j] = s
                if not scores:
                    continue  # nothing to attend to: 0, and no lse
                top = max(scores.values())
                total = math.fsum(math.exp(s - top) for s in scores.values())
                lse[b, h, i] = top + math.log(total)
                if sinks is not None:
                    total += math.exp(sinks[h] - top)
                for d in range(Dv):
                    out[b, h, i, d] = math.fsum(
                        math.exp(s - top) / total * v[b][shared][j][d]
                        for j, s in scores.items()
                    )
    return out, lse
