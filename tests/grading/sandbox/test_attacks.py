"""No attack earns a point, reaches the machine, or harms another answer.

The attacks are in ``attacks/``, as learners would paste them.
"""

import pytest

from attn.exercises import sources
from attn.grading.classroom.examiner import Examiner
from attn.grading.sandbox.limits import Limits
from tests.grading.sandbox.conftest import (
    SECRET,
    examined,
    left_running,
    running,
)
from tests.grading.sandbox.pasted import Attack, attacks

ALL = attacks()
QUICK = [x for x in ALL if not x.waits]
#: Of each family every sixth in the plain run, whatever its place.
FEW = [
    x
    for family in dict.fromkeys(x.family for x in QUICK)
    for x in [x for x in QUICK if x.family == family][::6]
]
WAITS = [x for x in ALL if x.waits]
RIGHT = sources.solution("why-causal_average")
#: Texts that a parser may not survive, and no editor would write.
MALFORMED = {
    "a null": RIGHT + "\0",
    "half a character": f'x = "\ud800"\n{RIGHT}',
    "ten thousand minus signs": f"x = {'-' * 10_000}1\n{RIGHT}",
    "a thousand brackets": f"x = {'[' * 1000}{']' * 1000}\n{RIGHT}",
    "a sum of ten thousand": f"x = {'+'.join('1' * 10_000)}\n{RIGHT}",
    "ten thousand attributes": f"x = torch{'.float' * 10_000}\n{RIGHT}",
    "a thousand blocks": "".join(
        " " * n + "if 1:\n" for n in range(100)
    ) + " " * 100 + "x = 1\n" + RIGHT,
    "ten million letters": f"x = '{'a' * 10_000_000}'",
    "another encoding": "# coding: utf-7\n+AG8AcA-en('x')\n",
    "a form feed and carriage returns": "\f\rx = (\r\n",
}  # fmt: skip


def damage(examiner, victim, attack: Attack) -> list[str]:
    """Mark an attack with a right answer beside it; return what it did."""
    examiner._sandbox(attack.key)  # opens, and stays open
    before = running()
    cells = {k: victim.aimed(x) for k, x in attack.cells().items()}
    marks = examined(examiner, attack.key, cells)
    mark, other = marks[attack.target], marks[attack.other]
    harm, new = victim.damage(), left_running(before)
    effects = {
        "it earns the points": mark.points or mark.passed,
        f"the other answer is {other.status}: {other.message}": (
            not other.passed
        ),
        "the mark has no message": not mark.message.strip(),
        "its message shows the environment": SECRET in mark.message,
        "its message is no plain text": not _is_plain(mark.message),
        f"processes are left: {new}": new,
    }
    return harm + [effect for effect, is_so in effects.items() if is_so]


def _is_plain(text: str) -> bool:
    """Return whether every report can hold a text: UTF-8, nothing to obey."""
    return not any(
        "\ud800" <= x <= "\udfff" or (x < " " and x not in "\n\t")
        for x in text
    )


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(x, marks=() if x in FEW else pytest.mark.exhaustive)
        for x in QUICK
    ],
    ids=str,
)
def test_an_attack_earns_no_points_and_does_no_damage(
    examiner, victim, attack
):
    assert not damage(examiner, victim, attack)


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_text_is_marked_wrong_and_does_no_damage(
    examiner, victim, text
):
    odd = Attack("texts", "why-causal_average", "an odd text", text)
    assert not damage(examiner, victim, odd)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            x,
            marks=() if "swallows" in x.tries else pytest.mark.exhaustive,
        )
        for x in WAITS
    ],
    ids=str,
)
def test_an_endless_attack_is_stopped_and_the_other_answer_counts(
    victim, attack
):
    with Examiner(7, timeout=3.0, limits=Limits(memory=1 << 30)) as impatient:
        assert not damage(impatient, victim, attack)


def test_an_attack_leaves_the_marks_of_the_next_submission_unchanged(examiner):
    cells = {"why-causal_average": RIGHT}
    first = examined(examiner, "why", cells)
    attacked = {"why-causal_average": "import os\nos._exit(0)"}
    examined(examiner, "why", attacked)
    assert examined(examiner, "why", cells) == first
    assert first["why-causal_average"].passed


def test_there_are_enough_attacks_of_every_kind():
    kinds = {x.family for x in ALL}
    assert len(ALL) > 200 and len(FEW) >= 40 and len(WAITS) > 15
    assert len({str(x) for x in ALL}) == len(ALL)
    assert len(kinds) == 11
