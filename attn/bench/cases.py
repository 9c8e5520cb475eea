"""List the comparisons, and the goals of the project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sizes:
    """The sizes of a call, in the book's alphabet."""

    L: int
    S: int
    H: int
    Hkv: int
    D: int
    B: int = 1
    window: int | None = None
    dtype: str = "bfloat16"
    device: str = "cpu"
    dry: bool = False

    def small(self) -> Sizes:
        """Return the sizes of a dry run: enough for every line of code."""
        H, Hkv = (2, 2) if self.Hkv == self.H else (4, 2)
        L, S = min(self.L, 32), min(self.S, 32)
        window = self.window and 8
        return replace(
            self, L=L, S=S, H=H, Hkv=Hkv, D=16, B=1, window=window, dry=True
        )

    def tensors(self) -> list[Tensor]:
        """Draw query, key and value from a fixed seed."""
        g = torch.Generator(self.device).manual_seed(0)

        def draw(heads: int, length: int) -> Tensor:
            shape = (self.B, heads, length, self.D)
            x = torch.randn(shape, generator=g, device=self.device)
            return x.to(getattr(torch, self.dtype))

        key, value = draw(self.Hkv, self.S), draw(self.Hkv, self.S)
        return [draw(self.H, self.L), key, value]

    @property
    def pairs(self) -> int:
        """Unmasked scores of all heads, causal and within the window."""
        most, start = self.window or self.S, self.S - self.L
        visible = (min(start + i + 1, most) for i in range(self.L))
        return self.B * self.H * sum(visible)

    @property
    def flops(self) -> int:
        """FLOPs of a forward pass: two matrix products."""
        return 4 * self.pairs * self.D

    @property
    def cache_bytes(self) -> int:
        """Bytes of the keys and values, which decoding reads once."""
        elements = 2 * self.B * self.Hkv * self.S * self.D
        return elements * getattr(torch, self.dtype).itemsize


@dataclass(frozen=True)
class Goal:
    """The best of ``ours`` against the best of ``against``.

    Args:
        ours: peers; several where a user chooses what the machine prefers.
        against: other peers. On both sides, those that run count.
        at_least: ratio of the speeds.
        at_most: ratio of the peak memory, compared in place of the speed.
    """

    ours: tuple[str, ...]
    against: tuple[str, ...]
    at_least: float = 0.0
    at_most: float | None = None


@dataclass(frozen=True)
class Case:
    """One comparison.

    Args:
        name: short, never renamed: stored runs refer to it.
        title: what is computed, for a table.
        sizes: of the full run, with its device.
        peers: names of implementations that ``baselines`` builds.
        goals: what is hoped for.
        step: what is timed; training is forward and backward.
    """

    name: str
    title: str
    sizes: Sizes
    peers: tuple[str, ...]
    goals: tuple[Goal, ...]
    step: Literal["forward", "backward", "training", "decode"] = "forward"

    @property
    def gradients(self) -> bool:
        """True if the peers compute gradients."""
        return self.step in ("backward", "training")

    @property
    def unit(self) -> str:
        """Unit of the work of a peer."""
        return "byte" if self.step == "decode" else "FLOP"


Ours = str | tuple[str, ...]


def _goals(ours: Ours, ratios: dict[str, float]) -> tuple[Goal, ...]:
    ours = (ours,) if isinstance(ours, str) else ours
    return tuple(Goal(ours, (peer,), ratio) for peer, ratio in ratios.items())


def _on_cpu() -> Iterator[Case]:
    full = Sizes(L=4096, S=4096, H=8, Hkv=8, D=64, dtype="float32")
    memory = Goal(("auto",), ("naive",), at_most=0.05)
    yield Case(
        "cpu-prefill",
        "forward, D 64, causal, 4096 tokens, float32",
        full,
        ("SDPA", "naive", "auto"),
        (*_goals("auto", {"SDPA": 0.98, "naive": 3.0}), memory),
    )
    yield Case(
        "cpu-window",
        "window of 512 at 4096 tokens, float32",
        replace(full, window=512),
        ("SDPA with a mask", "Flex", "auto"),
        _goals("auto", {"SDPA with a mask": 4.0}),
    )
    yield Case(
        "cpu-training-bfloat16",
        "forward and backward, D 64, causal, 1024 tokens, bfloat16",
        replace(full, L=1024, S=1024, dtype="bfloat16"),
        ("SDPA", "auto"),
        _goals("auto", {"SDPA": 0.98}),
        "training",
    )
    layouts = "auto", "auto, transposed keys"  # of a static cache
    for keys, dtype, ours, ratio in (
        (4096, "float32", layouts, 2.0),
        (16384, "float32", layouts, 2.0),
        (4096, "bfloat16", ("auto",), 6.0),
    ):
        yield Case(
            f"cpu-decode-{dtype}-{keys}",
            f"decoding, 32 heads on 8, {keys} keys, {dtype}",
            Sizes(L=1, S=keys, H=32, Hkv=8, D=128, dtype=dtype),
            ("SDPA", *ours),
            _goals(ours, {"SDPA": ratio}),
            "decode",
        )


def _on_gpu() -> Iterator[Case]:
    full = Sizes(L=8192, S=8192, H=16, Hkv=16, D=128, device="cuda")
    rivals = ("FA2", "cuDNN", "SDPA", "Flex")
    peers = (*rivals, "triton", "auto")
    best = Goal(("auto",), (*rivals, "triton"), 0.98)
    ratios = {"FA2": 1.2, "Flex": 1.0, "cuDNN": 0.72, "matmul": 0.5}
    for length in (4096, 8192, 16384):
        yield Case(
            f"gpu-forward-128-{length}",
            f"forward, D 128, causal, {length} tokens, bf16",
            replace(full, L=length, S=length),
            (*peers, "matmul"),
            (*_goals("triton", ratios), best),
        )
    ratios = {"FA2": 1.15, "cuDNN": 0.92}
    yield Case(
        "gpu-forward-64",
        "forward, D 64, causal, 8192 tokens, bf16",
        replace(full, H=32, Hkv=32, D=64),
        (*peers, "matmul"),
        (*_goals("triton", ratios), Goal(("auto",), rivals, 1.0)),
    )
    ratios = {"FA2": 1.0, "Flex": 1.0, "cuDNN": 0.62}
    yield Case(
        "gpu-backward-128",
        "backward, D 128, causal, 8192 tokens, bf16",
        full,
        peers,
        (*_goals("triton", ratios), best),
        "backward",
    )
    ratios = {"Flex": 1.1, "SDPA with a mask": 6.0}
    yield Case(
        "gpu-window",
        "window of 1024 at 16384 tokens, bf16",
        replace(full, L=16384, S=16384, window=1024),
        ("SDPA with a mask", "Flex", "auto", "triton"),
        (*_goals("triton", ratios), *_goals("auto", ratios)),
    )
    ratios = {"copy": 0.8, "Flex": 1.0, "SDPA": 1.5}
    yield Case(
        "gpu-decode",
        "decoding, 32 heads on 8, 16384 keys, bf16",
        replace(full, L=1, S=16384, H=32, Hkv=8, B=16),
        ("SDPA", "auto", "triton_split_kv", "Flex", "copy"),
        (*_goals("triton_split_kv", ratios), *_goals("auto", ratios)),
        "decode",
    )


CASES: tuple[Case, ...] = (*_on_cpu(), *_on_gpu())


def find(name: str) -> Case:
    """Return the case of this name."""
    cases = {case.name: case for case in CASES}
    if name not in cases:
        raise ValueError(f"case must be one of {[*cases]}; got {name!r}")
    return cases[name]
