"""Run a learner's text, and an answer on a case, within five seconds."""

from __future__ import annotations

import ast
import io
import linecache
import math
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from functools import partial
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch
from torch import Tensor

from attn import grading
from attn.exercises.bindings import python
from attn.exercises.case import Case
from attn.exercises.outcome import (
    Forbidden,
    Library,
    Outcome,
    SideEffect,
    group_of,
    refused_call,
)
from attn.grading.checks.clock import TIME_LIMIT, OutOfTime
from attn.grading.checks.inputs import Inputs, named_tensors, unchanged
from attn.grading.checks.objects import (
    earlier_results,
    effect_of,
    make,
    parameters,
)
from attn.grading.checks.result import (
    copied,
    gradients,
    plain,
    same_tensors,
)

FILE, TRIED = "<your answer>", "<try it>"
MOST_PRINTED = 4000  # characters
_TOOL = 4  # of sys.monitoring: none that a debugger or a profiler uses


class Program:
    """A learner's text, and the names that it defines.

    Args:
        source: the text.
        names: those that it may use.
    """

    def __init__(self, source: str, names: Mapping[str, Any]) -> None:
        left = dict.fromkeys(grading.__all__, _nothing)  # in a notebook's text
        self.names = {**left, **names, "__name__": "answer"}
        self.printed = Printed()
        self._codes: list[CodeType] = []
        lines = source.splitlines(keepends=True)
        linecache.cache[FILE] = (len(source), None, lines, FILE)
        self._source = python(source.removeprefix("\ufeff"))

    def run(self) -> None:
        """Define what the text defines; its errors are the caller's."""
        self._execute(self._source, "exec")

    def value(self, expression: str) -> Any:
        """Return an expression's value, with the program's names.

        Of statements, it is the last one's; None if that is no expression.
        """
        *statements, last = ast.parse(expression).body or [ast.Pass()]
        if not isinstance(last, ast.Expr):
            return self._execute(expression, "exec", TRIED)
        if statements:
            self._execute(ast.unparse(statements), "exec", TRIED)  # type: ignore[arg-type]
        return self._execute(ast.unparse(last), "eval")

    def _execute(self, text: str, mode: str, file: str = "") -> Any:
        file = file or (FILE if mode == "exec" else TRIED)
        code = compile(text, file, mode, dont_inherit=True)
        self._codes.append(code)
        with self.running():
            return (exec if mode == "exec" else eval)(code, self.names)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture what it prints, and stop it after the time limit."""
        deadline = time.monotonic() + TIME_LIMIT

        def look(*_: Any) -> None:
            if time.monotonic() > deadline:
                raise OutOfTime(
                    f"it did not finish within {TIME_LIMIT:.2g} s: is there "
                    "an endless loop?"
                )

        printed = self.printed
        with (
            redirect_stdout(printed),
            redirect_stderr(printed),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            watch = _monitored if hasattr(sys, "monitoring") else _traced
            with watch(look, self._codes):
                yield


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Do nothing: the page has buttons for it."""


def _places() -> set[Any]:
    """Return what an answer may change: of a page's torch, all of it."""
    found = {math, torch, torch.nn, torch.nn.functional, Tensor}
    if torch.__version__ == "page":
        found |= {x for n, x in sys.modules.items() if n.startswith("torch.")}
        for y in [y for x in found for y in vars(x).values()]:
            if isinstance(y, type) and y.__module__.startswith("torch"):
                found.add(y)
    return found


@contextmanager
def restored() -> Iterator[None]:
    """Give PyTorch's names back the values that an answer has changed."""
    before = [(x, dict(vars(x))) for x in _places()]
    try:
        yield
    finally:
        for place, names in before:
            for name, value in [*vars(place).items()]:
                if name not in names and not isinstance(value, ModuleType):
                    delattr(place, name)
            for name, value in names.items():
                if vars(place).get(name) is not value:
                    setattr(place, name, value)


@contextmanager
def _monitored(look: Callable[..., None], codes: list[Any]) -> Iterator[None]:
    """Look at every jump and call in these codes, and in no others."""
    tools: Any = getattr(sys, "monitoring")  # noqa: B009 (of Python 3.12)
    events = tools.events.JUMP | tools.events.PY_START
    tools.use_tool_id(_TOOL, "attn")
    try:
        for event in (tools.events.JUMP, tools.events.PY_START):
            tools.register_callback(_TOOL, event, look)
        inner = [*codes]
        for code in inner:
            tools.set_local_events(_TOOL, code, events)
            inner += [x for x in code.co_consts if isinstance(x, CodeType)]
        yield
    finally:
        tools.free_tool_id(_TOOL)


@contextmanager
def _traced(look: Callable[..., None], codes: list[Any]) -> Iterator[None]:
    """Look at every line of these codes' files, where Python is older."""
    files = {x.co_filename for x in codes}

    def trace(frame: FrameType, _event: str, _value: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


class Printed(io.TextIOBase):
    """Keep the beginning of what is printed, and count the rest."""

    def __init__(self) -> None:
        self._kept, self._left_out = "", 0

    def write(self, text: str) -> int:
        """Keep as much of the text as there is room for."""
        room = MOST_PRINTED - len(self._kept)
        self._kept += text[:room]
        self._left_out += max(len(text) - room, 0)
        return len(text)

    def take(self) -> str:
        """Return what was printed since the last time."""
        text, more = self._kept, self._left_out
        self._kept, self._left_out = "", 0
        return text + (f"\n… {more} more characters" if more else "")


def run(
    program: Program,
    answer: Any,
    case: Case,
    *,
    forbids: tuple[str, ...] = (),
    names: Sequence[str] = (),
    use: Callable[..., Any] | None = None,
    fill_empty: bool = False,
) -> Outcome:
    """Call an answer on a private copy of a case, as ``check`` does.

    Args:
        program: that defines it.
        answer: the function or the class.
        case: the inputs.
        forbids: what it may not call.
        names: of the positional inputs.
        use: uses the answer on the inputs.
        fill_empty: let memory that is only allocated hold a number, not NaN.
    """
    with _recording() if case.grad else nullcontext():
        return _run(program, answer, case, forbids, names, use, fill_empty)


def _recording() -> AbstractContextManager[Any]:
    """Record gradients in a page's torch; PyTorch always does."""
    recording = getattr(torch.autograd, "recording", nullcontext)
    return recording()


def _run(
    program: Program,
    answer: Any,
    case: Case,
    forbids: tuple[str, ...],
    names: Sequence[str],
    use: Callable[..., Any] | None,
    fill_empty: bool,
) -> Outcome:
    outcome, inputs = Outcome(), Inputs(case, names)
    try:
        with program.running(), _allocated(fill_empty):
            calls = _Calls(forbids)
            callee = make(partial(use, answer) if use else answer, case)
            earlier = earlier_results(answer, callee, case)
            copies = copied(plain(earlier))
            weights = callee.prepare(case)
            before = _drawn()
            with calls:
                output = callee.call(*inputs.args, **inputs.kwargs)
            output = plain(output)
            result = outcome.output = copied(output)
            outcome.repeats = any(same_tensors(result, x) for x in copies)
            outcome.side_effect = effect_of(
                callee.call, output, case, weights, {}
            )
            now = dict(named_tensors(plain(earlier)))
            if not all(unchanged(x, now[n]) for n, x in named_tensors(copies)):
                outcome.side_effect = SideEffect("changed result")
            after = _drawn()
            used = (x for x in after if after[x] != before.get(x))
            outcome.random_used = frozenset(used)
            if case.grad:
                own = parameters(callee.call) if case.init is not None else {}
                leaves = {**inputs.tensors, **own}
                outcome.grads = gradients(output, leaves)
    except BaseException as error:
        if isinstance(error, NotImplementedError) and str(error):
            again = RuntimeError(str(error))
            error = again.with_traceback(error.__traceback__)
        outcome.error = error
        outcome.where, outcome.shapes_seen, _ = learners_line(error)
    outcome.printed = program.printed.take()
    if changed := inputs.changed():
        outcome.side_effect = SideEffect("changed input", tuple(changed))
    return outcome


def _drawn() -> dict[Library, Any]:
    """Return the state of each source of random numbers."""
    python = sys.modules.get("random")
    own = getattr(getattr(torch, "creation", None), "CHANCE", None)
    found: dict[Library, Any] = {"PyTorch": own, "Python": python}
    return {name: x.getstate() for name, x in found.items() if x}


def _allocated(fill_empty: bool) -> AbstractContextManager[Any]:
    """Let memory that is only allocated hold NaN, or a number."""
    if filling := getattr(torch, "filling", None):
        return filling(7) if fill_empty else nullcontext()
    from attn.profiling.compat import empty_memory_is_nan

    return empty_memory_is_nan()


class _Calls:
    """Watch which functions of PyTorch a call makes.

    A page's torch notes them; of PyTorch itself, those that are forbidden are
    refused as in ``check``.
    """

    def __init__(self, forbids: tuple[str, ...]) -> None:
        self._forbids = forbids
        self._called: Any = getattr(torch, "called", None)
        self._watch: Any = None

    def __enter__(self) -> None:
        if self._called:
            self._called.clear()
        elif self._forbids:
            from attn.grading.checks.forbidden import refusing

            self._watch = refusing(self._forbids)
            self._watch.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._watch:
            self._watch.__exit__(*error)
        for name in sorted(self._called()) if self._called else ():
            if group := group_of(name, self._forbids):
                if group == "item":
                    says = (
                        "it reads a tensor's element: int(), item(), a slice, "
                        "an if"
                    )
                    raise Forbidden(says, "read_as_number")
                raise Forbidden(refused_call(name, group))


def learners_line(
    error: BaseException,
) -> tuple[str, dict[str, tuple[int, ...]], int | None]:
    """Return the innermost line of the learner's own, and its number.

    And between them the shapes of the tensors that it names.
    """
    line, names, number = "", {}, None
    for frame, at in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE:
            number, line = at, linecache.getline(FILE, at).strip()
            names = frame.f_locals
    if isinstance(error, OutOfTime):
        names = {}  # where it was stopped is chance
    named = {word: names.get(word) for word in re.findall(r"\w+", line)}
    tensors = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    return line, {n: tuple(x.shape) for n, x in tensors.items()}, number
