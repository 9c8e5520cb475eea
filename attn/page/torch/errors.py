"""Say by its full name what the stand-in lacks."""

from __future__ import annotations

import builtins
import pkgutil
from collections.abc import Callable
from functools import lru_cache


class NotOnThisPage(BaseException):
    """An answer uses what the real PyTorch has and the stand-in has not.

    It is no ``Exception``: an answer's ``except Exception`` does not hide it,
    nor is it what an empty stub raises.
    """


def not_here(name: str) -> NotOnThisPage:
    """Return the error that names what is missing."""
    return NotOnThisPage(f"{name} is not on this page; in Jupyter it is")


def _table(file: str) -> dict[str, str]:
    """Read a file of lines ``key: text``, wherever the package is."""
    data = pkgutil.get_data(__package__ or "torch", file) or b""
    lines = data.decode().splitlines()
    return dict(line.split(": ", 1) for line in lines)


@lru_cache
def _words() -> dict[str, str]:
    return _table("words.txt")


def said(key: str, *values: object) -> Exception:
    """Return an error in PyTorch's words, which are in ``words.txt``."""
    kind, text = _words()[key].split(": ", 1)
    error: Exception = getattr(builtins, kind)(text.format(*values))
    return error


@lru_cache
def real_names() -> dict[str, frozenset[str]]:
    """Return the names that PyTorch has and the stand-in lacks.

    The keys are the module, or the class, as a reader writes it.
    """
    names = _table("names.txt").items()
    return {owner: frozenset(text.split()) for owner, text in names}


def lookup_error(owner: str, name: str, text: str) -> BaseException:
    """Return the error of a name that was looked up and not found.

    Args:
        owner: ``torch``, ``Tensor``, ``F``: a key of ``real_names``.
        name: what was looked up.
        text: what PyTorch says if it has no such name.
    """
    if name in real_names().get(owner, ()):
        return not_here(f"{owner}.{name}")
    return AttributeError(text)


def looking(owner: str, module: str) -> Callable[[str], None]:
    """Return the ``__getattr__`` of a module: what it says of other names."""

    def look(name: str) -> None:
        text = f"module '{module}' has no attribute '{name}'"
        raise lookup_error(owner, name, text)

    return look
