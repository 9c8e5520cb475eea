"""Refuse what an answer's process does behind Python's back.

The interpreter tells an audit hook (PEP 578) of each event that reaches the
machine or the interpreter itself; a hook cannot be removed. What is refused
here is refused to torch as well, which needs none of it for an answer.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attn.grading.checks import forbidden
from attn.grading.sandbox.policy import Reaches
from attn.profiling import LiveMemory

#: Beginnings of events, and what they are to a learner.
_REFUSED = {
    "_thread.start": "starts a thread",
    "code.__new__": "builds code",
    "cpython._PySys_ClearAuditHooks": "switches off what watches it",
    "ctypes": "calls into C",
    "fcntl": "reaches for files",
    "ftplib": "opens a connection",
    "gc.get_": "searches the memory",
    "http": "opens a connection",
    "mmap": "maps memory",
    "os.chmod": "changes files",
    "os.chown": "changes files",
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.kill": "ends a process",
    "os.link": "changes files",
    "os.mkdir": "changes files",
    "os.posix_spawn": "starts a process",
    "os.remove": "changes files",
    "os.rename": "changes files",
    "os.rmdir": "changes files",
    "os.spawn": "starts a process",
    "os.startfile": "starts a process",
    "os.symlink": "changes files",
    "os.system": "starts a process",
    "os.truncate": "changes files",
    "pickle.find_class": "unpickles",
    "pty": "starts a process",
    "resource.setrlimit": "changes its limits",
    "shutil": "changes files",
    "signal.pthread_kill": "ends a process",
    "smtplib": "opens a connection",
    "socket": "opens a connection",
    "subprocess": "starts a process",
    "sys.addaudithook": "watches the interpreter",
    "sys.setprofile": "watches the interpreter",
    "sys.settrace": "watches the interpreter",
    "urllib": "opens a connection",
    "webbrowser": "opens a connection",
}
#: Refused where the answer's own line does it; libraries do it all the time.
_OWN_LINES = {
    "compile": "compiles code",
    "exec": "executes code",
    "object.__getattr__": "reads the interpreter's own attributes",
    "sys._current_frames": "reads the interpreter's frames",
    "sys._getframe": "reads the interpreter's frames",
    "os.listdir": "lists files",
    "os.putenv": "changes the environment",
    "os.unsetenv": "changes the environment",
    "os.scandir": "lists files",
}

#: What the monitors of an answer are made of.
_CLASSES = (
    *(torch.Tensor, torch.nn.Parameter, torch.nn.Module, torch.UntypedStorage),
    *(TorchFunctionMode, TorchDispatchMode, warnings.catch_warnings),
    type(torch.no_grad()),
    type(contextlib.contextmanager(lambda: iter(()))()),
    *(forbidden._Watch, forbidden._Functions, forbidden._Operators),
    LiveMemory,
)
#: Beside the grader's own, all of which count.
_MODULES = ("torch", "torch.nn.functional", "safetensors.torch")


class Watch:
    """The hook of one process.

    Code of any file that is not among these is the answer's.

    Args:
        readable: beginnings of the paths of files that may be read.
    """

    def __init__(self, readable: Iterable[str]) -> None:
        self._readable = tuple(readable)
        self._inside = self.armed = False
        self._frame = sys._getframe
        self.found: Reaches | None = None
        self._classes: dict[type, dict[str, Any]] = {}
        self._modules: dict[types.ModuleType, dict[str, Any]] = {}

    def install(self) -> None:
        """Hear events from now on; they are refused while ``armed``."""
        sys.addaudithook(self._hear)

    def freeze(self) -> None:
        """Let no line of the answer change a module; note what others may."""
        watch = self

        def refuse(x: Any, name: str) -> None:
            if watch.armed and watch._by_the_answer():
                owner = getattr(x, "__name__", x)
                watch.found = Reaches(f"it changes {owner}.{name}")
                raise watch.found

        class Frozen(types.ModuleType):
            def __setattr__(self, name: str, value: Any) -> None:
                refuse(self, name)
                super().__setattr__(name, value)

            def __delattr__(self, name: str) -> None:
                refuse(self, name)
                super().__delattr__(name)

        for module in list(sys.modules.values()):
            if type(module) is types.ModuleType:
                module.__class__ = Frozen
        self._classes = {x: dict(vars(x)) for x in _CLASSES}
        self._modules = {
            module: dict(vars(module))
            for name, module in sys.modules.items()
            if name in _MODULES or name.startswith("attn.")
        }

    def verify(self) -> None:
        """Refuse what was changed meanwhile, by a library's hand too.

        A module has its own names again: what it holds will send the refusal.
        """
        changed: list[Any] = [
            cls
            for cls, before in self._classes.items()
            if len(vars(cls)) != len(before) or _lost(vars(cls), before)
        ]
        for module, before in self._modules.items():
            if _lost(vars(module), before):
                vars(module).update(before)
                changed.append(module)
        if changed:
            self.found = Reaches(f"it changes {changed[0].__name__}")
            raise self.found

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed or self._inside:
            return
        self._inside = True
        try:
            says = self._complaint(event, args)
        finally:
            self._inside = False
        if not says:
            return
        if not self._by_the_answer(anywhere=True):
            raise PermissionError(f"{event} is closed to a graded answer")
        error = Reaches(f"it {says}, which a graded answer may not")
        self.found = self.found or error
        raise error

    def _complaint(self, event: str, args: tuple[Any, ...]) -> str:
        if event == "open":
            return self._opens(*args[:3])
        if says := _OWN_LINES.get(event):
            return says if self._by_the_answer() else ""
        for start, says in _REFUSED.items():
            if event.startswith(start):
                return says
        return ""

    def _opens(self, path: Any, mode: Any, flags: Any) -> str:
        if isinstance(path, int):
            return "opens a file"
        if isinstance(mode, str) and set(mode) & set("wax+"):
            return "writes a file"
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            return "writes a file"
        text = os.path.realpath(os.fsdecode(path))
        if text.startswith(self._readable):
            return "reads a file" if self._by_the_answer() else ""
        return "reads a file"

    def _by_the_answer(self, anywhere: bool = False) -> bool:
        """Return whether a line of the answer does it.

        Args:
            anywhere: also one that called what does it; else the innermost.
        """
        was_inside, self._inside = self._inside, True  # to look is an event
        try:
            files = list(self._files())
        finally:
            self._inside = was_inside
        own = (*self._readable, "<frozen ")
        found = [not file.startswith(own) for file in files]
        return any(found) if anywhere else any(found[:1])

    def _files(self) -> Iterator[str]:
        """Yield the files of the frames below this one, but this one."""
        frame: types.FrameType | None = self._frame(1)
        while frame:
            if (file := frame.f_code.co_filename) != __file__:
                yield file
            frame = frame.f_back


def _lost(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a name has another object: one may equal everything."""
    return any(now.get(name) is not x for name, x in before.items())
