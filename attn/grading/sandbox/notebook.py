"""Run a notebook's cells in one IPython shell, and fork at each check.

The examiner outside says which cell comes next. Beside the cells' text this
process gets what a task gives and, after a check that failed, the book's text
of that exercise, as ``check`` does in a notebook. The process that is forked
at a check runs one answer, on case after case.
"""

from __future__ import annotations

import ast
import os
import signal
import socket
import sys
import warnings
from contextlib import suppress
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from attn.exercises import triton_compat
from attn.exercises.form import misfit
from attn.exercises.kernel import function_of
from attn.exercises.outcome import Outcome
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.run import fail, run
from attn.grading.sandbox.missing import BOOK, Missing, MissingModule
from attn.grading.sandbox.requests import Cell, Check, packet, receive
from attn.grading.sandbox.wire import encode
from attn.profiling import compat

#: Magics that would take minutes, need a network, or show something.
_IDLE = str.split(
    """
    bash conda html javascript latex load_ext lprun matplotlib memit mprun
    perl pip prun pylab reset ruby script sh svg sx system timeit uv
    """
)
_DEFINITIONS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Import, ast.ImportFrom),
)


def make_shell() -> Any:
    """Return a shell without history, in which nothing leaves Python."""
    config = Config({"HistoryManager": {"enabled": False}})
    shell: Any = InteractiveShell.instance(config=config)
    for name in _IDLE:
        shell.register_magic_function(_nothing, "line_cell", name)
    shell.system = shell.getoutput = _nothing  # of !pip, of !ls
    shell.builtin_trap.activate()  # get_ipython, display
    return shell


def _nothing(*_: Any, **__: Any) -> list[str]:
    """Run nothing: it has no network, and is no part of an answer."""
    return []


class Notebook:
    """The process of one notebook: its namespace, and its requests.

    Args:
        shell: of ``make_shell``.
        control: carries requests in, and notes on the cells out.
    """

    def __init__(self, shell: Any, control: socket.socket) -> None:
        self._shell, self._control = shell, control
        self._space = shell.user_ns
        self._missing = Missing()
        self._fork = 0

    def serve(self) -> None:
        """Answer requests until the other side closes the channel.

        The reply to a cell has its notes, the seconds that it spent, and how
        the process of the check before it ended.
        """
        sys.meta_path.append(self._missing)
        while True:
            request, sockets = receive(self._control)
            status = self._end_fork()
            if isinstance(request, Check):
                self._check(request, sockets[0])
                continue
            for names in (self._space, BOOK):
                names.update(request.given)
            reply = {"status": status, **self._run(request)}
            self._control.sendall(packet(reply))

    def _run(self, cell: Cell) -> dict[str, Any]:
        """Run a cell as far as it goes; return what its statements raised.

        Each note is a statement's number, the kind and the text of its error.
        """
        try:
            with Clock(cell.seconds).running():
                tree = ast.parse(text := self._shell.transform_cell(cell.text))
        except (Exception, OutOfTime) as odd:
            return {"notes": [_note(0, odd)], "spent": 0}
        name = self._shell.compile.cache(text, cell.number, cell.text)
        notes, spent = [], 0.0
        for number, node in enumerate(tree.body):
            is_late = spent >= cell.left and not isinstance(node, _DEFINITIONS)
            if number in cell.skip or is_late:
                continue
            self._control.sendall(packet({"at": number}))
            clock = Clock(cell.seconds, patience=2)
            error = self._execute(node, name, clock)
            spent += clock.spent
            if error is not None:
                notes.append(_note(number, error))
        return {"notes": notes, "spent": spent}

    def _execute(
        self, node: ast.stmt, name: str, clock: Clock
    ) -> BaseException | None:
        """Run a statement; again where a module was missing that is no more.

        Only a definition matters. What shows a plot, or trains, may fail.
        """
        module = ast.Module([node], [])
        while True:
            try:
                code = self._shell.compile(module, name, "exec")
                with clock.running():
                    exec(code, self._space)
                return None
            except ModuleNotFoundError as error:
                if not self._missing.add(error.name):
                    return error
            except MemoryError:  # what it holds would fail the next ones
                os._exit(1)
            except BaseException as error:
                return error

    def _check(self, check: Check, channel: socket.socket) -> None:
        self._fork = os.fork()
        with suppress(OSError):  # of the two, one is first
            os.setpgid(self._fork, self._fork)
        if self._fork:
            channel.close()
            return
        try:
            self._control.close()
            self._missing.is_judged = True
            for name, value in check.given.items():
                self._space.setdefault(name, value)
            serve(channel, check, self._space.get(check.name))
        finally:
            os._exit(1)

    def _end_fork(self) -> int:
        """End the last check's process; return its status."""
        if not self._fork:
            return 0
        with suppress(OSError):
            os.killpg(self._fork, signal.SIGKILL)
        ended, self._fork = self._fork, 0
        try:
            return os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1])
        except ChildProcessError:  # a cell ignores the ends of processes
            return 0


def _note(number: int, error: BaseException) -> list[Any]:
    """Return a statement's number, and its error's kind and text."""
    try:
        text = str(error)[:500]
    except BaseException:
        text = ""
    return [number, type(error).__name__[:100], text]


def serve(channel: socket.socket, check: Check, answer: Any) -> None:
    """Say whether there is an answer; run it until the channel is closed.

    The answer is what the notebook has under the name, or None.
    """
    _as_in_a_new_notebook()
    outcome = Outcome()
    if answer is None:
        fail(outcome, NameError(f"name {check.name!r} is not defined"))
    elif isinstance(answer, MissingModule):
        said = f"{check.name} comes from {answer}: write it in a cell"
        fail(outcome, TypeError(said))
    elif said := misfit(check.name, check.form, answer):
        fail(outcome, TypeError(said))
    channel.sendall(encode(outcome))
    clock = Clock()
    with compat.language_kept_patched(), torch.inference_mode(False):
        if outcome.error is None and check.form == "kernel":
            answer = triton_compat.triton.jit(function_of(answer))  # another
        while outcome.error is None:
            (case, clock.limit, options), _ = receive(channel)
            found = run(answer, case, clock=clock, **options)
            try:
                reply = encode(found)
            except Exception as error:  # of a learner's ``__str__``
                kind = type(error).__name__
                text = f"what it returns or raises cannot be read ({kind})"
                reply = encode(Outcome(error=TypeError(text)))
            channel.sendall(reply)


def _as_in_a_new_notebook() -> None:
    """Undo what a demonstration may have set: it is no part of an answer."""
    torch.set_default_dtype(torch.float32)
    if torch.get_default_device().type != "cpu":
        torch.set_default_device("cpu")
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    torch.set_num_threads(1)
    warnings.resetwarnings()
    sys.setrecursionlimit(2000)
