"""Record what a kernel's launch is given, and what the interpreter hides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn.exercises.kernel import function_of
from attn.profiling import compat, traffic

#: Triton's names of the dtypes that kernels are launched with.
DTYPES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


class Recorded:
    """An exercise's ``launch`` that returns a record, not the result.

    A record has the entries ``types`` and ``constants``, what the compiler
    needs, by argument; ``bytes``, what all programs load of each tensor;
    ``times``, how often a program loads each element of it, in the program
    that repeats most; and ``tf32``, whether ``tl.dot`` rounds float32 tiles
    to TF32.

    Args:
        launch: of an interpreted kernel.
    """

    def __init__(self, launch: Callable[..., Any]) -> None:
        self.launch = launch

    def __call__(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _Recorder(kernel)
        self.launch(recorder, *args, **kwargs)
        return recorder.record


class _Recorder:
    """A kernel whose launches are recorded."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.record = kernel, {}

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            self.record = self._record(grid, args, kwargs)

        return launch

    def _record(
        self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        own = inspect.signature(function_of(self.kernel)).parameters
        names = list(own)
        given = {
            n: x.default for n, x in own.items() if x.default is not x.empty
        }
        given |= dict(zip(names, args, strict=False)) | kwargs
        constants = {
            name
            for name, x in given.items()
            if x is None or "constexpr" in str(own[name].annotation)
        }
        types = {
            name: "constexpr" if name in constants else _type(given[name])
            for name in names
            if name in given
        }
        tf32, multiply = [], compat.builder().create_dot

        def dot(a: Any, b: Any, d: Any, precision: Any, *rest: Any) -> Any:
            is_wide = a.data.dtype == np.float32
            tf32.append(is_wide and not str(precision).endswith("IEEE"))
            return multiply(a, b, d, precision, *rest)

        with compat.replaced_accesses(create_dot=dot):
            moved = traffic(self.kernel, grid, *args, **kwargs)
        times: dict[str, float] = {}
        for program in moved.programs.values():
            for name, loads in program.loads.items():
                if loads.distinct:
                    times[name] = max(times.get(name, 0.0), loads.times)
        return {
            "types": types,
            "constants": {x: given[x] for x in constants & given.keys()},
            "bytes": {name: x.bytes for name, x in moved.loads.items()},
            "times": times,
            "tf32": any(tf32),
        }


def _type(x: Any) -> str:
    """Return Triton's name of an argument's type."""
    if isinstance(x, Tensor):
        return f"*{DTYPES[x.dtype]}"
    if isinstance(x, bool):
        return "i1"
    if isinstance(x, int):
        return "i32" if -(2**31) <= x < 2**31 else "i64"
    return "fp32"
