"""Find what is wrong with a kernel whose results are right.

The interpreter executes what cannot be compiled, multiplies in full precision
whatever the precision of ``tl.dot``, and loads a tile any number of times,
needed or not. Triton's compiler needs neither a GPU nor PyTorch: a new process
has loaded its front end, and read a kernel, in a third of a second. In this
one Triton interprets, and some refusals end the process.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from subprocess import TimeoutExpired
from types import ModuleType
from typing import Any, NamedTuple

from attn.exercises.case import Case
from attn.exercises.form import is_kernel
from attn.exercises.kernel import function_of
from attn.exercises.launches import Recorded
from attn.exercises.outcome import Outcome
from attn.grading.checks.clock import Clock
from attn.grading.checks.failures import checked
from attn.grading.checks.forbidden import names_read
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import error_text
from attn.kernels.report import read_by_compiler

LIMIT = 10.0  # seconds of the front end; on a quiet machine it takes 0.4
#: Tiles so small that each row of them has several hidden ones.
SMALL = {"block_l": 8, "block_s": 8}
#: With a causal mask, the share of all tiles that may be loaded. Of 4 by 4,
#: 10 are visible, and 13 where each range is one tile too long or too early.
SHARE = 0.85


class Flaw(NamedTuple):
    """Name what is wrong with a kernel.

    Args:
        kind: of mistake, a key of ``diagnosis/kinds.md``.
        words: that its text has places for.
    """

    kind: str
    words: dict[str, str] = {}


class _NoRecordError(Exception):
    """A kernel has failed in a launch like those that it has passed."""


def kernel_flaw(
    answer: Any, oracle: Oracle, runner: Callable[..., Outcome]
) -> Flaw | None:
    """Return what is wrong with a kernel that has passed its cases.

    Args:
        answer: a kernel, or what has one's ``text`` where the kernel is in
            the sandbox: the text is parsed, and nothing of it executed.
        oracle: gives the cases; the largest is run once more.
        runner: runs the answer on a case.
    """
    exercise = oracle.exercise
    if exercise.launch is None:
        return None
    recorded = Recorded(exercise.launch)

    def record(case: Case) -> dict[str, Any]:
        clock = Clock(limit=2 * oracle.time_limit(0))  # counting takes time
        with checked(exercise.id):
            found = runner(answer, case, launch=recorded, clock=clock)
        if found.error or not isinstance(found.output, dict):
            raise _NoRecordError(error_text(found) if found.error else "")
        return found.output

    try:
        return _flaw(answer, oracle, record)
    except _NoRecordError as error:
        return Flaw("fails_again", {"error": str(error)})


def _flaw(
    answer: Any, oracle: Oracle, record: Callable[[Case], dict[str, Any]]
) -> Flaw | None:
    exercise = oracle.exercise
    full = [x for x in oracle.cases if "float16" not in x.condition]
    counted = record(max(full, key=input_size))
    if is_kernel(answer):
        refused = refusal(function_of(answer), counted)
    else:
        refused = refused_syntax(answer.text, exercise.name)
    if refused:
        return refused
    for name in exercise.loads_once:
        # Lanes beyond the end may be loads of an element that exists.
        if (times := counted["times"].get(name, 0.0)) >= 2:
            words = {"tensor": name, "times": f"{times:.3g}"}
            return Flaw("loaded_again", words)
    if counted["tf32"] and exercise.ieee:
        return Flaw("tf32")
    if exercise.skips_hidden:
        causal = [x for x in full if "is_causal" in x.kwargs]
        # Of these, query i sees the keys up to i.
        square = [x for x in causal if not x.kwargs.get("q_offset")]
        case = max(square, key=input_size)
        every, seen = (
            record(replace(case, kwargs={**SMALL, "is_causal": x}))["bytes"]
            for x in (False, True)
        )
        for name in exercise.skips_hidden:
            share = seen.get(name, 0) / max(every.get(name, 0), 1)
            if share > SHARE:
                words = {"tensor": name, "share": f"{100 * share:.0f}"}
                return Flaw("hidden_read", words)
    return None


# --- what Triton's compiler refuses, and its interpreter executes ------------


def refusal(function: Any, record: dict[str, Any]) -> Flaw | None:
    """Return what Triton refuses of a kernel; None: it compiles.

    Args:
        function: of the kernel; what it calls is compiled with it.
        record: of its launch, made by ``launches.Recorded``.
    """
    parts = {"": _START}
    try:
        _add(function, parts)
    except (OSError, TypeError):  # there is no source
        return None
    text, name = "\n\n".join(parts.values()), function.__name__
    if inspect.signature(function).parameters.keys() - record["types"].keys():
        return refused_syntax(text, name)  # triton.heuristics gives the rest
    job = json.dumps([name, record["types"], record["constants"]])
    try:
        said = _said(text, job)
    except (OSError, RuntimeError, TimeoutExpired):
        return refused_syntax(text, name)
    if said:
        return Flaw("not_compiled", {"reason": said[0], "line": said[1]})
    return None


@lru_cache(maxsize=64)
def _said(text: str, job: str) -> list[str] | None:
    """Return what the front end says of a text, once for each."""
    name, types, constants = json.loads(job)
    return read_by_compiler(text, name, types, constants, LIMIT)


def refused_syntax(text: str, name: str) -> Flaw | None:
    """Return the first node that Triton's front end does not have.

    Nothing is executed. The front end itself looks up attributes and calls
    functions as it reads, so that it is no place for a stranger's text.

    Args:
        text: a cell, or a module, that defines the kernel; what it calls
            of the same text is read, too.
        name: of the kernel.
    """
    from triton.compiler.code_generator import CodeGenerator

    # Two kinds of expressions are read as parts of others.
    known = {*dir(CodeGenerator), "visit_Starred", "visit_FormattedValue"}
    for node in _compiled(ast.parse(text), name):
        kind = type(node).__name__
        if f"visit_{kind}" in known:
            continue
        if isinstance(node, ast.stmt | ast.expr):
            line = text.splitlines()[node.lineno - 1].strip()
            reason = f"unsupported AST node type: {kind}"
            return Flaw("not_compiled", {"reason": reason, "line": line})
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


def _add(function: Any, parts: dict[str, str]) -> None:
    """Add a function's source after that of the names that it uses."""
    parts[function.__name__] = ""  # it may call itself
    for name, value in names_read(function):
        if name not in parts:
            _define(name, value, parts)
    text = textwrap.dedent(inspect.getsource(function))
    parts[function.__name__] = parts.pop(function.__name__) or text


def _define(name: str, value: Any, parts: dict[str, str]) -> None:
    """Add what gives a name its value, where a text can."""
    inner = function_of(value)  # a kernel's module is the interpreter's
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
