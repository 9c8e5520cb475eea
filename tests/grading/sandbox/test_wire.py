"""An outcome or one error comes out of the sandbox, whatever arrives."""

import json
import random
import socket
import struct
import time
from dataclasses import replace

import pytest
import torch

from attn.exercises.guard import OutOfBounds
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.effects import SideEffect
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.checks.run import Outcome
from attn.grading.sandbox import wire

HEAD = struct.Struct(">II")


def parts(outcome):
    """Return an outcome's text and tensors, as they are sent after HEAD."""
    packet = wire.encode(outcome)
    length, _ = HEAD.unpack(packet[:8])
    return packet[8 : 8 + length], packet[8 + length :]


def carried(outcome):
    return wire.decode(*parts(outcome))


def test_a_packet_begins_with_the_lengths_of_its_parts():
    outcome = Outcome(output=torch.ones(2))
    text, data = parts(outcome)
    assert wire.encode(outcome)[:8] == HEAD.pack(len(text), len(data))


TENSORS = {
    "matrix": torch.randn(3, 4),
    "view": torch.randn(3, 4).T,  # strides are not carried, elements are
    "half": torch.randn(5)[::2].to(torch.bfloat16),
    "bool": torch.tensor(True),
    "int": torch.arange(6).view(2, 3),
    "empty": torch.empty(0, 3),
    "not finite": torch.tensor([float("nan"), float("inf")]),
}


@pytest.mark.parametrize("x", TENSORS.values(), ids=TENSORS)
def test_a_tensor_arrives_with_its_dtype_shape_and_elements(x):
    got = carried(Outcome(output=x)).output
    assert got.dtype == x.dtype and got.shape == x.shape
    torch.testing.assert_close(got, x, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "x",
    [
        None,
        True,
        3,
        -(10**40),
        0.1,
        float("inf"),
        "text ✓",
        (1, [2.5, None], {"a": (True,)}),
        range(2, 9, 3),
    ],
    ids=repr,
)
def test_a_plain_value_arrives_unchanged(x):
    got = carried(Outcome(output=x)).output
    assert got == x and type(got) is type(x)


OTHERS = {
    "object": object(),
    "complex": 1j,
    "int keys": {1: 2},
    "set": {3},
    "bytes": b"bytes",
    "complex tensor": torch.ones(2, dtype=torch.cfloat),
    "a long range": range(10**6),
    "a range without end": range(10**30),
}


@pytest.mark.parametrize("x", OTHERS.values(), ids=OTHERS)
def test_any_other_object_arrives_as_its_name(x):
    assert isinstance(carried(Outcome(output=x)).output, Foreign)


def test_a_name_that_a_terminal_would_obey_arrives_harmless():
    text = json.dumps(BODY | {"shapes_seen": {"\x1b[2J": [1]}}).encode()
    found = wire.decode(text, parts(Outcome(output=torch.ones(2)))[1])
    assert [*found.shapes_seen] == ["\ufffd[2J"]


def test_the_results_of_all_cases_of_an_exercise_fit_into_memory():
    assert 100 * (wire.MOST_DATA + wire.MOST_TEXT) < 1 << 30


def test_all_other_observations_arrive_unchanged():
    before = Outcome(
        output=(torch.ones(2), torch.zeros(1)),
        grads={"args.0": torch.ones(2)},
        where="return x",
        shapes_seen={"x": (2, 3)},
        side_effect=SideEffect("changed input", ("x", "state")),
        random_used=frozenset({"NumPy"}),
        repeats=True,
        printed="here",
    )
    after = carried(before)
    assert after.grads["args.0"].equal(torch.ones(2))
    tensors = {"output": None, "grads": {}}
    assert replace(after, **tensors) == replace(before, **tensors)


def noted(error):
    error.add_note("a lesson")
    return error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("a key"),
        noted(RuntimeError("size mismatch")),
        ZeroDivisionError(),
        OutOfTime("late"),
        Forbidden("softmax", "read_as_number"),
        WrongParameters("are q", {"q"}, {"k"}),
        WrongParameters("q and k are one", shared=("q", "k")),
        NoGradient("none flows back"),
        OutOfBounds("it reads Q[9]", (torch.ones(1), torch.zeros(1)), ""),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"),
        SystemExit(3),
    ],
    ids=repr,
)
def test_an_error_arrives_with_its_type_and_message(error):
    got = carried(Outcome(error=error)).error
    assert isinstance(got, BaseException)
    assert str(got) == str(error)
    assert getattr(got, "__notes__", []) == getattr(error, "__notes__", [])
    for name in ("kind", "extra", "missing", "shared"):
        assert getattr(got, name, None) == getattr(error, name, None)
    if type(error).__init__ is not UnicodeDecodeError.__init__:
        assert type(got).__name__ == type(error).__name__


def test_an_exception_class_of_the_answer_keeps_its_name():
    class Mine(Exception):
        pass

    got = carried(Outcome(error=Mine("odd"))).error
    assert type(got).__name__ == "Mine" and isinstance(got, Exception)


EFFECTS = {
    "memory": SideEffect("memory", peak=9, limit=6, largest=(3, 2)),
    "nothing": None,
}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
def test_a_side_effect_arrives_unchanged(effect):
    assert carried(Outcome(side_effect=effect)).side_effect == effect


def fields(**observed):
    return json.loads(parts(Outcome(**observed))[0])


BODY = fields(output=torch.ones(2))
EFFECT = fields(side_effect=EFFECTS["memory"])["side_effect"]
REFUSED = fields(error=Forbidden("softmax"))["error"]
NO_OUTCOME = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"[" * 100_000,
    b'{"output": 1}',
    b"1" * 5000,
    b"\xff\xfe",
]
WRONG_FIELDS = [
    {"output": ["tensor", "9"]},
    {"output": ["class", "os.system"]},
    {"output": ["tuple", "abc"]},
    {"output": ["float", "0.1"]},
    {"output": ["str", "x" * 100_000]},
    {"output": ["list", [None] * 50_000]},
    {"output": ["list", [["tensor", "0"]] * 2]},  # one tensor, used twice
    {"grads": ["dict", {"args.0": 1}]},
    {"repeats": "yes"},
    {"shapes_seen": {"x": ["a"]}},
    {"shapes_seen": {"x" * 100_000: [1]}},
    {"output": ["range", [0, 10**9, 1]]},
    {"output": ["range", [0, 10**30, 1]]},
    {"output": ["list", [["range", [0, 9999, 1]]] * 3]},
    {"error": {"type": 3}},
    {"printed": 3},
    {"random_used": ["the CPU's"]},
    {"random_used": [["NumPy"]]},
    {"side_effect": "it changes x in place"},
    {"side_effect": EFFECT | {"kind": "new"}},
    {"side_effect": EFFECT | {"names": [3]}},
    {"side_effect": EFFECT | {"peak": "9"}},
    {"side_effect": EFFECT | {"limit": True}},
    {"side_effect": EFFECT | {"largest": [-1]}},
    {"error": REFUSED | {"held": [["str", "in_place"]]}},
    {"error": REFUSED | {"held": []}},
    {"error": REFUSED | {"texts": [3]}},
]
MALFORMED = NO_OUTCOME + [json.dumps(BODY | x).encode() for x in WRONG_FIELDS]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda x: repr(x[:60]))
def test_a_malformed_message_is_a_wire_error(text):
    with pytest.raises(wire.WireError):
        wire.decode(text, parts(Outcome(output=torch.ones(2)))[1])


def test_corrupted_bytes_give_an_outcome_or_a_wire_error():
    rng = random.Random(0)
    outcome = Outcome(output=(torch.randn(3), 2), grads={"a": torch.ones(1)})
    text, data = parts(outcome)
    for _ in range(400):
        broken = [bytearray(text), bytearray(data)]
        part = rng.choice(broken)
        for _ in range(rng.choice([1, 3, 30])):
            part[rng.randrange(len(part))] = rng.randrange(256)
        cut = rng.random() < 0.2
        broken[1] = broken[1][: rng.randrange(len(data))] if cut else broken[1]
        try:
            got = wire.decode(*map(bytes, broken))
        except wire.WireError:
            continue
        assert isinstance(got, Outcome)


def test_a_message_that_is_too_large_is_refused_before_it_is_read():
    here, there = socket.socketpair()
    with here, there:
        there.sendall(HEAD.pack(2**31, 2**31))
        with pytest.raises(wire.WireError, match="too much"):
            wire.receive(here, time.monotonic() + 5)


def test_a_silent_connection_times_out_and_a_closed_one_ends():
    here, there = socket.socketpair()
    with here:
        with pytest.raises(TimeoutError):
            wire.receive(here, time.monotonic() + 0.05)
        there.sendall(b"\0\0")
        there.close()
        with pytest.raises(EOFError):
            wire.receive(here, time.monotonic() + 5)
