"""An object of any other type is reported as what it is."""

import numpy as np
import pytest
import torch
from torch.nn.attention.bias import causal_lower_right

from attn.exercises.spec import Case, find
from attn.grading.checks.result import Foreign, plain
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import judge


def ones(L, S):
    return torch.ones(L, S, dtype=torch.bool)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda L, S: causal_lower_right(L, S), "CausalBias"),
        (lambda L, S: ones(L, S).to_sparse(), "the layout sparse_coo"),
        (
            lambda L, S: torch.nested.nested_tensor([torch.ones(2)]),
            "a nested tensor",
        ),
        (lambda L, S: np.ones((L, S), bool), "a NumPy array of shape"),
        (lambda L, S: (row for row in ones(L, S)), "a generator"),
        (lambda L, S: ones(L, S).to("meta"), "is on meta, not cpu"),
        (lambda L, S: (ones(L, S), None), "tuple"),
        (lambda L, S: "tril", "'tril'"),
        (lambda L, S: None, "None (was there a return?)"),
    ],
)
def test_the_message_names_the_kind_of_object_returned(answer, words):
    message = judge(find("sdpa-causal_lower_right"), answer).message
    assert words in message
    assert "raised" not in message


def test_uninitialised_memory_is_nan_while_an_answer_runs():
    def unwritten(query, key, value):
        return torch.empty(*query.shape[:-1], value.shape[-1])

    message = judge(find("sdp-attention"), unwritten).message
    assert "NaN" in message
    assert not torch.are_deterministic_algorithms_enabled()


def test_sampled_ids_are_compared_by_their_frequencies():
    case = Case("draws", (torch.zeros(6, 3),), train=True, shares=(2, 3))
    ids = torch.tensor([0, 0, 2, 1, 1, 1])
    shares = torch.tensor([[2, 0, 1], [0, 3, 0]]) / 3
    assert torch.equal(run(lambda x: ids, case).output, shares)
    for other in (ids.int(), ids[:, None], ids[:5], ids + 1, ids - 1):
        assert torch.equal(run(lambda x, y=other: y, case).output, other)


def test_each_run_gets_a_fresh_copy_of_the_generator():
    case = Case("draws", (torch.Generator().manual_seed(5),))

    def draw(generator):
        return torch.rand(3, generator=generator)

    first, again = (run(draw, case).output for _ in range(2))
    assert torch.equal(first, again)


RAN = []


def noted(name, found):
    def method(self, *args):
        RAN.append(name)
        return found

    return method


def own(base, *args):
    """Return an object whose class answers every question with its own code.

    Its class also gives its own name by code.
    """
    named = {"__name__": property(noted("__name__", "int"))}
    metaclass = type("Kind", (type(base),), named)
    methods = {
        "__class__": property(noted("__class__", list)),
        "__iter__": noted("__iter__", iter(())),
        "__len__": noted("__len__", 0),
        "__eq__": noted("__eq__", True),
        "__hash__": noted("__hash__", 3),
        "__int__": noted("__int__", 3),
        "__float__": noted("__float__", 3.0),
        "__index__": noted("__index__", 3),
        "__repr__": noted("__repr__", "odd"),
        "__format__": noted("__format__", "odd"),
        "items": noted("items", ()),
        "shape": property(noted("shape", (9,))),
    }
    return metaclass("Odd", (base,), methods)(*args)


ODD = {
    "tuple": (own(tuple, [1, 2]), (1, 2)),
    "list": (own(list, [1, 2]), [1, 2]),
    "dict": (own(dict, {"a": 1}), {"a": 1}),
    "int": (own(int, 4), Foreign("a Odd")),
    "float": (own(float, 4), Foreign("a Odd")),
    "NumPy's float": (own(np.float64, 4), Foreign("a Odd")),
    "str": (own(str, "x"), Foreign("a Odd")),
    "object": (own(object), Foreign("a Odd")),
    "tensor": (
        torch.ones(2).as_subclass(type(own(torch.Tensor))),
        Foreign("a tensor of the class Odd"),
    ),
    "array": (
        np.ones(2).view(type(own(np.ndarray, 1))),
        Foreign("a NumPy array", "of shape (2,)"),
    ),
}


@pytest.mark.parametrize(("odd", "expected"), ODD.values(), ids=ODD)
def test_no_method_of_a_result_is_called_to_take_what_it_holds(odd, expected):
    RAN.clear()
    found = plain([odd, {"key": odd}])
    assert RAN == []
    assert found == [expected, {"key": expected}]
    assert type(found[0]) is type(expected)


def test_the_numbers_of_numpy_are_numbers():
    found = plain((np.float64(0.5), np.int32(3), np.bool_(True)))
    assert found == (0.5, 3, True)
    assert list(map(type, found)) == [float, int, bool]


def test_a_key_of_the_answers_own_class_is_no_key():
    key = own(str, "x")
    given = {}
    dict.__setitem__(given, key, 1)
    RAN.clear()
    assert plain(given) == {Foreign("a Odd"): 1}
    assert RAN == []
