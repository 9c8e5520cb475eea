"""Check an argument: its name, its kind, then its value.

Each function raises TypeError for a wrong kind and ValueError for a wrong
value; the message says what the argument must be, and what it is. A number of
NumPy is a number.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any, TypeVar

import torch
from torch import Tensor

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

#: What other libraries call an argument, and its name here; of several, the
#: first that a function has.
_FOREIGN = """
    hidden_act=activation impl=attention key_padding_mask=attention_mask
    padding_mask=attention_mask src_key_padding_mask=attention_mask
    attn_bias=attn_mask bias=attn_mask block_mask=attn_mask mask=attn_mask
    src_mask=attn_mask attention_mask=attn_mask past_key_value=cache
    past_key_values=cache past_key_values=caches cache=caches
    cu_seqlens=cu_seqlens_k cu_seqlens=cu_seqlens_q attention_dropout=dropout
    attn_pdrop=dropout dropout_p=dropout dropout=dropout_p d_model=embed_dim
    hidden_size=embed_dim n_embd=embed_dim eos_token_id=eos stop_token_ids=eos
    activation=feed_forward hidden_act=feed_forward dim_feedforward=hidden_dim
    intermediate_size=hidden_dim input_ids=ids attn_implementation=impl
    backend=impl causal=is_causal padding_mask=key_padding_mask
    src_key_padding_mask=key_padding_mask max_length=max_new_tokens
    max_tokens=max_new_tokens max_batch_size=max_num_seqs
    max_position_embeddings=max_positions n_positions=max_positions
    norm_layer=norm norm_first=norm_order parallel=norm_order n_head=num_heads
    nhead=num_heads num_attention_heads=num_heads heads=num_heads
    num_key_value_heads=num_kv_heads n_kv_heads=num_kv_heads n_layer=num_layers
    num_hidden_layers=num_layers num_gpu_blocks=num_pages block_size=page_size
    alibi=positions position_ids=positions rope=positions
    return_attn_probs=return_lse return_softmax_lse=return_lse scaling=scale
    sm_scale=scale softmax_scale=scale learnable_sink=sinks s_aux=sinks
    attn_logit_softcapping=softcap logits_soft_cap=softcap
    do_sample=temperature tie_word_embeddings=tied sliding_window=window
    window_size=window
"""
#: What else differs, after the name that is meant; a name alone needs none.
_ADVICE = {
    "attention_mask": "=attn.padding(attention_mask.bool())",
    "batch_first": ": inputs have the batch first",
    "do_sample": ", 0 for the most likely token",
    "key_padding_mask": ", with 1 for a real token",
    "max_length": ", which does not count the prompt",
    "sliding_window": "=(left, right), which does not count the token",
    "window_size": ", with None for no bound",
}


def named(
    *more: str, of: Callable[..., Any] | None = None
) -> Callable[[AnyFunction], AnyFunction]:
    """Let a function answer for the keywords that it does not have.

    Python's own error suggests nothing, and comes from an inner function
    where keywords are passed on: ``more`` names these, or ``of`` has them;
    otherwise that function answers. What is annotated as bool must be one.
    """

    def decorate(function: AnyFunction) -> AnyFunction:
        known = {**dict.fromkeys(more)}
        for each in (function, of) if of else (function,):
            known |= dict.fromkeys(declared(each))
        parameters = inspect.signature(function).parameters.values()
        passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters)
        passes_on = passes_on and not (more or of)
        flags = {
            p.name: (i, "None" in p.annotation)
            for i, p in enumerate(parameters)
            if p.annotation in ("bool", "bool | None")
        }
        first = min((place for place, _ in flags.values()), default=math.inf)

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name, x in given.items():
                if name in flags:
                    flag(name, x, flags[name][1])
                elif name not in known and not passes_on:
                    raise unknown(function.__qualname__, name, known)
            if len(args) > first:
                for name, (place, optional) in flags.items():
                    if place < len(args):
                        flag(name, args[place], optional)
            return function(*args, **given)

        return call  # type: ignore[return-value]

    return decorate


def declared(function: Callable[..., Any]) -> list[str]:
    """Return the names of its parameters, but for those of any number."""
    parameters = inspect.signature(function).parameters.values()
    return [
        p.name
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def unknown(
    function: str, name: str, known: Collection[str], way_out: str = ""
) -> TypeError:
    """Return the error for a keyword, which suggests a known one."""
    meant = suggestion(name, known)
    return TypeError(
        f"{function.removesuffix('.__init__')}() got an unexpected keyword "
        f"argument {name!r}{meant or way_out}"
    )


def suggestion(name: str, known: Collection[str]) -> str:
    """Return the known name that was probably meant, or nothing."""
    advice = _ADVICE.get(name, "")
    near = [x for x in known if f"{name}={x}" in _FOREIGN.split()]
    near = near or difflib.get_close_matches(name, known, 1)
    if near:
        return f": use {near[0]}{advice}"
    return advice if advice.startswith(":") else ""


def tensor(name: str, x: Any, *, floating: bool = False) -> None:
    """Require a tensor; with ``floating``, of a real floating dtype."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(x).__name__}"
        )
    if floating and not x.is_floating_point():
        raise TypeError(f"{name} must be a float tensor; got {x.dtype}")


def real(name: str, x: Any) -> None:
    """Require a tensor that is not complex."""
    tensor(name, x)
    if x.is_complex():
        raise TypeError(f"{name} must be real; got {x.dtype}")


def text(name: str, x: Any) -> None:
    """Require a string."""
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a string; got {x!r}")


def choice(name: str, x: Any, known: Collection[Any]) -> None:
    """Require one of some values."""
    if x not in (values := tuple(known)):
        raise ValueError(f"{name} must be one of {values}; got {x!r}")


def function(name: str, x: Any, form: str = "") -> None:
    """Require what can be called; ``form`` says how, after a space."""
    if not callable(x):
        raise TypeError(f"{name} must be a function{form}; got {_shown(x)}")


def instance(name: str, x: Any, kind: Any, need: str) -> None:
    """Require an object of a kind, which ``need`` describes."""
    if not isinstance(x, kind):
        raise TypeError(f"{name} must be {need}; got {type(x).__name__}")


def absent(why: str, /, **given: Any) -> None:
    """Require None of each; ``why`` says in which call."""
    for name, x in given.items():
        if x is not None:
            raise ValueError(f"{name} must be None {why}; got {_shown(x)}")


def flag(name: str, x: Any, optional: bool = False) -> None:
    """Require True or False; or None, if that is an option."""
    if not (isinstance(x, bool) or (optional and x is None)):
        need = "True, False or None" if optional else "True or False"
        raise TypeError(f"{name} must be {need}; got {x!r}")


def integer(name: str, x: Any) -> None:
    """Require an int, which may be a symbolic size while tracing."""
    if not _is_int(x):
        raise TypeError(f"{name} must be an int; got {x!r}")


def count(name: str, x: Any, least: int = 1) -> None:
    """Require an int, at least ``least``; a symbolic size is one."""
    is_int = _is_int(x)
    if is_int and not (isinstance(x, Integral) and int(x) < least):
        return
    error = ValueError if is_int else TypeError
    raise error(f"{name} must be an int, at least {least}; got {x!r}")


def counts(least: int = 1, /, **sizes: Any) -> None:
    """Require an int of each, at least ``least``."""
    for name, x in sizes.items():
        count(name, x, least)


def number(name: str, x: Any, least: float = -math.inf) -> None:
    """Require a finite number."""
    is_number = isinstance(x, Real) and not isinstance(x, bool)
    if is_number and -math.inf < x < math.inf and x >= least:
        return
    more = "" if least == -math.inf else f", at least {least:g}"
    error = ValueError if is_number else TypeError
    raise error(f"{name} must be a finite number{more}; got {x!r}")


def positive(name: str, x: Any) -> None:
    """Require a finite number above 0."""
    number(name, x)
    if x <= 0:
        raise ValueError(f"{name} must be positive; got {x!r}")


def same_device(name: str, x: Tensor, other: str, like: Tensor) -> None:
    """Require two tensors on one device."""
    if x.device != like.device:
        raise ValueError(
            f"{name} must be on the device of {other}, {like.device}; got "
            f"{x.device}"
        )


def _shown(x: Any) -> str:
    return "a tensor" if isinstance(x, Tensor) else repr(x)


def _is_int(x: Any) -> bool:
    if isinstance(x, Integral):
        return not isinstance(x, bool)
    # Sizes are symbols in a graph, and tensors where torch.jit traces it.
    return isinstance(x, torch.SymInt) or torch.jit.is_tracing()  # type: ignore[attr-defined]
