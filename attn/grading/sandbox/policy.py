"""Say which names an answer may use: rules that are read from its text.

An answer computes with torch. It has no business behind torch's public names,
in the interpreter's own attributes, or in modules that reach the machine. The
text is looked at before it runs, and the builtins that it gets hold to the
same rules, so that a name put together from pieces is refused as well.
"""

from __future__ import annotations

import ast
import sys

from attn.grading.checks.forbidden import Forbidden
from attn.grading.sandbox.rewriting import rewritten

#: Modules that an answer may import, with all below them but ``CLOSED``.
OPEN = frozenset(
    str.split(
        """
    __future__ abc bisect cmath collections contextlib copy dataclasses
    datetime decimal einops enum fractions functools heapq itertools json math
    numbers numpy operator random re statistics string textwrap time torch
    transformers triton typing warnings
        """
    )
)
#: Of these, what is there only where the chapter's own cells import it.
CHAPTERS_OWN = ("transformers",)
CLOSED = (
    "json.tool",
    "numpy.ctypeslib",
    "numpy.f2py",
    "torch.ao",
    "torch.distributed",
    "torch.distributions.constraint_registry",
    "torch.distributions.transforms",
    "torch.fx",
    "torch.hub",
    "torch.library",
    "torch.multiprocessing",
    "torch.nn.intrinsic",
    "torch.nn.qat",
    "torch.nn.quantizable",
    "torch.nn.quantized",
    "torch.onnx",
    "torch.overrides",
    "torch.package",
    "torch.serialization",
    "torch.testing",
    "torch.utils.benchmark",
    "torch.utils.cpp_extension",
)
#: Modules that others hold as an attribute: ``torch.os`` is one door.
_HELD = frozenset(
    str.split(
        """
    ao asyncio atexit benchmark bltns builtins code codecs concurrent copyreg
    constraint_registry cpp_extension ctypes ctypeslib dis distributed f2py
    faulthandler fx fx_pytree fx_traceback gc glob higher_order hub imp
    importlib inspect intrinsic io library linecache logging marshal mmap mp
    multiprocessing onnx os overrides package pathlib pdb pickle pkgutil
    platform psutil pty python_multiprocessing qat quantizable queue resource
    runpy serialization shutil signal site socket subprocess sys sysconfig
    tempfile testing threading traceback transforms types weakref
        """
    )
)
_SPECIAL = frozenset(
    str.split(
        """
    __abs__ __add__ __and__ __bool__ __call__ __class__ __constants__
    __contains__ __debug__ __delitem__ __doc__ __enter__ __eq__ __exit__
    __float__ __floordiv__ __future__ __ge__ __getattr__ __getitem__ __gt__
    __hash__ __iadd__ __imul__ __init__ __init_subclass__ __int__ __invert__
    __isub__ __iter__ __le__ __len__ __lt__ __matmul__ __missing__ __mod__
    __mul__ __name__ __ne__ __neg__ __new__ __next__ __or__ __post_init__
    __pow__ __qualname__ __radd__ __repr__ __rmatmul__ __rmul__ __rsub__
    __rtruediv__ __setattr__ __setitem__ __slots__ __str__ __sub__
    __truediv__ __version__ __xor__
        """
    )
)
#: Special names that belong after ``super()``: elsewhere they are getattr
#: and setattr under names that are not looked at, or leave what others enter.
_ON_SUPER = ("__getattr__", "__setattr__", "__enter__", "__exit__")
#: Special names that are data; any other is a method, set by a ``def`` alone.
_DATA = ("__doc__", "__name__", "__qualname__")
#: Public names that switch off, replace or get round what watches an answer.
_HIDDEN = frozenset(
    str.split(
        """
    DisableTorchFunction DisableTorchFunctionSubclass ForwardRef Formatter
    SoftmaxTransform TorchDispatchMode TorchFunctionMode ag_code ag_frame
    attrgetter biject_to cr_code cr_frame evaluate_forward_ref
    export_chrome_trace f_back f_builtins f_code f_globals f_locals from_file
    get_annotations get_type_hints gi_code gi_frame handle make_dataclass
    memmap methodcaller mro redirect_stderr redirect_stdout save script
    set_rng_state singledispatch singledispatchmethod tb_frame tb_next tofile
    transform_to update_wrapper wraps
        """
    )
)


class Reaches(Forbidden):
    """The answer reaches for what no answer needs."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "reaches_outside")


def look(source: str, name: str, *, tensors_only: bool = False) -> ast.Module:
    """Return the tree of a source that keeps to the rules.

    Where it reads a private name of its own, the tree has a call that looks
    whose name it is when it runs: ``self`` may be anything.

    Args:
        source: the text of a cell.
        name: of the file that it stands for.
        tensors_only: memory is measured, which sees tensors alone.

    Raises:
        Reaches: it does not; with the line.
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source, name)
    own = {x for x in _own_names(tree) if x.startswith("_")} - _of_torch()
    members = _members(tree) - {*dir(_module_class())}
    modules = _module_names(tree)
    for node in ast.walk(tree):
        names = own | members if _is_member(node) else own
        complaint = _complaint(node, names, modules)
        if not complaint and tensors_only:
            complaint = _beside_tensors(node)
        if complaint:
            raise Reaches(f"{complaint} (line {getattr(node, 'lineno', '?')})")
    return rewritten(tree, hidden)


def _complaint(node: ast.AST, own: set[str], modules: set[str]) -> str:
    for name in _defined(node):
        if _is_special(name):
            return f"it uses {name}, which no answer needs"
    if isinstance(node, ast.MatchClass):  # it reads attributes
        if node.patterns:
            return "it matches a class by position: write `case int() as x`"
        return next(filter(None, map(hidden, node.kwd_attrs)), "")
    if isinstance(node, ast.ImportFrom | ast.Import):
        for path in _imported(node):
            parts = path.removeprefix("__future__").split(".")
            if any(x.startswith("_") for x in parts):
                return f"it imports {path}, which is not public"
    if isinstance(node, ast.Attribute):
        if isinstance(node.ctx, ast.Store | ast.Del):
            root = _root(node)
            if root in modules or _is_method(node.attr):
                return f"it changes {ast.unparse(node)}"
        if node.attr in _ON_SUPER and not _is_super(node.value):
            return f"it uses {node.attr} without super()"
        return hidden(node.attr, own)
    return ""


def _defined(node: ast.AST) -> list[str]:
    """Return the plain names that a node uses or defines."""
    names = [getattr(node, x, None) for x in ("id", "arg")]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names.append(node.name)
    if isinstance(node, ast.MatchAs | ast.MatchStar):
        names.append(node.name)
    return [x for x in names if isinstance(x, str)]


def _is_super(node: ast.AST) -> bool:
    """Return whether an expression is ``super()``."""
    if not isinstance(node, ast.Call) or node.args:
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "super"


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


def _is_method(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return is_special and name not in _DATA


def _is_special(name: str) -> bool:
    return (
        name.startswith("__") and name.endswith("__") and name not in _SPECIAL
    )


def _of_torch() -> set[str]:
    import torch

    return {*dir(torch), *dir(torch.Tensor), *dir(_module_class())}


def _module_class() -> type:
    import torch

    return torch.nn.Module


def _is_member(node: ast.AST) -> bool:
    """Return whether a node is an attribute of ``self``, or ``cls``."""
    base = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(base, ast.Name) and base.id in ("self", "cls")


def _members(tree: ast.Module) -> set[str]:
    """Return the attributes and methods that the answer's classes define."""
    found = set()
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for part in owner.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(part.name)
            is_data = isinstance(part, ast.Assign | ast.AnnAssign)
            for x in ast.walk(part):
                if isinstance(x, ast.Name) and is_data:
                    found |= {x.id} if isinstance(x.ctx, ast.Store) else set()
                elif isinstance(x, ast.Attribute) and _is_member(x):
                    found |= (
                        {x.attr} if isinstance(x.ctx, ast.Store) else set()
                    )
    return {x for x in found if not _is_special(x)}


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


def is_open(name: str) -> bool:
    """Return whether a module may be imported, or a name from it."""
    root = name.partition(".")[0]
    if root not in OPEN or (root in CHAPTERS_OWN and root not in sys.modules):
        return False
    return not any(name == x or name.startswith(f"{x}.") for x in CLOSED)
