"""Run a learner's function or class on one case, whatever it does.

This file holds no right answer: a grader can use it in a separate process.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from IPython.utils.capture import capture_output
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.grading.inputs import (
    Inputs,
    copy_tensor,
    map_tensors,
    named_tensors,
)
from attn.grading.memory import LiveMemory

if TYPE_CHECKING:
    from attn.exercises.spec import Case

TIME_LIMIT = 5.0  # seconds for all cases of one check


class OutOfTime(BaseException):
    """The time limit, raised inside the learner's code.

    It is no Exception, so that a broad ``except`` does not swallow it.
    """


class Forbidden(Exception):
    """The answer called a function that the task is to write by hand."""


class WrongParameters(Exception):
    """A module's parameters are not those of the task."""


@dataclass
class Outcome:
    """The result or the error of a call, and its side effects."""

    output: Any = None
    grads: dict[str, Tensor] = field(default_factory=dict)
    error: BaseException | None = None
    where: str = ""  # the learner's line that raised
    side_effect: str = ""  # in words
    printed: str = ""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt Python code after some seconds (main thread, POSIX)."""
    can_interrupt = hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread()
    )
    if not can_interrupt:
        yield
        return

    def stop(_signal: int, _frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    # The alarm rings again and again: one may fall into a bare `except:`.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Forbid(TorchFunctionMode):
    """Refuse torch functions by name, in every spelling."""

    def __init__(self, names: tuple[str, ...]):
        super().__init__()
        self.names = names

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "").strip("_")
        name = name.removeprefix("special_").removeprefix("safe_")
        if name in self.names:
            raise Forbidden(name)
        return func(*args, **(kwargs or {}))


def run(
    answer: Any,
    case: Case,
    *,
    forbids: tuple[str, ...] = (),
    seconds: float = TIME_LIMIT,
    launch: Callable[..., Any] | None = None,
    names: Sequence[str] = (),
) -> Outcome:
    """Call ``answer`` on a private copy of ``case``.

    Args:
        answer: the learner's function, class, or kernel.
        case: the inputs.
        forbids: torch functions that it may not call.
        seconds: the time limit.
        launch: launches a kernel on the inputs.
        names: of the positional inputs, for messages.

    Returns:
        The outcome; an error of the learner's code is part of it.
    """
    outcome = Outcome()
    memory = None if case.max_live is None else LiveMemory()
    inputs = Inputs(case, names, memory)
    drew = False
    try:
        with (
            capture_output() as prints,
            warnings.catch_warnings(),
            torch.enable_grad(),  # an answer may switch gradients off
            time_limit(seconds),
        ):
            warnings.simplefilter("ignore")
            call, parameters = _prepare(answer, case)
            call = partial(launch, answer) if launch else call
            with torch.random.fork_rng(devices=[]):
                if case.train:
                    _seed()
                rng = torch.get_rng_state()
                with _Forbid(forbids), memory or nullcontext():
                    output = call(*inputs.args, **inputs.kwargs)
                drew = not torch.equal(rng, torch.get_rng_state())
            taken = partial(_compared, axis=case.largest_over)
            outcome.output = map_tensors(taken, output)
            if case.grad:
                wanted = {**inputs.tensors, **parameters}
                outcome.grads = _gradients(output, wanted)
    except BaseException as error:
        outcome.error = _own_error(error)
        outcome.where = _learners_line(outcome.error)
        outcome.output = getattr(outcome.error, "output", None)
    outcome.printed = prints.stdout + prints.stderr
    if changed := inputs.changed():
        names = ", ".join(changed)
        outcome.side_effect = f"it changes {names} in place"
    elif drew and not case.train:
        outcome.side_effect = "it draws from PyTorch's global random generator"
    elif memory and memory.peak > (case.max_live or 0):
        outcome.side_effect = (
            f"at its peak it holds {memory.peak:,} elements beyond its "
            f"inputs, where {case.max_live:,} are enough; the largest tensor "
            f"is {memory.shape}. Is something copied, or kept for longer "
            "than it is needed?"
        )
    return outcome


def _compared(x: Tensor, axis: int | None) -> Tensor:
    """Return what is compared of a result: all of it, or its maxima."""
    if axis is None or x.dim() < -axis or not x.numel():
        return x.detach().clone()
    return x.detach().amax(axis)


def _own_error(error: BaseException) -> BaseException:
    """Return an error raised in a kernel, without the interpreter's wrap."""
    while type(error).__name__ == "InterpreterError" and error.__cause__:
        error = error.__cause__
    return error


def _prepare(answer: Any, case: Case) -> tuple[Any, dict[str, Tensor]]:
    """Return what to call, and the parameters whose gradients count."""
    if case.init is None:
        return answer, {}
    with torch.random.fork_rng(devices=[]):
        _seed()
        module = answer(**map_tensors(copy_tensor, dict(case.init)))
    if case.state is not None:
        _load(module, case.state)
    module.train(case.train)
    parameters = dict(module.named_parameters()) if case.grad else {}
    return module, parameters


def _seed() -> None:
    """Seed what CPUs draw from.

    ``torch.manual_seed`` also notes where it was called, for each kind of
    accelerator: that is half the time of making a module.
    """
    torch.default_generator.manual_seed(0)


def _load(module: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load the case's weights into a learner's module.

    Extra buffers are welcome. Extra parameters are not: they would keep
    their random values.
    """
    shapes = {n: tuple(x.shape) for n, x in module.state_dict().items()}
    own = {n: shapes[n] for n, _ in module.named_parameters() if n in shapes}
    need = {n: tuple(x.shape) for n, x in state.items()}
    if not (own.items() <= need.items() and need.keys() <= shapes.keys()):
        has, needs = (
            ", ".join(f"{n} {shape}" for n, shape in names.items()) or "none"
            for names in (own, need)
        )
        raise WrongParameters(
            f"its parameters are {has}; the task needs {needs}"
        )
    dtypes = {x.dtype for x in state.values()}
    if len(dtypes) == 1:
        module.to(dtypes.pop())
    module.load_state_dict(state, strict=False)


def _gradients(output: Any, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of ``sum(output * cotangent)``, or zeros."""
    wanted = {name: x for name, x in wanted.items() if x.requires_grad}
    results = [x for _, x in named_tensors(output) if x.requires_grad]
    if not results:
        raise RuntimeError(
            "no gradient flows back from the result: was it detached, or "
            "built from Python numbers?"
        )
    # As a sum: given apart, the cotangents make PyTorch import SymPy.
    total = torch.stack([(x * cotangent(x)).sum() for x in results]).sum()
    grads = torch.autograd.grad(
        total, list(wanted.values()), allow_unused=True
    )
    return {
        name: torch.zeros_like(x) if g is None else g.detach().clone()
        for (name, x), g in zip(wanted.items(), grads, strict=True)
    }


def cotangent(like: Tensor) -> Tensor:
    """Draw fixed random elements (never ones) in the shape of a result."""
    generator = torch.Generator().manual_seed(like.numel())
    noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return noise.to(like.dtype)


def _learners_line(error: BaseException) -> str:
    """Return the innermost line of the learner's own in the traceback.

    An error of a kernel carries it.
    """
    if (where := getattr(error, "where", None)) is not None:
        return where
    library = [torch.__path__[0], str(Path(__file__).parents[1])]
    if triton := sys.modules.get("triton"):
        library += triton.__path__
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(tuple(library)) and frame.line
    ]
    return frames[-1].line or "" if frames else ""
