"""Functions of the chapters, from check and why to progress and goal."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn.grading.learner.cards import goal
    from attn.grading.learner.case import case
    from attn.grading.learner.progress import progress
    from attn.grading.learner.reset import reset
    from attn.grading.learner.session import check, hint, solution, why
    from attn.grading.learner.start_page import start

__all__ = [
    "case",
    "check",
    "goal",
    "hint",
    "progress",
    "reset",
    "solution",
    "start",
    "why",
]

_HOMES = {
    "case": "case",
    "goal": "cards",
    "progress": "progress",
    "reset": "reset",
    "start": "start_page",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = f"attn.grading.learner.{_HOMES.get(name, 'session')}"
        try:
            import_module("attn.exercises.ran").watch()
            return getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if (error.name or "attn").partition(".")[0] == "attn":
                raise
            from attn.data.book import install  # not there in a sandbox

            said = f"{name} needs {error.name}: {install('learn')}"
            raise ModuleNotFoundError(said, name=error.name) from None
    raise AttributeError(f"module 'attn.grading' has no attribute {name!r}")
