"""Recurring conditions are derived from an exercise's own cases."""

import pytest
import torch

from attn.exercises.case import Case
from attn.exercises.conditions import (
    dial,
    dtypes,
    gradients,
    ones,
    typical,
    views,
)
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Exercise, find

SHAPES = {
    "there is one token": [(1, 4)],
    "there is a batch": [(2, 3, 5), (3, 3, 3)],
}


def of_shapes(g):
    for when, shape in entries(SHAPES):
        yield Case(when, (g.randn(*shape),))


def with_a_mask(g):
    yield from of_shapes(g)
    yield Case("there is a mask", (g.randn(3, 4), g.mask(3, 4)))


def exercise(*also, cases=of_shapes):
    def attend(x, mask=None):
        return x

    return Exercise("sdp-attend", 1, attend, cases, also=also)


def derived(x, seed=0):
    own = exercise(cases=x.cases).generate(seed)
    return x.generate(seed)[len(own) :]


def test_a_table_gives_each_entry_its_condition():
    flat = [*entries(SHAPES)]
    assert flat[1:] == [(flat[1][0], (2, 3, 5)), (flat[1][0], (3, 3, 3))]


def test_a_mask_allows_two_keys_and_masks_one_in_every_row():
    g = Draw()
    g.manual_seed(0)
    counts = g.mask(50, 2, 3).sum(-1)
    assert (counts == 2).all()


def test_derived_cases_follow_the_own_ones_and_leave_them_unchanged():
    """And a seed gives the same ones."""
    plain = exercise().generate(3)
    x = exercise(views(), gradients(), dtypes(torch.float16))
    both, again = x.generate(3), x.generate(3)
    assert len(both) > len(plain)
    pairs = [*zip(plain, both, strict=False), *zip(both, again, strict=True)]
    for a, b in pairs:
        assert a.condition == b.condition
        assert torch.equal(a.args[0], b.args[0])


def test_the_typical_case_has_many_axes_of_different_lengths():
    (case,) = typical(exercise(), exercise().generate(0))
    assert case.args[0].shape == (2, 3, 5)


def test_a_case_of_zeros_is_not_typical():
    def cases(g):
        yield Case("x is 0", (torch.zeros(2, 3),))
        yield Case("x is drawn", (g.randn(2, 3),))

    x = exercise(cases=cases)
    assert typical(x, x.generate(0))[0].condition == "x is drawn"


def test_the_case_with_the_most_inputs_is_repeated_as_well():
    x = exercise(gradients(), cases=with_a_mask)
    assert [len(case.args) for case in derived(x)] == [1, 2]


def test_views_have_the_same_elements_in_other_memory():
    turned, apart, expanded = derived(exercise(views()))
    right = exercise().generate(0)[1].args[0]
    for case in (turned, apart, expanded):
        assert case.condition == "x is a view of another tensor"
        assert not case.args[0].is_contiguous()
    assert torch.equal(turned.args[0], right)
    assert torch.equal(apart.args[0], right)
    assert torch.equal(expanded.args[0], right[:1].expand(2, 3, 5))


def test_a_condition_of_several_tensors_names_the_inputs():
    *_, last = derived(exercise(views(), cases=with_a_mask))
    assert last.condition == "the inputs are views of other tensors"
    *_, last = derived(exercise(dtypes(torch.float64), cases=with_a_mask))
    assert last.condition == "x is float64"
    assert [x.dtype for x in last.args] == [torch.float64, torch.bool]


def test_gradients_can_be_limited_to_named_arguments():
    (case,) = derived(exercise(gradients("x", when="gradients reach x")))
    assert case.grad == ("args.0",)
    assert case.condition == "gradients reach x"
    (case,) = derived(exercise(gradients()))
    assert case.grad is True


def test_a_dial_repeats_the_fullest_case_with_other_numbers():
    """An argument that is not given goes by its name."""
    low, high = derived(exercise(dial("mask", 0.3, 7), cases=with_a_mask))
    assert low.condition == "mask is 0.3"
    assert low.args[0].shape == high.args[0].shape == (3, 4)
    assert (low.args[1], high.args[1]) == (0.3, 7)
    (case,) = derived(exercise(dial("mask", 0.3)))
    assert (len(case.args), case.kwargs) == (1, {"mask": 0.3})


def test_ones_cut_axes_down_by_their_letters():
    x = find("sdp-attention")
    case = typical(x, x.generate(0))[0]
    (cut,) = ones("... L")(x, [case])
    assert cut.condition == "the axes in front and L are 1"
    query, key, value = cut.args
    axes = [1] * (query.dim() - 2)
    assert [*query.shape] == [*axes, 1, case.args[0].shape[-1]]
    assert [*key.shape] == [*axes, *case.args[1].shape[-2:]]
    assert [*value.shape] == [*axes, *case.args[2].shape[-2:]]


def test_ones_need_the_shapes_that_a_task_gives():
    x = find("sdp-softmax")
    with pytest.raises(ValueError, match="must give the shape of x"):
        list(ones("L")(x, x.generate(0)))


def test_an_exercise_without_a_plain_case_is_an_error():
    def cases(g):
        yield Case("x is float64", (g.randn(2, 3).double(),))

    with pytest.raises(ValueError, match="sdp-attend must include"):
        exercise(views(), cases=cases).generate(0)
