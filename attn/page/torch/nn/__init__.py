"""Modules: parameters by name, and linear maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..creation import CHANCE
from ..dtypes import FLOAT, dtype, float32
from ..errors import looking, lookup_error, said
from ..sizes import size_of, strides_of
from ..tensor import Tensor, elements, rounded, write
from ..traced import STATE
from . import functional

__all__ = ["functional"]


class Parameter(Tensor):
    """A tensor that a module trains."""

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        super().__init__(
            data._storage, data.shape, data.dtype, data._strides, data._start
        )
        self.requires_grad = requires_grad


class Module:
    """Something with parameters, buffers and modules as attributes."""

    training = True
    forward: Callable[..., Any]

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, x: Any) -> None:
        kinds = {"_parameters": Parameter, "_modules": Module}
        for place, kind in kinds.items():
            if isinstance(x, kind) and place not in self.__dict__:
                what = "module" if kind is Module else "parameters"
                raise said("before_init", what)
        for place in ("_buffers", *kinds):
            own = self.__dict__.get(place, {})
            if isinstance(x, kinds.get(place, ())) or name in own:
                if place == "_parameters" and not isinstance(
                    x, Parameter | None
                ):
                    raise said("not_a_parameter", name)
                own[name] = x
                return
        self.__dict__[name] = x

    def __getattr__(self, name: str) -> Any:
        for place in ("_parameters", "_buffers", "_modules"):
            own = self.__dict__.get(place, {})
            if name in own:
                return own[name]
        said = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise lookup_error("nn.Module", name, said)

    def register_buffer(
        self, name: str, tensor: Tensor | None, persistent: bool = True
    ) -> None:
        """Keep a tensor that is not trained."""
        self._buffers[name] = tensor

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Keep a tensor that is trained."""
        self._parameters[name] = param

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and all within it, with their names."""
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}".lstrip("."))

    def _named(self, place: str) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.named_modules():
            for name, x in module.__dict__[place].items():
                if x is not None:
                    yield f"{prefix}.{name}".lstrip("."), x

    def modules(self) -> Iterator[Module]:
        """Yield this module and all within it."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters of this module and all within it."""
        seen = set[int]()
        for name, x in self._named("_parameters"):
            if not (remove_duplicate and id(x) in seen):
                seen.add(id(x))
                yield name, x

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of this module and all within it."""
        return (x for _, x in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers of this module and all within it."""
        return self._named("_buffers")

    def buffers(self) -> Iterator[Tensor]:
        """Yield the buffers of this module and all within it."""
        return (x for _, x in self.named_buffers())

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name."""
        return dict([*self._named("_parameters"), *self._named("_buffers")])

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True
    ) -> None:
        """Overwrite parameters and buffers."""
        own, problems = self.state_dict(), []
        missing = [f'"{x}"' for x in own if x not in state_dict]
        extra = [f'"{x}"' for x in state_dict if x not in own]
        for which, names in (("Missing", missing), ("Unexpected", extra)):
            if strict and names:
                keys = f"{which} key(s) in state_dict: {', '.join(names)}. "
                problems.append(keys)
        both = {name: x for name, x in state_dict.items() if name in own}
        for name, x in both.items():
            if own[name].shape != x.shape:
                shapes = x.shape, own[name].shape
                problems.append(str(said("loaded_shape", name, *shapes)))
        if problems:
            text = "\n\t".join(problems)
            raise said("loaded", type(self).__name__, f"\n\t{text}")
        before, STATE.enabled = STATE.enabled, False
        for name, x in both.items():
            write(own[name], own[name].dtype.round(elements(x)))
        STATE.enabled = before

    def train(self, mode: bool = True) -> Module:
        """Switch to training, in all modules within."""
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Module:
        """Switch to evaluation, in all modules within."""
        return self.train(False)

    def to(self, kind: dtype) -> Module:
        """Convert float parameters and buffers to another dtype."""
        for x in (*self.parameters(), *self.buffers()):
            if x.dtype.kind == FLOAT:
                x._storage, x._start = kind.round(elements(x)), 0
                x._strides, x.dtype = strides_of(x.shape), kind
        return self


class Linear(Module):
    """The map ``x @ weight.T + bias``."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = self._random(out_features, in_features)
        self.register_parameter(
            "bias", self._random(out_features) if bias else None
        )

    def _random(self, *shape: int) -> Parameter:
        bound = max(self.in_features, 1) ** -0.5
        draws = range(size_of(shape))
        values = [CHANCE.uniform(-bound, bound) for _ in draws]
        return Parameter(rounded(values, shape, float32))

    def forward(self, input: Tensor) -> Tensor:
        """Apply the map to the last axis."""
        return functional.linear(input, self.weight, self.bias)


class Identity(Module):
    """Return the argument."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the argument."""
        return input


class Dropout(Module):
    """In training, set elements to 0 at random."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """Set elements to 0 at random."""
        return functional.dropout(input, self.p, self.training)


def _activation(name: str, f: Callable[..., Tensor]) -> None:
    members = {"forward": lambda self, input: f(input)}
    globals()[name] = type(name, (Module,), members)


for _name in ("SiLU", "ReLU"):
    _activation(_name, getattr(functional, _name.lower()))


__getattr__ = looking("nn", "torch.nn")
