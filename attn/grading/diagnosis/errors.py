"""Recognise errors, and what an answer does in addition to its result."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Failure, agree
from attn.grading.checks.inputs import Once, named_tensors
from attn.grading.checks.more_cases import LONGER
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import NoGradient
from attn.grading.diagnosis.kinds import Test, Words


def in_place(evidence: Evidence, failure: Failure) -> Words | None:
    """An input is changed."""
    error = _runtime_error(failure)
    if "leaf Variable that requires grad" in error and "in-place" in error:
        return {}
    if not any(f.effect in _CHANGES for f in evidence.failures):
        return None
    effect = failure.outcome.side_effect
    changes = effect is not None and effect.kind in _CHANGES
    return {} if changes or any(x in error for x in _IN_PLACE) else None


_CHANGES = ("changed input", "changed parameter")
_IN_PLACE = (
    "doesn't match the broadcast shape",
    "written-to tensor refers to a single memory location",
)


def earlier_result(evidence: Evidence, failure: Failure) -> Words | None:
    """A later call changes the result of an earlier one."""
    effect = failure.outcome.side_effect
    return {} if effect and effect.kind == "changed result" else None


def random(evidence: Evidence, failure: Failure) -> Words | None:
    """Random numbers are drawn."""
    return {} if failure.effect == "random numbers" else None


def same_coins(evidence: Evidence, failure: Failure) -> Words | None:
    """The same random numbers are drawn at each call."""
    return {} if failure.effect == "same coins" else None


def shared_by_objects(evidence: Evidence, failure: Failure) -> Words | None:
    """Another object of the class is in use as well."""
    return {} if any(x.another for x in failure.case.before) else None


def remembered(evidence: Evidence, failure: Failure) -> Words | None:
    """A call is wrong after one that differs in one argument.

    The earlier call may be that of a case, where a case is derived from it.
    """
    if not any(_follows_a_like_call(f) for f in evidence.failures):
        return None
    repeats = _follows_a_like_call(failure) or _repeats_a_case(
        evidence, failure
    )
    return {} if repeats else None


def _follows_a_like_call(failure: Failure) -> bool:
    return any(x.may_raise for x in failure.case.before)


def _repeats_a_case(evidence: Evidence, failure: Failure) -> bool:
    """Return whether the result is that of a like case before."""
    if failure.case.before or failure.outcome.error:
        return False
    inputs = evidence.with_defaults(failure.index)
    return any(
        len(_other_arguments(inputs, evidence.with_defaults(j))) == 1
        and alike(failure.outcome.output, evidence.expected(j).output)
        for j in range(failure.index)
    )


def _other_arguments(one: dict[str, Any], two: dict[str, Any]) -> set[str]:
    """Return the names of the arguments in which two calls differ."""
    return {
        name
        for name in one.keys() | two.keys()
        if not alike(one.get(name), two.get(name), 0.0)
    }


def too_short(evidence: Evidence, failure: Failure) -> Words | None:
    """An input is longer than those before."""
    return {} if failure.case.condition == LONGER else None


def initial_values(evidence: Evidence, failure: Failure) -> Words | None:
    """Some parameters are as the constructor made them."""
    return {} if failure.case.initial else None


def kept(evidence: Evidence, failure: Failure) -> Words | None:
    """A later call is wrong, and the first is right.

    Not where the right result depends on earlier calls: a cache must keep.
    """
    later = all(f.case.before for f in evidence.failures)
    once = any(not evidence.case(i).before for i in evidence.passing)
    if not later or not once or failure.effect in _MODES:
        return None
    right = evidence.expected(failure.index)
    alone = evidence.reference(failure.index)
    depends = not right.random_used and not agree(alone, right, failure.case)
    return None if depends else {}


_MODES = ("eval mode", "training mode")  # switched at the first call, too


def memory(evidence: Evidence, failure: Failure) -> Words | None:
    """More is kept than the task allows."""
    return {} if failure.effect == "memory" else None


def kept_memory(evidence: Evidence, failure: Failure) -> Words | None:
    """An object holds more between calls than the task allows."""
    return {} if failure.effect == "kept memory" else None


def nothing_returned(evidence: Evidence, failure: Failure) -> Words | None:
    """The result is None, through which no gradient flows either."""
    failures = [failure]
    if isinstance(failure.outcome.error, NoGradient):
        failures = [f for f in evidence.failures if not f.outcome.error]
    outputs = [f.outcome.output for f in failures if not f.outcome.error]
    return {} if outputs and all(x is None for x in outputs) else None


def never_written(evidence: Evidence, failure: Failure) -> Words | None:
    """The wrong elements are memory that was only allocated."""
    case = failure.case
    if failure.problem.kind != "nan" or case.init is not None:
        return None
    if evidence.answer is None or evidence.exercise.caller:
        return None
    case = replace(case, before=(), max_live=None)
    filled = evidence.runner(evidence.answer, case, fill_empty=True)
    before = [x.isnan() for _, x in named_tensors(failure.outcome.output)]
    after = [x.isnan() for _, x in named_tensors(filled.output)]
    if len(before) != len(after):
        return None
    gone = [(a & ~b).any() for a, b in zip(before, after, strict=True)]
    return {} if any(gone) else None


def once(evidence: Evidence, failure: Failure) -> Words | None:
    """An iterator, whose entries are read once, is taken for a list."""
    is_type_error = isinstance(failure.outcome.error, TypeError)
    not_a_list = f"not {Once.__name__}" in _error(failure)
    return {} if is_type_error and not_a_list else None


def view(evidence: Evidence, failure: Failure) -> Words | None:
    """``view`` of a tensor whose memory is in another order."""
    return {} if "view size is not compatible" in _error(failure) else None


def axes_counted(evidence: Evidence, failure: Failure) -> Words | None:
    """A shape is unpacked into another number of names."""
    error, line = _error(failure), failure.outcome.where
    match = re.search(r"values to unpack \(expected (\d+)", error)
    if not match or not re.search(r"\.(shape|size\(\))", line):
        return None
    return {"count": match[1]}


def no_such_dtype(evidence: Evidence, failure: Failure) -> Words | None:
    """An operation does not exist for half precision."""
    half = re.search(r"\b(Half|BFloat16)\b", _error(failure))
    refuses = re.search(
        r"not (implemented|support)|only support", _error(failure)
    )
    if not half or not refuses:
        return None
    return {"dtype": {"Half": "float16", "BFloat16": "bfloat16"}[half[1]]}


def mixed_dtypes(evidence: Evidence, failure: Failure) -> Words | None:
    """Two tensors of different dtypes meet in a product."""
    return {} if "same dtype" in _error(failure) else None


def no_super(evidence: Evidence, failure: Failure) -> Words | None:
    """``nn.Module.__init__`` was not called."""
    return {} if "before Module.__init__() call" in _error(failure) else None


def extra_bias(evidence: Evidence, failure: Failure) -> Words | None:
    """Some maps have a bias that the task does not give them."""
    return _biases(failure, "extra", "missing")


def no_bias(evidence: Evidence, failure: Failure) -> Words | None:
    """Some maps have no bias, and the task gives them one."""
    return _biases(failure, "missing", "extra")


def _biases(failure: Failure, some: str, none: str) -> Words | None:
    error = failure.outcome.error
    if not isinstance(error, WrongParameters) or getattr(error, none):
        return None
    names = sorted(getattr(error, some))
    if not names or not all(x.endswith(".bias") for x in names):
        return None
    return {"maps": ", ".join(x.removesuffix(".bias") for x in names)}


def other_names(evidence: Evidence, failure: Failure) -> Words | None:
    """The parameters have names of their own."""
    error = failure.outcome.error
    if not isinstance(error, WrongParameters):
        return None
    extra, missing = sorted(error.extra), sorted(error.missing)
    if not extra or len(extra) != len(missing):
        return None
    return {"has": ", ".join(extra), "needs": ", ".join(missing)}


def extra_parameters(evidence: Evidence, failure: Failure) -> Words | None:
    """There are parameters that the task does not have."""
    error = failure.outcome.error
    if not isinstance(error, WrongParameters) or error.missing:
        return None
    names = ", ".join(sorted(error.extra))
    return {"names": names} if names else None


def one_parameter(evidence: Evidence, failure: Failure) -> Words | None:
    """Two maps are one object."""
    error = failure.outcome.error
    is_shared = isinstance(error, WrongParameters) and error.shared
    return {} if is_shared else None


def numpy_and_gradients(evidence: Evidence, failure: Failure) -> Words | None:
    """A tensor that requires a gradient goes to NumPy."""
    return {} if "Can't call numpy() on Tensor" in _error(failure) else None


def signature(evidence: Evidence, failure: Failure) -> Words | None:
    """The arguments are not those of the task."""
    error = failure.outcome.error
    name = evidence.exercise.name
    called = rf"{name}(\.__init__|\.forward)?\(\)"
    pattern = rf"{called} (got an unexpected|missing|takes)"
    if isinstance(error, TypeError) and re.match(pattern, str(error)):
        return {}
    return None


def no_gradient(evidence: Evidence, failure: Failure) -> Words | None:
    """No gradient flows back, or none to some inputs."""
    if isinstance(failure.outcome.error, NoGradient):
        return {"inputs": "any input"}
    for problem in failure.problems:
        if problem.part.kind != "gradient":
            return None
        if problem.got is None or problem.got.any() or problem.wrong is None:
            return None
    return {"inputs": " and ".join(p.part.input for p in failure.problems)}


def _error(failure: Failure) -> str:
    """Return the text of Python's or PyTorch's error, if there is one."""
    return str(failure.outcome.error) if failure.outcome.error else ""


def _runtime_error(failure: Failure) -> str:
    is_one = isinstance(failure.outcome.error, RuntimeError)
    return _error(failure) if is_one else ""


KINDS: tuple[Test, ...] = (
    in_place,
    earlier_result,
    random,
    same_coins,
    shared_by_objects,
    remembered,
    too_short,
    initial_values,
    kept,
    memory,
    kept_memory,
    nothing_returned,
    never_written,
    once,
    view,
    axes_counted,
    no_such_dtype,
    mixed_dtypes,
    no_super,
    extra_bias,
    no_bias,
    other_names,
    extra_parameters,
    one_parameter,
    numpy_and_gradients,
    signature,
    no_gradient,
)
