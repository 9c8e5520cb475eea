"""Triton on this machine: compiled with a GPU, interpreted without one.

What a chapter launches, that is: a check interprets everywhere.

A chapter imports ``triton`` and ``tl`` from here. Without a GPU the
interpreter is switched on, if nothing has imported Triton before. Where
Triton cannot be installed, kernels can still be defined, and launching one
raises an error of one line that says where it would run.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import torch

__all__ = ["NotAvailableHere", "tl", "triton", "unavailable_reason"]

if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

try:
    import triton
    import triton.language as tl
except ImportError:
    HAVE_TRITON = False
else:
    HAVE_TRITON = True


class NotAvailableHere(RuntimeError):
    """A kernel was launched on a machine that can run none."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]  # all that IPython shows


def unavailable_reason() -> str | None:
    """Return why no kernel can run here; None when one can."""
    if not HAVE_TRITON:
        return (
            "Triton is installed on Linux only; this chapter runs in "
            "https://colab.research.google.com"
        )
    if torch.cuda.is_available():
        return None
    if not triton.knobs.runtime.interpret:
        return (
            "there is no GPU, and Triton was imported without its "
            "interpreter: restart the kernel and run the first cell first"
        )
    return None


class _Absent:
    """A placeholder for a kernel, and for every attribute of ``tl``."""

    def __init__(self, fn: Any = None) -> None:
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotAvailableHere(unavailable_reason())

    def __getitem__(self, grid: Any) -> Any:
        return self


if not HAVE_TRITON:

    def _cdiv(a: int, b: int) -> int:
        return -(-a // b)

    def _next_power_of_2(n: int) -> int:
        return 1 << max(n - 1, 0).bit_length()

    triton = SimpleNamespace(
        jit=_Absent, cdiv=_cdiv, next_power_of_2=_next_power_of_2
    )
    tl = SimpleNamespace(constexpr=_Absent())
