"""Register functions under PyTorch's names, and take note of their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from .dtypes import PYTHON
from .errors import not_here, said

Function = Callable[..., Any]

FUNCTIONS: dict[str, Function] = {}
METHODS: dict[str, Function] = {}
FUNCTIONAL: dict[str, Function] = {}
LINALG: dict[str, Function] = {}
"""The public names: of ``torch``, ``Tensor``, ``F`` and ``torch.linalg``."""


class _Called(set[str]):
    """The public names that were called since it was cleared."""

    def __call__(self) -> set[str]:
        return set(self)


called = _Called()

_OTHER_WORDS = {"axis": "dim", "keepdims": "keepdim"}
_WITHOUT_EFFECT = {
    **{"device": ("cpu", "cpu:0"), "requires_grad": (False,)},
    **{"pin_memory": (False,), "non_blocking": (False, True)},
    **dict.fromkeys(("generator", "out", "layout", "memory_format"), ()),
}
"""Arguments of PyTorch's, and the values, with None, that change nothing."""


def function(f: Function, name: str = "") -> Function:
    """Register a function of ``torch``, by its own name or another."""
    f.__name__ = name or f.__name__
    FUNCTIONS[f.__name__.rstrip("_")] = f
    return f


def method(f: Function, name: str = "") -> Function:
    """Register a method of ``Tensor``; the tensor is its first argument."""
    f.__name__ = name or f.__name__
    METHODS[f.__name__] = f
    return f


def both(f: Function, *others: str, name: str = "") -> Function:
    """Register a function of ``torch`` that is also a method."""
    f.__name__ = name or f.__name__
    for name in (f.__name__.rstrip("_"), *others):
        FUNCTIONS[name] = METHODS[name] = f
    return f


def also(*others: str) -> Callable[[Function], Function]:
    """Register a function of ``torch`` and method by other names, too."""
    return lambda f: both(f, *others)


def functional(f: Function) -> Function:
    """Register a function of ``torch.nn.functional``."""
    FUNCTIONAL[f.__name__] = f
    return f


def linalg(f: Function) -> Function:
    """Register a function of ``torch.linalg``."""
    LINALG[f.__name__.removeprefix("linalg_")] = f
    return f


def short(
    functions: Mapping[str, Function], *registers: dict[str, Function]
) -> None:
    """Register functions of one line by their names."""
    for name, f in functions.items():
        f.__name__ = name
        for register in registers:
            register[name] = f


def public(name: str, f: Function, owner: str, Tensor: type) -> Function:
    """Return the function as an answer calls it.

    Args:
        name: that it is called by.
        f: what computes, and is not seen when the stand-in calls it.
        owner: of the name: ``torch``, ``Tensor``, ``F`` or ``torch.linalg``.
        Tensor: what an argument ``input`` must be.
    """
    code = f.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    accepted = frozenset(code.co_varnames[:count])
    needs_tensor = code.co_varnames[:1] == ("input",)
    needed = code.co_varnames[: code.co_argcount - len(f.__defaults__ or ())]
    seen = f.__name__ if owner == "torch.linalg" else name
    f.__qualname__ = name

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        called.add(seen)
        if isinstance(kwargs.get("dtype"), type):
            kwargs["dtype"] = PYTHON.get(kwargs["dtype"])
        if kwargs and not accepted.issuperset(kwargs):
            kwargs = _without_others(kwargs, accepted, f"{owner}.{name}")
        if needs_tensor and args and not isinstance(args[0], Tensor):
            raise said("argument", name, "input", 1, type(args[0]).__name__)
        if len(args) + len(kwargs) < len(needed):
            missing = [x for x in needed[len(args) :] if x not in kwargs]
            names = ", ".join(f'"{x}"' for x in missing)
            raise said("arguments", name, len(missing), names)
        return f(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _without_others(
    kwargs: dict[str, Any], accepted: frozenset[str], where: str
) -> dict[str, Any]:
    """Return arguments by their usual names, less what changes nothing."""
    kept = {}
    for key, x in kwargs.items():
        word = _OTHER_WORDS.get(key, key)
        if word in accepted or key not in _WITHOUT_EFFECT:
            kept[word] = x
        elif x is not None and str(x) not in map(str, _WITHOUT_EFFECT[key]):
            shown = repr(x) if isinstance(x, str) else "…"
            raise not_here(f"{where}({key}={shown})")
    return kept
