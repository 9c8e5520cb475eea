"""Report what the compiler makes of the kernels, without a GPU.

Triton compiles for a target that is only named. The result shows what decides
the speed before anything runs: registers, what did not fit into them
(spills), shared memory, and the matrix instructions used.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "CompiledKernel",
    "as_table",
    "compile_report",
    "compile_yours",
]

Work = tuple[str, list[Any], dict[str, Any]]
ARCHS = (80, 90, 100)
#: Bytes of shared memory that one program may have.
SHARED_MEMORY = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
#: Matrix instructions, the newest first; on sm_80 there is only the last.
MATRIX_INSTRUCTIONS = ("UTCHMMA", "HGMMA", "HMMA")


class CompiledKernel(NamedTuple):
    """One kernel, for one GPU and one size of heads."""

    kernel: str
    arch: int  # 90 is sm_90
    dtype: str
    head_dim: int
    tile: str  # queries x keys
    num_warps: int
    num_stages: int
    registers: int  # of each thread, at most 255
    spilled: int  # bytes of each thread that did not fit
    shared: int  # bytes of each program
    instructions: str  # what multiplies matrices


def compile_report(
    archs: tuple[int, ...] = ARCHS,
    head_dims: tuple[int, ...] = (64, 128, 256),
    kernels: tuple[str, ...] = ("forward", "dkdv", "dq", "decode"),
    dtypes: tuple[str, ...] = ("bf16",),
) -> list[CompiledKernel]:
    """Compile every shipped configuration, causal, for some GPUs.

    It takes one to three seconds a kernel, in another process: one process
    either interprets Triton or compiles it.

    Args:
        archs: compute capabilities times ten.
        head_dims: ``D = Dv``, powers of two.
        kernels: of ``forward``, ``dkdv``, ``dq`` and ``decode``.
        dtypes: of ``bf16``, ``fp16`` and ``fp32``.

    Returns:
        One row for each combination.

    Raises:
        RuntimeError: the compiler failed; its last words.
    """
    return _elsewhere(
        [
            ("_compile", [kernel, arch, head_dim, dtype], {})
            for arch in archs
            for dtype in dtypes
            for head_dim in head_dims
            for kernel in kernels
        ]
    )


def compile_yours(
    kernel: Any,
    constants: dict[str, Any],
    archs: tuple[int, ...] = ARCHS,
    dtype: str = "bf16",
    num_warps: int = 8,
    num_stages: int = 2,
) -> list[CompiledKernel]:
    """Compile a kernel of your own for some GPUs, from its source.

    Arguments in capitals are taken for pointers, ``scale`` for a float, the
    others for integers, those with a name like ``q_h`` for strides that are
    multiples of 16.

    Args:
        kernel: made by ``triton.jit``; it may use ``triton`` and ``tl``.
        constants: the values of its ``tl.constexpr`` arguments.
        archs, dtype: as in ``compile_report``; of the pointers.
        num_warps, num_stages: as when it is launched.

    Returns:
        One row for each GPU.

    Raises:
        TypeError: it is no kernel, or its source cannot be had.
        RuntimeError: the compiler failed; its last words.
    """
    try:
        text = inspect.getsource(kernel.fn)
    except (AttributeError, OSError) as error:
        raise TypeError(
            f"kernel is {type(kernel).__name__}: it needs to be made by "
            "triton.jit, in a notebook or a file"
        ) from error
    source = "import triton\nimport triton.language as tl\n\n\n"
    source += textwrap.dedent(text)
    how = {"dtype": dtype, "num_warps": num_warps, "num_stages": num_stages}
    about = [source, kernel.__name__, constants]
    return _elsewhere([("_compile_source", [*about, a], how) for a in archs])


def _elsewhere(work: list[Work]) -> list[CompiledKernel]:
    """In processes that compile: this one may be interpreting."""
    hands = min(os.cpu_count() or 1, len(work))
    with ThreadPoolExecutor(hands) as pool:
        parts = list(
            pool.map(_in_a_process, (work[i::hands] for i in range(hands)))
        )
    return [parts[i % hands][i // hands] for i in range(len(work))]


def _in_a_process(work: list[Work]) -> list[CompiledKernel]:
    without = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    without["TRITON_DEFAULT_FP_FUSION"] = "1"
    root = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    without["PYTHONPATH"] = os.pathsep.join(filter(None, (root, before)))
    done = subprocess.run(
        # By its path, so that `attn`, and with it torch, is not imported; -P
        # keeps operator.py beside it from being taken for Python's.
        [sys.executable, "-P", __file__],
        input=json.dumps(work),
        env=without,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"compiling failed: {done.stderr[-800:]}")
    return [CompiledKernel(*row) for row in json.loads(done.stdout)]


def as_table(rows: list[CompiledKernel]) -> str:
    """The report, to be printed."""
    width = max(9, *(len(r.kernel) + 2 for r in rows))
    head = (
        f"{'kernel':<{width}}{'GPU':<8}{'dtype':<6}{'D':<5}{'tile':<9}"
        f"{'warps':<7}{'stages':<8}{'registers':<11}{'spilled':<9}"
        f"{'shared':<9}matrices"
    )
    lines = [
        f"{r.kernel:<{width}}sm_{r.arch:<5}{r.dtype:<6}{r.head_dim:<5}"
        f"{r.tile:<9}{r.num_warps:<7}{r.num_stages:<8}{r.registers:<11}"
        f"{f'{r.spilled} B':<9}{f'{r.shared / 1024:.0f} KB':<9}"
        f"{r.instructions}"
        for r in rows
    ]
    return "\n".join([head, *lines])


# --- in the other process ----------------------------------------------------

_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def _compile(
    name: str, arch: int, head_dim: int, dtype: str
) -> CompiledKernel:
    from attn.kernels import backward, configs, decode, forward

    kernel: Any = {
        "forward": forward.attention_forward,
        "dkdv": backward.attention_dkdv,
        "dq": backward.attention_dq,
        "decode": decode.decode_split,
    }[name]
    config = configs.config_of(name, head_dim, _BYTES[dtype], arch)
    constants: dict[str, Any] = {
        "GROUP": 4,
        "D": head_dim,
        "DV": head_dim,
        "BLOCK_D": head_dim,
        "BLOCK_DV": head_dim,
        "BLOCK_L": config.block_l,
        "BLOCK_S": config.block_s,
        "BANDED": 1,
        "MASK_KIND": 0,
        "HAS_VALID": False,
        "HAS_SINKS": False,
        "HAS_CAP": False,
        "VARLEN": False,
        "ROWS": 16,
        "CAUSAL": True,
        "WINDOWED": False,
        "PRECISION": "ieee" if dtype == "fp32" else "tf32",
    }
    constants = {k: v for k, v in constants.items() if k in kernel.arg_names}
    warps, stages = config.num_warps, config.num_stages
    return _examine(name, kernel, constants, arch, dtype, warps, stages)


def _compile_source(
    source: str, name: str, constants: dict[str, Any], arch: int, **how: Any
) -> CompiledKernel:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learners.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("learners", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, name)
        return _examine(name, kernel, constants, arch, **how)


def _examine(
    name: str,
    kernel: Any,
    constants: dict[str, Any],
    arch: int,
    dtype: str,
    num_warps: int,
    num_stages: int,
) -> CompiledKernel:
    """Compile one kernel and look at what came out."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    # What the launcher finds out by itself: a stride of 1, and that pointers
    # and other strides are multiples of 16.
    names = kernel.arg_names
    known = constants | {n: 1 for n in names if n.endswith("_d")}
    signature = {n: _kind(n, dtype, known) for n in names}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if signature[n].startswith("*")
        or (signature[n] == "i32" and re.fullmatch("[a-z]+_[a-z]", n))
    }
    made = triton.compile(
        ASTSource(
            fn=kernel, signature=signature, constexprs=known, attrs=aligned
        ),
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": num_warps, "num_stages": num_stages},
    )
    used, code = _inspect(made.asm["cubin"])
    found = [op for op in MATRIX_INSTRUCTIONS if re.search(rf"\b{op}\b", code)]
    asked = ("BLOCK_L", "ROWS", "BLOCK_S")
    blocks = [constants[k] for k in asked if k in constants]
    return CompiledKernel(
        name,
        arch,
        dtype,
        constants.get("D", 0),
        "x".join(map(str, blocks)) or "-",
        num_warps,
        num_stages,
        int(re.search(r"REG:(\d+)", used)[1]),  # type: ignore[index]
        int(re.search(r"STACK:(\d+)", used)[1]),  # type: ignore[index]
        made.metadata.shared,
        found[0] if found else "none",
    )


def _kind(name: str, dtype: str, constants: dict[str, Any]) -> str:
    """The type of a kernel's argument, from its name."""
    if name in constants:
        return "constexpr"
    if name in ("scale", "softcap"):
        return "fp32"
    if name.islower() or name in ("H", "L", "S"):
        return "i32"
    if name in ("OFFSETS", "CU_Q", "CU_K", "LENGTHS"):
        return "*i32"
    if name in ("LSE", "DELTA", "SINKS", "PART", "PART_LSE"):
        return "*fp32"
    return "*u8" if name == "VALID" else f"*{dtype}"


def _inspect(cubin: bytes) -> tuple[str, str]:
    """Return the resources of a compiled kernel, and its instructions."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        used, code = (
            subprocess.run(
                [tools / tool, option, path],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for tool, option in (
                ("cuobjdump", "--dump-resource-usage"),
                ("nvdisasm", "-c"),
            )
        )
    return used, code


if __name__ == "__main__":
    print(
        json.dumps(
            [
                globals()[function](*args, **how)
                for function, args, how in json.load(sys.stdin)
            ]
        )
    )
