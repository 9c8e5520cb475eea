"""Load a case's weights into a learner's module, or say what does not fit."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from torch import Tensor, nn


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's parameters by name, whatever methods it overrides."""
    return dict(nn.Module.named_parameters(module))


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
