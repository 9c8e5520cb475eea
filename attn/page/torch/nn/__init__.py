"""Modules: parameters by name, linear maps, norms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..creation import _RANDOM, _filled
from ..dtypes import FLOAT, dtype
from ..errors import lookup_error, not_here
from ..tensor import Tensor, elements, new, rounded, size_of, write
from . import functional, init

__all__ = ["functional", "init"]


class Parameter(Tensor):
    """A tensor that a module trains."""

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        super().__init__(
            data._storage, data.shape, data.dtype, data._strides, data._start
        )
        self.requires_grad = requires_grad


class Buffer(Tensor):
    """A tensor that a module keeps and does not train."""

    __slots__ = ()

    def __init__(self, data: Tensor, *, persistent: bool = True) -> None:
        super().__init__(
            data._storage, data.shape, data.dtype, data._strides, data._start
        )


class Module:
    """Something with parameters, buffers and modules as attributes."""

    training = True
    forward: Callable[..., Any]

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, x: Any) -> None:
        kinds = {
            "_parameters": Parameter,
            "_modules": Module,
            "_buffers": Buffer,
        }
        for place, kind in kinds.items():
            if isinstance(x, kind):
                if "_parameters" not in self.__dict__:
                    what = "module" if kind is Module else "parameters"
                    raise AttributeError(
                        f"cannot assign {what} before Module.__init__() call"
                    )
                self.__dict__[place][name] = x
                return
        for place in kinds:
            own = self.__dict__.get(place, {})
            if name in own and (x is None or place == "_buffers"):
                own[name] = x
                return
            if name in own and place == "_parameters":
                raise TypeError(
                    f"cannot assign '{Tensor.__module__ and 'torch.FloatTensor'}' as "
                    f"parameter '{name}' (torch.nn.Parameter or None expected)"
                )
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

    def add_module(self, name: str, module: Module) -> None:
        """Keep a module."""
        self._modules[name] = module

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and all within it, with their names."""
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}".lstrip("."))

    def modules(self) -> Iterator[Module]:
        """Yield this module and all within it."""
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        """Yield the modules directly within this one."""
        return iter(self._modules.values())

    def named_parameters(
        self, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters of this module and all within it."""
        seen = set[int]()
        for prefix, module in self.named_modules():
            for name, x in module._parameters.items():
                if x is None or remove_duplicate and id(x) in seen:
                    continue
                seen.add(id(x))
                yield f"{prefix}.{name}".lstrip("."), x

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of this module and all within it."""
        return (x for _, x in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers of this module and all within it."""
        for prefix, module in self.named_modules():
            for name, x in module._buffers.items():
                if x is not None:
                    yield f"{prefix}.{name}".lstrip("."), x

    def buffers(self) -> Iterator[Tensor]:
        """Yield the buffers of this module and all within it."""
        return (x for _, x in self.named_buffers())

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True
    ) -> None:
        """Overwrite parameters and buffers."""
        own = self.state_dict()
        problems = []
        missing = [f'"{x}"' for x in own if x not in state_dict]
        extra = [f'"{x}"' for x in state_dict if x not in own]
        if strict and missing:
            problems.append(
                f"Missing key(s) in state_dict: {', '.join(missing)}. "
            )
        if strict and extra:
            problems.append(
                f"Unexpected key(s) in state_dict: {', '.join(extra)}. "
            )
        for name, x in state_dict.items():
            if name in own and own[name].shape != x.shape:
                problems.append(
                    f"size mismatch for {name}: copying a param with shape "
                    f"{x.shape} from checkpoint, the shape in current model "
                    f"is {own[name].shape}."
                )
        if problems:
            raise RuntimeError(
                "Error(s) in loading state_dict for "
                f"{type(self).__name__}:\n\t" + "\n\t".join(problems)
            )
        for name, x in state_dict.items():
            if name in own:
                write(own[name], own[name].dtype.round(elements(x)))

    def train(self, mode: bool = True) -> Module:
        """Switch to training, in all modules within."""
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Module:
        """Switch to evaluation, in all modules within."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Mark the parameters."""
        for x in self.parameters():
            x.requires_grad = requires_grad
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Convert float parameters and buffers to another dtype."""
        kinds = [x for x in (*args, *kwargs.values()) if isinstance(x, dtype)]
        for x in (*self.parameters(), *self.buffers()):
            for kind in kinds:
                if x.dtype.kind == FLOAT:
                    x._storage = kind.round(elements(x))
                    x._start, x._strides = 0, new([], x.shape, kind)._strides
                    x.dtype = kind
        return self

    def double(self) -> Module:
        """Convert float parameters and buffers to float64."""
        from ..dtypes import float64

        return self.to(float64)


def _uniform(*shape: int, bound: float) -> Tensor:
    from ..dtypes import float32

    values = [_RANDOM.uniform(-bound, bound) for _ in range(size_of(shape))]
    return rounded(values, shape, float32)


class Linear(Module):
    """The map ``x @ weight.T + bias``."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / max(in_features, 1) ** 0.5
        self.weight = Parameter(
            _uniform(out_features, in_features, bound=bound)
        )
        if bias:
            self.bias = Parameter(_uniform(out_features, bound=bound))
        else:
            self.register_parameter("bias", None)

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


class Embedding(Module):
    """A row of a table for each index."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        shape = num_embeddings, embedding_dim
        values = [_RANDOM.gauss(0.0, 1.0) for _ in range(size_of(shape))]
        from ..dtypes import float32

        self.weight = Parameter(rounded(values, shape, float32))

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows."""
        return functional.embedding(input, self.weight)


class LayerNorm(Module):
    """Shift and scale the last axes to mean 0 and variance 1."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (
            (shape,) if isinstance(shape, int) else tuple(shape)
        )
        self.eps = eps
        if elementwise_affine:
            self.weight = Parameter(_filled(self.normalized_shape, 1, None))
        else:
            self.register_parameter("weight", None)
        if elementwise_affine and bias:
            self.bias = Parameter(_filled(self.normalized_shape, 0, None))
        else:
            self.register_parameter("bias", None)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the last axes."""
        return functional.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps
        )


class RMSNorm(Module):
    """Divide the last axes by the root of their mean square."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None
    ) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (
            (shape,) if isinstance(shape, int) else tuple(shape)
        )
        self.eps = eps
        self.weight = Parameter(_filled(self.normalized_shape, 1, None))

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the last axes."""
        return functional.rms_norm(
            input, self.normalized_shape, self.weight, self.eps
        )


class ModuleList(Module):
    """Modules in a list."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, i: int) -> Module:
        return list(self._modules.values())[i]


class Sequential(ModuleList):
    """Modules that are applied one after another."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, input: Any) -> Any:
        """Apply each to what the one before returns."""
        for module in self:
            input = module(input)
        return input


def _activation(name: str, f: Callable[..., Tensor]) -> None:
    def forward(self: Module, input: Tensor) -> Tensor:
        return f(input)

    globals()[name] = type(name, (Module,), {"forward": forward})


for _name in ("SiLU", "ReLU", "GELU", "Sigmoid", "Tanh"):
    _activation(_name, getattr(functional, _name.lower()))


class Softmax(Module):
    """Turn scores into weights that sum to 1 along an axis."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the weights."""
        return functional.softmax(input, self.dim)


def __getattr__(name: str) -> Any:
    said = f"module 'torch.nn' has no attribute '{name}'"
    raise lookup_error("nn", name, said)


del not_here
