"""Tell the form of an answer: a function, a class or a kernel."""

from __future__ import annotations

import inspect
from typing import Any


def is_kernel(answer: Any) -> bool:
    """Return whether an answer was made by ``triton.jit``."""
    return hasattr(answer, "fn") and hasattr(answer, "__getitem__")


def form_of(answer: Any) -> str:
    """Return what an answer is: a class, a kernel, a function, or none."""
    if inspect.isclass(answer):
        return "class"
    if is_kernel(answer):
        return "kernel"
    return "function" if callable(answer) else "another thing"


def misfit(name: str, form: str, answer: Any) -> str:
    """Return what an answer needs to be; nothing if it has that form."""
    hint = ": write @triton.jit above its def" if form == "kernel" else ""
    is_right = form_of(answer) == form
    return "" if is_right else f"{name} needs to be a {form}{hint}"
