"""Try the neighbours of every shipped configuration, on this machine's GPU.

``attn/kernels/configs.py`` is a table of tiles, warps and stages by kernel,
head size, dtype and GPU. A trial runs a neighbour of a row in a worker
process and compares the result with float64; the right ones are timed side by
side. Trials compile in parallel, and timing loads the compiled kernels from
Triton's disk cache. A variant of the forward kernel is one more field of a
configuration; it is best only where it wins clearly.
"""

import functools
import statistics
from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from attn import functional
from attn.kernels.configs import ANY, TABLES, VARIANTS, Config, config_of
from attn.profiling import benchmark_interleaved
from tests.gpu.correctness import distance, few_roundings

GOOD_RATIO = 1.05  # a shipped row within it of the best is good
KEPT_RATIO = 0.97  # of the time: another variant must be as fast to be best
CHECKED_LENGTH = 1008  # a multiple of 16 like 8192: the same compiled kernel
#: The variants of each kernel that has any.
LOADED_BY = {"forward": VARIANTS, "dkdv": VARIANTS[:2], "dq": VARIANTS[:2]}


class Row(NamedTuple):
    """A row of the table, and the call that measures it."""

    kernel: str
    head_dim: int
    dtype: str
    heads: int
    length: int  # of the prompt, or of the cache

    def __str__(self) -> str:
        return f"{self.kernel} D {self.head_dim} {self.dtype}"

    @property
    def itemsize(self) -> int:
        return getattr(torch, self.dtype).itemsize

    def shipped(self, arch: int) -> Config:
        """Return the table's configuration for a GPU."""
        return config_of(self.kernel, self.head_dim, self.itemsize, arch)


class Trial(NamedTuple):
    """One configuration in place of a row's own."""

    row: Row
    config: Config
    arch: int


def _rows() -> tuple[Row, ...]:
    found = []
    for dtype, length in (("bfloat16", 8192), ("float32", 2048)):
        for D, heads in ((128, 16), (64, 32), (256, 8)):
            for kernel in ("forward", "dkdv", "dq"):
                found.append(Row(kernel, D, dtype, heads, length))
            found.append(Row("decode", D, dtype, heads, 16384))
    return tuple(found)


ROWS = _rows()  # the most important first


def candidates(kernel: str, shipped: Config, arch: int) -> list[list[Config]]:
    """List neighbours of a configuration by the number of changed fields.

    Args:
        kernel: of the table.
        shipped: the configuration to change.
        arch: of the GPU, which has descriptors from 90 on.

    Returns:
        ``[[shipped], one field changed, two fields changed]``.
    """
    steps: dict[str, list[Any]] = {
        "block_l": [shipped.block_l // 2, shipped.block_l * 2],
        "block_s": [shipped.block_s // 2, shipped.block_s * 2],
        "num_warps": [shipped.num_warps // 2, shipped.num_warps * 2],
        "num_stages": [shipped.num_stages - 1, shipped.num_stages + 1],
    }
    if kernel == "decode":  # its rows are the heads of a group
        del steps["block_l"]
    if kernel in LOADED_BY and (arch >= 90 or arch == ANY):
        others = LOADED_BY[kernel]
        steps["variant"] = [x for x in others if x != shipped.variant]
    allowed = {
        "block_l": range(16, 257),
        "block_s": range(16, 257),
        "num_warps": (4, 8),
        "num_stages": range(1, 6),
        "variant": VARIANTS,
    }
    found = [[shipped]]
    for number in (1, 2):
        found.append([])
        for names in combinations(steps, number):
            for values in product(*(steps[name] for name in names)):
                change = dict(zip(names, values, strict=True))
                if all(x in allowed[n] for n, x in change.items()):
                    new = shipped._replace(why="", **change)
                    found[-1].append(new)
    return found


def trials(arch: int, rows: Iterable[Row] = ROWS) -> list[Trial]:
    """List all trials, the shipped configurations and nearest ones first."""
    by_distance: list[list[Trial]] = [[], [], []]
    for row in rows:
        near = candidates(row.kernel, row.shipped(arch), arch)
        if row.dtype == "float32":
            near = near[:2]
        for found, configs in zip(by_distance, near, strict=False):
            found += [Trial(row, config, arch) for config in configs]
    return [trial for found in by_distance for trial in found]


def try_config(trial: Trial) -> dict[str, float]:
    """Compile and run a configuration, and compare its result with float64.

    Raises:
        ValueError: the result is wrong.
    """
    row, device = trial.row, _device()
    length = min(CHECKED_LENGTH, row.length)
    batch = 1 if row.kernel != "decode" else _batch(row, device)
    tensors = _tensors(row, length, batch, device)
    with replaced(row, trial.arch, trial.config):
        ours = _call(row.kernel, tensors)()
    wide = [x.detach().double() for x in tensors]
    exact = _call(row.kernel, wide, exact=True)()
    error = max(distance(x, y) for x, y in zip(ours, exact, strict=True))
    limit = 5 * few_roundings(ours[0].dtype)
    if error > limit:
        raise ValueError(f"wrong: error {error:.2g}, at most {limit:.2g}")
    return {"error": error}


def compare(
    row: Row, configs: list[Config], arch: int, rounds: int
) -> list[list[float]]:
    """Time configurations of a row side by side.

    Returns:
        Seconds of each, in the order of ``configs``; those of "dkdv" and "dq"
        are of the whole backward pass.
    """
    device = _device()
    tensors = _tensors(row, row.length, _batch(row, device), device)
    call = _call(row.kernel, tensors)

    def run(config: Config) -> None:
        with replaced(row, arch, config):
            call()

    calls = {
        str(i): functools.partial(run, config)
        for i, config in enumerate(configs)
    }
    return list(benchmark_interleaved(calls, rounds, device).values())


def summary(
    row: Row, arch: int, tried: list[dict[str, Any]]
) -> dict[str, Any]:
    """Compare the shipped configuration with the best.

    A configuration of another variant is the best if it takes less than 0.97
    of the time of every configuration of the shipped variant.

    Args:
        row, arch: of the table.
        tried: dicts of ``config`` and ``seconds``, or ``error``.

    Returns:
        ``kernel``, ``head_dim``, ``dtype``, ``arch``, ``shipped``, ``best``,
        ``ratio`` (the shipped time over the best; None without both),
        ``good`` and ``tried``.
    """
    shipped = fields(row.shipped(arch))
    timed = {
        tuple(trial["config"].items()): statistics.median(trial["seconds"])
        for trial in tried
        if "seconds" in trial
    }
    own = timed.get(tuple(shipped.items()))
    order: list[Any] = sorted(timed, key=lambda config: timed[config])
    same = [x for x in order if dict(x)["variant"] == shipped["variant"]]
    best = (same or order or [None])[0]
    if best and timed[order[0]] < KEPT_RATIO * timed[best]:
        best = order[0]
    ratio = None if best is None or own is None else own / timed[best]
    return {
        "kernel": row.kernel,
        "head_dim": row.head_dim,
        "dtype": row.dtype,
        "arch": arch,
        "shipped": shipped,
        "best": None if best is None else dict(best),
        "ratio": ratio,
        "good": ratio is not None and ratio <= GOOD_RATIO,
        "tried": tried,
    }


def fields(config: Config) -> dict[str, Any]:
    """Return a configuration without its reason, for JSON."""
    fields = config._asdict()
    del fields["why"]
    return fields


# --- the call of a row -------------------------------------------------------


def replaced(row: Row, arch: int, config: Config) -> Any:
    """Replace a shipped row while its replacement is measured."""
    table = TABLES[row.kernel, row.itemsize]
    size = min(size for size, _ in table if row.head_dim <= size)
    return patch.dict(table, {(size, arch): config})


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _batch(row: Row, device: str) -> int:
    return 16 if row.kernel == "decode" and device == "cuda" else 1


def _tensors(row: Row, length: int, batch: int, device: str) -> list[Tensor]:
    """Draw query, key and value, and a cotangent for the backward pass."""
    g = torch.Generator(device).manual_seed(0)
    heads, kv_heads, queries = row.heads, row.heads, length
    if row.kernel == "decode":
        heads, kv_heads, queries = 2 * row.heads, row.heads // 2, 1
    shapes = [(batch, heads, queries, row.head_dim)]
    shapes += [(batch, kv_heads, length, row.head_dim)] * 2
    if row.kernel in ("dkdv", "dq"):
        shapes.append(shapes[0])
    drawn = (torch.randn(x, generator=g, device=device) for x in shapes)
    return [x.to(getattr(torch, row.dtype)) for x in drawn]


def _call(
    kernel: str, tensors: list[Tensor], exact: bool = False
) -> Callable[[], Any]:
    """Return the call of a kernel, or of its definition."""
    from attn.kernels import decode_attention, fused_attention

    decode: Callable[..., Any] = decode_attention
    attention: Callable[..., Any] = fused_attention
    if exact:
        attention = functional.scaled_dot_product_attention
        decode = functools.partial(attention, enable_gqa=True)
    q, k, v, *cotangent = tensors
    if kernel == "decode":
        return lambda: (decode(q, k, v),)
    if kernel == "forward":
        return lambda: (attention(q, k, v, is_causal=True),)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = attention(*leaves, is_causal=True)
    return lambda: torch.autograd.grad(
        out, leaves, cotangent, retain_graph=True
    )
