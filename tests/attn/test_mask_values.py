"""A mask is data: it compares by value, copies and crosses processes."""

import copy
import functools
import pickle

import pytest
import torch

import attn
from attn import Mask, causal, chunked, documents, padding, prefix, window
from attn.masks import top_k
from attn.serving import tree_mask
from tests.attn.graphs import in_one_graph

VALID = torch.tensor([[True, True, False, True, False]])


def strided(step, b, h, q_idx, kv_idx):
    return kv_idx % step == 0


def even(b, h, q_idx, kv_idx):
    return kv_idx % 2 == 0


MAKERS = {
    "causal": causal,
    "window": lambda: window(1, 2),
    "sliding_window": lambda: attn.sliding_window(3),
    "chunked": lambda: chunked(2),
    "prefix": lambda: prefix(2),
    "prefix by row": lambda: prefix(torch.tensor([2])),
    "documents": lambda: documents(torch.tensor([0, 0, 1, 1, 2])),
    "padding": lambda: padding(VALID.clone()),
    "lengths": lambda: padding(torch.tensor([3])),
    "top_k": lambda: top_k(torch.arange(25.0).view(5, 5), 2, causal()),
    "tree_mask": lambda: tree_mask([-1, 0, 0, 1, 1]),
    "predicate": lambda: Mask(even),
    "bound predicate": lambda: Mask(functools.partial(strided, 3)),
    "and": lambda: causal() & padding(VALID.clone()),
    "or": lambda: causal() | prefix(2),
    "not": lambda: ~chunked(2),
    "shift": lambda: (causal() | Mask(even)).shift(q=1, kv=2),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "copied",
    (
        lambda mask: pickle.loads(pickle.dumps(mask)),
        copy.deepcopy,
        copy.copy,
    ),
    ids=("pickled", "deepcopied", "copied"),
)
def test_a_copy_of_a_mask_is_the_same_mask(name, copied):
    mask = MAKERS[name]()
    again = copied(mask)
    assert again == mask and hash(again) == hash(mask)
    assert repr(again) == repr(mask)
    assert (again.uses_query, again.extent) == (mask.uses_query, mask.extent)
    sizes = {"q_len": 2, "kv_len": 5, "q_offset": 3}
    assert torch.equal(again.dense(**sizes), mask.dense(**sizes))


def test_masks_are_equal_if_built_of_equal_arguments():
    made = [{name: make() for name, make in MAKERS.items()} for _ in range(2)]
    for name, mask in made[0].items():
        for other, again in made[1].items():
            assert (mask == again) == (name == other), (name, other)
    assert len({*made[0].values(), *made[1].values()}) == len(MAKERS)
    assert attn.sliding_window(4) == window(3, 0)
    assert causal() != "causal()"


def test_masks_of_other_data_differ():
    ids = torch.tensor([0, 0, 1])
    for other in (ids.flip(0), ids[:2], ids.int()):
        assert documents(ids) != documents(other)
    assert causal() & chunked(2) != chunked(2) & causal()
    assert causal().shift(q=1) != causal().shift(q=2)
    assert Mask(functools.partial(strided, 2)) != Mask(even)
    assert Mask(even) != Mask(even, uses_query=False)
    assert tree_mask([-1, 0, 0]) != tree_mask([-1, 0, 1])


def test_a_deep_copy_has_its_own_data():
    ids = torch.tensor([0, 0, 1])
    mask = causal() & documents(ids)
    again = copy.deepcopy(mask)
    ids[:] = 5
    assert again != mask and hash(again) == hash(mask)
    assert again.dense(3)[0, 0].long().tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [0, 0, 1],
    ]
    local = Mask(lambda b, h, q_idx, kv_idx: kv_idx == 0)
    assert copy.deepcopy(local) == local == copy.copy(local)


@pytest.mark.parametrize(
    "combine",
    (
        lambda mask: mask,
        lambda mask: causal() & mask,
        lambda mask: ~mask | prefix(2),
        lambda mask: mask.shift(q=1),
    ),
)
def test_a_predicate_without_a_name_in_its_module_is_not_pickled(combine):
    def local(b, h, q_idx, kv_idx):
        return kv_idx == 0

    for function in (
        local,
        functools.partial(local, 1),
        functools.partial(strided, local),
        lambda b, h, q_idx, kv_idx: kv_idx == 0,
    ):
        with pytest.raises(
            pickle.PicklingError,
            match=r"(?s)^predicate must .*; got .*<(locals|lambda)>.*: move",
        ):
            pickle.dumps(combine(Mask(function)))


@pytest.mark.grid
@pytest.mark.parametrize("name", MAKERS)
def test_a_mask_is_given_to_a_graph_or_made_there(name):
    make = MAKERS[name]
    x = torch.randn(1, 2, 5, 4)

    def attend(x, mask):
        mask = make() if mask is None else mask
        return attn.attention(x, x, x, mask, q_offset=0)

    compiled, _ = in_one_graph(attend)
    mask = make()
    torch.testing.assert_close(compiled(x, mask), attend(x, mask))
    if name != "not":  # Dynamo applies ~ to no object at all
        torch.testing.assert_close(compiled(x, None), attend(x, mask))
