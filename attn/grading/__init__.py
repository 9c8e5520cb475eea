"""Functions of the chapters: check, hint, solution, progress, reset, goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn.grading.open_tasks import goal
    from attn.grading.session import check, hint, progress, reset, solution

__all__ = ["check", "goal", "hint", "progress", "reset", "solution"]


def __getattr__(name: str) -> Any:
    if name == "goal":
        from attn.grading.open_tasks import goal

        return goal
    if name in __all__:
        from attn.grading import session

        return getattr(session, name)
    raise AttributeError(f"module 'attn.grading' has no attribute {name!r}")
