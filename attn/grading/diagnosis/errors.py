"""Recognise errors, and what an answer does in addition to its result."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from attn.exercises.case import LONGER
from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Failure, agree
from attn.grading.checks.inputs import Once, named_tensors
from attn.grading.checks.result import NoGradient
from attn.grading.diagnosis.axes import count_axes
from attn.grading.diagnosis.kinds import Test, Words


def in_place(evidence: Evidence, failure: Failure) -> bool:
    """An input is changed."""
    error = _error(failure, RuntimeError)
    if "leaf Variable that requires grad" in error and "in-place" in error:
        return True
    if not any(f.effect in _CHANGES for f in evidence.failures):
        return False
    changes = _side_effect(failure) in _CHANGES
    return changes or any(x in error for x in _IN_PLACE)


_CHANGES = ("changed input", "changed parameter")
_IN_PLACE = (
    "doesn't match the broadcast shape",
    "written-to tensor refers to a single memory location",
    "modified by an inplace operation",
)


def remembered(evidence: Evidence, failure: Failure) -> bool:
    """A call is wrong after one that differs in one argument.

    The earlier call may be that of a case, where a case is derived from it.
    """

    def follows(failure: Failure) -> bool:
        return any(x.may_raise for x in failure.case.before)

    if not any(map(follows, evidence.failures)):
        return False
    return follows(failure) or _repeats_a_case(evidence, failure)


def _repeats_a_case(evidence: Evidence, failure: Failure) -> bool:
    """Return whether the result is that of a case with one other argument."""
    if failure.case.before or failure.outcome.error:
        return False
    inputs = evidence.with_defaults(failure.index)

    def differing(other: dict[str, Any]) -> int:
        names = inputs.keys() | other.keys()
        return sum(not alike(inputs.get(n), other.get(n), 0.0) for n in names)

    return any(
        differing(evidence.with_defaults(j)) == 1
        and alike(failure.outcome.output, evidence.expected(j).output)
        for j in range(failure.index)
    )


def kept(evidence: Evidence, failure: Failure) -> bool:
    """A later call is wrong, and the first is right.

    Not where the right result depends on earlier calls: a cache must keep.
    """
    later = all(f.case.before for f in evidence.failures)
    once = any(not evidence.case(i).before for i in evidence.passing)
    if not later or not once or failure.effect in _MODES:
        return False
    right = evidence.expected(failure.index)
    alone = evidence.reference(failure.index)
    return bool(right.random_used) or agree(alone, right, failure.case)


_MODES = ("eval mode", "training mode")  # switched at the first call, too


def nothing_returned(evidence: Evidence, failure: Failure) -> bool:
    """The result is None, through which no gradient flows either."""
    failures = [failure]
    if isinstance(failure.outcome.error, NoGradient):
        failures = [f for f in evidence.failures if not f.outcome.error]
    outputs = [f.outcome.output for f in failures if not f.outcome.error]
    return bool(outputs) and all(x is None for x in outputs)


def never_written(evidence: Evidence, failure: Failure) -> bool:
    """The wrong elements are memory that was only allocated."""
    case = failure.case
    if failure.problem.kind != "nan" or case.init is not None:
        return False
    if evidence.answer is None or evidence.exercise.caller:
        return False
    case = replace(case, before=(), max_live=None)
    filled = evidence.runner(evidence.answer, case, fill_empty=True)
    before = [x.isnan() for _, x in named_tensors(failure.outcome.output)]
    after = [x.isnan() for _, x in named_tensors(filled.output)]
    return len(before) == len(after) and any(
        bool((a & ~b).any()) for a, b in zip(before, after, strict=True)
    )


def axes_counted(evidence: Evidence, failure: Failure) -> Words | None:
    """A shape is unpacked, or all is right for one number of axes only."""
    error, line = _error(failure), failure.outcome.where
    match = re.search(r"values to unpack \(expected (\d+)", error)
    if match and re.search(r"\.(shape|size\(\))", line):
        return {"count": match[1]}
    right, wrong = (
        {count_axes(evidence.inputs(i)) for i in cases}
        for cases in (evidence.passing, evidence.failing)
    )
    if len(right) != 1 or right & wrong or len(evidence.passing) < 2:
        return None
    (count,) = right
    return {"count": str(count)} if min(wrong) < count < max(wrong) else None


def no_such_dtype(evidence: Evidence, failure: Failure) -> Words | None:
    """An operation does not exist for half precision."""
    error, names = _error(failure), {"Half": "float16", "BFloat16": "bfloat16"}
    half = re.search(rf"\b({'|'.join(names)})\b", error)
    lacks = re.search(r"not (implemented|support)|only support", error)
    return {"dtype": names[half[1]]} if half and lacks else None


def _other_names(extra: list[str], missing: list[str]) -> Words | None:
    """The parameters have names of their own."""
    if not extra or len(extra) != len(missing):
        return None
    return {"has": ", ".join(extra), "needs": ", ".join(missing)}


def _extra(extra: list[str], missing: list[str]) -> Words | None:
    """There are parameters that the task does not have."""
    return {"names": ", ".join(extra)} if extra and not missing else None


def _parameters(failure: Failure) -> tuple[list[str], list[str]]:
    """Return the names of the parameters too many, and of those missing."""
    error = failure.outcome.error
    extra, missing = (getattr(error, x, ()) for x in ("extra", "missing"))
    return sorted(extra), sorted(missing)


def _biases(some: list[str], none: list[str]) -> Words | None:
    """Name the maps of which only the bias is too many, or is missing."""
    if none or not some or not all(x.endswith(".bias") for x in some):
        return None
    return {"maps": ", ".join(x.removesuffix(".bias") for x in some)}


def signature(evidence: Evidence, failure: Failure) -> bool:
    """The arguments are not those of the task."""
    called = rf"{evidence.exercise.name}(\.__init__|\.forward)?\(\)"
    pattern = rf"{called} (got an unexpected|missing|takes)"
    return bool(re.match(pattern, _error(failure, TypeError)))


def no_gradient(evidence: Evidence, failure: Failure) -> Words | None:
    """No gradient flows back, or none to some inputs."""
    if isinstance(failure.outcome.error, NoGradient):
        return {"inputs": "any input"}
    for problem in failure.problems:
        is_gradient = problem.part.input and problem.wrong is not None
        if not is_gradient or problem.got.any():
            return None
    return {"inputs": " and ".join(p.part.input for p in failure.problems)}


def _error(failure: Failure, of: type = BaseException) -> str:
    """Return the text of an error, if there is one of this type."""
    error = failure.outcome.error
    return str(error) if isinstance(error, of) else ""


def _side_effect(failure: Failure) -> str:
    effect = failure.outcome.side_effect
    return effect.kind if effect else ""


KINDS: dict[str, Test] = {
    "in_place": in_place,
    "earlier_result": lambda e, f: _side_effect(f) == "changed result",
    "random": lambda e, f: f.effect == "random numbers",
    "same_coins": lambda e, f: f.effect == "same coins",
    "shared_by_objects": lambda e, f: any(x.another for x in f.case.before),
    "remembered": remembered,
    "too_short": lambda e, f: f.case.condition == LONGER,
    "initial_values": lambda e, f: bool(f.case.initial),
    "kept": kept,
    "memory": lambda e, f: f.effect == "memory",
    "kept_memory": lambda e, f: f.effect == "kept memory",
    "not_run": lambda e, f: e.exercise.undefined(_error(f, NameError)),
    "nothing_returned": nothing_returned,
    "never_written": never_written,
    "once": lambda e, f: f"not {Once.__name__}" in _error(f, TypeError),
    "view": lambda e, f: "view size is not compatible" in _error(f),
    "axes_counted": axes_counted,
    "no_such_dtype": no_such_dtype,
    "mixed_dtypes": lambda e, f: "same dtype" in _error(f),
    "no_super": lambda e, f: "before Module.__init__() call" in _error(f),
    "extra_bias": lambda e, f: _biases(*_parameters(f)),
    "no_bias": lambda e, f: _biases(*reversed(_parameters(f))),
    "other_names": lambda e, f: _other_names(*_parameters(f)),
    "extra_parameters": lambda e, f: _extra(*_parameters(f)),
    "one_parameter": lambda e, f: bool(getattr(f.outcome.error, "shared", ())),
    "numpy_and_gradients": lambda e, f: "Can't call numpy() on" in _error(f),
    "signature": signature,
    "no_gradient": no_gradient,
}
