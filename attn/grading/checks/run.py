"""Run a learner's function or class on one case, whatever it does.

This file holds no right answer: a grader can use it in a separate process.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from IPython.utils.capture import capture_output
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn import compat
from attn.grading.checks.clock import Clock
from attn.grading.checks.forbidden import refusing
from attn.grading.checks.inputs import (
    Inputs,
    copy_tensor,
    map_tensors,
    named_tensors,
    unchanged,
)
from attn.grading.checks.parameters import load
from attn.grading.checks.random_state import Generators
from attn.grading.checks.result import compared, is_foreign, kept, same
from attn.profiling import LiveMemory

if TYPE_CHECKING:
    from attn.exercises.case import Case


@dataclass
class Outcome:
    """The result or the error of a call, and its side effects."""

    output: Any = None
    grads: dict[str, Tensor] = field(default_factory=dict)
    error: BaseException | None = None
    where: str = ""  # the learner's line that raised
    shapes_seen: dict[str, tuple[int, ...]] = field(default_factory=dict)
    side_effect: str = ""  # in words
    random_used: frozenset[str] = (
        frozenset()
    )  # whose global generators it used
    repeats: bool = False  # it is the result of an earlier call
    printed: str = ""


def run(
    answer: Any,
    case: Case,
    *,
    forbids: tuple[str, ...] = (),
    clock: Clock | None = None,
    launch: Callable[..., Any] | None = None,
    names: Sequence[str] = (),
    fill_empty: bool = False,
    verify: Callable[[], None] | None = None,
) -> Outcome:
    """Call ``answer`` on a private copy of ``case``, after earlier calls.

    Args:
        answer: the learner's function, class, or kernel.
        case: the inputs.
        forbids: what it may not call, as in ``forbidden.py``.
        clock: limits the time.
        launch: uses the answer on the inputs, or launches a kernel.
        names: of the positional inputs, for messages.
        fill_empty: let memory that is only allocated hold a number, not NaN.
        verify: raises if the call has left something as it may not; called
            before anything of the result is looked at.

    Returns:
        The outcome; an error of the learner's code is part of it.
    """
    outcome = Outcome()
    memory = None if case.max_live is None else LiveMemory()
    inputs = Inputs(case, names, memory)
    try:
        with (
            capture_output() as prints,
            warnings.catch_warnings(),
            Generators() as generators,
            torch.enable_grad(),  # an answer may switch gradients off
            compat.empty_memory_is_nan(),
            (clock or Clock()).running(),
        ):
            warnings.simplefilter("ignore")
            call: Any = partial(launch, answer) if launch else answer
            if case.init is not None:
                generators.seed()
                call = answer(**map_tensors(copy_tensor, dict(case.init)))
            generators.seed()
            earlier = []
            for other in case.before:
                _ready(call, other)
                x = Inputs(other)
                earlier.append(call(*x.args, **x.kwargs))
            copies = [kept(x) for x in earlier]
            weights = _ready(call, case)
            if case.init is not None or case.before:
                generators.changed()  # not by the call
            filled = _Filled() if fill_empty else nullcontext()
            with refusing(forbids, memory), filled:
                output = call(*inputs.args, **inputs.kwargs)
            if verify:
                verify()
            result = kept(output)  # before anything else is looked at
            outcome.random_used = generators.changed()
            outcome.output = compared(result, case)
            outcome.repeats = any(same(result, x) for x in copies)
            effect = _changes(call, case, weights)
            outcome.side_effect = effect or _copied(output, case)
            now = dict(named_tensors(kept(earlier)))
            if not all(unchanged(x, now[n]) for n, x in named_tensors(copies)):
                outcome.side_effect = "it changes what it returned earlier"
            if case.grad and not is_foreign(result):
                own = _parameters(call) if case.init is not None else {}
                wanted = {**inputs.tensors, **own}
                outcome.grads = _gradients(output, wanted)
    except BaseException as error:
        fail(outcome, error)
    outcome.printed = prints.stdout + prints.stderr
    if changed := inputs.changed():
        outcome.side_effect = f"it changes {', '.join(changed)} in place"
    elif memory and memory.peak > (case.max_live or 0):
        outcome.side_effect = (
            f"at its peak it holds {memory.peak:,} elements beyond its "
            f"inputs, where {case.max_live:,} are enough; the largest tensor "
            f"is {memory.shape}. Is something copied, or kept for longer "
            "than it is needed?"
        )
    return outcome


def fail(outcome: Outcome, error: BaseException) -> Outcome:
    """Note an error of the learner's code, and where it was raised."""
    outcome.error = _own_error(error)
    outcome.where, outcome.shapes_seen = _learners_line(outcome.error)
    outcome.output = getattr(outcome.error, "output", None)
    return outcome


def _ready(call: Any, case: Case) -> dict[str, Tensor]:
    """Load a module, set its mode, and return copies of its parameters."""
    if case.init is None:
        return {}
    if case.state is not None:
        load(call, case.state)
    call.train(case.train)
    return {n: x.detach().clone() for n, x in _parameters(call).items()}


def _parameters(call: Any) -> dict[str, Tensor]:
    """Return a module's parameters by name, whatever methods it overrides."""
    return dict(torch.nn.Module.named_parameters(call))


def _changes(call: Any, case: Case, weights: dict[str, Tensor]) -> str:
    """Return what a call changed in its own module, in words."""
    if case.init is None:
        return ""
    for name, x in _parameters(call).items():
        if name in weights and not unchanged(x.detach(), weights[name]):
            return f"it changes its parameter {name}"
    if any(x.training != case.train for x in torch.nn.Module.modules(call)):
        mode = "eval" if case.train else "training"
        return f"it switches itself, or a part of it, to {mode} mode"
    return ""


def _copied(output: Any, case: Case) -> str:
    """Return which part of a result is a copy of another, in words."""
    if case.one_tensor is None:
        return ""
    one, other = case.one_tensor
    found = dict(named_tensors(output))
    pair = [found[name] for name in (one, other) if name in found]
    if len({x.untyped_storage().data_ptr() for x in pair}) < 2:
        return ""
    return f"{one} and {other} are two tensors with equal numbers, not one"


class _Filled(TorchFunctionMode):
    """Fill with a number what is otherwise NaN: memory just allocated."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if "empty" in getattr(func, "__name__", ""):
            result.fill_(7)
        return result


def _own_error(error: BaseException) -> BaseException:
    """Return an error as the learner's: no wrap of a kernel's interpreter.

    A stub's NotImplementedError says nothing. One with a message, PyTorch's
    for instance, is an error like any other.
    """
    while type(error).__name__ == "InterpreterError" and error.__cause__:
        error = error.__cause__
    if isinstance(error, NotImplementedError) and str(error):
        return RuntimeError(str(error)).with_traceback(error.__traceback__)
    return error


def _gradients(output: Any, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of ``sum(output * cotangent)``, or zeros.

    A result that is 0 throughout has the gradient 0, with a graph or without.
    """
    floats = {n: x for n, x in wanted.items() if x.is_floating_point()}
    frozen = {
        n: torch.zeros_like(x)
        for n, x in floats.items()
        if not x.requires_grad
    }
    wanted = {n: x for n, x in floats.items() if x.requires_grad}
    tensors = [x for _, x in named_tensors(output)]
    results = [x for x in tensors if x.requires_grad]
    if tensors and not results and not any(x.any() for x in tensors):
        return {name: torch.zeros_like(x) for name, x in floats.items()}
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
    return frozen | {
        name: torch.zeros_like(x) if g is None else g.detach().clone()
        for (name, x), g in zip(wanted.items(), grads, strict=True)
    }


def cotangent(like: Tensor) -> Tensor:
    """Draw fixed random elements (never ones) in the shape of a result."""
    generator = torch.Generator().manual_seed(like.numel())
    noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return noise.to(like.dtype)


def _learners_line(
    error: BaseException,
) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return the innermost line of the learner's own in the traceback.

    And the shapes of the tensors that it names. An error of a kernel carries
    its line.
    """
    if (where := getattr(error, "where", None)) is not None:
        return where, {}
    library = [torch.__path__[0], str(Path(__file__).parents[2])]
    if triton := sys.modules.get("triton"):
        library += triton.__path__
    line, names = "", {}
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(tuple(library)):
            continue
        if text := linecache.getline(file, number, frame.f_globals).strip():
            line, names = text, frame.f_locals
    values = {word: names.get(word) for word in re.findall(r"\w+", line)}
    shapes = {n: x.shape for n, x in values.items() if isinstance(x, Tensor)}
    return line, {n: tuple(shape) for n, shape in shapes.items()}
