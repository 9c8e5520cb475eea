"""Options that are True or False refuse everything else, and name it."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

import attn
from attn.api import Registry
from attn.functional.inputs import validate
from tests.attn.test_examples import MODULES
from tests.marks import exhaustive_but

pytest.importorskip("triton")
pytest.importorskip("transformers")
X = torch.zeros(1, 2, 3, 4)
SIZES = {"embed_dim": 8, "num_heads": 2}
MODEL = {**SIZES, "vocab_size": 9, "num_layers": 1, "num_kv_heads": 1}
SHAPE = {**MODEL, "hidden_dim": 9, "head_dim": 4}
#: Without a signature that says what it checks: a call of each.
INSIDE: dict[str, Callable[..., Any]] = {
    "attention": lambda **flag: attn.attention(X, X, X, **flag),
    "validate": lambda **flag: validate(X, X, X, **flag),
    "Registry.select": lambda **flag: Registry().select(
        validate(X, X, X), **flag
    ),
    "Mask": lambda **flag: attn.Mask(lambda b, h, q, kv: q >= kv, **flag),
    "ModelShape": lambda **flag: attn.cost.ModelShape(**SHAPE, **flag),
    "TransformerConfig": lambda **flag: attn.TransformerConfig(
        **MODEL, positions="none", **{"is_causal": True, **flag}
    ),
    "LatentAttention(absorb)": lambda **flag: attn.nn.LatentAttention(
        8, 2, None, 4, 4, 4, 4, **flag
    ),
    "TransformerBlock.forward": lambda **flag: attn.TransformerBlock(**SIZES)(
        torch.zeros(1, 3, 8), **flag
    ),
}
#: A selection has checked it, before they look it up.
LATER = {"Registry.measured", "AttentionInputs.tuning_key"}
#: transformers' own class, which checks what it gets.
THEIRS = "BidirectionalLlamaConfig"


class Flag(NamedTuple):
    name: str
    call: Callable[..., Any]
    before: list[Any] | None  # arguments, where it has a place
    is_optional: bool


def public(path: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    module = importlib.import_module(path)
    for name in module.__all__:
        thing = getattr(module, name)
        if not callable(thing) or name == THEIRS:
            continue
        if not isinstance(thing, type):
            yield name, thing
            continue
        for own, method in vars(thing).items():
            is_public = own == "__init__" or not own.startswith("_")
            if is_public and inspect.isfunction(method):
                yield f"{name}.{own}".removesuffix(".__init__"), method


def flags(path: str) -> dict[str, Flag]:
    found = {}
    for name, function in public(path):
        before: list[Any] = []
        for p in inspect.signature(function).parameters.values():
            kinds = str(p.annotation).split(" | ")
            is_flag = kinds[0] == "bool" and "Condition" not in kinds
            if is_flag and name not in LATER:
                said = f"{name}({p.name})"
                inside = INSIDE.get(said, INSIDE.get(name))
                placed = not (inside or p.kind is p.KEYWORD_ONLY)
                found[said] = Flag(
                    p.name, inside or function,
                    [*before] if placed else None, "None" in kinds,
                )  # fmt: skip
            before.append(False if is_flag else None)
    return found


def is_refused(flag: Flag, *place: Any, **name: Any) -> bool:
    with pytest.raises((TypeError, ValueError)) as info:
        flag.call(*place, **name)
    return str(info.value).startswith(f"{flag.name} must be True")


@pytest.mark.parametrize(
    "path", exhaustive_but(["attn.linear", "attn.functional"], MODULES)
)
def test_a_flag_is_true_or_false(path):
    for said, flag in flags(path).items():
        for x in (3, 1, 0, "yes", torch.tensor(True), None):
            if x is not None or not flag.is_optional:
                assert is_refused(flag, **{flag.name: x}), (said, x)
        if flag.before is not None:
            assert is_refused(flag, *flag.before, 3), said


@pytest.mark.exhaustive
def test_all_flags_are_found():
    found = set().union(*map(flags, MODULES))
    assert len(found) > 100
    assert found | {x.split("(")[0] for x in found} >= INSIDE.keys()


def test_what_a_registration_says_of_itself_is_true_or_false():
    for name in ("supports_lse", "tunable"):
        add = Registry().register("mine", **{name: 3})
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            add(attn.tiled_attention)
