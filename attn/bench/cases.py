"""What is compared with what, and the goals that the project has set itself.

A case makes its peers when it is run. Sizes are full, or small: a dry run
goes through everything on any machine, and its times mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attn.bench import baselines
from attn.bench.baselines import Peer, Sizes

Missing = str  # why a peer cannot run here


@dataclass(frozen=True)
class Goal:
    """``ours`` at so many times the speed of the best of ``against``.

    Args:
        ours: a peer.
        against: other peers; the fastest that ran counts.
        at_least: ratio of the speeds.
        memory: compare the peak of memory instead; then the ratio is to be
            at most ``at_most``.
    """

    ours: str
    against: tuple[str, ...]
    at_least: float = 0.0
    memory: bool = False
    at_most: float = 0.0


@dataclass(frozen=True)
class Case:
    """One comparison.

    Args:
        name: short, never renamed: figures ask for it.
        title: what is computed, for a table.
        device: ``"cpu"`` or ``"cuda"``.
        sizes: of the full run.
        make: the peers, or why one cannot run.
        goals: what is hoped for.
        unit: what a peer's work is counted in.
        gradients: peers compute them, and keep what they need.
    """

    name: str
    title: str
    device: str
    sizes: Sizes
    make: Callable[[Sizes], dict[str, Peer | Missing]]
    goals: tuple[Goal, ...]
    unit: str = "FLOP"
    gradients: bool = False


def _forward_goals(fa2: float, cudnn: float, auto: float) -> tuple[Goal, ...]:
    return (
        Goal("triton", ("FA2",), fa2),
        Goal("triton", ("Flex",), 1.0),
        Goal("triton", ("cuDNN",), cudnn),
        Goal("auto", ("FA2", "cuDNN", "SDPA", "Flex", "triton"), auto),
    )


def _on_gpu() -> list[Case]:
    cases = []
    for length in (4096, 8192, 16384):
        sizes = Sizes(L=length, S=length, H=16, Hkv=16, D=128)
        goals = (
            *_forward_goals(1.2, 0.72, 0.98),
            Goal("triton", ("matmul",), 0.5),
        )
        cases.append(
            Case(
                f"gpu-forward-128-{length}",
                f"forward, D 128, causal, {length} tokens, bf16",
                "cuda",
                sizes,
                baselines.forward,
                goals,
            )
        )
    sizes = Sizes(L=8192, S=8192, H=32, Hkv=32, D=64)
    goals = (
        Goal("triton", ("FA2",), 1.15),
        Goal("triton", ("cuDNN",), 0.92),
        Goal("auto", ("FA2", "cuDNN", "SDPA", "Flex"), 1.0),
    )
    title = "forward, D 64, causal, 8192 tokens, bf16"
    forward = baselines.forward
    cases.append(Case("gpu-forward-64", title, "cuda", sizes, forward, goals))
    sizes = Sizes(L=8192, S=8192, H=16, Hkv=16, D=128)
    title = "backward, D 128, causal, 8192 tokens, bf16"
    goals = _forward_goals(1.0, 0.62, 0.98)
    backward = baselines.backward
    cases.append(
        Case(
            "gpu-backward-128",
            title,
            "cuda",
            sizes,
            backward,
            goals,
            gradients=True,
        )
    )
    sizes = Sizes(L=16384, S=16384, H=16, Hkv=16, D=128, window=1024)
    goals = tuple(
        Goal(ours, (other,), ratio)
        for ours in ("triton", "auto")
        for other, ratio in (("Flex", 1.1), ("SDPA with a mask", 6.0))
    )
    title = "window of 1024 at 16384 tokens, bf16"
    window = baselines.window
    cases.append(Case("gpu-window", title, "cuda", sizes, window, goals))
    sizes = Sizes(L=1, S=16384, H=32, Hkv=8, D=128, B=16)
    goals = tuple(
        Goal(ours, (other,), ratio)
        for ours in ("triton_split_kv", "auto")
        for other, ratio in (("copy", 0.8), ("Flex", 1.0), ("SDPA", 1.5))
    )
    title = "decoding, 32 heads on 8, 16384 keys, bf16"
    decode = baselines.decode
    cases.append(
        Case("gpu-decode", title, "cuda", sizes, decode, goals, "byte")
    )
    return cases


def _on_cpu() -> list[Case]:
    full = Sizes(L=4096, S=4096, H=8, Hkv=8, D=64, dtype="float32")
    cases = [
        Case(
            "cpu-prefill",
            "forward, D 64, causal, 4096 tokens, float32",
            "cpu",
            full,
            baselines.prefill,
            (
                Goal("auto", ("SDPA",), 0.98),
                Goal("auto", ("naive",), 3.0),
                Goal("auto", ("naive",), memory=True, at_most=0.05),
            ),
        ),
        Case(
            "cpu-window",
            "window of 512 at 4096 tokens, float32",
            "cpu",
            full.but(window=512),
            baselines.window,
            (Goal("auto", ("SDPA with a mask",), 4.0),),
        ),
    ]
    half = Sizes(L=1024, S=1024, H=8, Hkv=8, D=64, dtype="bfloat16")
    cases.append(
        Case(
            "cpu-training-bfloat16",
            "forward and backward, D 64, causal, 1024 tokens, bfloat16",
            "cpu",
            half,
            baselines.training,
            (Goal("auto", ("SDPA",), 1.0),),
            gradients=True,
        )
    )
    for keys, dtype, ratio in (
        (4096, "float32", 2.0),
        (16384, "float32", 2.0),
        (4096, "bfloat16", 6.0),
    ):
        sizes = Sizes(L=1, S=keys, H=32, Hkv=8, D=128, dtype=dtype)
        cases.append(
            Case(
                f"cpu-decode-{dtype}-{keys}",
                f"decoding, 32 heads on 8, {keys} keys, {dtype}",
                "cpu",
                sizes,
                baselines.decode,
                (Goal("auto", ("SDPA",), ratio),),
                "byte",
            )
        )
    return cases


CASES: tuple[Case, ...] = (*_on_cpu(), *_on_gpu())


def find(name: str) -> Case:
    """The case of this name."""
    for case in CASES:
        if case.name == name:
            return case
    raise ValueError(
        f"no case is called {name!r}: it needs one of "
        + ", ".join(case.name for case in CASES)
    )
