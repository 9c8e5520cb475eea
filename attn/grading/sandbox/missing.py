"""Stand for modules that are not in the sandbox.

To import one is no fault: notebooks begin with imports that no answer uses,
and with loggers and plots, which change no result.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from attn.grading.sandbox.policy import Reaches
from attn.grading.sandbox.silent import Silent

BOOK = ("attn",)
"""The package of the book: what a task gives is found under its name."""


class Absent:
    """Stand for a module that an answer may name, and not call.

    Args:
        name: of the module, or of what is in it.
        given: names that the task gives, to be found under any import.
    """

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.__dict__.update(_name=name, _given=given)

    def __getattr__(self, name: str) -> Any:
        whole = f"{self._name}.{name}"
        if make := _HARMLESS.get(whole):
            return make()
        found = self._given.get(name)
        if found is not None and not isinstance(found, types.ModuleType):
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(whole, self._given)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse("calls")

    def __mro_entries__(self, bases: Any) -> NoReturn:
        self._refuse("inherits from")

    def _refuse(self, does: str) -> NoReturn:
        raise Reaches(
            f"it {does} {self._name}, which is not there when an answer is "
            "graded"
        )

    def _used(self, *_args: Any) -> NoReturn:
        self._refuse("uses")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _used
    __truediv__ = __rtruediv__ = __neg__ = __pow__ = __matmul__ = _used
    __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __contains__ = _used
    __iter__ = __len__ = __enter__ = __exit__ = __float__ = __int__ = _used
    __index__ = _used

    def __bool__(self) -> bool:
        return True

    def __instancecheck__(self, _other: object) -> bool:
        return False


_ENVIRON: dict[str, str] = {}


def _getenv(name: str, default: Any = None) -> Any:
    return _ENVIRON.get(name, default)


#: What a closed module has that reaches nothing.
_HARMLESS: dict[str, Callable[[], Any]] = {
    "os.environ": lambda: _ENVIRON,
    "os.getenv": lambda: _getenv,
    "sys.float_info": lambda: sys.float_info,
    "sys.maxsize": lambda: sys.maxsize,
    "sys.modules": dict,
    "sys.platform": lambda: sys.platform,
    "sys.stderr": lambda: Silent("stderr"),
    "sys.stdout": lambda: Silent("stdout"),
    "sys.version_info": lambda: tuple(sys.version_info),
    "types.SimpleNamespace": lambda: types.SimpleNamespace,
}
