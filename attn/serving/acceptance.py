"""Accept or replace drafted tokens, so that the law of the text is exact.

Source: Leviathan et al. 2023, "Fast Inference from Transformers via
Speculative Decoding", algorithm 1 and appendix A.1; Chen et al. 2023,
"Accelerating Large Language Model Decoding with Speculative Sampling".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.serving.request import as_ids


def acceptance(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """Compute the probability of accepting each token: ``min(1, p / q)``.

    Args:
        target_probs: ``p``, of the model, ``(..., V)``.
        draft_probs: ``q``, which the draft was drawn from, ``(..., V)``.

    Returns:
        ``(..., V)``, and 1 where neither draws a token.

    Example:
        >>> p = torch.tensor([0.5, 0.5, 0.0])
        >>> q = torch.tensor([0.25, 0.5, 0.25])
        >>> attn.serving.acceptance(p, q)
        tensor([1., 1., 0.])

    Source: Leviathan et al. 2023, section 2.3.
    """
    _check_pair(target_probs, draft_probs)
    # Where p < q, q is not 0.
    safe = torch.where(target_probs < draft_probs, draft_probs, 1.0)
    ratio = target_probs / safe
    return torch.where(target_probs < draft_probs, ratio, 1.0)


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """Compute the law of the token that replaces a rejected one.

    It is ``max(0, p - q)``, normalised: what the accepted tokens lack.

    Args:
        target_probs, draft_probs: ``p`` and ``q``, ``(..., V)``.

    Returns:
        ``(..., V)``; ``p`` where both are equal, as nothing is rejected
        there.

    Example:
        >>> p = torch.tensor([0.5, 0.5, 0.0])
        >>> q = torch.tensor([0.25, 0.5, 0.25])
        >>> attn.serving.residual(p, q)
        tensor([1., 0., 0.])

    Source: Leviathan et al. 2023, section 2.3.
    """
    _check_pair(target_probs, draft_probs)
    lacking = (target_probs - draft_probs).clamp(min=0)
    total = lacking.sum(-1, keepdim=True)
    share = lacking / torch.where(total > 0, total, 1.0)
    return torch.where(total > 0, share, target_probs)


def rejection_sample(
    draft_tokens: Sequence[int] | Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    generator: torch.Generator | None = None,
    *,
    coins: Tensor | None = None,
) -> list[int]:
    """Turn drafted tokens into tokens of the model's own law.

    The tokens are accepted in order, each with probability ``min(1, p / q)``
    of its token. The first one rejected is replaced by a draw from the
    ``residual``, and the rest is dropped. When all are accepted, one more is
    drawn from the last row of ``target_probs``. Whatever the draft, the
    result has the law of sampling from the model token by token.

    Args:
        draft_tokens: ``(K,)``, each drawn from its row of ``draft_probs``.
        draft_probs: ``(K, V)``, after temperature and filters.
        target_probs: ``(K + 1, V)``, after the model's own.
        generator: of the random numbers; PyTorch's own when None.
        coins: ``(K + 1,)``, in [0, 1), instead of random numbers: one for
            each token, and the last for the draw. The result depends on
            nothing else.

    Returns:
        1 to ``K + 1`` tokens.

    Raises:
        ValueError, TypeError: shapes differ, a row is no distribution, or
            ``draft_probs`` cannot have drawn a token.

    Example:
        >>> p = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> q = torch.tensor([[0.25, 0.5, 0.25]])
        >>> coins = torch.tensor([0.5, 0.5])
        >>> attn.serving.rejection_sample([1], q, p, coins=coins)  # accepted
        [1, 2]
        >>> attn.serving.rejection_sample([2], q, p, coins=coins)  # p is 0
        [0]

    Source: Leviathan et al. 2023, algorithm 1.
    """
    tokens = as_ids("draft_tokens", draft_tokens)
    K = len(tokens)
    p, q = _distributions(K, draft_probs, target_probs)
    if coins is None:
        coins = torch.rand(K + 1, generator=generator, dtype=torch.float64)
    if coins.shape != (K + 1,) or not bool(((coins >= 0) & (coins < 1)).all()):
        raise ValueError(
            f"coins must have shape ({K + 1},) and values in [0, 1); got "
            f"{coins.tolist()}"
        )
    for i, token in enumerate(tokens):
        if not q[i, token] > 0:
            raise ValueError(
                "draft_probs must be those that the draft was drawn from, "
                f"after temperature and filters; got probability 0 for token "
                f"{token}"
            )
        if not coins[i] < acceptance(p[i], q[i])[token]:
            return [*tokens[:i], _draw(residual(p[i], q[i]), coins[-1])]
    return [*tokens, _draw(p[K], coins[-1])]


def _check_pair(target_probs: Tensor, draft_probs: Tensor) -> None:
    """Require two distributions, or two lists of them."""
    for name, x in (
        ("target_probs", target_probs),
        ("draft_probs", draft_probs),
    ):
        arguments.tensor(name, x, floating=True)
        arguments.same_device(name, x, "target_probs", target_probs)
        if x.shape != target_probs.shape:
            raise ValueError(
                f"{name} must have the shape of target_probs, "
                f"{tuple(target_probs.shape)}; got {tuple(x.shape)}"
            )


def _draw(probs: Tensor, coin: Tensor) -> int:
    """Return the token in whose share of [0, 1) the coin falls."""
    edges = probs.cumsum(0)
    at = int(torch.searchsorted(edges, coin.to(edges) * edges[-1], right=True))
    return min(at, int(probs.nonzero()[-1]))  # the last edge may round down


def _distributions(
    count: int, draft_probs: Tensor, target_probs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ``p`` and ``q`` in float64, checked."""
    arguments.tensor("target_probs", target_probs)
    V = target_probs.shape[-1] if target_probs.dim() else 0
    found = []
    for name, x, rows in (
        ("target_probs", target_probs, count + 1),
        ("draft_probs", draft_probs, count),
    ):
        arguments.tensor(name, x, floating=True)
        if x.shape != (rows, V):
            raise ValueError(
                f"{name} must have shape ({rows}, V) for {count} drafted "
                f"tokens, with one V; got {tuple(x.shape)}"
            )
        # Each of V elements was rounded.
        slack = max(1e-12, V * torch.finfo(x.dtype).eps)
        x = x.double()
        tracing.require_values("which decide on the tokens", **{name: x})
        sums = x.sum(-1)
        if not bool(((x >= 0).all(-1) & ((sums - 1).abs() <= slack)).all()):
            raise ValueError(
                f"{name} must be probabilities, each row with sum 1; got "
                f"sums {sums.tolist()}: pass softmax(logits)"
            )
        found.append(x.cpu())
    return found[0], found[1]
