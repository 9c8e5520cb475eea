"""Peak memory, against sizes that are known beforehand."""

import os

import pytest
import torch

from attn.measure import peak_bytes

MB = 2**20


def test_what_lives_at_once_counts_and_what_came_before_does_not():
    x = torch.zeros(MB // 4)  # 1 MB, before the call

    def two_then_one():
        y = x + 1  # 1 MB
        z = y + 1  # and another
        del y
        return z + 1  # in the place of the first

    scalars = 100  # the ones that are added
    assert 0 <= peak_bytes(two_then_one) - 2 * MB <= scalars


def test_a_view_is_free_and_a_kernels_scratch_is_not():
    x = torch.randn(1, 8, 256, 32)
    assert peak_bytes(lambda: x.transpose(1, 2)[:, :5]) == 0
    fused = torch.nn.functional.scaled_dot_product_attention
    out = x.numel() * 4
    assert peak_bytes(fused, x, x, x) > out  # its blocks of scores


@pytest.mark.parametrize("error", (ValueError, KeyboardInterrupt))
def test_an_error_comes_through_and_stderr_is_back(error, capfd):
    def fails():
        raise error("said so")

    with pytest.raises(error, match="said so"):
        peak_bytes(fails)
    os.write(2, b"heard")
    assert "heard" in capfd.readouterr().err
