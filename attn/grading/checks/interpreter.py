"""Spare Triton's interpreter work that a check would repeat."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any


@contextmanager
def language_kept_patched() -> Iterator[None]:
    """Keep ``triton.language`` as the interpreter needs it.

    The interpreter replaces the builtins of ``triton.language`` at each
    launch, and again at each call of a device function, after a search
    through all its members: half the time of a small kernel. While this
    context is open the first launch replaces them, and the end of the
    context restores them. The known mistakes are run as they are: rewriting
    one, so that numbers assigned become tensors, takes as long as running it.
    Whether integers overflow is not computed: the interpreter does so at each
    sum and product, and drops the answer unless ``debug`` is set.

    It does nothing where kernels are compiled, and where the interpreter is
    built differently from that of Triton 3.6 to 3.9.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    patch = getattr(interpreter, "_patch_lang", None)
    language = getattr(interpreter, "tl", None)
    if interpreter is None or patch is None or language is None:
        yield
        return
    kept = SimpleNamespace(restore=lambda: None)
    patched: set[tuple[bool, ...]] = set()

    def patch_once(fn: Any, *rest: Any) -> Any:
        modules = list(fn.__globals__.values())
        # Which of the two the kernel's module names decides what is replaced.
        seen = tuple(
            any(module is x for module in modules)
            for x in (language, language.core)
        )
        if seen in patched:
            return kept
        scope = patch(fn, *rest)
        if not callable(getattr(scope, "restore", None)):
            return scope
        patched.add(seen)
        stack.callback(scope.restore)
        return kept

    with ExitStack() as stack:
        _replace(stack, interpreter, "_patch_lang", patch_once)
        rewriter = getattr(interpreter, "FunctionRewriter", None)
        if rewrite := getattr(rewriter, "rewrite_ast", None):

            def rewrite_learners(self: Any) -> Any:
                known = self.fn.__module__ == "attn.exercises.mistakes"
                return self.fn if known else rewrite(self)

            _replace(stack, rewriter, "rewrite_ast", rewrite_learners)
        builder = getattr(interpreter, "interpreter_builder", None)
        options: Any = getattr(builder, "options", None)
        if hasattr(options, "sanitize_overflow") and not options.debug:
            quick = replace(options, sanitize_overflow=False)
            _replace(stack, builder, "options", quick)
        yield


def _replace(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the stack is closed."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
