"""Say where an answer is wrong, in terms of the task.

Every sentence was checked on all elements of the cases it speaks of. What
holds in every failing case comes first; what holds in the one that is shown
says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attn.grading.checks.compare import Problem
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.distinguishing import distinguishing_inputs
from attn.grading.diagnosis.values import pattern

_MOST = 4  # sentences


def where(evidence: Evidence, shown: Failure) -> list[str]:
    """Return a few true sentences about where the answer is wrong.

    Args:
        evidence: all that was observed.
        shown: the failure that the message shows.
    """
    try:
        return _sentences(evidence, shown)[:_MOST]
    except (RuntimeError, TypeError, ValueError, IndexError):
        return []  # a result that no operation can look into


def _sentences(evidence: Evidence, shown: Failure) -> list[str]:
    axes = Axes(evidence.exercise)
    found = [
        _condition(evidence) or _conditions(evidence),
        _like(evidence),
        parts(shown),
        _shapes(evidence, shown, axes),
        shapes_seen(shown),
        *_places(evidence, shown, axes),
        pattern(evidence, shown, axes),
    ]
    return [x for x in found if x]


def _condition(evidence: Evidence) -> str:
    if not (text := distinguishing_inputs(evidence)):
        return ""
    return (
        f"It is wrong in all {len(evidence.failing)} cases in which {text}, "
        f"and right in the other {len(evidence.passing)}."
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
    if len(wrong) <= 3:
        return (
            f"It is wrong in {count} of {ran} cases: when {'; '.join(wrong)}."
        )
    some = f"{count} of {ran}" if count < ran else f"all {ran}"
    return f"It is wrong in {some} cases."


def _like(evidence: Evidence) -> str:
    if not evidence.like:
        return ""
    count = len(evidence.failing)
    cases = f"In {_all(count)} wrong cases" if count > 1 else "In this case"
    if 1 < count < len(evidence.failures):
        cases += " of a first call"
    return f"{cases} it behaves like: {evidence.like}"


def parts(shown: Failure) -> str:
    """Say which entries, or gradients, are wrong, when some are right."""
    names = [p.name for p in shown.problems]
    output = shown.outcome.output
    if names[0].startswith("the gradient of "):
        wrong = {x.removeprefix("the gradient of "): x for x in names}
        said = (
            f"The result is right; the gradient of {_and([*wrong])} is wrong"
        )
        none = [
            name
            for name, p in zip(wrong, shown.problems, strict=True)
            if p.wrong is not None and not p.got.any()
        ]
        if none and len(none) < len(wrong):
            said += f": none reaches {_and(none)}"
        return f"{said}."
    if not names[0].startswith("it[") or not isinstance(output, tuple | list):
        return ""
    right = [f"it[{i}]" for i in range(len(output)) if f"it[{i}]" not in names]
    if not right or any(x.count("[") > 1 for x in names):
        return ""
    return f"{_and(right)} {'is' if len(right) == 1 else 'are'} right."


def shapes_seen(shown: Failure) -> str:
    """Say which shapes met in the line that raised an error."""
    shapes = shown.outcome.shapes_seen
    if shown.outcome.error is None or not shapes:
        return ""
    said = [f"{name} {shape}" for name, shape in shapes.items()]
    return "There: " + ", ".join(said)


def _shapes(evidence: Evidence, shown: Failure, axes: Axes) -> str:
    """Say which axis has the length of which other axis."""
    problem = shown.problem
    if problem.kind != "shape":
        return ""
    got, expected = tuple(problem.got.shape), tuple(problem.expected.shape)
    if len(got) != len(expected):
        axes_of = "1 axis" if len(got) == 1 else f"{len(got)} axes"
        return f"It has {axes_of}; the task returns {len(expected)}."
    letters = axes.of_result(problem.name, expected)
    said = []
    for axis, (n, m) in enumerate(zip(got, expected, strict=True)):
        if n == m:
            continue
        others = _sizes(evidence, shown, axes).items()
        same = [x for x, size in others if size == n]
        as_long = f", as long as {same[0]}" if len(same) == 1 else ""
        name = letters[axis] or f"axis {axis}"
        said.append(f"{name} should be {m} and is {n}{as_long}")
    return f"Of its axes, {'; '.join(said)}."


def _sizes(evidence: Evidence, shown: Failure, axes: Axes) -> dict[str, int]:
    inputs = {**evidence.inputs(shown.index), **(shown.case.init or {})}
    return axes.sizes(inputs)


def _places(evidence: Evidence, shown: Failure, axes: Axes) -> Iterator[str]:
    """Say at which indices of which axes the wrong elements are."""
    problem = shown.problem
    if problem.wrong is None or problem.wrong.dim() == 0:
        return
    letters = axes.of_result(problem.name, problem.wrong.shape)
    alike_ones = [
        p
        for f in evidence.failures
        for p in f.problems
        if p.wrong is not None
        and p.name == problem.name
        and p.wrong.dim() == problem.wrong.dim()
    ]
    of = "" if problem.name == "it" else f" in {problem.name}"
    what = "NaN" if problem.kind == "nan" else "wrong"
    everywhere, here = [], []
    for axis in range(problem.wrong.dim()):
        word = axes.word(letters, axis)
        common = None
        for p in alike_ones:
            if p.wrong is not None and p.wrong.shape[axis] > 1:
                said = _which(p, axis, word)
                common = (
                    said
                    if common is None
                    else [x for x in common if x in said]
                )
        mine = _which(problem, axis, word)
        if common and len(alike_ones) > 1:
            everywhere.append(common[0])
        elif mine:
            here.append(mine[0])
    count, dims = len(alike_ones), problem.wrong.dim()
    if everywhere:
        cases = f"In {_all(count)} wrong results" if count > 1 else "Here"
        if 1 < count < len(evidence.failures):
            cases += f" of {dims} ax{'is' if dims == 1 else 'es'}"
        yield f"{cases}, {what}{of}: {_and(everywhere)}."
    if here:
        yield f"In this case, {what}{of}: {_and(here)}."


def _which(problem: Problem, axis: int, word: str) -> list[str]:
    """Describe the indices along an axis at which something is wrong.

    Return several ways to say it, the best first, and nothing when there is
    something wrong at every index, or too small to tell at some.
    """
    wrong = problem.wrong
    assert wrong is not None
    n = wrong.shape[axis]
    at, moved = _at(wrong, axis), _at(wrong | _moved(problem), axis)
    if n < 2 or len(at) == n or at != moved:
        return []
    many = _many(word)
    indices = set(at)
    ways: list[tuple[str, set[int]]] = [
        (f"only the last {word}", {n - 1}),
        (f"only the first {word}", {0}),
        (f"every {word} but the first", set(range(1, n))),
        (f"every {word} but the last", set(range(n - 1))),
    ]
    if n > 3:
        ways.append((f"only odd {many}, counted from 0", {*range(1, n, 2)}))
        ways.append((f"only even {many}, counted from 0", {*range(0, n, 2)}))
    if n % 2 == 0 and n > 2:
        ways.append(
            (f"only the second half of the {many}", set(range(n // 2, n)))
        )
        ways.append((f"only the first half of the {many}", set(range(n // 2))))
    if len(at) == 1:
        ways.append((f"only {word} {at[0]}", indices))
    ways.append((f"{many} from {at[0]} on", set(range(at[0], n))))
    ways.append((f"{many} up to {at[-1]}", set(range(at[-1] + 1))))
    if len(at) <= 4:
        ways.append((f"only {many} {_and([str(i) for i in at])}", indices))
    said = [text for text, fits in ways if fits == indices]
    return said or [f"{len(at)} of {n} {many}"]


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


def _many(word: str) -> str:
    if word.startswith("slice"):
        return word.replace("slice", "slices")
    return f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def _and(words: list[str]) -> str:
    """Join words with commas and a last ``and``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
