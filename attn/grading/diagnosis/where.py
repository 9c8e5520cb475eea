"""Describe where an answer is wrong, in terms of the task.

Every sentence was checked on all elements of the cases it speaks of. What
holds in every failing case comes first; what holds in the one that is shown
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from torch import Tensor

from attn.grading.checks.compare import RESULT, Problem
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.show import and_list, first_few
from attn.grading.diagnosis.axes import Axes, distinguishing_inputs
from attn.grading.diagnosis.values import describe_values


def places(evidence: Evidence, shown: Failure) -> list[str]:
    """Return true sentences about where the answer is wrong, the best first.

    Args:
        evidence: all that was observed.
        shown: the failure that the message shows.
    """
    axes = Axes(evidence.exercise)
    return _sentences(
        lambda: [_distinction(evidence)],
        lambda: [_right_parts(evidence, shown)],
        lambda: [_shapes(evidence, shown, axes)],
        lambda: [*_indices(evidence, shown, axes)],
    )


def about(evidence: Evidence, shown: Failure) -> list[str]:
    """Return true sentences about the values, the shapes and the cases."""
    axes = Axes(evidence.exercise)
    return _sentences(
        lambda: [_shapes_seen(shown)],
        lambda: [describe_values(evidence, shown, axes)],
        lambda: [_conditions(evidence)],
    )


def _sentences(*parts: Callable[[], list[str]]) -> list[str]:
    found: list[str] = []
    for part in parts:
        # A result that no operation can look into has no place.
        with suppress(RuntimeError, TypeError, ValueError, IndexError):
            found += [x for x in part() if x]
    return found


def _distinction(evidence: Evidence) -> str:
    """Say on which inputs it is wrong, if that is true of every case."""
    if not (inputs := distinguishing_inputs(evidence)):
        return ""
    when = " and ".join(inputs)
    return (
        f"It is wrong in all {len(evidence.failures)} cases in which "
        f"{when}, and right in the other {len(evidence.passing)}."
    )


def _conditions(evidence: Evidence) -> str:
    """Say in which of the conditions that the check tries it is wrong."""
    wrong = dict.fromkeys(f.case.condition for f in evidence.failures)
    right = {evidence.case(i).condition for i in evidence.passing}
    count, ran = len(evidence.failures), len(evidence.outcomes)
    if ran == 1:
        return ""
    if len(wrong) == 1 and not (right & {*wrong}):
        return f"It is wrong in that condition only: {count} of {ran} cases."
    when = f": when {'; '.join(wrong)}" if len(wrong) <= 3 else ""
    cases = f"{count} of {ran}" if count < ran or when else f"all {ran}"
    return f"It is wrong in {cases} cases{when}."


def _right_parts(evidence: Evidence, shown: Failure) -> str:
    """Say which entries, or gradients, are wrong, when some are right."""
    problems, output = shown.problems, shown.outcome.output
    if problems[0].part.kind == "gradient":
        inputs = [p.part.input for p in problems]
        zero = [
            p.part.input
            for p in problems
            if p.wrong is not None and not p.got.any()
        ]
        names = first_few(inputs) if len(inputs) > 4 else and_list(inputs)
        some = 0 < len(zero) < len(inputs)
        which = f": none reaches {and_list(zero)}" if some else ""
        return f"The result is right; the gradient of {names} is wrong{which}."
    entries = [p.part.entry for p in problems]
    if not isinstance(output, tuple | list) or {*map(len, entries)} != {1}:
        return ""
    returns = evidence.exercise.returns
    right = [
        RESULT.at(i).name(returns)
        for i in range(len(output))
        if (i,) not in entries
    ]
    verb = "is" if len(right) == 1 else "are"
    return f"{and_list(right)} {verb} right." if right else ""


def _shapes_seen(shown: Failure) -> str:
    """Say which shapes met in the line that raised an error."""
    shapes = shown.outcome.shapes_seen
    if shown.outcome.error is None or not shapes:
        return ""
    return "There: " + ", ".join(f"{n} {shape}" for n, shape in shapes.items())


def _shapes(evidence: Evidence, shown: Failure, axes: Axes) -> str:
    """Say which axis has the length of which other axis."""
    problem = shown.problem
    if problem.kind != "shape":
        return ""
    got, expected = tuple(problem.got.shape), tuple(problem.expected.shape)
    if len(got) != len(expected):
        return f"It has {_axes(len(got))}; the task returns {len(expected)}."
    letters = axes.of_part(problem.part, expected)
    inputs = {**evidence.inputs(shown.index), **(shown.case.init or {})}
    sizes = axes.sizes(inputs)
    lengths = []
    for axis, (n, m) in enumerate(zip(got, expected, strict=True)):
        same = [letter for letter, size in sizes.items() if size == n]
        as_long = f", as long as {same[0]}" if len(same) == 1 else ""
        name = letters[axis] or f"axis {axis}"
        if n != m:
            lengths.append(f"{name} should be {m} and is {n}{as_long}")
    return f"Of its axes, {'; '.join(lengths)}."


def _indices(evidence: Evidence, shown: Failure, axes: Axes) -> Iterator[str]:
    """Say at which indices of which axes the wrong elements are."""
    problem = shown.problem
    if problem.wrong is None or problem.wrong.dim() == 0:
        return
    dims = problem.wrong.dim()
    letters = axes.of_part(problem.part, problem.wrong.shape)
    comparable = [
        p
        for f in evidence.failures
        for p in f.problems
        if p.wrong is not None
        and p.part == problem.part
        and p.wrong.dim() == dims
    ]
    everywhere, here = [], []
    for axis in range(dims):
        word = axes.word(letters, axis)
        descriptions = [
            describe_indices(p, axis, word)
            for p in comparable
            if p.wrong is not None and p.wrong.shape[axis] > 1
        ]
        common = [
            text
            for text in (descriptions or [[]])[0]
            if all(text in others for others in descriptions)
        ]
        if common and 1 < len(comparable) == len(descriptions):
            everywhere.append(common[0])
        elif mine := describe_indices(problem, axis, word):
            here.append(mine[0])
    name = problem.part.name(evidence.exercise.returns)
    of = "" if problem.part == RESULT else f" in {name}"
    wrong = "NaN" if problem.kind == "nan" else "wrong"
    count = len(comparable)
    if everywhere:  # of several
        every = "both" if count == 2 else f"all {count}"
        some = f" of {_axes(dims)}" if count < len(evidence.failures) else ""
        cases = f"In {every} wrong results{some}"
        yield f"{cases}, {wrong}{of}: {and_list(everywhere)}."
    if here:
        yield f"In this case, {wrong}{of}: {and_list(here)}."


def describe_indices(problem: Problem, axis: int, word: str) -> list[str]:
    """Describe the indices along an axis at which something is wrong.

    Return several descriptions, the best first, and nothing when there is
    something wrong at every index, or too small to tell at some.
    """
    wrong = problem.wrong
    assert wrong is not None
    n = wrong.shape[axis]
    at, moved = _at(wrong, axis), _at(wrong | _moved(problem), axis)
    if n < 2 or len(at) == n or at != moved:
        return []
    many, half = _many(word), n // 2
    candidates: dict[str, Iterable[int]] = {
        f"only the last {word}": [n - 1],
        f"only the first {word}": [0],
        f"every {word} but the first": range(1, n),
        f"every {word} but the last": range(n - 1),
    }
    if n > 3:
        candidates |= {
            f"only odd {many}, counted from 0": range(1, n, 2),
            f"only even {many}, counted from 0": range(0, n, 2),
        }
    if n % 2 == 0 and n > 2:
        candidates |= {
            f"only the second half of the {many}": range(half, n),
            f"only the first half of the {many}": range(half),
        }
    if len(at) == 1:
        candidates[f"only {_numbered(word, at)}"] = at
    candidates |= {
        _numbered(word, f"from {at[0]} on"): range(at[0], n),
        _numbered(word, f"up to {at[-1]}"): range(at[-1] + 1),
    }
    if len(at) <= 4:
        candidates[f"only {_numbered(word, at)}"] = at
    fitting = [text for text, x in candidates.items() if [*x] == at]
    return fitting or [f"{len(at)} of {n} {many}"]


def _at(wrong: Tensor, axis: int) -> list[int]:
    """Return the indices along an axis at which something is wrong."""
    rest = [k for k in range(wrong.dim()) if k != axis]
    bad = wrong.any(rest) if rest else wrong
    return bad.nonzero()[:, 0].tolist()


def _moved(problem: Problem) -> Tensor:
    """Return where an element is off by more than rounding, or wrong."""
    got, expected = problem.got, problem.expected
    if not got.is_floating_point():
        return got != expected
    part = 1e-3 if got.element_size() >= 4 else 0.05
    return (got - expected).abs() > part * expected.abs()


def _numbered(word: str, at: list[int] | str) -> str:
    """Return ``keys 1 and 2``, ``keys from 1 on``, ``slice 2 of axis 0``."""
    if isinstance(at, str):
        return f"{_many(word)} {at}"
    noun, of, axis = (_many(word) if at[1:] else word).partition(" of ")
    return f"{noun} {and_list([*map(str, at)])}{of}{axis}"


def _many(word: str) -> str:
    if word.startswith("slice"):
        return word.replace("slice", "slices")
    return f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"
