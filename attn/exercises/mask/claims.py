"""Claims about a mask that explain a wrong one."""

from collections.abc import Callable

import torch

from attn.exercises.spec import Case, Property

Offset = Callable[[Case], int]

IS_BOOL = Property(
    "A mask is bool: True and False, no numbers.",
    lambda case, out: out.dtype == torch.bool,
)


def no_future(q_offset: Offset) -> Property:
    """Claim that no query may attend to a later key."""
    return Property(
        "A query sees the future: a key after its own position.",
        lambda case, out: not out.triu(q_offset(case) + 1).any(),
    )


def itself(q_offset: Offset) -> Property:
    """Claim that every token may attend to itself."""
    return Property(
        "A token must see itself, and here one does not.",
        lambda case, out: out.diagonal(q_offset(case), -2, -1).all(),
    )
