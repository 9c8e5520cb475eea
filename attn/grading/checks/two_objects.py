"""Use two objects of a class in turns: the cases that the engine adds.

What a class keeps in a place that its objects share, a table of the class, a
default argument, layers made once, is right for one object at a time only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from attn.exercises.case import Case
from attn.grading.checks.inputs import input_size
from attn.grading.checks.repeated_calls import paired


def two_objects(
    cases: Sequence[Case], others: Sequence[Case]
) -> Iterator[Case]:
    """Yield a case with another object like it, and one with an unlike one.

    Args:
        cases: of the exercise.
        others: the same cases with other elements, and other weights.
    """
    pairs = [x for x in paired(cases, others) if _is_plain(x[0])]
    if not pairs:
        return
    case, like = max(pairs, key=lambda pair: _calls_and_size(pair[0]))
    yield _in_turns("the same", case, like)
    unlike = max(
        (x for _, x in pairs),
        key=lambda x: (_different_arguments(case, x), *_calls_and_size(x)),
    )
    if _different_arguments(case, unlike):
        yield _in_turns("other", case, unlike)


def _different_arguments(case: Case, other: Case) -> int:
    """Count the arguments of the constructor in which two cases differ."""
    one, two = case.init or {}, other.init or {}
    return sum(repr(one.get(k)) != repr(two.get(k)) for k in {**one, **two})


def _is_plain(case: Case) -> bool:
    """Return whether a case is of an object with the same weights always."""
    special = case.max_live, case.max_kept, case.once, case.rtol, case.grad
    weights = all(x.state is case.state for x in case.before)
    return case.init is not None and weights and not any(special)


def _calls_and_size(case: Case) -> tuple[int, int, int]:
    given = [x for x in (*case.args, *case.kwargs.values()) if x is not None]
    return len(case.before), len(given), input_size(case)


def _in_turns(arguments: str, case: Case, other: Case) -> Case:
    """Return a case whose calls come in turns with those of another object.

    The other object's last call comes before the case's.
    """
    theirs = [
        replace(x, another=True, max_live=None)
        for x in (*other.before, replace(other, before=()))
    ]
    turns = chain(*zip_longest(case.before, theirs))
    before = tuple(x for x in turns if x is not None)
    order = ", ".join("b" if x.another else "a" for x in (*before, case))
    condition = (
        f"two objects, a and b, are made with {arguments} arguments, and "
        f"used in turns: {order}"
    )
    return replace(case, condition=condition, before=before)
