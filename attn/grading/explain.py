"""Say to a learner what went wrong, in words, shapes and a few numbers."""

from __future__ import annotations

import dis
import inspect
import types
from typing import Any

from attn.exercises.kernel import is_kernel
from attn.exercises.mistakes import Mistake
from attn.exercises.spec import Case, Exercise
from attn.grading.compare import describe
from attn.grading.run import (
    TIME_LIMIT,
    Failure,
    Forbidden,
    Outcome,
    OutOfTime,
    WrongParameters,
    input_name,
    named_tensors,
)


def explain(
    exercise: Exercise,
    cases: list[Case],
    failures: list[Failure],
    mistake: Mistake | None,
) -> str:
    """The diagnosis: what is right so far, the mistake, one small input."""
    first = failures[0]
    if isinstance(first.outcome.error, NotImplementedError):
        return (
            "not written yet: the stub still raises NotImplementedError. "
            f'hint("{exercise.id}") gives a hint.'
        )
    stage = first.case.stage
    lines = []
    passed = _stages_before(cases, stage)
    if passed and not mistake:
        lines.append("right so far: " + "; ".join(passed))
    if mistake:
        lines.append(f"this looks like: {mistake.name}")
        lines.append(mistake.why)
    smallest = min(
        (f for f in failures if f.case.stage == stage), key=_input_size
    )
    lines.append(f"wrong when {stage}: {smallest.problem.text}")
    lines += _input_lines(exercise, smallest.case)
    if smallest.problem.kind not in ("error", "fault"):
        lines.append(f"  got       {describe(smallest.outcome.output)}")
        lines.append(f"  expected  {describe(smallest.expected)}")
    if not mistake and smallest.outcome.error is None:
        for claim in exercise.properties:
            if not _holds(claim.holds, smallest):
                lines.append(claim.says)
    printed = smallest.outcome.printed.strip().splitlines()
    if printed:
        lines.append("what it printed there:")
        lines += [f"  | {line[:70]}" for line in printed[:5]]
        if len(printed) > 5:
            lines.append(f"  | … {len(printed) - 5} more lines")
    return "\n".join(lines)


def error_text(outcome: Outcome) -> str:
    """What an error in the learner's code means."""
    error = outcome.error
    if isinstance(error, OutOfTime):
        return (
            f"it did not finish within {TIME_LIMIT:g} s: is there an endless "
            "loop?"
        )
    if isinstance(error, Forbidden):
        return (
            f"it calls torch's {error}, which this exercise asks you to write"
        )
    if isinstance(error, WrongParameters):
        return str(error)
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:200] + " …"
    place = f"\n  in the line  {outcome.where}" if outcome.where else ""
    return f"it raised {type(error).__name__}: {text}{place}"


def gradient_name(path: str) -> str:
    """An input or a parameter, as a learner says it."""
    return input_name(path) if path.startswith(("args", "kwargs")) else path


def use_of_the_package(exercise: Exercise, answer: Any) -> str | None:
    """A complaint when the answer is, or calls, the book's own package.

    This is for honest learners; a grader that cannot be fooled runs the
    answer where the package does not exist.
    """
    answer = answer.fn if is_kernel(answer) else answer
    module = getattr(answer, "__module__", "") or ""
    if module.startswith("attn.exercises"):
        return None  # a mistake or an equivalent, under test
    if module.split(".")[0] == "attn":
        return (
            f"{exercise.name} is {module}'s own: write it yourself, in the "
            "cell above"
        )
    for name, value in _names_used(answer):
        value = value.fn if is_kernel(value) else value
        home = value.__name__ if inspect.ismodule(value) else None
        home = home or getattr(value, "__module__", "") or ""
        given = exercise.namespace().get(name)
        if home.split(".")[0] == "attn" and value is not given:
            reference = getattr(value, "__attn_reference__", None)
            if reference is not None and reference != exercise.id:
                continue  # an earlier exercise's, put there by check
            return (
                f"it uses {name} from {home}, which holds the answer: write "
                "it without"
            )
    return None


def _names_used(answer: Any) -> list[tuple[str, Any]]:
    """Global names that the learner's code reads, with what they hold."""
    found: list[tuple[str, Any]] = []
    todo, seen = [answer], set()
    while todo:
        item = todo.pop()
        if inspect.isclass(item):
            members = [
                inspect.unwrap(m) for m in vars(item).values() if callable(m)
            ]
            todo += [m for m in members if isinstance(m, types.FunctionType)]
            continue
        if not isinstance(item, types.FunctionType) or item in seen:
            continue
        seen.add(item)
        codes = [item.__code__]
        while codes:
            code = codes.pop()
            codes += [
                c for c in code.co_consts if isinstance(c, types.CodeType)
            ]
            for name in _globals_read(code):
                if name in item.__globals__:
                    value = item.__globals__[name]
                    found.append((name, value))
                    value = value.fn if is_kernel(value) else value
                    if getattr(value, "__module__", None) == item.__module__:
                        todo.append(value)
    return found


def _globals_read(code: types.CodeType) -> set[str]:
    """Names read as globals, or imported; not those of attributes."""
    return {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME")
    }


def _stages_before(cases: list[Case], stage: str) -> list[str]:
    stages = list(dict.fromkeys(case.stage for case in cases))
    return stages[: stages.index(stage)]


def _input_size(failure: Failure) -> int:
    case = failure.case
    return sum(
        x.numel() for _, x in named_tensors([case.args, dict(case.kwargs)])
    )


def _input_lines(exercise: Exercise, case: Case) -> list[str]:
    """The failing input, one argument a line, under its own name."""
    target = exercise.launch or exercise.reference
    if case.init is not None:
        target = exercise.reference.forward
    names: list[str] = []
    for name, parameter in inspect.signature(target).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = len(case.args) - len(names)
            names += [f"{name}[{i}]" for i in range(rest)]
        elif name not in ("self", "kernel"):
            names.append(name)
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    lines = []
    if case.init:
        words = ", ".join(f"{k}={v!r}" for k, v in case.init.items())
        lines.append(f"  {exercise.name}({words})")
    width = max((len(n) for n in given), default=0)
    width = max(width, 8)
    lines += [f"  {n:<{width}}  {describe(x)}" for n, x in given.items()]
    return lines


def _holds(holds: Any, failure: Failure) -> bool:
    try:
        return bool(holds(failure.case, failure.outcome.output))
    except Exception:  # noqa: BLE001 a claim about a result of another shape
        return True
