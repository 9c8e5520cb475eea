"""Run a notebook's cells in one IPython shell, and fork at each check.

The examiner outside says which cell comes next; nothing that this process
says decides on a mark. Beside the cells' text it gets what a task gives and,
after a check that failed, the book's text of that exercise, as ``check``
does in a notebook.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.sandbox import worker
from attn.grading.sandbox.missing import Missing
from attn.grading.sandbox.requests import (
    Begin,
    Bind,
    Cell,
    Check,
    receive,
)

_TEXT = 500  # characters of an error's text in a note
_NOTES = 50  # of one cell
#: Magics that would take minutes, need a network, or show something.
_IDLE = str.split(
    """
    bash conda html javascript latex load_ext lprun matplotlib memit mprun
    perl pip prun pylab ruby script sh svg sx system timeit uv
    """
)


def make_shell() -> Any:
    """Return a shell without history, in which nothing leaves Python."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False

    class Shell(InteractiveShell):
        def system(self, cmd: str) -> None:
            """Run nothing: ``!pip`` has no network, ``!ls`` no effect."""

        def getoutput(self, *_: Any, **__: Any) -> list[str]:
            return []

        def enable_gui(self, gui: Any = None) -> None:
            """Open no window."""

    shell: Any = Shell.instance(config=config)
    for name in _IDLE:
        shell.register_magic_function(_nothing, "line_cell", name)
    shell.builtin_trap.activate()  # get_ipython, display
    return shell


def _nothing(_line: str, _cell: str | None = None) -> None:
    """Take the place of a magic."""


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
        """Answer requests until the other side closes the channel."""
        sys.meta_path.append(self._missing)
        while True:
            request, sockets = receive(self._control)
            status = self._end_fork()
            if isinstance(request, Check):
                self._check(request, sockets[0])
            elif isinstance(request, Cell):
                self._say({"notes": self._run(request)})
            elif isinstance(request, Bind):
                book = Cell(0, request.text, left=float("inf"))
                self._say({"notes": self._run(book)})
            elif isinstance(request, Begin):
                self._missing.give(request.given)
                self._space.update(request.given)
                book = Cell(0, request.text, left=float("inf"))
                self._say({"notes": self._run(book)})
            else:
                self._say({"status": status})

    def _say(self, what: Any) -> None:
        self._control.sendall(json.dumps(what).encode() + b"\n")

    def _run(self, cell: Cell) -> list[list[Any]]:
        """Run a cell as far as it goes; return what its statements raised.

        Each note is a statement's number, the kind and the text of its error.
        """
        notes: list[list[Any]] = []
        left = cell.left
        try:
            text = self._shell.transform_cell(cell.text)
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as odd:
            return [[0, *_said(odd)]]
        name = self._shell.compile.cache(text, cell.number, cell.text)
        for number, node in enumerate(tree.body):
            if number in cell.skip or (left <= 0 and not _defines(node)):
                continue
            self._say({"at": number})
            clock = Clock(cell.seconds, patience=2)
            error = self._execute(node, name, clock)
            left -= clock.spent
            if error is not None and len(notes) < _NOTES:
                notes.append([number, *_said(error)])
        self._say({"spent": cell.left - left if left < cell.left else 0})
        return notes

    def _execute(
        self, node: ast.stmt, name: str, clock: Clock
    ) -> BaseException | None:
        """Run a statement; again where a module was missing that is no more.

        Only a definition matters. What shows a plot, or trains, may fail.
        """
        while True:
            try:
                code = self._shell.compile(
                    ast.Module([node], []), name, "exec"
                )
                with clock.running():
                    exec(code, self._space)
            except ModuleNotFoundError as error:
                if self._missing.add(error.name):
                    continue
                return error
            except MemoryError:  # what it holds would fail the next ones
                os._exit(1)
            except BaseException as error:
                return error
            return None

    def _check(self, check: Check, channel: socket.socket) -> None:
        self._fork = os.fork()
        if self._fork:
            channel.close()
            return
        try:
            os.setpgid(0, 0)
            self._control.close()
            self._missing.is_judged = True
            for name, value in check.given.items():
                self._space.setdefault(name, value)
            answer = self._space.get(check.name)
            worker.serve(channel, check.name, check.form, answer)
        finally:
            os._exit(1)

    def _end_fork(self) -> int:
        """End the last check's process; return its status."""
        if not self._fork:
            return 0
        for end in (os.killpg, os.kill):
            with suppress(OSError):
                end(self._fork, signal.SIGKILL)
        ended, self._fork = self._fork, 0
        try:
            return os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1])
        except ChildProcessError:  # a cell ignores the ends of processes
            return 0


def _defines(node: ast.stmt) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(node, (*kinds, ast.Import, ast.ImportFrom))


def _said(error: BaseException) -> list[str]:
    """Return the kind and the text of an error, whatever it is."""
    try:
        text = str(error)[:_TEXT]
    except BaseException:
        text = ""
    kind = (
        "OutOfTime" if isinstance(error, OutOfTime) else type(error).__name__
    )
    return [str(kind)[:100], text.encode("ascii", "replace").decode()]
