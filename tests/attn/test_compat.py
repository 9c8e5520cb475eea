"""Private parts of PyTorch and Triton are those that were read."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from attn.profiling import compat
from attn.profiling.compat import language_kept_patched

if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)

from triton.runtime import interpreter


@pytest.fixture(autouse=True)
def quick_interpreter():
    """Let each test here open the context by itself."""


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def double(X, OUT, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(OUT + lane, doubled(tl.load(X + lane)))


def launch():
    x, out = torch.arange(4.0), torch.zeros(4)
    double[(1,)](x, out, BLOCK=4)
    return out.tolist()


@pytest.fixture
def searches(record):
    """The searches through triton.language, one entry each."""
    return record(interpreter, "_patch_lang")


def test_many_launches_search_the_language_once_with_equal_results(searches):
    assert launch() == [0.0, 2.0, 4.0, 6.0]
    alone = len(searches)
    assert alone >= 2  # the kernel, and its device function
    with language_kept_patched():
        for _ in range(3):
            assert launch() == [0.0, 2.0, 4.0, 6.0]
    assert len(searches) == alone + 1


def test_the_language_is_restored_after_an_error(searches):
    patch, load, loop = interpreter._patch_lang, tl.load, tl.range
    with pytest.raises(KeyError), language_kept_patched():
        launch()
        assert tl.load is not load
        with language_kept_patched():
            launch()
        launch()
        raise KeyError
    assert len(searches) == 1
    assert interpreter._patch_lang is patch
    assert tl.load is load and tl.range is loop
    assert launch() == [0.0, 2.0, 4.0, 6.0]


def test_overflow_checks_are_off_only_within_the_context(monkeypatch):
    builder = interpreter.interpreter_builder
    before = builder.options
    assert before.sanitize_overflow and not before.debug
    with language_kept_patched():
        assert not builder.options.sanitize_overflow
        assert launch() == [0.0, 2.0, 4.0, 6.0]
    assert builder.options is before
    debugging = dataclasses.replace(before, debug=True)
    monkeypatch.setattr(builder, "options", debugging)
    with language_kept_patched():
        assert builder.options is debugging


@pytest.mark.parametrize("missing", ["_patch_lang", "tl"])
def test_an_interpreter_without_the_names_is_not_patched(monkeypatch, missing):
    monkeypatch.delattr(interpreter, missing)
    before = dict(vars(interpreter))
    with language_kept_patched():
        assert vars(interpreter) == before


def test_a_patch_that_cannot_be_kept_is_repeated_at_every_launch(monkeypatch):
    made = []
    monkeypatch.setattr(interpreter, "_patch_lang", made.append)
    with language_kept_patched():
        for _ in range(2):
            interpreter._patch_lang(double.fn)
    assert made == [double.fn] * 2


def test_a_known_mistake_is_not_rewritten_and_a_learners_kernel_is():
    from attn.exercises.spec import find

    rewrite = interpreter.FunctionRewriter.rewrite_ast
    kernel = find("fwd-copy_tile_kernel").mistakes[0].answer
    with language_kept_patched():
        assert kernel.rewriter.rewrite_ast() is kernel.fn
        assert double.rewriter.rewrite_ast() is not double.fn
    assert interpreter.FunctionRewriter.rewrite_ast is rewrite
    assert kernel.rewriter.rewrite_ast() is not kernel.fn


INSTALLED = [(m, n) for m in compat.PRIVATE for n in compat.PRIVATE[m]]


@pytest.mark.parametrize(
    ("module", "name"), INSTALLED, ids=lambda x: x.rpartition(".")[2]
)
def test_the_source_of_a_private_name_is_the_one_reviewed(module, name):
    assert compat.digest(module, name) == compat.PRIVATE[module][name], (
        f"{module}.{name} has changed since {compat.READ_IN}: read it, and "
        "what attn.profiling.compat does with it"
    )


def test_a_changed_source_and_a_missing_private_name_are_detected(monkeypatch):
    place = "triton.runtime.interpreter", "_patch_lang"
    monkeypatch.setattr(interpreter, "_patch_lang", lambda fn: None)
    assert compat.digest(*place) != compat.PRIVATE[place[0]][place[1]]
    monkeypatch.delattr(interpreter, "_patch_lang")
    with pytest.raises(AttributeError):
        compat.digest(*place)


@pytest.mark.parametrize("package", compat.READ_IN)
def test_the_reviewed_version_is_the_pinned_version(package):
    pins = (Path(__file__).parents[2] / "constraints.txt").read_text("utf-8")
    assert re.search(
        rf"^{package}=={re.escape(compat.READ_IN[package])}\b", pins, re.M
    )


def test_private_names_are_used_only_in_compat_and_tracing():
    # What PyTorch documents, or keeps for others, has an underscore, too.
    open_to_all = "dynamo|pytree|ops|local_scalar|python_dispatch import Torch"
    private = re.compile(
        rf"\b(?:torch|triton)(?:\.\w+)*\._(?!{open_to_all})[a-z]\w*"
        r"|from (?:torch|triton)[\w.]* import .*\b_[a-z]|interpreter_builder"
    )
    root = Path(compat.__file__).parents[1]
    wrong = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in root.rglob("*.py")
        if path.name not in ("compat.py", "tracing.py")
        for line in path.read_text("utf-8").splitlines()
        for match in private.finditer(line.partition("#")[0])
    ]
    assert not wrong


def test_empty_memory_is_nan_only_in_its_context():
    before = torch.are_deterministic_algorithms_enabled()
    with compat.empty_memory_is_nan():
        assert torch.empty(64).isnan().all()
    assert torch.are_deterministic_algorithms_enabled() == before
