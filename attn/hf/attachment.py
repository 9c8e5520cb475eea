"""Replace the attention of one model of transformers, or leave it alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from attn import api
from attn.backends import Registry
from attn.hf.loading import FAMILIES
from attn.hf.probing import Probe, Unsuitable
from attn.hf.reading import Reading, read
from attn.hf.registration import (
    WITH_TENSORS,
    name_for,
    register,
    register_with_tensors,
    registered,
    unregister,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def attach(
    model: PreTrainedModel,
    impl: str = "auto",
    *,
    registry: Registry = api.registry,
) -> PreTrainedModel:
    """Replace the attention of a model of transformers, or raise why not.

    The classes of the model are read first. If one computes attention in its
    own code, the model is refused, because only some of its attention would
    be replaced; the error names a part that can be attached whole. If one
    computes with its mask, or passes on what may not suit, the model is run
    on two rows of six tokens, with eager attention and attached; where they
    differ, its masks become tensors, those of eager attention, and where they
    still differ it is refused. A model that is too large to be run so, or
    that needs more than tokens, gets tensors. A refused model is as it was.
    The book lists the families.

    ``model.set_attn_implementation("sdpa")`` restores it. The model gets its
    own copy of its configuration, so that another model made from the same
    one keeps its attention. Copies of the model compute as it does.
    ``save_pretrained`` does not store the implementation, and a pickle only
    its name: attach again in another process.

    A call's ``attention_mask`` of four axes is taken as it is, as by
    transformers: one of zeros makes a decoder bidirectional. With
    ``output_attentions=True`` each layer computes its weights a second time,
    ``(B, H, L, S)``. ``cu_seq_lens_q`` and the other keywords of
    FlashAttention keep packed sequences apart; ``position_ids`` alone do so
    where transformers reads them, without ``attention_mask`` and with
    ``use_cache=False``, and elsewhere a warning says that they do not.

    Such a model is fine-tuned as with sdpa: compiled, with checkpoints of
    either kind, with frozen weights, on several processes. Under autocast
    query, key and value are cast as by PyTorch's function. For second
    derivatives (``create_graph=True``), which PyTorch's fused kernels do not
    have, attach with ``impl="grouped"``.

    Args:
        model: loaded, or made from a config.
        impl: one of ``attn.api.implementations()``, or ``"auto"``.
        registry: of the implementations; the model keeps it.

    Returns:
        The model itself.

    Raises:
        TypeError: the model is not one of transformers, or ``impl`` no name.
        ValueError: a class of the model computes attention inline, or the
            model computes something else than with eager attention; the class
            is named, and a part that can be attached. Or there is no such
            implementation.

    Example:
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(
        ...     vocab_size=50, hidden_size=32, num_hidden_layers=2,
        ...     num_attention_heads=4, num_key_value_heads=2,
        ... )
        >>> model = LlamaForCausalLM(config).eval()
        >>> ids = torch.tensor([[2, 7, 11]])
        >>> before = model(ids).logits
        >>> model = attn.hf.attach(model)
        >>> torch.allclose(model(ids).logits, before, atol=1e-5)
        True

    Source: transformers ``PreTrainedModel.set_attn_implementation``.
    """
    # Compiled models and adapters pass it on to the one that they wrap.
    if not hasattr(model, "set_attn_implementation"):
        raise TypeError(
            f"model must be one of transformers; got {type(model).__name__}"
        )
    if not isinstance(impl, str):
        raise TypeError(
            f"impl must be a name; got {impl!r}. Register a function by "
            "attn.hf.register(name, function, mask=…), then "
            "model.set_attn_implementation(name)"
        )
    reading = read(model)
    _refuse_inline(model, reading)
    name = name_for(impl, registry)
    masked = name + WITH_TENSORS
    added = {name, masked} - registered.keys()
    register(name, impl, registry=registry)
    register_with_tensors(masked, impl, registry)
    originals = _copy_configs(model)
    try:
        if reading.doubts:
            name = _suitable(model, reading, name, masked)
        model.set_attn_implementation(name)
    except BaseException:
        for part, attribute, config in originals:
            setattr(part, attribute, config)
        for new in added:
            unregister(new)
        raise
    return model


def _refuse_inline(model: PreTrainedModel, reading: Reading) -> None:
    """Raise if a class computes attention itself; name a part without it."""
    import transformers

    parts = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, transformers.PreTrainedModel)
    }
    fixed = [
        type(part).__name__
        for part in parts.values()
        if not type(part)._can_set_attn_implementation()
    ]
    if reading.inline:
        name, reason = reading.inline[0], "computes attention inline"
    elif fixed:
        name, reason = fixed[0], "selects no attention function"
    else:
        return
    able = (
        path
        for path, part in parts.items()
        if path
        and part._can_set_attn_implementation()
        and not read(part).inline
    )
    advice = ""
    if part := next(able, None):
        advice = f". attn.hf.attach(model.{part}) replaces that of a part"
    elif model.config.model_type in FAMILIES:
        advice = ". attn.hf.load(model) rebuilds it with attn.nn"
    raise ValueError(
        f"{name} of transformers {transformers.__version__} {reason}, so it "
        f"cannot be replaced{advice}"
    )


def _suitable(
    model: PreTrainedModel, reading: Reading, name: str, masked: str
) -> str:
    """Return the name that suits a model, found by running it.

    Where it cannot be run, and for code that no run reaches, masks are
    tensors: what eager attention gets suits every model.
    """
    try:
        probe = Probe(model)
    except Unsuitable:
        return masked
    names = [name, masked] if probe.has_run(reading.doubts) else [masked]
    for one in names:
        try:
            probe.check(one)
        except Unsuitable as error:
            reason = error
        else:
            return one
    doubt = next(iter(reading.doubts.values()))[0]
    raise ValueError(
        f"{type(model).__name__} cannot be attached, because {reason}. "
        f'{doubt}. Leave it with model.set_attn_implementation("eager")'
    ) from reason


def _copy_configs(
    model: PreTrainedModel,
) -> list[tuple[nn.Module, str, PreTrainedConfig]]:
    """Give the model's parts copies of their configurations.

    Returned are the originals, and where they were.
    """
    import transformers

    memo: dict[int, Any] = {}  # what was one object stays one
    originals = []
    for part in model.modules():
        for name, x in list(vars(part).items()):
            if isinstance(x, transformers.PreTrainedConfig):
                originals.append((part, name, x))
                setattr(part, name, copy.deepcopy(x, memo))
    return originals
