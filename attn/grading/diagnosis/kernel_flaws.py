"""Find what is wrong with a kernel whose results are right.

The interpreter executes what cannot be compiled, multiplies in full precision
whatever the precision of ``tl.dot``, and loads a tile any number of times,
needed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attn.exercises.case import Case
from attn.exercises.kernel import function_of, is_kernel
from attn.exercises.launches import Recorded
from attn.grading.checks.clock import Clock
from attn.grading.checks.failures import checked, error_text
from attn.grading.checks.front_end import refusal, refused_syntax
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.kinds import Kind, kind

#: Tiles so small that each row of them has several hidden ones.
SMALL = {"block_l": 8, "block_s": 8}
#: With a causal mask, the share of all tiles that may be loaded. Of 4 by 4,
#: 10 are visible, and 13 where each range is one tile too long or too early.
SHARE = 0.85


class _NoRecordError(Exception):
    """A kernel has failed in a launch like those that it has passed."""


def kernel_flaw(
    answer: Any, oracle: Oracle, runner: Callable[..., Outcome]
) -> Kind | None:
    """Return what is wrong with a kernel that has passed its cases.

    Args:
        answer: a kernel, or what has one's ``text`` where the kernel is in
            the sandbox: the text is parsed, and nothing of it executed.
        oracle: gives the cases; the largest is run once more.
        runner: runs the answer on a case.
    """
    exercise = oracle.exercise
    if exercise.launch is None:
        return None
    recorded = Recorded(exercise.launch)

    def record(case: Case) -> dict[str, Any]:
        clock = Clock(limit=2 * oracle.time_limit(0))  # counting takes time
        with checked(exercise.id):
            found = runner(answer, case, launch=recorded, clock=clock)
        if found.error or not isinstance(found.output, dict):
            raise _NoRecordError(error_text(found) if found.error else "")
        return found.output

    try:
        return _flaw(answer, oracle, record)
    except _NoRecordError as error:
        return kind("fails_again", error=str(error))


def _flaw(
    answer: Any, oracle: Oracle, record: Callable[[Case], dict[str, Any]]
) -> Kind | None:
    exercise = oracle.exercise
    counted = record(max(oracle.cases, key=_tiles_of_float32))
    if is_kernel(answer):
        refused = refusal(function_of(answer), counted)
    else:
        refused = refused_syntax(answer.text, exercise.name)
    if refused:
        return kind("not_compiled", reason=refused.reason, line=refused.line)
    for name in exercise.loads_once:
        # Lanes beyond the end may be loads of an element that exists.
        if (times := counted["times"].get(name, 0.0)) >= 2:
            return kind("loaded_again", tensor=name, times=f"{times:.3g}")
    if counted["tf32"] and exercise.ieee:
        return kind("tf32")
    if exercise.skips_hidden:
        case = max(filter(_is_causal, oracle.cases), key=input_size)
        every, seen = (
            record(replace(case, kwargs={**SMALL, "is_causal": x}))["bytes"]
            for x in (False, True)
        )
        for name in exercise.skips_hidden:
            share = seen.get(name, 0) / max(every.get(name, 0), 1)
            if share > SHARE:
                return kind(
                    "hidden_read", tensor=name, share=f"{100 * share:.0f}"
                )
    return None


def _is_causal(case: Case) -> bool:
    """Return whether query i sees the keys up to i."""
    return "is_causal" in case.kwargs and not case.kwargs.get("q_offset")


def _tiles_of_float32(case: Any) -> tuple[bool, int]:
    return "float16" not in case.condition, input_size(case)
