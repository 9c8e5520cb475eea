"""From logits to the distribution that the next token is drawn from."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing


def penalize_repetition(
    logits: Tensor,
    ids: Tensor,
    repetition_penalty: float,
    valid: Tensor | None = None,
) -> Tensor:
    """Make the tokens that a text already has less likely.

    Their logits are divided by the penalty if positive, and multiplied by it
    if negative.

    Args:
        logits: ``(B, V)``.
        ids: the text so far, ``(B, L)``.
        repetition_penalty: positive; above 1 avoids repetition, 1 changes
            nothing, below 1 invites it.
        valid: ``(B, L)``, False or 0 for padding, which is no repetition.

    Returns:
        ``(B, V)``.

    Raises:
        ValueError: the penalty is not positive and finite.

    Example:
        >>> logits = torch.tensor([[2.0, -1.0, 3.0]])
        >>> text = torch.tensor([[0, 1]])  # has the tokens 0 and 1
        >>> attn.nn.penalize_repetition(logits, text, repetition_penalty=2.0)
        tensor([[ 1., -2.,  3.]])

    Source: Keskar et al. 2019, "CTRL", section 4.1; for negative logits
    transformers' ``RepetitionPenaltyLogitsProcessor``.
    """
    arguments.positive("repetition_penalty", repetition_penalty)
    counted = torch.ones_like(ids) if valid is None else valid
    seen = torch.zeros_like(logits)
    seen.scatter_add_(1, ids.long(), counted.to(seen.dtype))
    lower = torch.where(
        logits < 0, logits * repetition_penalty, logits / repetition_penalty
    )
    return torch.where(seen > 0, lower, logits)


def filter_logits(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """Set the logits of tokens that must not be drawn to ``-inf``.

    The filters apply one after another, in the order of the arguments, which
    is that of transformers: each sees the tokens that the one before it kept.
    The most likely token is always kept.

    Args:
        logits: ``(..., V)``.
        temperature: divides the logits; above 1 flattens the distribution,
            below 1 sharpens it.
        top_k: keep this number of the most likely tokens, and any that are
            as likely as the last of them.
        top_p: keep the fewest tokens whose probabilities add up to it.
        min_p: keep tokens at least this fraction as likely as the most
            likely one.

    Returns:
        ``(..., V)``, with the largest logit 0; ``softmax`` makes them
        probabilities.

    Raises:
        ValueError: an argument is out of its range, or a row has no largest
            number: all of it is ``-inf``, or some of it NaN or ``inf``.

    Example:
        >>> probabilities = torch.tensor([0.5, 0.25, 0.125, 0.125])
        >>> logits = attn.nn.filter_logits(probabilities.log(), top_p=0.7)
        >>> attn.softmax(logits)
        tensor([0.6667, 0.3333, 0.0000, 0.0000])

    Source: Fan et al. 2018 (top-k); Holtzman et al. 2020 (top-p); Nguyen et
    al. 2024 (min-p).
    """
    check_filters(temperature, top_k, top_p, min_p)
    _check_rows(logits)
    # Shifted first: a small temperature makes -inf of the others, never NaN.
    logits = (logits - logits.amax(-1, keepdim=True)) / temperature
    if top_k is not None:
        k = min(top_k, logits.shape[-1])
        least = logits.topk(k).values[..., -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    if top_p is not None and top_p < 1:
        ascending, order = logits.sort(-1)
        up_to = ascending.softmax(-1).cumsum(-1)  # of it and all below it
        dropped = up_to <= 1 - top_p
        dropped[..., -1] = False
        dropped = dropped.scatter(-1, order, dropped)
        logits = logits.masked_fill(dropped, -math.inf)
    if min_p is not None:
        logits = logits.masked_fill(logits < math.log(min_p), -math.inf)
    return logits


def next_tokens(
    logits: Tensor,
    temperature: float,
    generator: torch.Generator | None = None,
    **filters: Any,
) -> Tensor:
    """Choose the next token of each row, ``(B,)``.

    Temperature 0 takes the most likely one; otherwise it is drawn after the
    filters of ``filter_logits``.
    """
    if temperature == 0:
        return logits.argmax(-1)
    logits = filter_logits(logits, temperature=temperature, **filters)
    return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


def check_sampling(temperature: float, **filters: Any) -> None:
    """Require arguments of ``next_tokens``: filters need a temperature."""
    arguments.number("temperature", temperature, 0)
    if temperature != 0:
        return check_filters(temperature, **filters)
    why = "with temperature 0, the most likely token: set a temperature"
    arguments.absent(why, **filters)


def check_filters(
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
) -> None:
    """Require arguments that ``filter_logits`` takes."""
    arguments.positive("temperature", temperature)
    if top_k is not None:
        arguments.count("top_k", top_k)
    for name, share in {"top_p": top_p, "min_p": min_p}.items():
        if share is None:
            continue
        arguments.number(name, share)
        if not 0 < share <= 1:
            raise ValueError(
                f"{name} must be above 0 and at most 1, or None for no "
                f"limit; got {share}"
            )


def _check_rows(logits: Tensor) -> None:
    """Require a largest number in each row, where values can be read."""
    if not tracing.has_values(logits):
        return
    largest = logits.amax(-1)  # NaN if one is
    wrong = (~largest.isfinite()).nonzero()
    if len(wrong):
        row = tuple(wrong[0].tolist())
        raise ValueError(
            "logits must be numbers, some of them above -inf, in each row; "
            f"got the largest {float(largest[row])} in row {row}"
        )
