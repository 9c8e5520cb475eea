"""Read how the classes of a transformers model treat attention and its masks.

Attention that is computed in a class's own code is not replaced, and a mask
that is not a tensor suits only code that passes it on. Both are visible in
the source, without running the model.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import nn

from attn.hf.mask_uses import MaskUses, mask_parameters, names_in

_OF_SCORES = {"softmax", "scaled_dot_product_attention", "baddbmm"}
_DISPATCH = {"get_interface", "ALL_ATTENTION_FUNCTIONS"}
#: Bases that hold no attention of a family.
_GENERAL = ("transformers.modeling_", "transformers.generation", "torch.")


@dataclass
class Reading:
    """Classes of a model by what their code does.

    ``inline`` classes compute attention themselves. ``doubts`` says what code
    does that may not suit masks without a tensor, or our function.
    """

    inline: list[str] = field(default_factory=list)
    doubts: dict[type[nn.Module], list[str]] = field(default_factory=dict)


def read(model: nn.Module) -> Reading:
    """Read the classes of a model's modules."""
    from transformers import PreTrainedModel

    result = Reading()
    for part in {type(x): x for x in model.modules()}.values():
        cls: type = type(part)
        found, name = _read_class(cls), cls.__name__
        if found.is_inline:
            result.inline.append(name)
        doubts = list(found.doubts)
        for child in sorted(found.receivers):
            receiver = getattr(part, child, None)
            if isinstance(receiver, PreTrainedModel):
                doubts.append(f"{name} passes its mask to {child}")
                result.doubts.setdefault(type(receiver), []).append(doubts[-1])
        if doubts:
            result.doubts.setdefault(cls, []).extend(doubts)
    return result


@dataclass(frozen=True)
class _ClassReading:
    is_inline: bool = False
    doubts: tuple[str, ...] = ()
    receivers: frozenset[str] = frozenset()  # attributes that get a mask


@functools.cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    """Return the classes and functions of a module; none without a source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {x.name: x for x in tree.body if isinstance(x, kinds)}


@functools.cache
def _read_class(cls: type) -> _ClassReading:
    from transformers import PreTrainedModel

    # Embeddings come before attention, and have masks of their own.
    if cls.__module__.startswith("torch.") or "Embedding" in cls.__name__:
        return _ClassReading()
    is_model = issubclass(cls, PreTrainedModel)
    helpers = _definitions(cls.__module__)
    methods = dict(_methods(cls))
    if not methods:
        return _ClassReading(doubts=(f"{cls.__name__} has no source",))
    names = set[str]().union(*map(names_in, methods.values()))
    for name in names & helpers.keys():
        if isinstance(helpers[name], ast.FunctionDef):
            names |= names_in(helpers[name]) & _OF_SCORES
    takes_mask = any(mask_parameters(method) for method in methods.values())
    is_inline = bool(names & _OF_SCORES) and not (names & _DISPATCH)
    # Routers and pools have a softmax too.
    is_inline &= "Attention" in cls.__name__
    is_inline &= takes_mask or cls.__name__.endswith("Attention")
    doubts, receivers = [], set[str]()
    for name, method in methods.items():
        visitor = MaskUses(
            helpers, methods, [] if is_model else mask_parameters(method)
        )
        visitor.visit(method)
        receivers |= visitor.receivers
        doubts += [f"{cls.__name__}.{name} {use}" for use in visitor.uses]
    return _ClassReading(
        is_inline and not is_model, tuple(doubts), frozenset(receivers)
    )


def _methods(cls: type) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield a class's own methods and those inherited, without overridden."""
    seen = set[str]()
    for base in cls.__mro__[:-1]:
        if base.__module__.startswith(_GENERAL):
            continue
        definition = _definitions(base.__module__).get(base.__name__)
        for x in getattr(definition, "body", ()):
            if isinstance(x, ast.FunctionDef) and x.name not in seen:
                seen.add(x.name)
                yield x.name, x
