"""State a goal of an open task, and print how far the answer has come."""

from __future__ import annotations

from torch import Tensor

from attn.grading.learner import cards


def goal(
    claim: str,
    reached: bool | float | Tensor,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Print one line: what is to be achieved, and what has been.

    An open task has goals in place of a model answer: whatever reaches them
    is right. There are no points, and nothing is raised.

    Args:
        claim: what a good answer achieves, in words.
        reached: whether it does, or the measured number, of any 0-dim type.
        at_least, at_most: the bounds of a number, one of them or both; NaN
            is within none.

    Raises:
        ValueError: a number without a bound, or a truth value with one.
    """
    value = reached.item() if isinstance(reached, Tensor) else reached
    bounds = {"at least": at_least, "at most": at_most}
    wanted = [f"{w} {b:.4g}" for w, b in bounds.items() if b is not None]
    if isinstance(value, bool) == bool(wanted):
        raise ValueError(
            "reached must be True or False, or a number with at_least or "
            f"at_most; got {value!r} and {' and '.join(wanted) or 'no bound'}"
        )
    if isinstance(value, bool):
        done, measured = value, ""
    else:
        done = (at_least is None or value >= at_least) and (
            at_most is None or value <= at_most
        )
        measured = f": {value:.4g}, {' and '.join(wanted)}"
    if done:
        kind, rest = cards.RIGHT._replace(word="reached"), ""
    else:
        kind, rest = cards.CALM._replace(word="not yet"), "  (not yet)"
    cards.show(
        f"{kind.sign} {claim}{measured}{rest}",
        lambda: cards.html("goal", claim + measured, kind),
    )
