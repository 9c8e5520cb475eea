"""No attack reaches the machine, another learner, or unearned points.

The attacks are in ``attacks/``, as learners would hand them in.
"""

import re
from dataclasses import replace

import pytest

from attn.exercises import bindings, sources
from attn.grading.classroom import plan
from attn.grading.classroom.examiner import Examiner
from tests.grading.classroom.damage.kinds import planned, solved
from tests.grading.sandbox.attacks import Attack
from tests.grading.sandbox.conftest import SECRET, left_running, running
from tests.marks import exhaustive_but

ALL = Attack.every()
#: In cells of their own: before the answers, between two, after the last.
ELSEWHERE = [
    [*x.elsewhere()][n % 3]
    for n, x in enumerate(x for x in ALL if x.family != "cells")
]
FAMILIES = ("cells", "grader", "machine", "time")
BRIEF = [x for x in ALL if "waits" not in x.flags]
#: Of each family a few in the plain run, whatever they try.
FEW = [y for x in FAMILIES for y in [z for z in BRIEF if z.family == x][::5]]
#: What no report can hold, or a terminal obeys.
ODD = re.compile("[\ud800-\udfff\0-\x08\x0b-\x1f]")
RIGHT = sources.solution("why-causal_average")
#: Texts that a parser may not survive, and no editor would write.
MALFORMED = {
    "a null": RIGHT + "\0",
    "half a character": f'x = "\ud800"\n{RIGHT}',
    "ten thousand minus signs": f"x = {'-' * 10_000}1\n{RIGHT}",
    "a thousand brackets": f"x = {'[' * 1000}{']' * 1000}\n{RIGHT}",
    "a sum of ten thousand": f"x = {'+'.join('1' * 10_000)}\n{RIGHT}",
    "ten thousand attributes": f"x = torch{'.float' * 10_000}\n{RIGHT}",
    "six hundred magics": "%time\n" * 600,
    "ten million letters": f"x = '{'a' * 10_000_000}'",
    "another encoding": "# coding: utf-7\n+AG8AcA-en('x')\n",
    "a form feed and carriage returns": "\f\rx = (\r\n",
}  # fmt: skip
BRIEF_TEXTS = ["a null", "half a character", "ten thousand minus signs"]


@pytest.fixture(scope="module")
def impatient():
    """An examiner of which an endless answer takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTN_TEST_SECRET", SECRET)
        with Examiner(20260, timeout=6, memory=2 << 30) as examiner:
            yield examiner


@pytest.fixture
def damage(tmp_path, impatient, victim):
    """Grade an attack; return what it did."""

    def marks(book):
        found = planned(book, tmp_path)
        worth = dict.fromkeys(plan.points(found.key), 1.0)
        every = impatient.examine(found, worth)
        return {x.exercise: x for x in every}

    def damage(attack):
        impatient.sandbox()  # opens, and stays open
        before = running()
        aimed = replace(attack, text=victim.aimed(attack.text))
        found = marks(aimed.notebook())
        harm, new = victim.damage(), left_running(before)
        cheated = "cheats" in attack.flags and found[attack.exercise].points
        differs = any(not x.passed for x in marks(solved("why")).values())
        effects = {
            "it earns the points": cheated,
            f"processes are left: {new}": new,
            "the next submission's marks differ": differs,
        }
        for name, mark in found.items():
            # A cell that defines the name again, after its check, counts.
            is_its = bindings.binds(name.partition("-")[2], attack.text)
            is_its |= name == attack.exercise
            may_fail = is_its or "spoils" in attack.flags
            effects |= {
                f"{name} is {mark.status}": not (may_fail or mark.passed),
                f"{name} has no message": not mark.passed and not mark.message,
                f"{name} tells the environment": SECRET in f"{mark}",
                f"{name} has no plain text": ODD.search(mark.message),
            }
        return harm + [effect for effect, is_so in effects.items() if is_so]

    return damage


@pytest.mark.parametrize(
    "attack", exhaustive_but(FEW, (*ALL, *ELSEWHERE)), ids=str
)
def test_an_attack_earns_no_points_and_does_no_damage(damage, attack):
    assert not damage(attack)


@pytest.mark.parametrize("name", exhaustive_but(BRIEF_TEXTS, MALFORMED))
def test_malformed_text_does_no_damage(damage, name):
    text = MALFORMED[name]
    odd = Attack("texts", "why-causal_average", "an odd text", text)
    assert not damage(odd)


def test_there_are_enough_attacks_of_every_kind():
    assert {x.family for x in ALL} == {*FAMILIES}
    assert len(ALL) > 75 and len(ELSEWHERE) > 30 and len(FEW) > 12
    assert len({str(x) for x in (*ALL, *ELSEWHERE)}) == len(ALL + ELSEWHERE)
