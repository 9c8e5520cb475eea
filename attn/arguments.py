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

#: By name here, what other libraries call an argument.
_FOREIGN = {
    "activation": "hidden_act",
    "attention": "impl",
    "attention_mask": "key_padding_mask padding_mask src_key_padding_mask",
    "attn_mask": "attn_bias bias block_mask mask src_mask attention_mask",
    "cache": "past_key_value past_key_values",
    "caches": "past_key_values cache",
    "cu_seqlens_k": "cu_seqlens",
    "cu_seqlens_q": "cu_seqlens",
    "dropout": "attention_dropout attn_pdrop dropout_p",
    "dropout_p": "dropout",
    "embed_dim": "d_model hidden_size n_embd",
    "eos": "eos_token_id stop_token_ids",
    "feed_forward": "activation hidden_act",
    "hidden_dim": "dim_feedforward intermediate_size",
    "ids": "input_ids",
    "impl": "attn_implementation backend",
    "is_causal": "causal",
    "key_padding_mask": "padding_mask src_key_padding_mask",
    "max_new_tokens": "max_length max_tokens",
    "max_num_seqs": "max_batch_size",
    "max_positions": "max_position_embeddings n_positions",
    "norm": "norm_layer",
    "norm_order": "norm_first parallel",
    "num_heads": "n_head nhead num_attention_heads heads",
    "num_kv_heads": "num_key_value_heads n_kv_heads",
    "num_layers": "n_layer num_hidden_layers",
    "num_pages": "num_gpu_blocks",
    "page_size": "block_size",
    "positions": "alibi position_ids rope",
    "return_lse": "return_attn_probs return_softmax_lse",
    "scale": "scaling sm_scale softmax_scale",
    "sinks": "learnable_sink s_aux",
    "softcap": "attn_logit_softcapping logits_soft_cap",
    "temperature": "do_sample",
    "tied": "tie_word_embeddings",
    "window": "sliding_window window_size",
}
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
    where keywords are passed on: ``more`` names these, or ``of`` has them.
    """

    def decorate(function: AnyFunction) -> AnyFunction:
        known = {**dict.fromkeys(more)}
        for each in (function, of) if of else (function,):
            known |= dict.fromkeys(declared(each))

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    raise unknown(function.__qualname__, name, known)
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
    near = [x for x in known if name in _FOREIGN.get(x, "").split()]
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


def function(name: str, x: Any) -> None:
    """Require what can be called."""
    if not callable(x):
        raise TypeError(f"{name} must be a function; got {x!r}")


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


def _is_int(x: Any) -> bool:
    if isinstance(x, Integral):
        return not isinstance(x, bool)
    # Sizes are symbols in a graph, and tensors where torch.jit traces it.
    return isinstance(x, torch.SymInt) or torch.jit.is_tracing()  # type: ignore[attr-defined]
