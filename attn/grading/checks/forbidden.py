"""Refuse calls of what the task is to write by hand, however it is spelled.

Two modes watch together. PyTorch's functions and methods are seen by name;
what runs inside them, or is reached through ``torch.ops``, is seen as the
operator that it becomes. The rest is seen in what an answer is made of. All
this is for honest learners, and a trick gets round it.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.form import is_kernel
from attn.exercises.kernel import function_of
from attn.exercises.outcome import (
    Forbidden,
    Refusal,
    group_of,
    refused_call,
)
from attn.profiling import LiveMemory
from attn.profiling import live_memory as live

if TYPE_CHECKING:
    from attn.exercises.spec import Exercise

#: Given a tensor, they read where to split from it, and no operator shows it.
_SPLITS = (torch.tensor_split, Tensor.tensor_split)

#: Where memory is measured, they hold a tensor's elements beside tensors.
_COPIES = (Tensor.tolist, Tensor.numpy, Tensor.__array__)

_TORCH = str(Path(torch.__file__).parent)
_BOOK = str(Path(__file__).parents[2])
_UNDER_TEST = str(Path(__file__).parents[2] / "exercises")

_group_of = lru_cache(maxsize=4096)(group_of)


@contextmanager
def refusing(
    names: tuple[str, ...], memory: LiveMemory | None = None
) -> Iterator[None]:
    """Raise ``Forbidden`` where the learner's code calls one of these.

    A call that the book makes, in an earlier exercise's reference, is
    allowed. An error that the answer swallows is raised at the end.

    Args:
        names: keys of ``GROUPS``, or names of functions of PyTorch.
        memory: measured meanwhile. It sees every operator already: a second
            mode would double what it costs.
    """
    if not names:
        with memory or nullcontext():
            yield
        return
    watch = _Watch(names, memory)
    if memory:
        memory.sees = watch.see
    try:
        with watch, memory or live.Mode(watch.see):
            yield
    finally:
        if watch.refusal and "torch._dynamo" in sys.modules:
            # A refusal while it compiled would be remembered as a failure.
            torch._dynamo.reset()
    if watch.refusal:
        raise watch.refusal


class _Watch(TorchFunctionMode):
    """Watch functions; operators are shown to it."""

    def __init__(
        self, names: tuple[str, ...], memory: LiveMemory | None
    ) -> None:
        super().__init__()
        self.refusal: Forbidden | None = None
        self._names, self._memory = names, memory
        # Functions seen, by id: to hash an operator is a call in Python.
        self._allowed: dict[int, Any] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.see(func)
        others = (*args[1:], *(kwargs or {}).values())
        if func in _SPLITS and any(isinstance(x, Tensor) for x in others):
            self.see(Tensor.tolist)  # as good as that
        if self._memory and func in _COPIES:
            self._memory.hold(args[0].numel())
        return func(*args, **(kwargs or {}))

    def see(self, function: Any, args: tuple[Any, ...] = ()) -> None:
        """Raise if an answer may not call a function, or not with these."""
        if "grad" in self._names and any(
            isinstance(x, Tensor) and x.requires_grad for x in args
        ):
            self._refuse(
                "it lets PyTorch's autograd record what it computes; the "
                "task is to write the gradients by hand"
            )
        reads = "item" in self._names and _reads_elements(function, args)
        if id(function) in self._allowed and not reads:
            return
        name = getattr(function, "__name__", "").partition(".")[0]
        group = "item" if reads else _group_of(name, self._names)
        if group is None:
            self._allowed[id(function)] = function
            return
        if _called_by_the_book(sys._getframe(1)):
            return
        if group == "item":
            says = "it reads a tensor's element: int(), item(), a slice, an if"
            self._refuse(says, "read_as_number")
        self._refuse(refused_call(name, group))

    def _refuse(self, message: str, kind: Refusal = "forbidden") -> NoReturn:
        self.refusal = Forbidden(message, kind)
        raise self.refusal


def _reads_elements(function: Any, args: tuple[Any, ...]) -> bool:
    """Return whether elements, not shapes, decide on the result's shape."""
    name = getattr(function, "__name__", "")
    if name == "index.Tensor":
        dtypes = {x.dtype for x in args[1] if isinstance(x, Tensor)}
        return bool(dtypes & {torch.bool, torch.uint8})
    return name == "repeat_interleave.Tensor"


def _called_by_the_book(frame: FrameType | None) -> bool:
    """Return whether the call comes from the book, and not from an answer."""
    inside = (_TORCH, __file__, live.__file__)
    while frame and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    file = frame.f_code.co_filename if frame else ""
    return file.startswith(_BOOK) and not file.startswith(_UNDER_TEST)


# --- what an answer is made of -----------------------------------------------


def use_of_the_package(exercise: Exercise, answer: Any) -> str | None:
    """Return a complaint if the answer is, or calls, the book's own package.

    Its helpers are read, too: functions and classes of the same module. A
    grader that cannot be fooled runs the answer where there is no package.
    """
    module = _home(answer)
    if module.startswith("attn.exercises"):
        return None  # a mistake or a right answer, under test
    if module.partition(".")[0] == "attn":
        own = f"{exercise.name} is {module}'s own"
        return f"{own}: write it yourself, in the cell above"
    supplied = [_plain(x) for x in exercise.namespace().values()]
    helpers = [_plain(answer)]
    for item in helpers:
        parts = vars(item).values() if isinstance(item, type) else [item]
        for name, value in chain(*map(names_read, parts)):
            home, value = _home(value), _plain(value)
            if home == module and not any(value is x for x in helpers):
                helpers.append(value)
            is_supplied = any(value is x for x in supplied)
            if is_supplied or home.partition(".")[0] != "attn":
                continue
            # An earlier exercise's reference is there because check put it.
            whose = getattr(value, "__attn_reference__", exercise.id)
            if whose == exercise.id:
                says = f"it uses {name} from {home}, which holds the answer"
                return f"{says}: write it without"
    return None


def names_read(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the globals, imports and outer variables that a function reads.

    Those of functions in it too; attributes are no names.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return
    outer = inspect.getclosurevars(function).nonlocals
    values = {**sys.modules, **function.__globals__, **outer}
    codes = [function.__code__]
    for code in codes:
        for step in dis.get_instructions(code):
            if isinstance(step.argval, CodeType):
                codes.append(step.argval)
            elif step.opname in _READS and step.argval in values:
                yield step.argval, values[step.argval]


_READS = ("LOAD_GLOBAL", "LOAD_DEREF", "IMPORT_NAME")


def _home(value: Any) -> str:
    """Return the module that a value is, or is defined in."""
    attribute = "__name__" if inspect.ismodule(value) else "__module__"
    return getattr(_plain(value), attribute, "") or ""


def _plain(value: Any) -> Any:
    """Return the function of a kernel; anything else as it is."""
    return function_of(value) if is_kernel(value) else value
