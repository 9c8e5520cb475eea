"""Check a layer's call: its mask, and the keywords that would be dropped."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from attn import api
from attn.backends import Registry
from attn.backends.mask_formats import MaskSpec

#: Keywords without effect: the mask includes them, or the model uses them.
IGNORED = {
    "cache_position",
    "deterministic",
    "input_ids",
    "is_causal",
    "labels",
    "layer_idx",
    "logits_to_keep",
    "num_items_in_batch",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "position_ids",
    "return_dict",
    "sliding_window",
    "use_cache",
}
#: Arguments of models that transformers once renamed (``deprecate_kwarg``).
RENAMED = {
    "past_key_value": "past_key_values",
    "num_logits_to_keep": "logits_to_keep",
}
_CONTRACT = frozenset(inspect.signature(api.attention).parameters)


def check_causality(
    module: nn.Module, query: Tensor, mask: Any, is_causal: bool | None
) -> None:
    """Raise for a mask that is missing or contradicts ``is_causal``."""
    terms = mask.mask.terms if isinstance(mask, MaskSpec) else ()
    if is_causal is False and any(term.kind == "causal" for term in terms):
        raise ValueError(
            "is_causal must be True for a mask that was made causal; got "
            "False. Set model.config.is_causal = False instead, which changes "
            "the masks too"
        )
    if is_causal is None:
        is_causal = getattr(module, "is_causal", False)
    if mask is None and is_causal and query.shape[-2] > 1:
        raise ValueError(
            f"attention_mask must be given to {type(module).__name__}, which "
            "is causal; got None. If only the attention function was "
            "registered, attn.hf.register(name) registers both"
        )


def extra_keywords(
    module: nn.Module, impl: str, registry: Registry, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the keywords for the implementation, which declares them."""
    impl = registry.default if impl == "auto" else impl
    if impl == "auto" and IGNORED.issuperset(kwargs):
        return {}
    named = () if impl == "auto" else (registry[impl],)
    declared = set(named[0].keywords if named else ()) - _CONTRACT
    extra = {
        k: x
        for k, x in kwargs.items()
        if x is not None and (k not in IGNORED or k in declared)
    }
    able = named or tuple(registry.values())
    refuse(
        "attn",
        module,
        [
            k
            for k in extra
            if k in _CONTRACT
            or not any(x.declares(k, bool(named)) for x in able)
        ],
    )
    return extra


def refuse(name: str, module: nn.Module, keywords: Iterable[str]) -> None:
    """Raise for keywords that would have no effect; none is no error."""
    keywords = sorted(keywords)
    if not keywords:
        return
    eager = eager_of(module)
    advice = (
        "Eager attention of transformers ignores it too: remove it, or "
        "register a function that declares it"
    )
    if eager and set(keywords) & inspect.signature(eager).parameters.keys():
        advice = (
            'Use attn_implementation="eager", which declares it, or register '
            "a function that does"
        )
    for old in RENAMED.keys() & set(keywords):
        advice = (
            f"{old} is now {RENAMED[old]}: transformers ignores the old name, "
            "with eager attention silently"
        )
    raise TypeError(
        f"{name} got an unexpected keyword argument from "
        f"{type(module).__name__}: {', '.join(keywords)}. {advice}"
    )


def eager_of(module: nn.Module) -> Any:
    """Return the eager attention of a layer's own file, or None."""
    file = sys.modules.get(type(module).__module__)
    return getattr(file, "eager_attention_forward", None)
