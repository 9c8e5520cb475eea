"""Memory is what is held at once; blocks may be handed over once only."""

import pytest
import torch

from attn.exercises.spec import Case
from attn.grading.checks.run import run
from attn.profiling import LiveMemory

X = torch.arange(6.0).reshape(2, 3)
BLOCKS = [torch.full((4,), float(i)) for i in range(8)]


def kept(x):
    return torch.stack([x * i for i in range(5)]).sum(0)


def let_go(x):
    total = x
    for i in range(5):
        total = total + x * i
    return total


@pytest.mark.parametrize(
    ("answer", "elements"),
    [
        (lambda x: x, 0),
        (lambda x: x * 2, 6),
        (lambda x: x.mT[None].expand(100, 3, 2)[0], 0),  # views are free
        (lambda x: (x * 2)[0, 0], 6),  # a view keeps all of its memory
        (lambda x: x.expand(100, 2, 3).clone()[0], 600),
        (lambda x: x.expand(100, 2, 3) @ x.mT, 400),
        (lambda x: torch.zeros(7)[:6], 7),
        (lambda x: torch.tensor(x.tolist() * 2), 12),
        (lambda x: [float(v) for row in x for v in row], 6),
        (lambda x: x.add_(1), 0),
        (let_go, 18),  # the old total, the summand and the new total
        (kept, 60),
    ],
    ids=range(12),
)
def test_memory_counts_while_something_refers_to_it(answer, elements):
    x = X.clone()
    with LiveMemory() as memory:
        answer(x)
    assert memory.peak == elements


def test_what_was_there_before_does_not_count():
    weight = torch.ones(1, 9)
    with LiveMemory() as memory:
        weight.mT.reshape(-1)[:2].add_(1)
    assert memory.peak == 0


def test_a_list_of_numbers_counts_where_functions_are_watched():
    case = Case("room for three", (X,), max_live=2)
    outcome = run(lambda x: len(x.tolist()), case, forbids=("softmax",))
    assert "it holds 6 elements" in outcome.side_effect.text


@pytest.mark.parametrize(("answer", "fits"), [(let_go, True), (kept, False)])
def test_more_than_the_limit_is_told_with_both_sizes(answer, fits):
    outcome = run(answer, Case("room for three", (X,), max_live=18))
    assert outcome.error is None
    assert (not outcome.side_effect) == fits
    if not fits:
        sizes = "it holds 60 elements beyond its inputs, where 18 are enough"
        assert sizes in outcome.side_effect.text
        assert "(5, 2, 3)" in outcome.side_effect.text


def test_watching_memory_does_not_import_the_compiler():
    """torch wraps a mode that skips dynamo, and imports it at the first call:
    2 s, or on a busy machine the 5 s that a check may take."""
    assert not hasattr(LiveMemory.__torch_dispatch__, "__wrapped__")


def once(answer, **options):
    case = Case("blocks", (BLOCKS,), once=("args.0",), **options)
    return run(answer, case, names=["scores"])


def test_an_iterator_gives_each_block_once_and_in_order():
    out = once(lambda blocks: torch.stack(list(blocks))).output
    assert torch.equal(out, torch.stack(BLOCKS))
    again = once(lambda blocks: [list(blocks) for _ in range(2)]).error
    assert isinstance(again, TypeError)
    assert "block 0 of scores cannot be read here" in str(again)


@pytest.mark.parametrize(
    "forwards",
    [
        lambda x: [x[i] for i in range(len(x))],
        lambda x: [x[i] + 0 * x[i] for i, _ in enumerate(range(8))],
        lambda x: [x[0], *x][1:],  # an index does not use a block up
        lambda x: [x[0], *x[1:]],
        lambda x: [next(x), *x],
        lambda x: [block for _, block in zip(range(8), x[0:], strict=False)],
    ],
    ids=range(6),
)
def test_an_index_may_go_forwards(forwards):
    outcome = once(lambda blocks: torch.stack(forwards(blocks)))
    assert outcome.error is None
    assert torch.equal(outcome.output, torch.stack(BLOCKS))


@pytest.mark.parametrize(
    "back",
    [
        lambda x: x[::-1],
        lambda x: x[-1],
        lambda x: x[:2],
        lambda x: (x[1], x[0]),
        lambda x: (x[3], x[2:]),
        lambda x: [x[0] for _ in x],
    ],
    ids=range(6),
)
def test_a_block_that_was_passed_is_gone_and_the_error_says_so(back):
    error = once(back).error
    assert isinstance(error, TypeError)
    assert "of scores cannot be read here" in str(error)


def test_blocks_that_are_kept_count_as_memory():
    def total(blocks):
        return sum(block.sum() for block in blocks)

    def listed(blocks):
        return total(list(blocks))

    assert not once(total, max_live=16).side_effect
    assert "it holds 3" in once(listed, max_live=16).side_effect.text


def test_a_block_changed_in_place_is_told():
    outcome = once(lambda blocks: [block.sub_(1.0) for block in blocks])
    assert outcome.side_effect.text == "it changes scores in place"
