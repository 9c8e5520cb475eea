"""Triton's language is patched once while kernels are checked."""

import dataclasses

import pytest
import torch

pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from attn.grading.checks.interpreter import language_kept_patched  # noqa: E402

if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)

from triton.runtime import interpreter  # noqa: E402


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
def searches(monkeypatch):
    """The searches through triton.language, one entry each."""
    seen, patch = [], interpreter._patch_lang

    def counted(fn):
        seen.append(fn.__name__)
        return patch(fn)

    monkeypatch.setattr(interpreter, "_patch_lang", counted)
    return seen


def test_many_launches_need_one_search_and_give_the_same(searches):
    assert launch() == [0.0, 2.0, 4.0, 6.0]
    alone = len(searches)
    assert alone >= 2  # the kernel, and its device function
    with language_kept_patched():
        for _ in range(3):
            assert launch() == [0.0, 2.0, 4.0, 6.0]
    assert len(searches) == alone + 1


def test_the_language_is_left_as_it_was(searches):
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


def test_overflow_is_not_computed_and_the_options_are_put_back(monkeypatch):
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
def test_another_interpreter_is_left_alone(monkeypatch, missing):
    monkeypatch.delattr(interpreter, missing)
    before = dict(vars(interpreter))
    with language_kept_patched():
        assert vars(interpreter) == before


def test_a_patch_that_cannot_be_kept_is_made_each_time(monkeypatch):
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
