"""Check, hint, solution, progress and reset, as the chapters use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn.grading.session import check, hint, progress, reset, solution

__all__ = ["check", "hint", "progress", "reset", "solution"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from attn.grading import session

        return getattr(session, name)
    raise AttributeError(f"module 'attn.grading' has no attribute {name!r}")
