"""The compiler keeps the shipped configurations within a budget."""

import itertools

import pytest

pytest.importorskip("triton")

from attn.kernels import report
from attn.kernels.configs import config_of
from tests.marks import exhaustive_but

KERNELS = ("forward", "dkdv", "dq", "decode", "linear")
#: Bytes of a thread that may spill; 0 elsewhere.
MAY_SPILL = {
    ("forward", 80, "bf16", 64): 16,
    ("dq", 80, "fp32", 128): 16,
    # Measured on an H100: with more room in its registers each is slower.
    ("dkdv", 90, "bf16", 64): 264,
    ("dkdv", 90, "bf16", 128): 184,
    ("dkdv", 90, "bf16", 256): 504,
    ("dkdv", 90, "fp32", 64): 496,
    ("dq", 90, "bf16", 256): 16,
    ("forward", 90, "fp32", 256): 1584,
    ("forward_packed", 80, "bf16", 64): 16,
    ("dq_packed", 80, "fp32", 128): 16,
    # The same tiles with pointers, until `make gpu` has measured others.
    ("forward_packed", 90, "bf16", 256): 48,
    ("forward_packed", 90, "fp32", 256): 1584,
    ("dkdv_packed", 90, "bf16", 64): 792,
    ("dkdv_packed", 90, "bf16", 128): 536,
    ("dkdv_packed", 90, "bf16", 256): 824,
    ("dkdv_packed", 90, "fp32", 64): 496,
    ("dq_packed", 90, "bf16", 256): 160,
    **{("dkdv_packed", arch, "fp32", 256): 8 for arch in (90, 100)},
    ("linear", 80, "bf16", 64): 8,
    ("linear", 90, "bf16", 256): 16,
    **{("linear", arch, "fp32", 256): 392 for arch in report.ARCHS},
}
NEWEST = {80: "HMMA", 90: "HGMMA", 100: "UTCHMMA"}


#: `make test` compiles one kernel for one GPU; `make test-all` all for all.
QUICK = [((90,), ("forward",), 64, "bf16")]
COMPILED = itertools.product(
    [report.ARCHS], [KERNELS + report.PACKED], (64, 128, 256), ("bf16", "fp32")
)


@pytest.fixture(
    scope="module", params=exhaustive_but(QUICK, [*QUICK, *COMPILED]), ids=str
)
def rows(request):
    archs, kernels, head_dim, dtype = request.param
    report_rows = report.compile_report(archs, (head_dim,), kernels, (dtype,))
    names = [(row.arch, row.kernel) for row in report_rows]
    assert names == list(itertools.product(archs, kernels))
    return report_rows


def test_each_shipped_configuration_keeps_its_register_and_memory_budget(rows):
    for row in rows:
        assert row.registers <= 255, row
        row_of = (row.kernel, row.arch, row.dtype, row.head_dim)
        assert row.spilled <= MAY_SPILL.get(row_of, 0), row
        assert row.shared <= report.SHARED_MEMORY[row.arch], row
        # sm_86, sm_89 and sm_120 have 99 KB, and use the rows for any GPU.
        if (row.arch, row.dtype) == (80, "bf16"):
            assert row.shared <= 99 * 1024, row


def test_half_precision_uses_the_newest_instructions_that_a_tile_allows(rows):
    for row in rows:
        if row.dtype == "fp32":
            continue
        queries, keys = map(int, row.tile.split("x"))
        # The newer ones need tiles of 64 rows or more.
        large = max(queries, keys) >= 64 and row.kernel != "decode"
        large |= row.kernel == "linear"  # the state has D rows
        newest = NEWEST[row.arch] if large else "HMMA"
        assert row.instructions == newest, row


def test_the_table_has_a_line_for_each_row(rows):
    head, *lines = str(report.as_table(rows)).splitlines()
    assert head.split()[:3] == ["kernel", "GPU", "dtype"]
    for line, row in zip(lines, rows, strict=True):
        assert line.split()[:2] == [row.kernel, f"sm_{row.arch}"]
        assert "KB" in line


@pytest.mark.exhaustive
@pytest.mark.parametrize("head_dim", (64, 128, 256))
@pytest.mark.parametrize("arch", (90, 100))
def test_descriptors_need_fewer_registers_persistent_or_not(arch, head_dim):
    rows = report.compile_report((arch,), (head_dim,), report.VARIANTS)
    assert tuple(row.kernel for row in rows) == report.VARIANTS
    for row in rows:
        assert row.spilled == 0 or row.kernel == "forward_pointers", row
        assert row.shared <= report.SHARED_MEMORY[arch], row
        assert row.instructions == NEWEST[arch], row
        assert row[4:7] == rows[0][4:7], "the shipped tile"
    pointers, tma, _ = rows
    assert tma.registers < pointers.registers


def test_a_compiler_failure_and_an_unknown_kernel_raise():
    with pytest.raises(RuntimeError, match="compiling failed"):
        report.compile_report((1,), (64,), ("decode",))
    with pytest.raises(ValueError, match="got 'no_such_kernel'"):
        report.compile_report((90,), (64,), ("no_such_kernel",))


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_configuration_states_its_reason(kernel):
    for head_dim in (3, 16, 64, 65, 128, 200, 256):
        for itemsize in (2, 4):
            for arch in (0, 80, 90, 100, 120):
                row = config_of(kernel, head_dim, itemsize, arch)
                assert row.why
                for size in (row.block_l, row.block_s):
                    assert size >= 16 and size & (size - 1) == 0


COPY = {"BLOCK_R": 32, "BLOCK_C": 64}
SCORES = {"IS_CAUSAL": True, "D": 64, "BLOCK_L": 64, "BLOCK_S": 64}
YOURS = {
    "attention_forward_kernel": SCORES | {"GROUP": 4},
    "scores_kernel": SCORES,
    "copy_tile_kernel": COPY,
    "row_softmax_kernel": {"BLOCK": 1024},
}


@pytest.mark.parametrize("archs", exhaustive_but([(90,)], [(90,), (80, 100)]))
@pytest.mark.parametrize("name", exhaustive_but([*YOURS][:1], YOURS))
def test_a_learners_kernel_is_compiled_from_its_source(name, archs):
    from solutions import ch12_fused_forward

    kernel = getattr(ch12_fused_forward, name)
    multiplies = YOURS[name].keys() >= SCORES.keys()
    for row in report.compile_yours(kernel, YOURS[name], archs):
        assert row.kernel == name and row.spilled == 0
        newest = NEWEST[row.arch] if multiplies else "none"
        assert row.instructions == newest
        assert row.tile == "64x64" or not multiplies


def test_compile_yours_refuses_a_plain_function():
    with pytest.raises(TypeError, match="made by triton.jit"):
        report.compile_yours(print, {})
