"""No attack reaches the machine, another learner, or unearned points.

The attacks are in ``attacks/``, as learners would hand them in.
"""

import json

import pytest

from attn.exercises import sources
from attn.grading.classroom import plan
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.submissions import Submission
from attn.grading.sandbox.limits import Limits
from tests.grading.classroom.damage.kinds import solved
from tests.grading.sandbox.attacks import Attack, attacks
from tests.grading.sandbox.conftest import SECRET, left_running, running

ALL = attacks()
#: In cells of their own: before the answer, between two, after the last.
ELSEWHERE = [
    [*x.elsewhere()][n % 3]
    for n, x in enumerate(x for x in ALL if x.family != "cells")
]
#: Of each family a few in the plain run, whatever they try.
FEW = [
    x
    for family in dict.fromkeys(x.family for x in ALL)
    for x in [x for x in ALL if x.family == family and not x.waits][::7]
]
RIGHT = sources.solution("why-causal_average")
#: Texts that a parser may not survive, and no editor would write.
MALFORMED = {
    "a null": RIGHT + "\0",
    "half a character": f'x = "\ud800"\n{RIGHT}',
    "ten thousand minus signs": f"x = {'-' * 10_000}1\n{RIGHT}",
    "a thousand brackets": f"x = {'[' * 1000}{']' * 1000}\n{RIGHT}",
    "a sum of ten thousand": f"x = {'+'.join('1' * 10_000)}\n{RIGHT}",
    "ten thousand attributes": f"x = torch{'.float' * 10_000}\n{RIGHT}",
    "ten million letters": f"x = '{'a' * 10_000_000}'",
    "another encoding": "# coding: utf-7\n+AG8AcA-en('x')\n",
    "a form feed and carriage returns": "\f\rx = (\r\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def impatient():
    """An examiner of which an endless answer takes seconds."""
    limits = Limits(memory=2 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTN_TEST_SECRET", SECRET)
        with Examiner(20260, timeout=6, limits=limits) as examiner:
            yield examiner


@pytest.fixture
def marks(tmp_path, impatient):
    """Return the marks of a notebook by exercise, one point for each."""

    def marks(book):
        path = tmp_path / "x.ipynb"
        path.write_text(json.dumps(book))
        found = plan.read(Submission(path, path.name, path.stem))
        worth = dict.fromkeys(plan.points(found.key), 1.0)
        every = impatient.examine(found, worth)
        return {x.exercise: x for x in every}

    return marks


def damage(impatient, marks, victim, attack: Attack) -> list[str]:
    """Grade an attack; return what it did."""
    impatient.sandbox()  # opens, and stays open
    before = running()
    found = marks(attack.notebook(victim.aimed))
    harm, new = victim.damage(), left_running(before)
    target = found[attack.target]
    effects = {
        "it earns the points": attack.cheats and target.points,
        f"processes are left: {new}": new,
        "the next submission's marks differ": any(
            not x.passed for x in marks(solved("why")).values()
        ),
    }
    for name, mark in found.items():
        lost = name in attack.others and not mark.passed
        effects |= {
            f"{name} is {mark.status}: {mark.message}": lost,
            f"{name} has no message": not mark.passed and not mark.message,
            f"{name} tells the environment": SECRET in f"{mark}",
            f"{name} has no plain text": not _is_plain(mark.message),
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
        for x in (*ALL, *ELSEWHERE)
    ],
    ids=str,
)
def test_an_attack_earns_no_points_and_does_no_damage(
    impatient, marks, victim, attack
):
    assert not damage(impatient, marks, victim, attack)


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_text_does_no_damage(impatient, marks, victim, text):
    odd = Attack("texts", "why-causal_average", "an odd text", text)
    assert not damage(impatient, marks, victim, odd)


def test_there_are_enough_attacks_of_every_kind():
    families = {x.family for x in ALL}
    assert families == {"cells", "grader", "machine", "time"}
    assert len(ALL) > 120 and len(ELSEWHERE) > 60 and len(FEW) > 12
    assert len({str(x) for x in (*ALL, *ELSEWHERE)}) == len(ALL + ELSEWHERE)
