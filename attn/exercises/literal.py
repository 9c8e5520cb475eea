"""Write values in words, where it is possible as Python that can be pasted.

Of a list that is too long the first entries and the last one are left, with a
``…`` between them. A tensor has its shape, and some elements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

KEPT = (None, 8, 5, 4, 3, 2)
"""How many entries of a list are left; None: all of them."""


def literal(x: Any, kept: int | None = None) -> str:
    """Return a value as Python; nothing, if it has a tensor or an object.

    Args:
        x: the value. A float of many digits is rounded to four.
        kept: the most entries of a list; the others are a ``…`` before the
            last one.
    """
    if isinstance(x, float):
        x = x or 0.0
        if not math.isfinite(x):
            return f"-math.{-x}" if x < 0 else f"math.{x}"
        return repr(x) if len(repr(x)) <= 8 else f"{x:.4g}"
    if isinstance(x, tuple | list):
        entries = [literal(y, kept) for y in x]
        if not all(entries):
            return ""
        inner = ", ".join(cut(entries, kept))
        comma = "," if len(x) == 1 else ""
        return f"({inner}{comma})" if isinstance(x, tuple) else f"[{inner}]"
    if isinstance(x, dict):
        if not all(literal(y) for y in x.values()):
            return ""
        pairs = [f"{k!r}: {literal(y, kept)}" for k, y in x.items()]
        return f"{{{', '.join(cut(pairs, kept))}}}"
    known = type(None) | bool | int | str | torch.dtype | range
    return repr(x) if isinstance(x, known) else ""


def cut(words: list[str], kept: int | None) -> list[str]:
    """Return the first words, a ``…`` and the last, if there are more."""
    if kept and len(words) > kept:
        return [*words[: kept - 1], "…", words[-1]]
    return words


def within(x: Any, width: int) -> str:
    """Return a value as Python in so many columns, if it can be cut down."""
    texts = (literal(x, kept) for kept in KEPT)
    return next((text for text in texts if len(text) <= width), "")


def brief(name: str, x: Any) -> str:
    """Name an input in a word or two: its shape, or its value."""
    if isinstance(x, torch.Generator):
        return ""
    if isinstance(x, Tensor):
        return f"{name} {_shape(x) if x.dim() != 1 else _row(x)}"
    if isinstance(x, tuple | list) and not literal(x):
        shapes = [_shape(y) if isinstance(y, Tensor) else "…" for y in x]
        return f"{name} [{', '.join(cut(shapes, 4))}]"
    if isinstance(x, Mapping):
        return f"{name} {within(x, 40) or f'(a dict of {len(x)})'}"
    text = x if isinstance(x, str) else within(x, 60) or repr(x)
    is_short = isinstance(x, str) or len(text) <= 60
    return f"{name} {text if is_short else f'a {type(x).__name__}'}"


def _row(x: Tensor) -> str:
    return literal(x.tolist()) if 0 < len(x) <= 4 else _shape(x)


def _shape(x: Tensor) -> str:
    if not x.dim():
        return literal(x.item())
    usual = x.dtype in (torch.float32, torch.int64, torch.bool)
    dtype = "" if usual else f" {dtype_name(x)}"
    return f"{tuple(x.shape)}{dtype}"


def describe(x: Any) -> str:
    """Describe a result in a few words: shape, dtype and some elements."""
    if isinstance(x, Tensor):
        if x.dim() == 0:
            return number(x.item())
        return f"{tuple(x.shape)} {dtype_name(x)} {_listed(x)}"
    if isinstance(x, float):
        return number(x)
    if short := within(x, 60):
        return short
    if isinstance(x, tuple | list):
        return f"{type(x).__name__} of " + "; ".join(map(describe, x[:4]))
    if isinstance(x, Mapping):
        return f"a dict of {len(x)}: {first_few([*x])}"
    if isinstance(x, torch.Generator):
        return "a torch.Generator"
    text = repr(x)
    return text if len(text) <= 60 else f"a {type(x).__name__}"


def _listed(x: Tensor) -> str:
    """Return the first six elements."""
    numbers = [number(n) for n in x.detach().flatten()[:7].tolist()]
    return f"[{', '.join(numbers[:6])}{', …' * (len(numbers) > 6)}]"


def dtype_name(x: Tensor) -> str:
    """Return a tensor's dtype as ``float32``."""
    return str(x.dtype).removeprefix("torch.")


def number(x: Any, digits: int = 4) -> str:
    """Return a number in a few digits, and zero without a sign."""
    x = 0.0 if isinstance(x, float) and x == 0 else x
    return f"{x:.{digits}g}" if isinstance(x, float) else str(x)


def first_few(names: Sequence[Any]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def and_list(words: Sequence[str]) -> str:
    """Join words with commas and a last ``and``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def assigned(name: str, x: Any) -> str:
    """Write a line that gives a name its value, rounded to four digits."""
    if isinstance(x, Tensor):
        if x.numel() > 1 and x.isnan().all():  # what is to be written
            return f"{name} = torch.full({tuple(x.shape)}, torch.nan)"
        text = re.sub(r"\b(inf|nan)\b", r"torch.\1", repr(x.detach()))
        start, margin = f"{name} = torch.", " " * len(f"{name} = torch.")
        return start + re.sub(r"\n(?! *\n)", f"\n{margin}", text)
    text = literal(x)
    return f"{name} = {text}" if text else f"# {brief(name, x)}"
