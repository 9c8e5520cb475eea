"""Find what Triton's compiler refuses and its interpreter executes.

The compiler's front end needs neither a GPU nor PyTorch: a new process has
loaded it, and read a kernel, in a third of a second. In this one Triton
interprets, and some refusals end the process.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

LIMIT = 10.0  # seconds; on a quiet machine it takes 0.4
#: Expressions that the front end reads as parts of others.
_PARTS = (ast.Starred, ast.FormattedValue)


class Refusal(NamedTuple):
    """A kernel that Triton does not compile.

    Args:
        reason: Triton's sentence.
        line: the learner's.
    """

    reason: str
    line: str


def refusal(function: Any, record: dict[str, Any]) -> Refusal | None:
    """Return what Triton refuses of a kernel; None: it compiles.

    Args:
        function: of the kernel; what it calls is compiled with it.
        record: of its launch, made by ``launches.Recorded``.
    """
    try:
        text = _module(function)
    except (OSError, TypeError):  # there is no source
        return None
    name = function.__name__
    if inspect.signature(function).parameters.keys() - record["types"].keys():
        return refused_syntax(text, name)  # triton.heuristics gives the rest
    job = json.dumps([name, record["types"], record["constants"]])
    try:
        found = _said(text, job)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return refused_syntax(text, name)
    return Refusal(*found) if found else None


@lru_cache(maxsize=64)
def _said(text: str, job: str) -> list[str] | None:
    """Return what the front end says of a text, once for each."""
    env = {k: x for k, x in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TRITON_DEFAULT_FP_FUSION"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.py"
        path.write_text(text, "utf-8")
        done = subprocess.run(
            # By its path: no import of torch; -P hides the files beside.
            [sys.executable, "-P", __file__, str(path)],
            input=job,
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    found: list[str] | None = json.loads(done.stdout.splitlines()[-1])
    return found


def refused_syntax(text: str, name: str) -> Refusal | None:
    """Return the first node that Triton's front end does not have.

    Nothing is executed. The front end itself looks up attributes and calls
    functions as it reads, so that it is no place for a stranger's text.

    Args:
        text: a cell, or a module, that defines the kernel; what it calls
            of the same text is read, too.
        name: of the kernel.
    """
    from triton.compiler.code_generator import CodeGenerator

    for node in _compiled(ast.parse(text), name):
        kind = type(node).__name__
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        is_part = isinstance(node, _PARTS)
        if not is_part and not hasattr(CodeGenerator, f"visit_{kind}"):
            line = text.splitlines()[node.lineno - 1].strip()
            return Refusal(f"unsupported AST node type: {kind}", line)
    return None


def _compiled(tree: ast.Module, name: str) -> Iterator[ast.AST]:
    """Yield the nodes of a kernel's body, and of the kernels that it calls."""
    functions = {
        x.name: x
        for x in ast.walk(tree)
        if isinstance(x, ast.FunctionDef)
        and any("jit" in ast.unparse(y) for y in x.decorator_list)
    }
    names = [name]
    for name in names:
        body = functions[name].body if name in functions else []
        for node in (x for part in body for x in ast.walk(part)):
            yield node
            called = getattr(node, "id", None)
            if called in functions and called not in names:
                names.append(called)


# --- the source of a kernel, and of what it uses -----------------------------


#: The interpreter prints a block, and the compiler needs a text before it.
_START = """import triton

@triton.language.core.builtin
def print(*args, _semantic=None, **options):
    pass
"""


def _module(function: Any) -> str:
    """Return a module that defines a kernel, from its source."""
    parts: dict[str, str] = {}
    _add(function, parts)
    return "\n\n".join([_START, *parts.values()])


def _add(function: Any, parts: dict[str, str]) -> None:
    """Add a function's source after that of the names that it uses."""
    parts[function.__name__] = ""  # it may call itself
    cells = inspect.getclosurevars(function).nonlocals
    for name in _names(function.__code__):
        values = cells if name in cells else function.__globals__
        if name in values and name not in parts:
            _define(name, values[name], parts)
    text = textwrap.dedent(inspect.getsource(function))
    parts[function.__name__] = parts.pop(function.__name__) or text


def _define(name: str, value: Any, parts: dict[str, str]) -> None:
    """Add what gives a name its value, where a text can."""
    inner = value
    while hasattr(inner, "fn"):  # a kernel's module is the interpreter's
        inner = inner.fn
    module = getattr(inner, "__module__", None) or ""
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif module.startswith("triton.") and hasattr(inner, "__name__"):
        parts[name] = f"from {module} import {inner.__name__} as {name}"
    elif inspect.isfunction(inner):
        _add(inner, parts)
        if name != inner.__name__:
            parts[name] = f"{name} = {inner.__name__}"
    elif type(value).__name__ == "constexpr":
        number = repr(getattr(value, "value", None))
        parts[name] = f"{name} = triton.language.constexpr({number})"
    elif value is None or isinstance(value, bool | int | float | str | tuple):
        parts[name] = f"{name} = {value!r}"


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


# --- in the other process ----------------------------------------------------


def _read(
    file: str, name: str, types: dict[str, str], constants: dict[str, Any]
) -> tuple[str, str] | None:
    """Let the front end read a kernel; return the reason and the line."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError
    from triton.compiler.compiler import make_backend

    spec = importlib.util.spec_from_file_location("answer", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    functions = backend.get_codegen_implementation(options)
    modules = backend.get_module_map()
    kernel = getattr(module, name)
    while hasattr(kernel.fn, "fn"):  # triton.heuristics
        kernel = kernel.fn
    # A branch that a constant closes is not read: both values of a switch.
    switches = [x for x in constants if isinstance(constants[x], bool)]
    for values in product((False, True), repeat=len(switches)):
        flags = dict(zip(switches, values, strict=True))
        source = ASTSource(kernel, types, constants | flags)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        try:
            source.make_ir(target, options, functions, modules, context)
        except CompilationError as error:
            while isinstance(error.__cause__, CompilationError):
                error = error.__cause__  # of a function that it calls
            number = getattr(error.node, "lineno", 0)
            lines = (error.src or "").splitlines()
            line = lines[number - 1].strip() if number else ""
            said = error.error_message or repr(error.__cause__)
            return " ".join(said.split()), line
    return None


if __name__ == "__main__":
    print("\n" + json.dumps(_read(sys.argv[1], *json.load(sys.stdin))))
