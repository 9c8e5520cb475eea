"""Replace modules that are missing: where nothing needs them, nothing fails.

Notebooks begin with imports that no answer uses. A statement that was stopped
by a missing module runs again with a placeholder, unless it expects the error.
"""

from __future__ import annotations

import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from attn.exercises.outcome import Forbidden

#: What the book's package has, and what tasks give.
BOOK = vars(sys.modules["attn"])


class Missing(Loader, MetaPathFinder):
    """Find placeholders for modules that were missing, and for the book's.

    Attributes:
        is_judged: whether an answer is judged; a call of a placeholder is then
            an error, as in a notebook without the module.
    """

    def __init__(self) -> None:
        self.is_judged = False
        self._names = {"attn"}

    def add(self, name: str | None) -> bool:
        """Let a module be found from now on; tell whether it was not yet."""
        root = (name or "").partition(".")[0]
        is_new = bool(root) and root not in self._names
        self._names.add(root)
        return is_new

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return the spec of a placeholder, as ``sys.meta_path`` does."""
        is_known = name.partition(".")[0] in self._names
        return ModuleSpec(name, self, is_package=True) if is_known else None

    def create_module(self, spec: Any) -> Any:
        """Return a placeholder."""
        return MissingModule(spec.name, self)

    def exec_module(self, module: Any) -> None:
        """Leave it as it is."""


class MissingModule(types.ModuleType):
    """Replace a module, or what is in it: nothing that it does matters.

    A learner reads its class's name in errors of Python's.
    """

    def __init__(self, name: str, missing: Missing) -> None:
        super().__init__(name)
        root = name.partition(".")[0]
        self.__dict__.update(__path__=[], _missing=missing, _root=root)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._root == "attn" and name in BOOK:
            return BOOK[name]
        return MissingModule(f"{self.__name__}.{name}", self._missing)

    def __str__(self) -> str:
        return f"{self._root}, which is not handed in"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._missing.is_judged:
            self._refuse("calls")
        is_decorated = len(args) == 1 and not kwargs
        if is_decorated and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return MissingModule(self.__name__, self._missing)

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        if self._root == "attn":
            self._refuse("inherits from")
        return ()

    def __getitem__(self, _key: Any) -> Any:
        return self()

    def __iter__(self) -> Any:
        return iter(())

    def _refuse(self, does: str) -> None:
        if (root := self._root) != "attn":
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)
        raise Forbidden(
            f"it {does} {self.__name__}, which is not there when an "
            "answer is graded"
        )
