"""Run one answer in its process: define it, then call it on case after case.

It is started by the server's fork, and holds no right answer. Requests come
as pickles from the judge; what goes back is ``wire.encode``'s.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import copyreg
import dataclasses
import inspect
import linecache
import os
import pickle
import random
import socket
import struct
import sys
import types
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import torch

from attn.grading.checks.clock import Clock
from attn.grading.checks.run import Outcome, fail, run
from attn.grading.sandbox import guarded, policy, rewriting
from attn.grading.sandbox.wire import encode
from attn.profiling import compat

HOME = "answer"
"""``__name__`` in the answer's module."""
_ANNOTATIONS = annotations.compiler_flag
SIZE = struct.Struct(">Q")


@dataclass(frozen=True)
class Task:
    """Name what is to be defined, before any case.

    Args:
        name: of the function, class or kernel.
        form: ``function``, ``class`` or ``kernel``.
        given: names that the task gives, and their values.
        before: (title, text, is_answer) of what the chapter has defined:
            earlier answers and, where one is wrong, the book's.
        text: of the answer.
        tensors_only: whether memory is measured, which sees tensors alone.
        watched: whether the rules inside Python hold, too. They do for every
            answer; not for a probe of what the system alone keeps from one.
    """

    name: str
    form: str
    given: dict[str, Any]
    before: list[tuple[str, str, bool]]
    text: str
    tensors_only: bool = False
    watched: bool = True


@dataclass(frozen=True)
class Use:
    """One case, and how it is run; the names are those of ``run.run``."""

    case: Any
    forbids: tuple[str, ...] = ()
    limit: float = 5.0
    launch: Any = None
    names: list[str] = field(default_factory=list)
    fill_empty: bool = False


def serve(channel: socket.socket, watch: Any) -> None:
    """Answer requests until the other side closes the channel."""
    channel.settimeout(None)
    task: Task = _request(channel)
    if not task.watched:
        watch = types.SimpleNamespace(found=None, verify=lambda: None)
    answer, outcome = _defined(task, watch)
    channel.sendall(encode(outcome))
    clock = Clock()
    with compat.language_kept_patched():
        while outcome.error is None:
            use: Use = _request(channel)
            clock.limit = use.limit
            found = _use(answer, use, clock, watch)
            watch.armed = True  # to read a number calls its own methods
            data = encode(found)
            watch.armed = False
            channel.sendall(data)


def _use(answer: Any, use: Use, clock: Clock, watch: Any) -> Outcome:
    watch.armed = True
    try:
        outcome = run(
            answer,
            use.case,
            forbids=use.forbids,
            clock=clock,
            launch=use.launch,
            names=use.names,
            fill_empty=use.fill_empty,
        )
    finally:
        watch.armed = False
    _verified(watch)  # after a backward of the answer's own, too
    if watch.found is not None:
        outcome.error = watch.found
    return outcome


def _defined(task: Task, watch: Any) -> tuple[Any, Outcome]:
    """Run the cells; return what the answer's defines, or why not."""
    space = _namespace(task)
    for title, text, is_answer in task.before:
        _run_cell(title, text, space, watch, is_answer, strict=False)
    space.pop(task.name, None)
    error = _run_cell(
        task.name,
        task.text,
        space,
        watch,
        True,
        strict=True,
        tensors_only=task.tensors_only,
    )
    answer = space.get(task.name)
    if error is None and answer is None:
        error = NameError(f"the cell defines no {task.name}")
    if error is None and (odd := _odd_form(task, answer)):
        error = TypeError(odd)
    if error is not None:
        return None, fail(Outcome(), error)
    if task.form == "kernel":
        answer = _kernel(answer)
    return answer, Outcome()


def _namespace(task: Task) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": HOME, **task.given}
    space["__builtins__"] = guarded.guarded_builtins(space, HOME)
    return space


def _run_cell(
    title: str,
    text: str,
    space: dict[str, Any],
    watch: Any,
    is_answer: bool,
    *,
    strict: bool,
    tensors_only: bool = False,
) -> BaseException | None:
    """Run a cell, a statement at a time, as far as it goes.

    Lines that only show something may need what a demonstration defines: an
    error of theirs leaves the definitions as they are. Return the error that
    explains why the cell's name is not there, or that breaks a rule.
    """
    name = f"<answer {title}>" if is_answer else f"<book {title}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[name] = (len(text), None, lines, name)
    first: BaseException | None = None
    try:
        if is_answer:
            tree = policy.look(text, name, tensors_only=tensors_only)
        else:
            tree = ast.parse(text)
    except (policy.Reaches, SyntaxError, ValueError, RecursionError) as error:
        return error
    clock = Clock()
    for node in tree.body:
        code = ast.Module([node], [])
        watch.armed = True  # the book's text may call what an answer left
        try:
            with _quiet(), clock.running():
                # Annotations are texts, so that no name in them is missed.
                exec(compile(code, name, "exec", _ANNOTATIONS, True), space)
        except BaseException as error:
            first = first or error
            if not isinstance(error, Exception) or isinstance(
                error, policy.Reaches
            ):
                return error
        finally:
            watch.armed = False
        _verified(watch)
        if watch.found is not None:
            return watch.found
    is_there = not strict or title in space
    return None if is_there else first


def _verified(watch: Any) -> None:
    with contextlib.suppress(policy.Reaches):
        watch.verify()


def _quiet() -> Any:
    from IPython.utils.capture import capture_output

    return capture_output()


def _odd_form(task: Task, answer: Any) -> str:
    """Return a complaint if an answer has another form than the task's."""
    if task.form == "kernel":
        fits = type(answer).__name__ in ("InterpretedFunction", "JITFunction")
        fits = fits and type(answer).__module__.startswith("triton.")
        needs = "a kernel: write @triton.jit above its def"
    elif task.form == "class":
        fits, needs = inspect.isclass(answer), "a class"
    else:
        fits = callable(answer) and not inspect.isclass(answer)
        fits = fits and not hasattr(answer, "fn")
        needs = "a function"
    return "" if fits else f"{task.name} needs to be {needs}"


def _kernel(answer: Any) -> Any:
    """Return another kernel of the function that was decorated."""
    import triton

    return triton.jit(answer.fn)


def _request(channel: socket.socket) -> Any:
    size = SIZE.unpack(_exactly(channel, SIZE.size))[0]
    return pickle.loads(_exactly(channel, size))


def _exactly(channel: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = channel.recv(min(size - len(found), 1 << 20))
        if not part:
            os._exit(0)  # the judge has finished
        found += part
    return bytes(found)


def prepare() -> None:
    """Make this process ready for an answer; nothing of its own is left."""
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sys.setrecursionlimit(2000)
    sys.modules[HOME] = types.ModuleType(HOME)  # a dataclass looks it up
    inner = vars(dataclasses)
    inner["_process_class"] = _looking(inner["_process_class"])
    inner = vars(copy)
    inner["_reconstruct"] = _plainly(inner["_reconstruct"])
    # To print a tensor would leave the modes that watch.
    compat.keep_modes_while_printing()
    if find_spec("triton"):
        compat.on_new_kernel(_only_public_names)


def _plainly(reconstruct: Any) -> Any:
    """Copy an answer's objects by their attributes, not as they say."""
    inner = vars(copyreg)
    plain = inner["__newobj__"], inner["_reconstructor"]

    def careful(
        x: Any, memo: Any, func: Any, args: Any, *more: Any, **options: Any
    ) -> Any:
        if (
            type(x).__module__ == HOME
            and (func not in plain or args[0] is not type(x))
            and func is not type(x)
        ):
            raise policy.Reaches("it says itself how it is copied")
        return reconstruct(x, memo, func, args, *more, **options)

    return careful


def _only_public_names(fn: Any) -> None:
    """Refuse private names in a kernel: its text is compiled once more."""
    if rewriting.OWN in _names(fn.__code__):
        raise policy.Reaches("it uses a private name in a kernel")


def _names(code: types.CodeType) -> set[str]:
    inner = (x for x in code.co_consts if isinstance(x, types.CodeType))
    return {*code.co_names}.union(*map(_names, inner))


def _looking(make: Any) -> Any:
    """Refuse fields whose names are code: a dataclass would execute it."""

    def process(cls: type, *args: Any, **options: Any) -> Any:
        names = list(vars(cls).get("__annotations__", ()))
        for base in cls.__mro__:
            fields = vars(base).get("__dataclass_fields__", {})
            names += [x.name for x in fields.values()]
        if not all(type(x) is str and x.isidentifier() for x in names):
            raise policy.Reaches("it has a field whose name is code")
        return make(cls, *args, **options)

    return process
