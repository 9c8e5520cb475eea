"""Draw the same inputs for PyTorch and for its stand-in, and compare.

Each expression of ``torch_expressions.txt`` is evaluated in both, on inputs
of random shapes, dtypes and strides. Both must give the same value, or raise
the same error, and a write into the result must change the same inputs.

In an expression ``x`` and ``u`` are floats of one shape, and so are ``v`` and
``w``, which are finite; ``y`` broadcasts with them, ``o`` has no axes, ``h``
has another dtype. ``n`` are integers, ``m`` is a mask, ``b`` one that
broadcasts, ``i`` indexes along the last axis, ``a @ c`` fits, ``q`` is finite
and of the shape of ``a``. ``d`` and ``e`` are axes, ``f`` is a float and
``k`` an integer, ``t`` and ``z`` are tensors without axes.
"""

import math
import operator
import random
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import torch as real

from attn.page import torch as stand_in

FLOATS = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]
OTHERS = ["float64", "float16", "bfloat16", "float32", "int64", "bool"]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 88.8, 1e4]


class Given(NamedTuple):
    """An input as data: how to make it in either module."""

    values: list[Any]
    shape: tuple[int, ...]
    dtype: str
    layout: str = "contiguous"

    def make(self, torch: Any) -> Any:
        """Return the tensor, whose memory may be larger than it."""
        dtype = getattr(torch, self.dtype)
        if self.layout == "transposed" and len(self.shape) > 1:
            turned = self.shape[:-2] + self.shape[:-3:-1]
            return torch.tensor(self.values, dtype=dtype).reshape(turned).mT
        if self.layout == "strided" and self.shape:
            values = [v for v in self.values for _ in (0, 1)]
            wide = (*self.shape[:-1], 2 * self.shape[-1])
            return torch.tensor(values, dtype=dtype).reshape(wide)[..., ::2]
        return torch.tensor(self.values, dtype=dtype).reshape(self.shape)


@lru_cache
def draw(seed: int) -> dict[str, Any]:
    """Return the inputs of a seed by their names in an expression."""
    g = random.Random(seed)
    ndim = [2, 3, 1, 4, 3, 2, 3, 2][seed % 8]
    shape = tuple(g.choice([1, 2, 2, 3, 3, 4]) for _ in range(ndim))
    dtype = FLOATS[seed % len(FLOATS)]
    size = math.prod(shape)

    def floats(
        shape: tuple[int, ...], dtype: str = dtype, finite: bool = False
    ) -> Given:
        is_special = seed % 3 == 2 and not finite
        values = [
            g.choice(SPECIAL)
            if is_special and g.random() < 0.2
            else g.choice([g.gauss(0, 2), g.gauss(0, 2), g.uniform(-1, 1)])
            for _ in range(math.prod(shape))
        ]
        if dtype in ("int64", "bool"):
            values = [g.randint(-3, 3) for _ in values]
        layout = g.choice(["contiguous", "transposed", "strided"])
        return Given(values, shape, dtype, layout)

    def masks(shape: tuple[int, ...]) -> Given:
        values = [g.random() < 0.5 for _ in range(math.prod(shape))]
        return Given(values, shape, "bool")

    smaller = tuple(g.choice([1, n, n]) for n in shape)[g.choice([0, 0, 1]) :]
    lead = tuple(g.choice([1, 2, 3]) for _ in range(g.choice([0, 1, 2])))
    rows, inner, columns = (g.choice([1, 2, 3, 4]) for _ in range(3))
    few = (*shape[:-1], g.choice([1, 2]))
    return {
        "x": floats(shape),
        "u": floats(shape),
        "y": floats(smaller),
        "v": floats(shape, finite=True),
        "w": floats(shape, finite=True),
        "o": floats(()),
        "h": floats(shape, OTHERS[seed % len(OTHERS)]),
        "n": Given([g.randint(-5, 5) for _ in range(size)], shape, "int64"),
        "m": masks(shape),
        "b": masks(smaller),
        "i": Given(
            [g.randrange(shape[-1]) for _ in range(math.prod(few))],
            few,
            "int64",
        ),
        "a": floats((*lead, rows, inner)),
        "q": floats((*lead, rows, inner), finite=True),
        "c": floats((*lead[g.choice([0, len(lead)]) :], inner, columns)),
        "t": Given([g.gauss(0, 1)], (), g.choice(["float32", "float64"])),
        "z": Given([g.randint(0, 3)], (), "int64"),
        "d": g.choice([-1, 0, ndim - 1, g.randint(-ndim - 1, ndim)]),
        "e": g.choice([-1, 0, 1]),
        "f": g.choice([0.1, -1.5, 2.0, 0.75]),
        "k": g.choice([1, 2, -1, 3, -2]),
    }


def _setitem(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


class Outcome(NamedTuple):
    """A result, or an error; and the inputs after a write into it."""

    value: Any
    error: BaseException | None
    inputs: list[Any]


def outcome(torch: Any, expression: str, given: dict[str, Any]) -> Outcome:
    """Evaluate an expression in a module, and write into what it returns."""
    code = compile(expression, expression, "eval")
    inputs = {
        name: x.make(torch) if isinstance(x, Given) else x
        for name, x in given.items()
        if name in code.co_names
    }

    def loaded(module: Any) -> Any:
        for j, x in enumerate(module.state_dict().values()):
            numbers = torch.arange(x.numel(), dtype=x.dtype) * 0.25 - 0.5 * j
            x.copy_(numbers.reshape(x.shape))
        return module

    names: dict[str, Any] = {
        **{f"i{op}": getattr(operator, f"i{op}") for op in _IN_PLACE},
        **{"setitem": _setitem, "loaded": loaded, "torch": torch},
        **{"F": torch.nn.functional, "nn": torch.nn},
    }
    value: Any = None
    error: BaseException | None = None
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            value = eval(code, names | inputs)
            frozen = copied(torch, value)
            scribble(torch, value)
        except (Exception, stand_in.NotOnThisPage) as e:
            error, frozen = e, None
    after = [plain(x) for x in inputs.values() if isinstance(x, torch.Tensor)]
    return Outcome(frozen, error, after)


_IN_PLACE = ("add", "sub", "mul", "truediv", "and", "or", "xor")


def copied(torch: Any, x: Any) -> Any:
    """Return a result of its own memory."""
    if isinstance(x, tuple | list) and not isinstance(x, torch.Size):
        return [copied(torch, y) for y in x]
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def scribble(torch: Any, x: Any) -> None:
    """Write into a result, so that a view changes what it is a view of."""
    if isinstance(x, tuple | list) and not isinstance(x, torch.Size):
        for y in x:
            scribble(torch, y)
    elif isinstance(x, torch.Tensor) and all(
        # Of expanded tensors PyTorch refuses a write, or does not see it.
        n < 2 or s
        for n, s in zip(x.shape, x.stride(), strict=True)
    ):
        x.fill_(7)


def plain(x: Any) -> Any:
    """Return a tensor as text of its dtype and elements: NaN equals NaN."""
    return f"{x.dtype} {tuple(x.shape)} {x.tolist()}"


def unequal(
    ours: Any, theirs: Any, exact: Any, where: str = "the result"
) -> str:
    """Return how two results differ, or nothing.

    Floats may differ by the error that PyTorch itself makes, which float64
    shows, and the rounding of the largest element.
    """
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{where}: {ours} and not {theirs}"
        exacts = exact if isinstance(exact, list) else [None] * len(theirs)
        if len(exacts) != len(theirs):
            exacts = [None] * len(theirs)
        for j, parts in enumerate(zip(ours, theirs, exacts, strict=True)):
            if text := unequal(*parts, f"{where}[{j}]"):
                return text
        return ""
    if isinstance(theirs, real.Tensor):
        return _unequal_tensors(ours, theirs, exact, where)
    if isinstance(theirs, float) and isinstance(ours, float):
        near = math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-7)
        both_nan = ours != ours and theirs != theirs
        return "" if near or both_nan else f"{where}: {ours}, not {theirs}"
    if isinstance(theirs, bool | int | str | tuple | type(None)):
        same = ours == theirs and (
            type(ours) is type(theirs) or isinstance(theirs, tuple)
        )
    else:  # a dtype, a device, limits
        same = str(ours) == str(theirs)
    return "" if same else f"{where}: {ours!r}, not {theirs!r}"


def _unequal_tensors(ours: Any, theirs: Any, exact: Any, where: str) -> str:
    if not isinstance(ours, stand_in.Tensor):
        return f"{where}: {ours!r} is no tensor"
    for name in ("dtype", "shape"):
        one, other = getattr(ours, name), getattr(theirs, name)
        if str(one) != str(other):
            return f"{where}: {name} {one}, not {other}"
    kind = real.complex128 if theirs.is_complex() else real.float64
    wide = real.tensor(ours.tolist(), dtype=kind).reshape(theirs.shape)
    if not theirs.is_floating_point() and not theirs.is_complex():
        same = ours.tolist() == theirs.tolist()
        return "" if same else f"{where}: {ours}, not {theirs}"
    right = (wide == theirs.to(kind)) | (wide.isnan() & theirs.isnan())
    if right.all():
        return ""
    if not isinstance(exact, real.Tensor) or exact.shape != theirs.shape:
        exact = theirs
    exact = exact.to(kind)
    finite = exact.isfinite() & theirs.isfinite()
    own = (theirs.to(kind) - exact)[finite].abs()
    limit = own.max().item() if own.numel() else 0.0
    largest = exact[finite].abs().max().item() if finite.any() else 0.0
    eps = real.finfo(theirs.dtype).eps
    if theirs.dtype in (real.float64, real.complex128):
        eps, largest = 64 * eps, max(largest, 1.0)
    right |= (wide - exact).abs() <= limit + eps * largest
    return "" if right.all() else f"{where}: {ours}, not {theirs}"


def double(given: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs in float64, as rounded to their dtypes."""

    def widened(x: Any) -> Any:
        if not isinstance(x, Given) or x.dtype not in FLOATS:
            return x
        values = real.tensor(x.values, dtype=getattr(real, x.dtype))
        return x._replace(values=values.tolist(), dtype="float64")

    return {name: widened(x) for name, x in given.items()}
