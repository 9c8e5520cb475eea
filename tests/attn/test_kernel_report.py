"""What the compiler makes of the shipped configurations, within a budget."""

import functools

import pytest

pytest.importorskip("triton")

from attn.kernels import report  # noqa: E402
from attn.kernels.configs import config_of  # noqa: E402

KERNELS = ("forward", "dkdv", "dq", "decode")
#: Bytes of a thread that may spill; 0 where nothing is said.
MAY_SPILL = {
    ("forward", 80, "bf16", 64): 16,
    ("dq", 80, "fp32", 128): 16,
    ("dq", 90, "bf16", 256): 104,
}
NEWEST = {80: "HMMA", 90: "HGMMA", 100: "UTCHMMA"}


@functools.cache
def rows(arch, dtype="bf16"):
    return report.compile_report((arch,), (64, 128, 256), KERNELS, (dtype,))


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("arch", report.ARCHS)
def test_every_shipped_configuration_keeps_its_budget(arch, dtype):
    assert len(rows(arch, dtype)) == 12
    for row in rows(arch, dtype):
        assert row.registers <= 255, row
        allowed = MAY_SPILL.get((row.kernel, arch, dtype, row.head_dim), 0)
        assert row.spilled <= allowed, row
        assert row.shared <= report.SHARED_MEMORY[arch], row


@pytest.mark.parametrize("arch", report.ARCHS)
def test_half_precision_uses_the_newest_instructions_that_the_tile_allows(
    arch,
):
    for row in rows(arch):
        queries, keys = map(int, row.tile.split("x"))
        # The newer ones take tiles of 64 rows and more.
        large = max(queries, keys) >= 64 and row.kernel != "decode"
        assert row.instructions == (NEWEST[arch] if large else "HMMA"), row


def test_small_gpus_have_room_for_the_common_rows():
    """sm_86, sm_89 and sm_120 have 99 KB, and take the rows for any GPU."""
    assert all(row.shared <= 99 * 1024 for row in rows(80))


def test_the_table_has_a_line_for_each_row():
    table = report.as_table(rows(90)).splitlines()
    assert len(table) == 13
    assert table[0].split()[:3] == ["kernel", "GPU", "dtype"]
    assert all("sm_90" in line and "KB" in line for line in table[1:])


def test_a_failure_of_the_compiler_is_told():
    with pytest.raises(RuntimeError, match="compiling failed"):
        report.compile_report((90,), (64,), ("no_such_kernel",))


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_row_says_why(kernel):
    for head_dim in (3, 16, 64, 65, 128, 200, 256):
        for itemsize in (2, 4):
            for arch in (0, 80, 90, 100, 120):
                row = config_of(kernel, head_dim, itemsize, arch)
                assert row.why
                for size in (row.block_l, row.block_s):
                    assert size >= 16 and size & (size - 1) == 0


def test_a_kernel_of_ones_own_is_compiled_from_its_source():
    from solutions.ch12_fused_forward import attention_forward_kernel

    constants = {"GROUP": 4, "IS_CAUSAL": True, "D": 64}
    blocks = {"BLOCK_L": 64, "BLOCK_S": 64}
    (row,) = report.compile_yours(
        attention_forward_kernel, constants | blocks, archs=(90,)
    )
    assert row.kernel == "attention_forward_kernel" and row.tile == "64x64"
    assert row.instructions == "HGMMA"
    with pytest.raises(TypeError, match="made by triton.jit"):
        report.compile_yours(print, {})
