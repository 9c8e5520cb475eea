"""The positions of a model: a name, an object, or the object's JSON form."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from attn.positions import (
    LearnedPositions,
    NoRope,
    Rope,
    SinusoidalPositions,
)

POSITIONS = ("rope", "learned", "sinusoidal", "alibi", "none")
#: The classes by name, and what each takes from a configuration.
_CLASSES: dict[str, tuple[type[nn.Module], dict[str, str]]] = {
    "rope": (Rope, {"head_dim": "head_dim"}),
    "norope": (NoRope, {"head_dim": "head_dim"}),
    "learned": (LearnedPositions, {"max_len": "max_positions", "dim": "E"}),
    "sinusoidal": (SinusoidalPositions, {"dim": "E"}),
}


class ModelPositions(NamedTuple):
    """Positions, each kind where a model uses it."""

    added: nn.Module | None = None  # from position ids to vectors
    rope: Rope | NoRope | None = None
    alibi: bool = False


def parse(positions: Any, sizes: Mapping[str, int | None]) -> str | nn.Module:
    """Return a name or an object; refuse one of another size.

    ``sizes`` are ``head_dim``, ``E`` and ``max_positions``.
    """
    if isinstance(positions, Mapping):
        positions = _from_plain(positions, sizes)
    if isinstance(positions, str) and positions not in POSITIONS:
        raise ValueError(
            f"positions must be one of {POSITIONS}, or an object; got "
            f"{positions!r}"
        )
    if not isinstance(positions, str | nn.Module):
        raise TypeError(
            f"positions must be one of {POSITIONS}, or an object, such as "
            f"Rope({sizes['head_dim']}); got {positions!r}"
        )
    if positions == "learned" and sizes["max_positions"] is None:
        raise ValueError(
            "max_positions must be given with positions='learned'; got None"
        )
    for cls, names in _CLASSES.values():
        if not isinstance(positions, cls):
            continue
        given: Any = positions.arguments
        for name, size in names.items():
            got, need = given[name], sizes[size]
            if name != "max_len" and got != need:
                raise ValueError(
                    f"positions must have a {name} of {need}, as the model; "
                    f"got {type(positions).__name__} with {got}"
                )
    return positions


def build(positions: Any, sizes: Mapping[str, Any]) -> ModelPositions:
    """Return what a model uses; an object is copied, with its weights."""
    if positions == "none":
        return ModelPositions()
    if positions == "alibi":
        return ModelPositions(alibi=True)
    if isinstance(positions, str):
        cls, names = _CLASSES[positions]
        made = cls(**{k: sizes[size] for k, size in names.items()})
    else:
        made = copy.deepcopy(positions)
    if isinstance(made, Rope | NoRope):
        return ModelPositions(rope=made)
    return ModelPositions(added=made)


def acts_in_attention(positions: Any) -> bool:
    """Return whether positions change the scores of self-attention."""
    rotates = isinstance(positions, Rope | NoRope)
    return rotates or positions in ("rope", "alibi")


def to_plain(positions: Any) -> Any:
    """Return the JSON form, and a custom object as it is."""
    names = {cls: name for name, (cls, _) in _CLASSES.items()}
    if name := names.get(type(positions)):
        return {name: positions.arguments}
    return positions


def _from_plain(
    plain: Mapping[str, Any], sizes: Mapping[str, int | None]
) -> nn.Module:
    """Make an object of ``{"rope": {"base": 5e5}}``."""
    if len(plain) != 1 or not plain.keys() <= _CLASSES.keys():
        raise ValueError(
            f"positions must have one key of {tuple(_CLASSES)} as a mapping; "
            f"got {dict(plain)!r}"
        )
    [(name, arguments)] = plain.items()
    cls, names = _CLASSES[name]
    given = {k: sizes[size] for k, size in names.items()}
    return cls(**{**given, **arguments})
