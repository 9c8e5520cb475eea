"""Make text from outside harmless to every format, and cut it into parts."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields, is_dataclass, replace
from typing import Any

#: What no format may hold or no reader sees: control characters, marks that
#: reverse the direction of a line, halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)


def clean(value: Any) -> Any:
    """Return a result whose texts can be printed, in XML too.

    A hidden character becomes its escape, ``\\x1b``. Only a ``message`` has
    lines and tabs.
    """
    if isinstance(value, str):
        return re.sub(r"[\t\n]", _escape, visible(value))
    if isinstance(value, tuple):
        return tuple(map(clean, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    texts = {x.name: getattr(value, x.name) for x in fields(value)}
    return replace(
        value,
        **{
            name: visible(x) if name == "message" else clean(x)
            for name, x in texts.items()
        },
    )


def visible(text: str) -> str:
    """Return a text with hidden characters escaped; lines and tabs stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts ``student2`` before ``student10``."""
    parts = re.split(r"(\d+)", name.casefold())
    return *(int(x) if i % 2 else x for i, x in enumerate(parts)), name


def number(points: float) -> int | float:
    """Return points as they are read: 3, not 3.0; 0.3, not 0.1 + 0.2."""
    rounded = round(points, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def share(part: float, whole: float) -> float:
    """Return a share in percent; of nothing, 0."""
    return 100 * part / whole if whole else 0.0


def plural(n: int, word: str) -> str:
    """Return ``1 learner``, ``2 learners``."""
    return f"{n} {word}" + ("s" if n != 1 else "")


def parts(message: str) -> list[tuple[str, str]]:
    """Cut a diagnosis into ``("p", sentence)`` and ``("pre", block)``.

    In a diagnosis tensors, inputs and code are indented, sentences are not.
    """
    found: list[tuple[str, str]] = []
    for line in message.splitlines():
        kind = "pre" if line[:1].isspace() else "p"
        if kind == "pre" and found and found[-1][0] == "pre":
            found[-1] = ("pre", f"{found[-1][1]}\n{line}")
        elif line.strip():
            found.append((kind, line))
    return [(kind, textwrap.dedent(x).rstrip()) for kind, x in found]
