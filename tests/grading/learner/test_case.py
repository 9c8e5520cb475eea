"""The failing case is in one's hands: as a call, as objects, in a cell."""

import ast
import re

import pytest
import torch

from attn.exercises.call import call_of
from attn.exercises.literal import assigned, literal, within
from attn.exercises.spec import every_exercise, find
from attn.grading.checks.failures import run_all
from attn.grading.checks.show import beside
from attn.grading.diagnosis.judge import judge
from attn.grading.learner import session
from tests.exercises.oracles import oracle
from tests.grading.learner.conftest import RIGHT

LAST = RIGHT.replace("sum(dim", "sum(0")  # not dim, but the first axis
CHECK = "\ncheck('sdp-softmax')\n"


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_the_call_and_the_cell_of_every_case_are_python(exercise):
    for case in exercise.generate(0):
        call = call_of(exercise, case, exercise.reference)
        for text in (*call.lines(74), *call.lines(74, True), call.cell):
            ast.parse(re.sub("…(?=, '.': )", "0: 0", text).replace("…", "0"))


#: A function of a batch, one of earlier calls, a class, kernels, and answers
#: that are used by a function of the book, or get their lists as iterators.
OF_EACH_FORM = """
sdp-softmax mask-combine mha-MultiHeadAttention cache-KVCache iface-Registry
fwd-copy_tile_kernel flash-online_softmax ring-shard_positions
serve-match_prefix
"""


@pytest.mark.parametrize("exercise_id", OF_EACH_FORM.split())
def test_the_cell_a_card_proposes_makes_the_wrong_call(learner, exercise_id):
    """Also where the mistake is seen after earlier calls only."""
    exercise, known = find(exercise_id), oracle(exercise_id)
    for mistake in exercise.mistakes[::12]:
        own = run_all(mistake.answer, known, quick=True)
        verdict = judge(exercise, mistake.answer, oracle=known, outcomes=own)
        session._last[exercise_id] = verdict
        shown = verdict.parts.shown
        *lines, last = verdict.parts.cell.splitlines()
        catch = f"try: got = {last}\nexcept Exception: got = None"
        learner("\n".join(["from attn.grading import case", *lines, catch]))
        right = shown.case.grad or shown.outcome.error or shown.effect
        if isinstance(shown.outcome.output, torch.Tensor) and not right:
            both = learner.namespace["got"], shown.outcome.output
            torch.testing.assert_close(*both, equal_nan=True)


def test_case_has_the_arguments_and_runs_an_answer_beside_the_right(learner):
    said = learner(LAST + CHECK).err
    call = "softmax(x)  # x (3, 5), dim=-1"
    assert said.endswith(f" case() has this call:\n    {call}\n")
    shown = learner("c = case()\nprint(c)\nc.run()\nc.x.zero_()\nc.run()").out
    assert shown.startswith(f"{call}\nx = torch.tensor([[-2.1424,  0.2454, ")
    assert shown.count("got 0.3171, expected 0.02938 (all 15 elements)\n") == 2
    assert len(re.findall(r"\n  got +expected\n  \[\[0\.317 ", shown)) == 2
    c = learner.namespace["c"]
    assert c.dim == -1 and c.expected.shape == c.args[0].shape == (3, 5)
    assert vars(c).keys() == {"x", "dim"}
    assert beside(*torch.ones(3, 1, 2).bfloat16())  # which NumPy has not
    # The reference has taken the answer's place, and is never what runs.
    assert "it differs at" in learner("c.run(softmax)").out
    assert "it is right" in learner(f"{RIGHT}\nc.run()").out
    assert "it is right" in learner(f"{RIGHT}\ncase().run(softmax)").out
    printed = LAST.replace("    e =", "    print('hello')\n    e =")
    assert learner(printed + "c.run()").out.startswith("hello\n")


def test_where_there_is_no_failing_case_a_line_says_so(learner):
    call = "from attn.grading import case\ncase({}).run()"
    assert "case: exercise_id must be given" in learner(call.format("")).out
    learner(RIGHT + CHECK)
    for said in ("case()", "case('sdp-softmax')", "why()"):
        assert learner(said) == ("Softmax (sdp-softmax) is right.\n", "")
    said = "The causal mask (mask-causal) has not been checked: check it first"
    assert said in learner("case('mask-causal').run()").out
    learner("softmax = 3" + CHECK)
    said = "Softmax (sdp-softmax) has no case: softmax needs to be a function"
    assert learner("case()._ipython_display_()").out == f"{said}\n"


def test_values_are_written_as_python_and_cut_in_the_middle():
    cached = [([21, 38, 77, 76, 11], [115, 382, 5]), ([], [])]
    assert literal(cached) == str(cached)
    assert within(cached, 46) == "[([21, 38, …, 11], [115, 382, 5]), ([], [])]"
    for x in (cached, (1,), {"a": (7, 8)}, None, "a b", range(3), 0.1):
        assert eval(literal(x)) == x
    assert literal([1.0, -torch.inf, 1 / 3]) == "[1.0, -math.inf, 0.3333]"
    assert literal([1, torch.ones(2)]) == ""
    rows = torch.tensor([[1.0, -torch.inf], [0.5, 2.0]])
    names = {"torch": torch}
    exec(assigned("rows", rows), names)
    assert names["rows"].equal(rows)
