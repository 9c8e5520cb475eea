"""An exercise's inputs are not only at the ends, and not only typical."""

import math
from functools import cache
from itertools import pairwise

import pytest
import torch

from attn.exercises import sources
from attn.exercises.spec import every_exercise
from attn.exercises.symmetry import dials
from attn.grading.checks.compare import differences
from attn.grading.checks.inputs import map_tensors, named_tensors
from tests.exercises.oracles import oracle
from tests.marks import exhaustive_but

EXERCISES = {x.id: x for x in every_exercise()}
QUICK = [*EXERCISES][::4]
NOT_DIALS = {  # (exercise, argument): why two values are enough
    ("sdp-softmax", "dim"): "it is an axis",
    ("flex-score_mod", "b"): "it is an index",
    ("flex-score_mod", "h"): "it is an index",
    ("iface-mask_function", "batch_size"): "rows do not meet",
    ("iface-mask_function", "attention_mask"): "it is 0 or 1",
    ("iface-bidirectional_llama", "head_dim"): "each is another Llama",
    ("iface-bidirectional_llama", "attention_mask"): "it is 0 or 1",
    ("cache-StaticCache", "batch"): "rows do not meet",
    ("cache-StaticCache", "num_kv_heads"): "the heads do not meet",
    ("tfm-TransformerBlock", "eps"): "it is that of rms_norm",
}
WIDE = {"eps": "below the squares of x it does nothing", "peak": "of machines"}
NO_PAIR = {  # results of several axes, of which no two may be 1
    "mha-pack_projections": "there are three rows at least",
    "rope-permute_weights": "there are two rows at least",
    "tfm-tie_and_init": "matrices come as they are",
    "tfm-map_llama_weights": "matrices come as they are",
    "tfm-sample": "one axis",
}


def is_nice(x):
    """Return whether mistakes may cancel: 0, or a power of two."""
    return x == 0 or math.frexp(abs(x))[0] == 0.5


@cache
def numbers(exercise):
    """The values that an exercise's cases give each number, sorted."""
    x = EXERCISES[exercise]
    if x.launch:  # a kernel's blocks are powers of two
        return {}
    cases = x.generate(0)
    given = {k for case in cases for k in x.inputs(case)}
    given |= {k for case in cases for k in case.init or {}}
    found = dials(x, cases)
    return {k: sorted(found[k]) for k in found if k in given}


def test_numbers_are_found_in_calls_constructors_and_tensors():
    assert "temperature" in numbers("why-soft_lookup")
    assert "capacity" in numbers("cache-StaticCache")
    assert "positions" in numbers("rope-apply_rope")
    assert all(name in numbers(exercise) for exercise, name in NOT_DIALS)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_number_has_values_between_its_ends_that_are_not_nice(exercise):
    for name, values in numbers(exercise).items():
        if (exercise, name) in NOT_DIALS:
            continue
        has_end = any(isinstance(x, float) for x in values)  # a size has none
        between = values[1:-1] if has_end else values[1:]
        assert sum(not is_nice(x) for x in between) >= 2, (name, values)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_dial_has_no_wide_gap(exercise):
    for name, values in numbers(exercise).items():
        if name in WIDE or not any(isinstance(x, float) for x in values):
            continue
        sizes = sorted({abs(x) for x in values} - {0})
        gaps = [(a, b) for a, b in pairwise(sizes) if b > 15 * a]
        assert not gaps, f"{name} is never between {gaps}"


@pytest.mark.parametrize("exercise", exhaustive_but(QUICK, EXERCISES))
def test_an_answer_that_ends_in_squeeze_is_refused(exercise):
    x = EXERCISES[exercise]
    if x.launch or exercise in NO_PAIR:
        return
    known = oracle(exercise)
    several = False
    for i in range(len(known.cases)):
        right = known.expected(i).output
        shapes = [t.shape for _, t in named_tensors(right)]
        several |= any(len(shape) > 1 for shape in shapes)
        if any(shape.count(1) > 1 for shape in map(list, shapes)):
            squeezed = map_tensors(torch.squeeze, right)
            assert differences(squeezed, right, known.expected_fp64(i).output)
            return
    assert not several, f"{exercise}: no two axes are 1 at once"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_where_the_result_is_an_int_the_task_says_so(exercise):
    x = EXERCISES[exercise]
    if x.launch or x.use:
        return
    outputs = [run.output for run in map(oracle(exercise).expected, range(2))]
    tuples = (x if isinstance(x, tuple) else (x,) for x in outputs)
    if any(type(entry) is int for entries in tuples for entry in entries):
        text = "".join(sources.docstrings(exercise).values())
        assert "an int" in text.partition("Returns:")[2]
