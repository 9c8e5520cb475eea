"""Find what is wrong with a kernel whose results are right.

The interpreter executes what cannot be compiled, multiplies in full precision
whatever the precision of ``tl.dot``, and loads a tile any number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attn.exercises.kernel import is_kernel
from attn.exercises.launches import Recorded
from attn.exercises.triton_compat import triton
from attn.grading.checks.failures import checked
from attn.grading.checks.front_end import refusal, refused_syntax
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.kinds import Kind, kind


def kernel_flaw(
    answer: Any, oracle: Oracle, runner: Callable[..., Outcome]
) -> Kind | None:
    """Return what is wrong with a kernel that has passed its cases.

    Where kernels are compiled, a launch has refused what Triton refuses, and
    nothing is counted.

    Args:
        answer: a kernel, or what has one's ``text`` where the kernel is in
            the sandbox: the text is parsed, and nothing of it executed.
        oracle: gives the cases; the largest is run once more.
        runner: runs the answer on a case.
    """
    exercise = oracle.exercise
    if exercise.launch is None or not triton.knobs.runtime.interpret:
        return None
    case = max(oracle.cases, key=_tiles_of_float32)
    with checked(exercise.id):
        found = runner(answer, case, launch=Recorded(exercise.launch))
    record = found.output
    if found.error or not isinstance(record, dict):
        return None  # as a kernel it has passed
    if is_kernel(answer):
        refused = refusal(answer, record)
    else:
        refused = refused_syntax(answer.text, exercise.name)
    if refused:
        return kind("not_compiled", reason=refused.reason, line=refused.line)
    for name in exercise.loads_once:
        # Lanes beyond the end may be loads of an element that exists.
        if (times := record["times"].get(name, 0.0)) >= 2:
            return kind("loaded_again", tensor=name, times=f"{times:.3g}")
    if record["tf32"] and exercise.ieee:
        return kind("tf32")
    return None


def _tiles_of_float32(case: Any) -> tuple[bool, int]:
    return "float16" not in case.condition, input_size(case)
