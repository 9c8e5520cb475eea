"""Define a comparison: its sizes, its peers and its goals."""

from __future__ import annotations

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
    Dv: int | None = None  # the values are then the first of each key
    B: int = 1
    window: int | None = None
    dtype: str = "bfloat16"
    device: str = "cpu"
    dry: bool = False

    def small(self) -> Sizes:
        """Return the sizes of a dry run: enough for every line of code."""
        H, Hkv = (2, 2) if self.Hkv == self.H else (4, min(self.Hkv, 2))
        L, S = min(self.L, 32), min(self.S, 32)
        window, Dv = self.window and 8, self.Dv and 8
        return replace(
            self, L=L, S=S, H=H, Hkv=Hkv, D=16, Dv=Dv, B=min(self.B, 2),
            window=window, dry=True,
        )  # fmt: skip

    def tensors(self) -> list[Tensor]:
        """Draw query, key and value from a fixed seed."""
        g = torch.Generator(self.device).manual_seed(0)

        def draw(heads: int, length: int) -> Tensor:
            shape = (self.B, heads, length, self.D)
            x = torch.randn(shape, generator=g, device=self.device)
            return x.to(getattr(torch, self.dtype))

        key = draw(self.Hkv, self.S)
        latent = self.Dv is not None
        value = key[..., : self.Dv] if latent else draw(self.Hkv, self.S)
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
        widths = 2 * self.D if self.Dv is None else self.D
        elements = self.B * self.Hkv * self.S * widths
        return elements * getattr(torch, self.dtype).itemsize


@dataclass(frozen=True)
class Goal:
    """The best of ``ours`` against the best of ``against``.

    Args:
        ours: peers; several where a user chooses what the machine prefers.
        against: other peers. On both sides, those that run count.
        at_least: ratio of the speeds.
        at_most: ratio of the peak memory, compared in place of the speed.
        limit: a peer that does no more than must be done for the result;
            where it misses the goal, the machine does.
    """

    ours: tuple[str, ...]
    against: tuple[str, ...]
    at_least: float = 0.0
    at_most: float | None = None
    limit: str | None = None


Step = Literal[
    "forward",
    "backward",
    "training",
    "decode",
    "layer norm",
    "RMS norm",
    "generation",
    "attached generation",
    "padded generation",
]


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
        calls: made for one time, where a call takes microseconds.
        tuned: autotune before attention is timed.
    """

    name: str
    title: str
    sizes: Sizes
    peers: tuple[str, ...]
    goals: tuple[Goal, ...]
    step: Step = "forward"
    calls: int = 1
    tuned: bool = True

    @property
    def gradients(self) -> bool:
        """True if the peers compute gradients."""
        return self.step in ("backward", "training")

    @property
    def unit(self) -> str:
        """Unit of the work of a peer."""
        if self.of_modules:
            return "token"
        return "byte" if self.step == "decode" else "FLOP"

    @property
    def of_modules(self) -> bool:
        """True if the peers are modules, not attention functions."""
        return self.step.endswith(("norm", "generation"))
