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
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from attn.plot import Table

__all__ = [
    "compile_report",
    "compile_yours",
    "as_table",
    "CompiledKernel",
]

ARCHS = (80, 90, 100)
#: Bytes of shared memory that one program may have.
SHARED_MEMORY = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
#: Matrix instructions, the newest first; on sm_80 there is only the last.
MATRIX_INSTRUCTIONS = ("UTCHMMA", "HGMMA", "HMMA")
ITEMSIZE = {"bf16": 2, "fp16": 2, "fp32": 4}
KERNELS = {
    "forward": ("forward.py", "attention_forward"),
    "dkdv": ("backward.py", "attention_dkdv"),
    "dq": ("backward.py", "attention_dq"),
    "decode": ("decode.py", "decode_split"),
    "linear": ("linear.py", "linear_chunks"),
}
#: The rows of a tile that a descriptor loads.
TILES = {
    "Q": "BLOCK_L",
    "K": "BLOCK_S",
    "V": "BLOCK_S",
    "GRAD_OUT": "BLOCK_L",
}
#: Arguments of another type than their name says: capitals are pointers.
TYPES = {
    "fp32": "scale softcap",
    "i32": "B H L S",
    "*i32": "OFFSETS CU_Q CU_K LENGTHS",
    "*fp32": "LSE DELTA SINKS PART PART_LSE G START LAST",
    "*u8": "VALID",
}
#: Of the forward kernel, as in ``configs``, whatever a row selects.
VARIANTS = ("forward_pointers", "forward_tma", "forward_persistent")
#: The same kernels over texts stored end to end.
PACKED = ("forward_packed", "dkdv_packed", "dq_packed")


class CompiledKernel(NamedTuple):
    """One kernel, for one GPU and one size of heads.

    Example:
        >>> from attn.kernels.report import compile_report
        >>> [row] = compile_report((90,), (64,), kernels=("forward",))
        >>> row.kernel, row.arch, row.spilled
        ('forward', 90, 0)
    """

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
    kernels: tuple[str, ...] = tuple(KERNELS),
    dtypes: tuple[str, ...] = ("bf16",),
) -> list[CompiledKernel]:
    """Compile every shipped configuration, causal, for some GPUs.

    It takes one to three seconds a kernel, in other processes: one process
    either interprets Triton or compiles it.

    Args:
        archs: compute capabilities times ten.
        head_dims: ``D = Dv``, powers of two.
        kernels: of ``forward``, ``dkdv``, ``dq``, ``decode`` and ``linear``,
            and of ``forward_pointers``, ``forward_tma`` and
            ``forward_persistent``, whatever the configuration selects, and of
            ``forward_packed``, ``dkdv_packed`` and ``dq_packed``.
        dtypes: of ``bf16``, ``fp16`` and ``fp32``.

    Returns:
        One row for each combination.

    Raises:
        ValueError: there is no such kernel.
        RuntimeError: the compiler failed; its last words.

    Example:
        >>> from attn.kernels.report import compile_report
        >>> rows = compile_report((80, 90), (128,), kernels=("forward",))
        >>> [row.instructions for row in rows]  # of the matrix units
        ['HMMA', 'HGMMA']
    """
    known = (*KERNELS, *VARIANTS, *PACKED)
    if unknown := set(kernels) - set(known):
        raise ValueError(
            f"kernels must be among {known}; got {min(unknown)!r}"
        )
    return _compile_all(
        [
            _shipped(kernel, arch, head_dim, dtype)
            for arch in archs
            for dtype in dtypes
            for head_dim in head_dims
            for kernel in kernels
        ]
    )


def _shipped(kernel: str, arch: int, head_dim: int, dtype: str) -> list[Any]:
    """Return the arguments of ``_compile``."""
    from attn.kernels.configs import config_of

    name, _, variant = kernel.partition("_")
    config = config_of(name, head_dim, ITEMSIZE[dtype], arch)
    variant = variant or config.variant
    heads = dict.fromkeys(("D", "DV", "BLOCK_D", "BLOCK_DV"), head_dim)
    absent = ("HAS_VALID", "HAS_SINKS", "HAS_CAP", "SCALED")
    constants = {
        **heads,
        **dict.fromkeys(absent, False),
        "GROUP": 4,
        "ROWS": 16,
        "BLOCK_L": config.block_l,
        "BLOCK_S": config.block_s,
        "BANDED": 1,
        "MASK_KIND": 0,
        "PRECISION": "ieee" if dtype == "fp32" else "tf32",
        "VARLEN": variant == "packed",
        "DESCRIPTORS": variant in ("tma", "persistent"),
        "PERSISTENT": variant == "persistent",
        "HAS_START": True,
    }
    if kernel == "linear":  # its columns are those of the value
        constants["BLOCK_DV"] = min(config.block_s, head_dim)
    file, function = KERNELS[name]
    path = str(Path(__file__).with_name(file))
    launch = config.num_warps, config.num_stages
    return [kernel, path, function, constants, arch, dtype, *launch]


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
        TypeError: it is no kernel, or its source is not available.
        RuntimeError: the compiler failed; its last words.

    Example:
        >>> import triton
        >>> import triton.language as tl
        >>> @triton.jit
        ... def double(X, length, BLOCK: tl.constexpr):
        ...     at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     x = tl.load(X + at, at < length)
        ...     tl.store(X + at, 2 * x, at < length)
        >>> from attn.kernels.report import compile_yours
        >>> [row] = compile_yours(double, {"BLOCK": 1024}, archs=(90,))
        >>> row.spilled
        0
    """
    try:
        text = inspect.getsource(kernel.fn)
    except (AttributeError, OSError) as error:
        raise TypeError(
            "kernel must be made by triton.jit, in a notebook or a file; got "
            f"{type(kernel).__name__}"
        ) from error
    source = "import triton\nimport triton.language as tl\n\n\n"
    name, launch = kernel.__name__, (dtype, num_warps, num_stages)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "yours.py"
        path.write_text(source + textwrap.dedent(text))
        return _compile_all(
            [[name, str(path), name, constants, a, *launch] for a in archs]
        )


def read_by_compiler(
    text: str,
    name: str,
    types: dict[str, str],
    constants: dict[str, Any],
    timeout: float,
) -> list[str] | None:
    """Let Triton's front end read a kernel, a third of a second's work.

    Args:
        text: a module that defines it.
        name: of the kernel.
        types: Triton's names of the types of its arguments.
        constants: the values of its ``tl.constexpr`` arguments.
        timeout: seconds.

    Returns:
        The reason why it is refused, and the line; None if it is not.

    Raises:
        RuntimeError: the module cannot be executed; its last words.
        TimeoutExpired: it took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.py"
        path.write_text(text, "utf-8")
        job = [str(path), name, types, constants]
        found: list[str] | None = _in_a_process("read", [job], timeout)[0]
    return found


def _compile_all(jobs: list[list[Any]]) -> list[CompiledKernel]:
    """Divide jobs among processes that compile: this one may interpret."""
    hands = min(os.cpu_count() or 1, len(jobs))
    work = partial(_in_a_process, "compile")
    with ThreadPoolExecutor(hands) as pool:
        parts = list(pool.map(work, (jobs[i::hands] for i in range(hands))))
    rows = (parts[i % hands][i // hands] for i in range(len(jobs)))
    return [CompiledKernel(*row) for row in rows]


def _in_a_process(
    does: str, jobs: list[list[Any]], timeout: float | None = None
) -> list[Any]:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TRITON_DEFAULT_FP_FUSION"] = "1"
    paths = str(Path(__file__).parents[2]), env.get("PYTHONPATH")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        # By its path, so that a kernel of yours needs no import of torch; -P
        # keeps the files beside it from being taken for Python's own.
        [sys.executable, "-P", __file__, does],
        input=json.dumps(jobs),
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"compiling failed: {done.stderr[-800:]}")
    # A kernel's module may print, too.
    results: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def as_table(rows: list[CompiledKernel]) -> Table:
    """Return the report as a table.

    Example:
        >>> from attn.kernels.report import as_table, compile_report
        >>> rows = compile_report((90,), (64,), kernels=("decode",))
        >>> table = as_table(rows)
        >>> table.head[:5]
        ['kernel', 'GPU', 'dtype', 'D', 'tile']
    """
    from attn.plot import Table  # only here, for it loads matplotlib

    head = "kernel GPU dtype D tile warps stages registers spilled shared"
    lines = []
    for r in rows:
        sizes = f"{r.spilled} B", f"{r.shared / 1024:.0f} KB"
        lines.append((r.kernel, f"sm_{r.arch}", *r[2:8], *sizes, r[-1]))
    return Table([*head.split(), "matrices"], lines)


# --- in the other process ----------------------------------------------------


def _compile(
    label: str,
    file: str,
    function: str,
    constants: dict[str, Any],
    arch: int,
    dtype: str,
    num_warps: int,
    num_stages: int,
) -> CompiledKernel:
    """Compile the kernel of a file and inspect the result."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = _kernel(file, function)
    names = kernel.arg_names
    # What a launch finds out by itself: strides of 1, and that pointers and
    # other strides are multiples of 16.
    known = {n: x for n, x in constants.items() if n in names}
    known |= {n: 1 for n in names if n.endswith("_d")}
    signature = {
        n: "constexpr" if n in known else _type(n, dtype) for n in names
    }
    if constants.get("DESCRIPTORS"):
        for tensor in TILES.keys() & set(names):
            rows = constants[TILES[tensor]]
            tile = [1, 1, rows, constants["BLOCK_D"]]
            signature[tensor] = f"tensordesc<{dtype}{tile}>"
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if signature[n].startswith("*")
        or (signature[n] == "i32" and re.fullmatch("[a-z]+_[a-z]|rows", n))
    }
    source = ASTSource(kernel, signature, constexprs=known, attrs=aligned)
    compiled = triton.compile(
        source,
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": num_warps, "num_stages": num_stages},
    )
    used, code = _disassemble(compiled.asm["cubin"])
    registers, spilled = (
        int(re.search(rf"{what}:(\d+)", used)[1])  # type: ignore[index]
        for what in ("REG", "STACK")
    )
    used_ops = (x for x in MATRIX_INSTRUCTIONS if re.search(rf"\b{x}\b", code))
    blocks = [constants[n] for n in ("BLOCK_L", "BLOCK_S") if n in constants]
    return CompiledKernel(
        label, arch, dtype, constants.get("D", 0),
        "x".join(map(str, blocks)) or "-", num_warps, num_stages,
        registers, spilled, compiled.metadata.shared,
        next(used_ops, "none"),
    )  # fmt: skip


def _kernel(file: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("compiled", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _read(
    file: str, name: str, types: dict[str, str], constants: dict[str, Any]
) -> tuple[str, str] | None:
    """Let the front end read a kernel; return the reason and the line."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    functions = backend.get_codegen_implementation(options)
    modules = backend.get_module_map()
    kernel = _kernel(file, name)
    while hasattr(kernel.fn, "fn"):  # triton.heuristics
        kernel = kernel.fn
    # A branch that a constant closes is not read: both values of a switch.
    switches = [x for x in constants if isinstance(constants[x], bool)]
    for values in product((False, True), repeat=len(switches)):
        flags = dict(zip(switches, values, strict=True))
        source = ASTSource(kernel, types, constants | flags)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        try:
            source.make_ir(target, options, functions, modules, context)
        except CompilationError as error:
            while isinstance(error.__cause__, CompilationError):
                error = error.__cause__  # of a function that it calls
            number = getattr(error.node, "lineno", 0)
            lines = (error.src or "").splitlines()
            line = lines[number - 1].strip() if number else ""
            said = error.error_message or repr(error.__cause__)
            return " ".join(said.split()), line
    return None


def _type(name: str, dtype: str) -> str:
    """Return the type of a kernel's argument, from its name."""
    for kind, names in TYPES.items():
        if name in names.split():
            return kind
    return "i32" if name.islower() else f"*{dtype}"


def _disassemble(cubin: bytes) -> tuple[str, str]:
    """Return the resources of a compiled kernel, and its instructions."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    calls = ("cuobjdump", "--dump-resource-usage"), ("nvdisasm", "-c")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        used, code = (
            subprocess.check_output([tools / tool, option, path], text=True)
            for tool, option in calls
        )
    return used, code


if __name__ == "__main__":
    work: Any = {"compile": _compile, "read": _read}[sys.argv[1]]
    done = [work(*job) for job in json.load(sys.stdin)]
    print("\n" + json.dumps(done))
