"""Register attention with transformers, under names.

``register`` puts a pair under one name: an attention function, and the
function that makes its masks. Without the second, transformers makes no mask
at all, and queries silently attend to padding and future tokens. A name never
changes its meaning, so that a model keeps its attention whatever is
registered after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload
from uuid import uuid4

from torch import Tensor

from attn import api, arguments
from attn.backends import Registry
from attn.backends.mask_formats import FORMATS
from attn.backends.registry import check_registry
from attn.hf.adapter import adapt
from attn.hf.attention_interface import attn_forward
from attn.hf.mask_interface import make_mask, mask_maker

#: ``(module, query, key, value, attention_mask, **kwargs)`` of transformers.
Attention = Callable[..., tuple[Tensor, Any]]  # of torch, autodoc has mocks
AnyAttention = TypeVar("AnyAttention", bound=Attention)

#: What each name of ours computes: an implementation and its registry, or a
#: function and its format of masks.
registered: dict[str, tuple[object, object]] = {}


@overload
def register(
    name: str = ..., impl: str = ..., *, registry: Registry = ...
) -> str: ...
@overload
def register(
    name: str, impl: Attention, *, mask: str | Callable[..., Any]
) -> str: ...
@overload
def register(
    name: str, *, mask: str | Callable[..., Any]
) -> Callable[[AnyAttention], AnyAttention]: ...
def register(
    name: str = "attn",
    impl: str | Attention = "auto",
    *,
    mask: str | Callable[..., Any] | None = None,
    registry: Registry = api.registry,
) -> Any:
    """Register attention and its masks with transformers, under one name.

    ``model.set_attn_implementation(attn.hf.register())`` selects attn's, with
    caches, sliding and chunked layers, sinks, softcaps and biases. For a
    function of your own it is a call, ``register("mine", function,
    mask="bool")``, or a decorator, ``@register("mine", mask="bool")``.

    Args:
        name: for ``attn_implementation``.
        impl: one of ``attn.api.implementations()`` or ``"auto"``; or a
            function ``(module, query, key, value, attention_mask,
            **kwargs)`` of queries ``(B, H, L, D)``, keys ``(B, Hkv, S, D)``
            and values ``(B, Hkv, S, Dv)``, which returns ``(B, L, H, Dv)``
            and the weights ``(B, H, L, S)`` or None. Keywords that it
            declares reach it, and others are errors unless they change
            nothing; with ``**kwargs`` all reach it.
        mask: the format of the function's masks, which are never None where
            the model masks. ``"bool"``: True = may attend, ``(B, 1, L,
            S)``. ``"additive"``: 0 or the dtype's least number, as in
            transformers' eager attention. ``"block"``: a ``BlockMask`` of
            FlexAttention. ``"spec"``: a ``MaskSpec``. A function: makes
            masks from the keywords of transformers' ``sdpa_mask``.
        registry: of the implementations.

    Returns:
        The name; the decorator if there is only a ``mask``.

    Raises:
        ValueError: there is no such implementation, or the name is in use or
            has a meaning for transformers.
        TypeError: a function without ``mask``, or the reverse; an argument
            of a wrong kind.

    Example:
        >>> from transformers import AutoModel, LlamaConfig
        >>> name = attn.hf.register("tiled", impl="tiled")
        >>> config = LlamaConfig(
        ...     vocab_size=50, hidden_size=32, num_hidden_layers=2,
        ...     num_attention_heads=4,
        ... )
        >>> model = AutoModel.from_config(config, attn_implementation=name)
        >>> model(torch.tensor([[2, 7, 11]])).last_hidden_state.shape
        torch.Size([1, 3, 32])
        >>> attn.hf.unregister(name)

    Source: transformers ``AttentionInterface``, ``AttentionMaskInterface``.
    """
    arguments.text("name", name)
    check_registry(registry)
    if mask is not None and not callable(mask) and mask not in FORMATS:
        raise ValueError(
            f"mask must be one of {FORMATS} or a function; got {mask!r}"
        )
    if not isinstance(impl, str):
        return _register_function(name, impl, mask)
    if mask is not None:
        if impl != "auto":
            raise TypeError(
                f"mask must be None for impl={impl!r}, whose masks are "
                f"registered with it; got {mask!r}"
            )
        return partial(_decorate, name=name, mask=mask)
    if impl != "auto":
        _ = registry[impl]  # raises
    # FlexAttention makes its blocks from predicates, padding included.
    make = partial(make_mask, always_spec=impl == "flex")
    function = partial(attn_forward, impl=impl, registry=registry)
    _add(name, (impl, registry), function, make)
    return name


def register_with_tensors(name: str, impl: str, registry: Registry) -> None:
    """Register an implementation whose masks are those of eager attention.

    For models that compute with their masks: additive, ``(B, 1, L, S)``.
    """
    function = partial(attn_forward, impl=impl, registry=registry)
    _add(name, (impl, registry), function, mask_maker("additive"))


def unregister(name: str) -> None:
    """Remove a name of ``register``; models that still use it raise.

    Example:
        >>> name = attn.hf.register("mine", impl="reference")
        >>> attn.hf.unregister(name)
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if registered.pop(name, None):
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def _decorate(function: Attention, name: str, mask: Any) -> Attention:
    _register_function(name, function, mask)
    return function


def _register_function(name: str, function: Attention, mask: Any) -> str:
    if mask is None:
        raise TypeError(
            f"mask must be one of {FORMATS} or a function, because without "
            "one transformers makes no mask at all; got None"
        )
    adapted = adapt(name, function, mask)
    _add(name, (function, mask), adapted, mask_maker(mask))
    return name


def _add(
    name: str,
    meaning: tuple[object, object],
    function: Attention,
    make: Callable[..., Any],
) -> None:
    """Add a pair to both tables of transformers, or raise and add neither."""
    from transformers import AttentionInterface, AttentionMaskInterface

    known = registered.get(name)
    if known and all(map(_is_same, known, meaning)):
        return
    tables = (AttentionInterface, AttentionMaskInterface)
    if known:
        raise ValueError(
            f"name must be new, because models may use it already; got "
            f"{name!r}. Choose another, or attn.hf.unregister({name!r}) first"
        )
    if name == "eager" or any(name in x._global_mapping for x in tables):
        raise ValueError(
            "name must not belong to transformers or another library; got "
            f"{name!r}. Choose another"
        )
    # Models of transformers treat names with "flash" as FlashAttention; "/"
    # and "|" are for downloads and pages.
    if "flash" in name or not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(
            'name must consist of letters, digits, ".", "-" and "_", without '
            f'"flash", which transformers gives a meaning; got {name!r}'
        )
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, make)
    registered[name] = meaning


def _is_same(a: object, b: object) -> bool:
    return a is b or (isinstance(a, str) and a == b)


#: The end of the names of ``register_with_tensors``.
WITH_TENSORS = ".tensors"


def name_for(impl: str, registry: Registry) -> str:
    """Return the name of an implementation in transformers.

    In capitals, because transformers gives "sdpa" and "flash" a meaning. An
    implementation of another registry has a name that no process has twice.
    """
    base = "attn" if impl == "auto" else "attn-" + re.sub(r"\W", "-", impl)
    base = base[:5] + base[5:].upper()
    if registry is api.registry:
        return base
    for name, meaning in registered.items():
        is_known = all(map(_is_same, meaning, (impl, registry)))
        is_ours = name.startswith(f"{base}-") and WITH_TENSORS not in name
        if is_known and is_ours:
            return name
    return f"{base}-{uuid4().hex[:8]}"
