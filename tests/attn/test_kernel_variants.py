"""The forward kernel's variants: descriptors, and a persistent grid."""

import functools
import itertools

import pytest

import attn
from attn import profiling

pytest.importorskip("triton")

from attn.kernels import configs, forward, fused_attention, gradients
from attn.kernels.configs import Config, config_of
from tests.attn.test_kernels import (
    BF16,
    FP32,
    NAMES,
    check,
    options,
    randn,
    small_tiles,
)
from tests.marks import exhaustive_but

__all__ = ["small_tiles"]  # a fixture of every test here


#: Head sizes of the rows of ``configs``, and lengths that fill no tile.
HEADS = {
    "D = 64": (2, 4, 2, 19, 37, 64, 64),
    "D = 128": (1, 3, 1, 33, 21, 128, 128),
    "D = 256": (1, 2, 2, 18, 34, 256, 256),
    "Dv < D": (2, 2, 1, 40, 16, 80, 32),
    "one query": (2, 4, 1, 1, 45, 16, 16),
}


def is_quick_variant(size, name, dtype):
    if dtype == FP32:
        return name in ("causal, last", "all") and size == "D = 64"
    return name == "causal" and size in ("D = 128", "one query")


#: Each option with two sizes, one in half precision, and those that meet
#: tiles with every size.
DTYPES = {"D = 64": FP32, "one query": BF16}
CASES = [
    case
    for case in itertools.product(HEADS, NAMES, (FP32, BF16))
    if DTYPES.get(case[0]) == case[2]
    or case[1] in ("causal", "causal, last", "all")
]
QUICK = [case for case in CASES if is_quick_variant(*case)]


@pytest.mark.parametrize("impl", ("triton_tma", "triton_persistent"))
@pytest.mark.parametrize("case", exhaustive_but(QUICK, CASES), ids=str)
def test_forward_variants_equal_the_reference(impl, case):
    size, name, dtype = case
    sizes = HEADS[size]
    function = functools.partial(attn.attention, impl=impl)
    check(sizes, options(name, sizes), dtype, function)


def launched(monkeypatch, function, *tensors, **kwargs):
    """Return the grid and the keyword arguments of the forward kernel."""
    found = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *_, **constants: found.append((grid, constants))

    with monkeypatch.context() as patched:
        patched.setattr(forward, "attention_forward", Kernel())
        function(*tensors, **kwargs)
    ((grid, constants),) = found
    return grid, constants["DESCRIPTORS"], constants["PERSISTENT"]


def test_a_variant_runs_only_by_its_name_or_by_a_row_of_a_table(monkeypatch):
    q = randn(2, 2, 40, 16)

    def of(function, *tensors, **kwargs):
        return launched(monkeypatch, function, *tensors, **kwargs)

    assert of(fused_attention, q, q, q) == ((3, 2, 2), False, False)
    for impl, last in (("tma", (3, 2, 2)), ("persistent", (4, 1, 1))):
        name = f"triton_{impl}"
        found = of(attn.attention, q, q, q, impl=name)
        assert found == (last, True, impl == "persistent")
        assert "interpreter" in attn.api.explain(q, q, q).deprioritized[name]
        row = Config(16, 32, 4, 1, "for a test", impl)
        with monkeypatch.context() as patched:
            patched.setattr(configs, "config_of", lambda *_, row=row: row)
            assert of(fused_attention, q, q, q) == found
            # A table serves every call: these have no descriptors.
            for x in (q.mT.contiguous().mT, q[..., 1:]):
                assert not of(fused_attention, x, x, x)[1]
    for kernel in ("forward", "dkdv", "dq", "decode"):
        for head_dim, arch in itertools.product((64, 128, 256), (80, 90, 100)):
            for itemsize in (2, 4):
                row = config_of(kernel, head_dim, itemsize, arch)
                measured = arch == 90 and itemsize == 2 and kernel != "decode"
                assert row.variant == ("tma" if measured else "pointers")


@pytest.mark.grid
@pytest.mark.parametrize("dtype", (FP32, BF16), ids=str)
@pytest.mark.parametrize("name", ("causal, last", "all"))
def test_the_backward_kernels_load_by_descriptors_as_by_pointers(
    monkeypatch, record, dtype, name
):
    sizes = (2, 4, 2, 19, 37, 80, 32)
    row = Config(16, 32, 4, 1, "for a test", "tma")
    monkeypatch.setattr(configs, "config_of", lambda *_: row)
    made = record(gradients, "descriptors")
    check(sizes, options(name, sizes), dtype)
    assert len(made) >= 2, "of dK and dV, and of dQ"


def test_the_error_of_a_variant_names_the_tensor_without_a_descriptor():
    q, odd = randn(2, 2, 8, 16), randn(2, 2, 8, 18)[..., 1:17]
    wide = q.mT.contiguous().mT
    few = randn(1, 2, 8, 16).expand(2, -1, -1, -1)
    late = randn(1 + 2 * 2 * 8 * 16)[1:].view(2, 2, 8, 16)
    for name, args in (("query", (wide, q, q)), ("key", (q, odd, q)),
                       ("value", (q, q, few))):  # fmt: skip
        with pytest.raises(ValueError, match=f"tma cannot: {name} has the st"):
            attn.attention(*args, impl="triton_tma")
    with pytest.raises(ValueError, match="cannot: key begins at an address"):
        attn.attention(q, late, q, impl="triton_persistent")
    with pytest.raises(ValueError, match="cannot: dropout_p is 0.5"):
        attn.attention(q, q, q, dropout_p=0.5, impl="triton_persistent")


def test_a_persistent_grid_balances_the_keys_that_its_programs_load():
    """Of 4 programs, each has 3 of the 12 blocks: what they load is close."""
    traffic = []

    class Counting:
        def __getitem__(self, grid):
            return lambda *args, **kwargs: traffic.append(
                profiling.traffic(kernel, grid, *args, **kwargs)
            )

    kernel = forward.attention_forward
    q, k, v = (randn(2, 2, 48, 16, seed=i) for i in range(3))
    for impl in ("triton", "triton_tma", "triton_persistent"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(forward, "attention_forward", Counting())
            attn.attention(q, k, v, is_causal=True, impl=impl)
    plain, tma, persistent = traffic
    assert len(plain.programs) == len(tma.programs) == 12
    for name in "QKV":
        moved = {x.loads[name][:3] for x in traffic}
        assert len(moved) == 1, "every variant moves the same bytes"
    assert plain.stored == persistent.stored
    parts = persistent.programs.values()
    assert len(parts) == 4
    keys = {part.loads["K"].bytes for part in parts}
    assert keys == {plain.loads["K"].bytes // 4}
