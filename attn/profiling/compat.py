"""Private parts of PyTorch and Triton that ``attn`` replaces or calls.

They may change with any version, so all of them are here, but for a few in
``attn.tracing``, and ``PRIVATE`` names each, with the digest of the source
that was read. A test fails when the installed source is another: read it,
then change what is here.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.utils import _python_dispatch

#: Kernels of modules with this name run as they are written.
UNREWRITTEN = "attn.exercises.mistakes"
_INTERPRETER = "triton.runtime.interpreter"


#: The versions whose source was read.
READ_IN = {"torch": "2.13.0", "triton": "3.9.0"}
#: By module, each private name and the digest of the source that was read.
PRIVATE = {
    "triton.runtime.interpreter": {
        "_patch_lang": "e5beeba74ada",
        "FunctionRewriter.rewrite_ast": "77140c0e7494",
        "InterpretedFunction.__init__": "6c7b579d0263",
        "InterpreterBuilder.create_masked_load": "b80d0b6693a5",
        "InterpreterBuilder.create_masked_store": "1d5e501bd65a",
        "InterpreterBuilder.create_atomic_rmw": "439de2147dca",
        "InterpreterBuilder.create_atomic_cas": "b7c0e3f0b15d",
        "InterpreterBuilder.create_dot": "7d5da68ca4b3",
        "InterpreterOptions": "942c1a930717",
    },
    "triton.runtime.jit": {
        "JITFunction.__call__": "f58ccbb4bf44",
        "JITFunction.run": "3293f3bc9eab",
    },
    # attn.tracing has these, for rooms that import none.
    "torch.autograd.forward_ad": {"_current_level": "int"},
    "torch._functorch.pyfunctorch": {
        "temporarily_pop_interpreter_stack": "feb1cdf109e2",
    },
    "torch._C._functorch": dict.fromkeys(
        (
            "get_interpreter_stack",
            "get_unwrapped",
            "is_batchedtensor",
            "is_functorch_wrapped_tensor",
            "maybe_get_level",
            "peek_interpreter_stack",
        ),
        "builtin_function_or_method",
    ),
    "torch.utils._python_dispatch": {
        "_disable_current_modes": "bdb1a45e8729",
    },
    "torch._inductor.cpp_builder": {"get_cpp_compiler": "470c2ee05568"},
    "torch._functorch.config": {"donated_buffer": "bool"},
    "torch._C": {
        "_get_dispatch_mode": "builtin_function_or_method",
        "_get_deterministic_algorithms": "builtin_function_or_method",
        "_get_deterministic_algorithms_warn_only": (
            "builtin_function_or_method"
        ),
        "_set_deterministic_algorithms": "builtin_function_or_method",
    },
    "torch": {"_fused_sdp_choice": "builtin_function_or_method"},
}


def digest(module: str, name: str) -> str:
    """Return the digest of a private name's installed source.

    Of what has no Python source, return the name of its type.

    Raises:
        ImportError, AttributeError: it is no longer there.
    """
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    try:
        text = inspect.getsource(found)
    except TypeError:
        return type(found).__name__
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Access(NamedTuple):
    """An operation on memory of Triton's interpreter.

    Args:
        pointers, mask: positions among its arguments; a mask may be absent.
        reads, writes: what it does.
    """

    pointers: int
    mask: int | None
    reads: bool
    writes: bool


#: Methods of the interpreter's builder, in which each access ends.
ACCESSES = {
    "create_masked_load": Access(0, 1, reads=True, writes=False),
    "create_masked_store": Access(0, 2, reads=False, writes=True),
    "create_atomic_rmw": Access(1, 3, reads=True, writes=True),
    "create_atomic_cas": Access(0, None, reads=True, writes=True),
}


def interpreter() -> Any:
    """Return Triton's interpreter; None where nothing has imported it."""
    return sys.modules.get(_INTERPRETER)


def builder() -> Any:
    """Return the object whose methods are an interpreted kernel's operations.

    None where nothing has imported the interpreter.
    """
    return getattr(interpreter(), "interpreter_builder", None)


def replaced_accesses(**methods: Callable[..., Any]) -> Any:
    """Replace some of ``ACCESSES``; they are called without the builder."""
    return patch.multiple(builder(), **methods)  # type: ignore[call-overload]


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Interpret each kernel that is launched meanwhile, on a GPU too.

    Where Triton compiles, ``triton.jit`` has made a ``JITFunction``, of the
    kernel and of what it calls. Its function can be interpreted as well.
    """
    try:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction
    except ImportError:  # and there are no kernels
        yield
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return InterpretedFunction(self.fn).run(*args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return InterpretedFunction(self.fn)(*args, **kwargs)

    replaced = patch.multiple(JITFunction, run=run, __call__=call)
    with language_kept_patched(), replaced:  # else part of it stays patched
        yield


@contextlib.contextmanager
def language_kept_patched() -> Iterator[None]:
    """Keep ``triton.language`` as the interpreter needs it.

    The interpreter replaces the builtins of ``triton.language`` at each
    launch, and again at each call of a device function, after a search
    through all its members: half the time of a small kernel. While this
    context is open the first launch replaces them, and the end of the
    context restores them. Kernels of ``UNREWRITTEN`` are run as they are:
    rewriting one, so that numbers assigned become tensors, takes as long as
    running it. Whether integers overflow is not computed: the interpreter
    does so at each sum and product, and drops the answer unless ``debug`` is
    set.

    It does nothing where no kernel was interpreted yet, and where the
    interpreter is built differently from that of Triton 3.6 to 3.9.
    """
    module = interpreter()
    patch_language = getattr(module, "_patch_lang", None)
    language = getattr(module, "tl", None)
    if module is None or patch_language is None or language is None:
        yield
        return
    kept = SimpleNamespace(restore=lambda: None)
    patched: set[tuple[bool, ...]] = set()

    def patch_once(fn: Any, *rest: Any) -> Any:
        modules = list(fn.__globals__.values())
        # Which of the two the kernel's module names decides what is replaced.
        used = tuple(
            any(module is x for module in modules)
            for x in (language, language.core)
        )
        if used in patched:
            return kept
        scope = patch_language(fn, *rest)
        if not callable(getattr(scope, "restore", None)):
            return scope
        patched.add(used)
        stack.callback(scope.restore)
        return kept

    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        enter(patch.object(module, "_patch_lang", patch_once))
        rewriter = getattr(module, "FunctionRewriter", None)
        if rewrite := getattr(rewriter, "rewrite_ast", None):

            def rewrite_learners(self: Any) -> Any:
                as_it_is = self.fn.__module__ == UNREWRITTEN
                return self.fn if as_it_is else rewrite(self)

            enter(patch.object(rewriter, "rewrite_ast", rewrite_learners))
        options: Any = getattr(builder(), "options", None)
        if hasattr(options, "sanitize_overflow") and not options.debug:
            quick = replace(options, sanitize_overflow=False)
            enter(patch.object(builder(), "options", quick))
        yield


def keep_modes_while_printing() -> None:
    """Let modes see also what printing a tensor calls, from here on."""
    vars(_python_dispatch)["_disable_current_modes"] = contextlib.nullcontext


@contextlib.contextmanager
def empty_memory_is_nan() -> Iterator[None]:
    """Let ``torch.empty`` give NaN: what is never written is then noticed.

    ``torch.use_deterministic_algorithms`` does it as well, and imports
    PyTorch's compiler, which takes seconds.
    """
    get = torch._C._get_deterministic_algorithms
    put = torch._C._set_deterministic_algorithms
    before = get(), torch._C._get_deterministic_algorithms_warn_only()
    put(True, warn_only=True)
    try:
        yield
    finally:
        put(before[0], warn_only=before[1])


def fused_sdp_choice(*args: Any, **options: Any) -> int:
    """Return the number of PyTorch's choice; RuntimeError without any."""
    return torch._fused_sdp_choice(*args, **options)


def require_cpp_compiler() -> None:
    """Raise an error of PyTorch's where it finds no C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    get_cpp_compiler()


def allow_second_backward() -> None:
    """Let a compiled backward pass run more than once, from here on."""
    import torch._functorch.config

    torch._functorch.config.donated_buffer = False


def float_constants() -> contextlib.AbstractContextManager[Any]:
    """Let PyTorch's compiler take each float of a closure for a constant.

    By default it makes a variable of one that changes, which FlexAttention of
    PyTorch 2.13 cannot read: ``LoweringException: … unbacked_bindings``.
    """
    import torch._dynamo.config

    return torch._dynamo.config.patch(specialize_float=True)
