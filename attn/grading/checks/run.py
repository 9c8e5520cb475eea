"""Run a learner's function or class on one case, whatever it does.

This file holds no right answer: a grader can use it in a separate process.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from IPython.utils.capture import capture_output
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.case import Case
from attn.exercises.generators import Generators
from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.outcome import Outcome, Shapes, SideEffect
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.forbidden import refusing
from attn.grading.checks.inputs import Inputs, named_tensors, unchanged
from attn.grading.checks.objects import (
    earlier_results,
    effect_of,
    held_memory,
    make,
    parameters,
)
from attn.grading.checks.result import (
    copied,
    gradients,
    plain,
    reduced,
    same_tensors,
)
from attn.profiling import LiveMemory, compat

#: Where Python and installed packages are: no line there is a learner's.
_PYTHON = [*map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]


def run(
    answer: Any,
    case: Case,
    *,
    forbids: tuple[str, ...] = (),
    clock: Clock | None = None,
    launch: Callable[..., Any] | None = None,
    names: Sequence[str] = (),
    fill_empty: bool = False,
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
            callee = make(partial(launch, answer) if launch else answer, case)
            call = callee.call
            generators.seed()
            earlier = earlier_results(answer, callee, case)
            copies = copied(plain(earlier))
            weights = callee.prepare(case)
            if case.init is not None or case.before:
                generators.changed()  # not by the call
            places = {} if case.max_kept is None else held_memory(call)
            filling = _FilledMemory() if fill_empty else nullcontext()
            with refusing(forbids, memory), filling:
                output = call(*inputs.args, **inputs.kwargs)
            output = plain(output)
            result = copied(output)
            outcome.random_used = generators.changed()
            outcome.output = reduced(result, case)
            outcome.repeats = any(same_tensors(result, x) for x in copies)
            outcome.side_effect = effect_of(
                call, output, case, weights, places
            )
            now = dict(named_tensors(plain(earlier)))
            if not all(unchanged(x, now[n]) for n, x in named_tensors(copies)):
                outcome.side_effect = SideEffect("changed result")
            if case.grad:
                own = parameters(call) if case.init is not None else {}
                leaves = {**inputs.tensors, **own}
                with refusing(forbids):  # a backward of the answer's own
                    outcome.grads = gradients(output, leaves)
    except BaseException as error:
        fail(outcome, error)
    outcome.printed = prints.stdout + prints.stderr
    if changed := inputs.changed():
        outcome.side_effect = SideEffect("changed input", tuple(changed))
    elif memory and memory.peak > (limit := case.max_live or 0):
        sizes = memory.peak, limit, memory.shape
        outcome.side_effect = SideEffect("memory", (), *sizes)
    return outcome


def fail(outcome: Outcome, error: BaseException) -> Outcome:
    """Note an error of the learner's code, and where it was raised.

    A stub's NotImplementedError says nothing. One with a message, PyTorch's
    for instance, is an error like any other.
    """
    if isinstance(error, NotImplementedError) and str(error):
        error = RuntimeError(str(error)).with_traceback(error.__traceback__)
    outcome.error = error
    outcome.where, outcome.shapes_seen = _learners_line(error)
    if type(error) is OutOfBounds:
        outcome.output = error.output
    return outcome


class _FilledMemory(TorchFunctionMode):
    """Fill with a number what is otherwise NaN: memory just allocated."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if "empty" in getattr(func, "__name__", ""):
            result.fill_(7)
        return result


def _learners_line(error: BaseException) -> tuple[str, Shapes]:
    """Return the innermost line of the learner's own in the traceback.

    And the shapes of the tensors that it names. An error of a kernel carries
    its line.
    """
    if (where := getattr(error, "where", None)) is not None:
        return where, {}
    library = [*torch.__path__, str(Path(__file__).parents[2]), *_PYTHON]
    if triton := sys.modules.get("triton"):
        library += triton.__path__
    line, names = "", {}
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(tuple(library)):
            continue
        if text := linecache.getline(file, number, frame.f_globals).strip():
            line, names = text, frame.f_locals
    if isinstance(error, OutOfTime):
        names = {}  # where it was stopped is chance
    named = {word: names.get(word) for word in re.findall(r"\w+", line)}
    tensors = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    return line, {n: tuple(x.shape) for n, x in tensors.items()}
