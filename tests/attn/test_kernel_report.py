"""What the compiler makes of the shipped configurations, within a budget."""

import functools

import pytest

pytest.importorskip("triton")

from attn.kernels import report  # noqa: E402
from attn.kernels.configs import (  # noqa: E402
    dkdv_config,
    dq_config,
    forward_config,
)

HALVES = {64: 0, 128: 0, 256: 128}  # bytes that may spill on sm_90


@functools.cache
def rows(arch, kernels=("forward", "dkdv", "dq"), head_dims=(64, 128, 256)):
    return report.compile_report((arch,), head_dims, kernels)


@functools.cache
def on_hopper():
    return rows(90)


def test_every_configuration_fits_an_h100_and_uses_its_matrix_units():
    assert len(on_hopper()) == 9
    for row in on_hopper():
        assert row.registers <= 255
        assert row.spilled <= HALVES[row.head_dim], row
        assert row.shared <= report.SHARED_MEMORY[90], row
        # 32 keys are fewer rows than the newer instruction takes.
        small = row.tile == "32x32"
        assert row.instructions == ("HMMA" if small else "HGMMA"), row


@pytest.mark.parametrize(
    ("arch", "instruction"), [(80, "HMMA"), (100, "UTCHMMA")]
)
def test_the_forward_kernel_fits_the_gpu_before_and_the_one_after(
    arch, instruction
):
    for row in rows(arch, ("forward",), (64, 128)):
        assert row.shared <= report.SHARED_MEMORY[arch], row
        assert row.spilled <= 400, row
        assert row.instructions == instruction, row


def test_the_table_has_a_line_for_each_row():
    table = report.as_table(on_hopper()).splitlines()
    assert len(table) == 10
    assert table[0].split()[:3] == ["kernel", "GPU", "dtype"]
    assert all("sm_90" in line and "KB" in line for line in table[1:])


def test_a_failure_of_the_compiler_is_told():
    with pytest.raises(RuntimeError, match="compiling failed"):
        report.compile_report((90,), (64,), ("no_such_kernel",))


@pytest.mark.parametrize("config", (forward_config, dkdv_config, dq_config))
def test_every_row_says_why(config):
    for head_dim in (3, 16, 64, 65, 128, 200, 256):
        for itemsize in (2, 4):
            row = config(head_dim, itemsize)
            assert row.why
            for size in (row.block_l, row.block_s):
                assert size >= 16 and size & (size - 1) == 0
