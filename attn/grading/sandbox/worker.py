"""Run one answer on case after case, in a process forked at its check.

Requests come as pickles from the judge; what goes back is ``wire.encode``'s.
"""

from __future__ import annotations

import inspect
import socket
import sys
import warnings
from typing import Any

import torch

from attn.grading.checks.clock import Clock
from attn.grading.checks.run import Outcome, fail, run
from attn.grading.sandbox.requests import Use, receive
from attn.grading.sandbox.wire import encode
from attn.profiling import compat


def serve(channel: socket.socket, name: str, form: str, answer: Any) -> None:
    """Say whether there is an answer; run it until the channel is closed.

    Args:
        channel: to the judge.
        name: that the answer has.
        form: ``function``, ``class`` or ``kernel``.
        answer: what the notebook has under the name; None if it has nothing.
    """
    _as_in_a_new_notebook()
    outcome = Outcome()
    if answer is None:
        fail(outcome, NameError(f"name {name!r} is not defined"))
    elif odd := _odd_form(name, form, answer):
        fail(outcome, TypeError(odd))
    channel.sendall(encode(outcome))
    clock = Clock()
    with compat.language_kept_patched(), torch.inference_mode(False):
        if outcome.error is None and form == "kernel":
            answer = _another_kernel(answer)
        while outcome.error is None:
            use: Use = receive(channel)[0]
            clock.limit = use.limit
            found = run(
                answer,
                use.case,
                forbids=use.forbids,
                clock=clock,
                launch=use.launch,
                names=use.names,
                fill_empty=use.fill_empty,
            )
            channel.sendall(_encoded(found))


def _encoded(outcome: Outcome) -> bytes:
    """Encode an outcome; an error of which that fails is named by its kind."""
    try:
        return encode(outcome)
    except Exception as error:  # of a learner's ``__str__``, for instance
        kind = type(error).__name__
        text = f"what it returns or raises cannot be read ({kind})"
        return encode(Outcome(error=TypeError(text)))


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


def _odd_form(name: str, form: str, answer: Any) -> str:
    """Return a complaint if an answer has another form than the task's."""
    if form == "kernel":
        fits = type(answer).__name__ in ("InterpretedFunction", "JITFunction")
        fits = fits and type(answer).__module__.startswith("triton.")
        needs = "a kernel: write @triton.jit above its def"
    elif form == "class":
        fits, needs = inspect.isclass(answer), "a class"
    else:
        fits = callable(answer) and not inspect.isclass(answer)
        fits = fits and not hasattr(answer, "fn")
        needs = "a function"
    return "" if fits else f"{name} needs to be {needs}"


def _another_kernel(answer: Any) -> Any:
    """Return another kernel of the function that was decorated."""
    import triton

    return triton.jit(answer.fn)
