"""Describe where an answer is wrong, in terms of the task.

Every sentence was checked on all elements of the cases it speaks of. What
holds in every failing case comes first; what holds in the one that is shown
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from torch import Tensor

from attn.exercises.literal import and_list, first_few
from attn.grading.checks.compare import RESULT, Problem
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.diagnosis.axes import Axes, distinguishing_inputs
from attn.grading.diagnosis.values import describe_values, same_part


def places(evidence: Evidence, shown: Failure) -> list[str]:
    """Return true sentences about where an answer is wrong, the best first."""
    return _sentences(
        _distinction(evidence),
        _right_parts(evidence, shown),
        _indices(evidence, shown),
    )


def about(evidence: Evidence, shown: Failure) -> list[str]:
    """Return true sentences about the values, the shapes and the cases."""
    shapes = [f"{n} {x}" for n, x in shown.outcome.shapes_seen.items()]
    return _sentences(
        iter([f"There: {', '.join(shapes)}"] if shapes else []),
        describe_values(evidence, shown),
        _conditions(evidence),
    )


def _sentences(*parts: Iterator[str]) -> list[str]:
    found: list[str] = []
    for part in parts:
        # A result that no operation can look into has no place.
        with suppress(RuntimeError, TypeError, ValueError, IndexError):
            found += part
    return found


def _distinction(evidence: Evidence) -> Iterator[str]:
    """Say on which inputs it is wrong, if that is true of every case."""
    if inputs := distinguishing_inputs(evidence):
        yield (
            f"It is wrong in all {len(evidence.failures)} cases in which "
            f"{' and '.join(inputs)}, and right in the other "
            f"{len(evidence.passing)}."
        )


def _conditions(evidence: Evidence) -> Iterator[str]:
    """Say in which of the conditions that the check tries it is wrong."""
    wrong = dict.fromkeys(f.case.condition for f in evidence.failures)
    count, ran = len(evidence.failures), len(evidence.outcomes)
    when = f": when {'; '.join(wrong)}" if len(wrong) <= 3 else ""
    cases = f"all {ran}" if count == ran else f"{count} of {ran}"
    if ran > 1:
        yield f"It is wrong in {cases} cases{when}."


def _right_parts(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Say which entries, or gradients, are wrong, when some are right."""
    problems, output = shown.problems, shown.outcome.output
    if problems[0].part.input:
        inputs = [p.part.input for p in problems]
        compared = [p for p in problems if p.wrong is not None]
        zero = [p.part.input for p in compared if not p.got.any()]
        names = first_few(inputs) if len(inputs) > 4 else and_list(inputs)
        some = 0 < len(zero) < len(inputs)
        which = f": none reaches {and_list(zero)}" if some else ""
        yield f"The result is right; the gradient of {names} is wrong{which}."
        return
    entries = [p.part.entry for p in problems]
    if isinstance(output, tuple | list) and {*map(len, entries)} == {1}:
        returns = evidence.exercise.returns
        others = [i for i in range(len(output)) if (i,) not in entries]
        right = [RESULT.at(i).name(returns) for i in others]
        verb = "is" if len(right) == 1 else "are"
        if right:
            yield f"{and_list(right)} {verb} right."


def _indices(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Say at which indices of which axes the wrong elements are."""
    problem = shown.problem
    if problem.wrong is None or problem.wrong.dim() == 0:
        return
    axes, shape = Axes(evidence.exercise), problem.wrong.shape
    letters = axes.of_part(problem.part, shape)
    same = [p for _, p in same_part(evidence, problem)]
    comparable = [p for p in same if p.expected.dim() == len(shape)]
    count = len(comparable)
    are_all = 1 < count == len(evidence.failures)
    everywhere, here = [], []
    for axis in range(len(shape)):
        word = axes.word(letters, axis)
        every = [describe_indices(p, axis, word) for p in comparable]
        mine = describe_indices(problem, axis, word)
        common = [x for x in mine if all(x in others for others in every)]
        if common and are_all:
            everywhere.append(common[0])
        elif mine:
            here.append(mine[0])
    name = problem.part.name(evidence.exercise.returns)
    wrong = "NaN" if problem.kind == "nan" else "wrong"
    wrong += "" if problem.part == RESULT else f" in {name}"
    if everywhere:
        cases = "In both" if count == 2 else f"In all {count}"
        yield f"{cases} wrong results, {wrong}: {and_list(everywhere)}."
    if here:
        yield f"In this case, {wrong}: {and_list(here)}."


def describe_indices(problem: Problem, axis: int, word: str) -> list[str]:
    """Describe the indices along an axis at which something is wrong.

    Return several descriptions, the best first, and nothing when there is
    something wrong at every index, or too small to tell at some.
    """
    wrong = problem.wrong
    assert wrong is not None
    n = wrong.shape[axis]
    at, moved = (
        x.nonzero()[:, axis].unique().tolist()
        for x in (wrong, wrong | _moved(problem))
    )
    if n < 2 or len(at) == n or at != moved:
        return []
    noun, of, which = word.partition(" of ")  # "slice of axis 0"
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    many = f"{plural}{of}{which}"
    several = n if n > 3 else 0  # one of three is not called odd
    even = several if n % 2 == 0 else 0
    candidates: dict[str, Iterable[int]] = {
        f"only the last {word}": [n - 1],
        f"only the first {word}": [0],
        f"every {word} but the first": range(1, n),
        f"every {word} but the last": range(n - 1),
        f"only odd {many}, counted from 0": range(1, several, 2),
        f"only even {many}, counted from 0": range(0, several, 2),
        f"only the second half of the {many}": range(even // 2, even),
        f"only the first half of the {many}": range(even // 2),
        f"{many} from {at[0]} on": range(at[0], n),
        f"{many} up to {at[-1]}": range(at[-1] + 1),
    }
    if len(at) <= 4:
        numbers = f"{plural if at[1:] else noun} {and_list([*map(str, at)])}"
        candidates[f"only {numbers}{of}{which}"] = at
    fitting = [text for text, x in candidates.items() if [*x] == at]
    return fitting or [f"{len(at)} of {n} {many}"]


def _moved(problem: Problem) -> Tensor:
    """Return where an element is off by more than rounding, or wrong."""
    got, expected = problem.got, problem.expected
    if not got.is_floating_point():
        return got != expected
    part = 1e-3 if got.element_size() >= 4 else 0.05
    return (got - expected).abs() > part * expected.abs()
