"""An outcome or one error comes out of the sandbox, whatever arrives."""

import json
import random
import socket
import struct
import time
from dataclasses import replace

import pytest
import torch

from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.outcome import Forbidden, Outcome, SideEffect
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.sandbox import requests, wire

HEAD = struct.Struct(">II")


def parts(outcome):
    """Return an outcome's text and tensors, as they are sent after HEAD."""
    packet = wire.encode(outcome)
    length, size = HEAD.unpack(packet[:8])
    assert len(packet) == 8 + length + size
    return packet[8 : 8 + length].decode(), packet[8 + length :]


def carried(outcome):
    return wire.decode(*parts(outcome))


VALUES = {
    "matrix": torch.randn(3, 4),
    "view": torch.randn(3, 4).T,  # strides are not carried, elements are
    "half": torch.randn(5)[::2].to(torch.bfloat16),
    "bool": torch.tensor(True),
    "int": torch.arange(6).view(2, 3),
    "empty": torch.empty(0, 3),
    "not finite": torch.tensor([float("nan"), float("inf")]),
    "numbers": [None, True, 3, -(10**40), 0.1, float("inf")],
    "a tree": (1, [2.5, None], {"a": (True, "text ✓")}),
    "a range": range(2, 9, 3),
}


@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES)
def test_a_value_arrives_unchanged(x):
    got = carried(Outcome(output=x)).output
    assert type(got) is type(x)
    if isinstance(x, torch.Tensor):
        assert got.dtype == x.dtype and got.shape == x.shape
        same = {"rtol": 0, "atol": 0, "equal_nan": True}
        torch.testing.assert_close(got, x, **same)
    else:
        assert repr(got) == repr(x)


OTHERS = {
    "object": object(),
    "complex": 1j,
    "int keys": {1: 2},
    "bytes": b"bytes",
    "complex tensor": torch.ones(2, dtype=torch.cfloat),
    "a long range": range(10**6),
    "a range without end": range(10**30),
}


@pytest.mark.parametrize("x", OTHERS.values(), ids=OTHERS)
def test_any_other_object_arrives_as_its_name(x):
    assert isinstance(carried(Outcome(output=x)).output, Foreign)


def test_the_results_of_all_cases_of_an_exercise_fit_into_memory():
    assert 100 * (requests.MOST_DATA + requests.MOST_TEXT) < 1 << 30


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
    memory = SideEffect("memory", peak=9, limit=6, largest=(3, 2))
    assert carried(Outcome(side_effect=memory)).side_effect == memory
    assert carried(Outcome()) == Outcome()


class Mine(Exception):
    """An exception class of the answer's."""


NOTED = RuntimeError("size mismatch")
NOTED.add_note("a lesson")


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("no"), KeyError("a key"), ZeroDivisionError()),
        *(OutOfTime("late"), NoGradient("none flows back"), Mine("odd")),
        NOTED,
        Forbidden("softmax", "read_as_number"),
        WrongParameters("are q", {"q"}, {"k"}),
        WrongParameters("q and k are one", shared=("q", "k")),
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
    for name in ("kind", "extra", "missing", "shared", "__notes__"):
        assert getattr(got, name, []) == getattr(error, name, [])
    if type(error) is not UnicodeDecodeError:  # it needs other arguments
        assert type(got).__name__ == type(error).__name__
    again = carried(Outcome(error=error)).error
    assert type(got) is type(again), "two such errors are alike"


TEXT, DATA = parts(Outcome(output=torch.ones(2)))
NO_OUTCOME = [
    *("", "null", "[]", "{", "[" * 100_000, '{"output": 1}', "1" * 5000),
    *('["Outcome", {"new": 1}]', '["Foreign", {"kind": "a"}]', "\ufffd"),
]
WRONG_FIELDS = [
    {"output": ["tensor", "9"]},
    {"output": ["class", "os.system"]},
    {"output": ["tuple", ["float", "0.1"]]},
    {"output": "x" * 100_000},
    {"output": ["list", *[None] * 50_000]},
    {"output": ["list", *[["tensor", "0"]] * 2]},  # one tensor, used twice
    {"output": ["range", 0, 10**9, 1]},
    {"output": ["range", 0, 10**30, 1]},
    {"output": ["list", *[["range", 0, 9999, 1]] * 3]},
    {"grads": ["list"]},
    {"repeats": "yes"},
    {"shapes_seen": {"x" * 100_000: ["tuple", 1]}},
    {"error": "ValueError"},
    {"error": ["error", "ValueError", 3, {}]},
    {"error": ["error", "Forbidden", ["list"], 3]},
    {"printed": 3},
    {"random_used": ["tuple", "NumPy"]},
    {"side_effect": "it changes x in place"},
    {"side_effect": ["SideEffect", {"kind": "new"}]},
    {"side_effect": ["SideEffect", {"kind": "copy", "names": "x"}]},
    {"side_effect": ["SideEffect", {"kind": "copy", "peak": "9"}]},
]


def changed(fields):
    return json.dumps(["Outcome", json.loads(TEXT)[1] | fields])


@pytest.mark.parametrize(
    "text",
    NO_OUTCOME + [*map(changed, WRONG_FIELDS)],
    ids=[repr(x)[:60] for x in NO_OUTCOME + WRONG_FIELDS],
)
def test_a_malformed_message_is_a_wire_error(text):
    with pytest.raises(wire.WireError):
        wire.decode(text, DATA)


def test_a_name_that_a_terminal_would_obey_arrives_harmless():
    text = changed({"shapes_seen": {"\x1b[2J": ["tuple", 1]}})
    assert [*wire.decode(text, DATA).shapes_seen] == ["\ufffd[2J"]


def test_corrupted_bytes_give_an_outcome_or_a_wire_error():
    rng = random.Random(0)
    outcome = Outcome(output=(torch.randn(3), 2), grads={"a": torch.ones(1)})
    text, data = parts(outcome)
    for _ in range(400):
        broken = [bytearray(text.encode()), bytearray(data)]
        part = rng.choice(broken)
        for _ in range(rng.choice([1, 3, 30])):
            part[rng.randrange(len(part))] = rng.randrange(256)
        cut = rng.random() < 0.2
        broken[1] = broken[1][: rng.randrange(len(data))] if cut else broken[1]
        received = broken[0].decode(errors="replace"), bytes(broken[1])
        try:
            got = wire.decode(*received)
        except wire.WireError:
            continue
        assert isinstance(got, Outcome)


def test_a_message_too_large_is_refused_and_one_that_stops_times_out():
    here, there = socket.socketpair()
    with here, there:
        there.sendall(HEAD.pack(2**31, 2**31))
        with pytest.raises(wire.WireError, match="too much"):
            requests.read(here, time.monotonic() + 5)
        with pytest.raises(TimeoutError):
            requests.read(here, time.monotonic() + 0.05)
        there.sendall(b"\0\0")
        there.close()
        with pytest.raises(EOFError):
            requests.read(here, time.monotonic() + 5)
