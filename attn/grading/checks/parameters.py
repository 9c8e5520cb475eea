"""Load a case's weights into a learner's module, or say what does not fit."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from torch import Tensor, nn


def modules(module: nn.Module) -> dict[str, nn.Module]:
    """Return a module and those in it, whatever methods they override.

    The keys are the beginnings of their parameters' names.

    Raises:
        TypeError: it is no module.
        AttributeError: one was made without ``super().__init__()``.
    """
    if not issubclass(type(module), nn.Module):
        name = type(module).__name__
        raise TypeError(f"{name} must be a subclass of nn.Module")
    found: dict[int, tuple[str, nn.Module]] = {}
    waiting: list[tuple[str, nn.Module | None]] = [("", module)]
    while waiting:
        path, x = waiting.pop()
        if x is None or id(x) in found:
            continue
        found[id(x)] = path, x
        inner = reversed(_entries(x, "_modules"))
        waiting += [(f"{path}{name}.", y) for name, y in inner]
    return dict(found.values())


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's parameters by name, whatever methods it overrides."""
    named: dict[int, tuple[str, Tensor]] = {}
    for path, inner in modules(module).items():
        for name, x in _entries(inner, "_parameters"):
            if x is not None:
                named.setdefault(id(x), (f"{path}{name}", x))
    return dict(named.values())


def _entries(module: nn.Module, kind: str) -> list[tuple[str, Any]]:
    """Return what a module has registered, none of its methods called."""
    found: Any = vars(module).get(kind)
    if not issubclass(type(found), dict):
        name = type(module).__name__
        raise AttributeError(f"'{name}' object has no attribute '{kind}'")
    return list(dict.items(found))


class WrongParameters(Exception):
    """A module's parameters are not those of the task.

    Args:
        text: what differs.
        extra: the names of those that are too many.
        missing: the names of those that are missing.
        shared: the names of one parameter, where the task has several.
    """

    def __init__(
        self,
        text: str,
        extra: Iterable[str] = (),
        missing: Iterable[str] = (),
        shared: Iterable[str] = (),
    ) -> None:
        super().__init__(text)
        self.extra, self.missing = {*extra}, {*missing}
        self.shared = tuple(shared)


def load(
    module: nn.Module,
    state: Mapping[str, Tensor],
    initial: Container[str] = (),
) -> None:
    """Load the case's weights into a learner's module.

    Extra buffers are welcome. Extra parameters are not: they would keep
    their random values.

    Args:
        module: the learner's module.
        state: the weights, by name.
        initial: names of those that keep the values they were made with.
    """
    shapes = {n: tuple(x.shape) for n, x in module.state_dict().items()}
    own = {n: shapes[n] for n, _ in module.named_parameters() if n in shapes}
    needed = {n: tuple(x.shape) for n, x in state.items()}
    if not (own.items() <= needed.items() and needed.keys() <= shapes.keys()):
        raise WrongParameters(
            _differences(own, needed, shapes),
            {*own} - {*needed},
            {*needed} - {*shapes},
        )
    if names := _shared(module, needed):
        raise WrongParameters(
            f"{' and '.join(names)} are one and the same parameter",
            shared=names,
        )
    dtypes = {x.dtype for x in state.values()}
    tensors = [*module.parameters(), *module.buffers()]
    now = {x.dtype for x in tensors if x.is_floating_point()}
    if len(dtypes) == 1 and now != dtypes:
        module.to(dtypes.pop())
    loaded = {n: x for n, x in state.items() if n not in initial}
    module.load_state_dict(loaded, strict=False)


Shapes = Mapping[str, tuple[int, ...]]


def _differences(own: Shapes, needed: Shapes, shapes: Shapes) -> str:
    """Say which parameters have another shape, are missing, or too many."""
    parts = [
        f"its {n} is {shapes[n]}, not {shape}"
        for n, shape in needed.items()
        if n in shapes and shapes[n] != shape
    ]
    missing = [f"{n} {x}" for n, x in needed.items() if n not in shapes]
    extra = [f"{n} {x}" for n, x in own.items() if n not in needed]
    if missing:
        parts.append(f"it has no parameter {', '.join(missing)}")
    if extra:
        parts.append(f"the task does not have {', '.join(extra)}")
    return "; ".join(parts)


def refuse_learnable(module: nn.Module) -> None:
    """Raise an error if a module for which a task has no weights has some.

    A frozen parameter is memory like any other.
    """
    names = [n for n, x in parameters(module).items() if x.requires_grad]
    if names:
        raise WrongParameters(
            f"it has learnable parameters ({', '.join(names)}), and the task "
            "has none: an optimizer would change them",
            names,
        )


def _shared(module: nn.Module, names: Container[str]) -> list[str]:
    """Return the names of a parameter that has several of these names."""
    by_id: dict[int, list[str]] = {}
    for name, x in module.named_parameters(remove_duplicate=False):
        if name in names:
            by_id.setdefault(id(x), []).append(name)
    return next((x for x in by_id.values() if len(x) > 1), [])
