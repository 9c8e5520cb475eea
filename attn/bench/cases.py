"""List the comparisons, and the goals of the project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from attn import arguments
from attn.bench.case import Case, Goal, Sizes, Step

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
        _goals("auto", {"SDPA with a mask": 6.0}),
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


def _latent() -> Iterator[Case]:
    sizes = ((16, 1024), (16, 16384), (128, 4096))
    for dtype, (heads, keys) in product(("float32", "bfloat16"), sizes):
        goal = Goal(("auto",), ("two products",), 0.77)
        peers: tuple[str, ...] = ("two products", "auto")
        if dtype == "bfloat16":  # the two products round their scores
            goal = replace(goal, limit="three products")
            peers = ("two products", "three products", "auto")
        yield Case(
            f"cpu-latent-{heads}-{dtype}-{keys}",
            f"latent decoding, {heads} heads on one, {keys} keys, {dtype}",
            Sizes(L=1, S=keys, H=heads, Hkv=1, D=576, Dv=512, dtype=dtype),
            peers,
            (goal,),
            "decode",
            tuned=False,
        )


def _small_calls() -> Iterator[Case]:
    one = Sizes(L=1, S=64, H=4, Hkv=4, D=32, dtype="float32")
    yield Case(
        "cpu-one-token",
        "decoding, 4 heads, 64 keys, float32: what a call costs",
        one,
        ("SDPA", "auto"),
        _goals("auto", {"SDPA": 0.42}),  # 25 us beyond torch's 18
        "decode",
        calls=10,
        tuned=False,
    )
    norms: tuple[Step, ...] = ("layer norm", "RMS norm")
    for step in norms:
        for tokens in (1, 4096):
            yield Case(
                f"cpu-{step.replace(' ', '-').lower()}-{tokens}",
                f"{step} of {tokens} x 512",
                replace(one, L=tokens, S=tokens, D=512),
                ("torch", "auto"),
                _goals("auto", {"torch": 0.95}),
                step,
                calls=10 if tokens == 1 else 1,
            )
    tiny = Sizes(L=8, S=108, H=4, Hkv=4, D=32, dtype="float32")
    small = replace(tiny, H=9, Hkv=3, D=64)  # the layers of SmolLM2-135M
    models: tuple[tuple[Step, int, str, float], ...] = (
        ("generation", 1, "transformers", 1.0),
        ("attached generation", 1, "sdpa", 0.97),
        ("padded generation", 2, "sdpa", 0.97),
    )
    for (step, rows, peer, ratio), sizes in product(models, (tiny, small)):
        width = sizes.H * sizes.D
        yield Case(
            f"cpu-{step.replace(' ', '-')}" + ("-576" * (sizes is small)),
            f"{step} of 100 tokens, 4 layers, E {width}",
            replace(sizes, B=rows),
            (peer, "auto"),
            _goals("auto", {peer: ratio}),
            step,
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
    packed = "triton, packed"  # as fast as rows of one length
    yield Case(
        "gpu-packed-training",
        "forward and backward, D 128, causal, 8 texts of 2048 tokens, bf16",
        replace(full, L=2048, S=2048, B=8),
        ("auto", "FA2", "SDPA", "triton", packed),
        _goals(packed, {"FA2": 0.9, "triton": 0.9}),
        "training",
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
    split = "triton_split_kv"
    yield Case(  # 8 programs without splits: what splitting is for
        "gpu-decode-one",
        "decoding, one sequence, 32 heads on 8, 16384 keys, bf16",
        replace(full, L=1, S=16384, H=32, Hkv=8),
        ("SDPA", "auto", split, "triton, one split", "Flex", "copy"),
        _goals(split, {"triton, one split": 1.0, "SDPA": 1.0}),
        "decode",
    )
    tuned = "Flex, tuned", "Flex, tuned, TMA"  # as our tiles and loads are
    yield Case(
        "gpu-flex-tuned",
        "forward, D 128, causal, 8192 tokens, bf16, Flex tuned",
        full,
        ("Flex", *tuned, "triton", "auto"),
        (Goal(("triton",), tuned, 1.0),),
    )


CASES = (*_on_cpu(), *_latent(), *_small_calls(), *_on_gpu())


def find(name: str) -> Case:
    """Return the case of this name."""
    cases = {case.name: case for case in CASES}
    arguments.choice("case", name, cases)
    return cases[name]
