"""The builtins that an answer gets: they hold to the rules of ``policy.py``.

A name that is put together from pieces is refused when it is used.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from attn.grading.sandbox import missing
from attn.grading.sandbox.missing import Absent
from attn.grading.sandbox.policy import Reaches, hidden, is_open
from attn.grading.sandbox.rewriting import NEED, OWN
from attn.grading.sandbox.silent import SHOWING, Silent

_CLOSED_BUILTINS = str.split(
    "breakpoint compile eval exec globals help input locals open"
)
_mro = vars(type)["__mro__"].__get__  # whatever a class says of it
_KEPT = ("__build_class__", "__debug__")  # of those with special names


def guarded_builtins(given: Mapping[str, Any], home: str) -> dict[str, Any]:
    """Return builtins that hold to the rules.

    Args:
        given: names that the task gives, to be found under any import; the
            namespace of the answer.
        home: ``__name__`` of the answer's own module.
    """

    def refused(name: str) -> Callable[..., Any]:
        def call(*_args: Any, **_kwargs: Any) -> Any:
            raise Reaches(f"it calls {name}(), which no answer needs")

        return call

    def is_own(x: Any) -> bool:
        if isinstance(x, types.FunctionType):
            return x.__globals__ is given
        return (x if isinstance(x, type) else type(x)).__module__ == home

    def is_named(x: Any, name: Any) -> bool:
        """Return whether it is the answer's, and no base's, to have a name."""
        kinds = _mro(type(x))
        if issubclass(type(x), type):
            kinds = (*_mro(x), *kinds)
        first = next((y for y in kinds if name in vars(y)), None)
        return is_own(x) and (first is None or first.__module__ == home)

    def checked(x: Any, name: Any) -> None:
        own = {name} if is_named(x, name) else set()
        if isinstance(name, str) and (complaint := hidden(name, own)):
            raise Reaches(complaint)

    def get(x: Any, name: str, *default: Any) -> Any:
        checked(x, name)
        found = getattr(x, name, *default)
        if isinstance(found, types.ModuleType) and not is_open(found.__name__):
            raise Reaches(f"it reaches for the module {found.__name__}")
        return found

    def has(x: Any, name: str) -> bool:
        checked(x, name)
        return hasattr(x, name)

    def put(x: Any, name: str, value: Any) -> None:
        _changeable(x, name)
        setattr(x, name, value)

    def remove(x: Any, name: str) -> None:
        _changeable(x, name)
        delattr(x, name)

    def _changeable(x: Any, name: str) -> None:
        checked(x, name)
        is_foreign = isinstance(x, type | types.ModuleType) and not is_own(x)
        if is_foreign:
            raise Reaches(f"it changes {getattr(x, '__name__', x)}.{name}")

    class Own:
        """An object's private names, to be read and changed."""

        def __init__(self, x: Any) -> None:
            self._x = x

        def __getitem__(self, name: str) -> Any:
            return get(self._x, name)

        def __setitem__(self, name: str, value: Any) -> None:
            put(self._x, name, value)

        def __delitem__(self, name: str) -> None:
            remove(self._x, name)

    def names(*x: Any) -> Any:
        if x and (isinstance(x[0], types.ModuleType) or not is_own(x[0])):
            raise Reaches("it calls vars(), which no answer needs")
        return vars(*x) if x else refused("vars")()

    def load(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        root = name.partition(".")[0]
        if root in SHOWING:
            return Silent(name if fromlist else root)
        if level or not is_open(name):
            return Absent(name if fromlist else root, given)
        module = __import__(name, {}, {}, fromlist, 0)
        for part in fromlist or ():
            if not is_open(f"{name}.{part}") or hidden(part):
                raise Reaches(f"it imports {name}.{part}")
        return module

    def need(name: str) -> None:
        root = name.partition(".")[0]
        known = root in (*SHOWING, *missing.BOOK, *sys.stdlib_module_names)
        if not (known or is_open(name)):
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)

    own = {
        k: x for k, x in vars(builtins).items() if k in _KEPT or k[0] != "_"
    }
    own |= {name: refused(name) for name in _CLOSED_BUILTINS}
    own |= {"getattr": get, "hasattr": has, "setattr": put, "delattr": remove}
    own |= {"vars": names, "__import__": load, OWN: Own, NEED: need}
    return own | {"display": Silent("display")}
