"""Say which names an answer may use: rules that are read from its text.

An answer computes with torch. It has no business behind torch's public names,
in the interpreter's own attributes, or in modules that reach the machine. The
text is looked at before it runs, and the builtins that it gets hold to the
same rules, so that a name put together from pieces is refused as well.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Mapping
from typing import Any

from attn.grading.forbidden import Forbidden

#: Modules that an answer may import, with all below them but ``CLOSED``.
OPEN = frozenset(
    str.split(
        """
    __future__ abc collections contextlib copy dataclasses decimal einops enum
    fractions functools itertools math numbers numpy operator random
    statistics string textwrap time torch transformers triton typing
    typing_extensions warnings
        """
    )
)
CLOSED = (
    "numpy.ctypeslib",
    "torch.distributed",
    "torch.fx",
    "torch.hub",
    "torch.library",
    "torch.multiprocessing",
    "torch.onnx",
    "torch.overrides",
    "torch.package",
    "torch.serialization",
    "torch.testing",
    "torch.utils.cpp_extension",
)
#: Modules that others hold as an attribute: ``torch.os`` is one door.
_HELD = frozenset(
    str.split(
        """
    atexit builtins code codecs cpp_extension ctypes ctypeslib distributed
    faulthandler fx gc hub imp importlib inspect io library linecache marshal
    mmap multiprocessing onnx os overrides package pathlib pdb pickle platform
    pty resource runpy serialization shutil site socket subprocess sys
    sysconfig tempfile testing threading traceback weakref
        """
    )
)
_SPECIAL = frozenset(
    str.split(
        """
    __abs__ __add__ __and__ __annotations__ __bool__ __call__ __class__
    __contains__ __debug__ __delitem__ __doc__ __enter__ __eq__ __exit__
    __float__ __floordiv__ __future__ __ge__ __getattr__ __getitem__ __gt__
    __hash__ __iadd__ __imul__ __init__ __init_subclass__ __int__ __invert__
    __isub__ __iter__ __le__ __len__ __lt__ __matmul__ __missing__ __mod__
    __mul__ __name__ __ne__ __neg__ __new__ __next__ __or__ __post_init__
    __pow__ __qualname__ __radd__ __repr__ __rmatmul__ __rmul__ __rsub__
    __rtruediv__ __setattr__ __setitem__ __slots__ __str__ __sub__
    __truediv__ __xor__
        """
    )
)
#: Public names that switch off, or replace, what watches an answer.
_HIDDEN = frozenset(
    str.split(
        """
    DisableTorchFunction DisableTorchFunctionSubclass ForwardRef
    TorchDispatchMode TorchFunctionMode attrgetter from_file get_type_hints
    make_dataclass methodcaller set_rng_state
        """
    )
)


_CLOSED_BUILTINS = (
    *("breakpoint", "compile", "eval", "exec", "help", "input", "open"),
)


class Reaches(Forbidden):
    """The answer reaches for what no answer needs."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "reaches_outside")


def look(source: str, name: str, *, tensors_only: bool = False) -> ast.Module:
    """Return the tree of a source that keeps to the rules.

    Args:
        source: the text of a cell.
        name: of the file that it stands for.
        tensors_only: memory is measured, which sees tensors alone.

    Raises:
        Reaches: it does not; with the line.
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source, name)
    own = _own_names(tree)
    modules = _module_names(tree)
    for node in ast.walk(tree):
        complaint = _complaint(node, own, modules)
        if not complaint and tensors_only:
            complaint = _beside_tensors(node)
        if complaint:
            raise Reaches(f"{complaint} (line {getattr(node, 'lineno', '?')})")
    return tree


def _complaint(node: ast.AST, own: set[str], modules: set[str]) -> str:
    if isinstance(node, ast.Name) and _is_special(node.id):
        return f"it uses {node.id}, which no answer needs"
    if isinstance(node, ast.ImportFrom | ast.Import):
        for path in _imported(node):
            parts = path.removeprefix("__future__").split(".")
            if any(x.startswith("_") for x in parts):
                return f"it imports {path}, which is not public"
    if isinstance(node, ast.Attribute):
        base = node.value
        mine = isinstance(base, ast.Name) and base.id in ("self", "cls")
        if isinstance(node.ctx, ast.Store | ast.Del):
            root = _root(node)
            if root in modules:
                return f"it changes {ast.unparse(node)}"
        private = {x for x in own if x.startswith("_")} - _of_torch()
        return hidden(node.attr, own if mine else private)
    return ""


def _beside_tensors(node: ast.AST) -> str:
    """Return a complaint about numbers that are held in no tensor."""
    names = [getattr(node, "attr", "")]
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [x.partition(".")[0] for x in _imported(node)]
    if "numpy" not in names:
        return ""
    return "it uses numpy: memory is measured here, that of tensors"


def hidden(name: str, own: set[str] | frozenset[str] = frozenset()) -> str:
    """Return a complaint about an attribute's name, or nothing.

    Args:
        name: of the attribute.
        own: names that the answer defines itself.
    """
    if _is_special(name):
        return f"it uses {name}, which no answer needs"
    if name in own or name in _SPECIAL:
        return ""
    if name.startswith("_"):
        return f"it uses {name}, which is not public"
    if name in _HELD:
        return f"it reaches for the module {name}"
    if name in _HIDDEN:
        return f"it uses {name}, which no answer needs"
    return ""


def _is_special(name: str) -> bool:
    return (
        name.startswith("__") and name.endswith("__") and name not in _SPECIAL
    )


def _of_torch() -> set[str]:
    import torch

    return {*dir(torch), *dir(torch.Tensor), *dir(torch.nn.Module)}


def _own_names(tree: ast.Module) -> set[str]:
    """Return the names that an answer defines, attributes of self too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute):
            base = node.value
            is_self = isinstance(base, ast.Name) and base.id in ("self", "cls")
            if is_self and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Call):
            found |= {
                x.value
                for x in node.args
                if isinstance(x, ast.Constant) and isinstance(x.value, str)
                if isinstance(node.func, ast.Attribute)
                and node.func.attr in ("register_buffer", "register_parameter")
            }
    return found


def _module_names(tree: ast.Module) -> set[str]:
    """Return the names that stand for modules and for torch's classes."""
    found = {"torch", "nn", "F", "math", "tl", "triton", "Tensor", "np"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {x.asname or x.name.partition(".")[0] for x in node.names}
    return found


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{x.name}".strip(".") for x in node.names]
    return [x.name for x in node.names]


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Absent:
    """Stand for a module that is not in the room.

    To import it is no fault: notebooks begin with imports that no answer
    uses.
    """

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.__dict__.update(_name=name, _given=given)

    def __getattr__(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}", self._given)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise Reaches(
            f"it calls {self._name}, which is not there when an answer is "
            "graded"
        )


def guarded_builtins(given: Mapping[str, Any], home: str) -> dict[str, Any]:
    """Return builtins that hold to the rules.

    Args:
        given: names that the task gives, to be found under any import.
        home: ``__name__`` of the answer's own module.
    """

    def refused(name: str) -> Callable[..., Any]:
        def call(*_args: Any, **_kwargs: Any) -> Any:
            raise Reaches(f"it calls {name}(), which no answer needs")

        return call

    def is_own(x: Any) -> bool:
        cls = x if isinstance(x, type) else type(x)
        return cls.__module__ == home

    def checked(x: Any, name: Any) -> None:
        own = {name} if is_own(x) else set()
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
        if level or not is_open(name):
            return Absent(name if fromlist else name.partition(".")[0], given)
        module = __import__(name, {}, {}, fromlist, 0)
        for part in fromlist or ():
            if not is_open(f"{name}.{part}") or hidden(part):
                raise Reaches(f"it imports {name}.{part}")
        return module

    own = vars(builtins) | {name: refused(name) for name in _CLOSED_BUILTINS}
    own |= {"getattr": get, "hasattr": has, "setattr": put, "delattr": remove}
    return own | {"vars": names, "__import__": load}


def is_open(name: str) -> bool:
    """Return whether a module may be imported, or a name from it."""
    if name.partition(".")[0] not in OPEN:
        return False
    return not any(name == x or name.startswith(f"{x}.") for x in CLOSED)
