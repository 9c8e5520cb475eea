"""What was faster here: measured when asked to, remembered by kind of call."""

from __future__ import annotations

import functools
import statistics
import warnings
from collections.abc import Iterable
from typing import Any

import torch

from attn.backends.forms import run
from attn.backends.registry import Implementation, Registry
from attn.functional.inputs import Call
from attn.profiling import in_turns

__all__ = ["measure"]

HOPELESS = 4.0  # times the best: once is enough to know
CLOSE = 1.1  # times the best: no reason to change


def measure(
    registry: Registry,
    call: Call,
    arguments: dict[str, Any],
    return_lse: bool = False,
    rounds: int = 7,
) -> None:
    """Let everybody who can take a call compute it, and note how long.

    Who has to compile does it now. Where a gradient will be asked for, its
    time counts too. Who fails is not taken, with a warning. Who would be
    taken anyway stays so when nobody is clearly faster.

    Args:
        registry: whose implementations; it remembers.
        call: what is to be computed.
        arguments: the contract's, as they were given.
        return_lse: ask for the lse too.
        rounds: of which the median is noted.
    """
    seconds: dict[str, float] = {}
    runs = {}
    able = [
        name
        for name, one in registry.whole()
        if one.measured(call) and not registry.reasons(name, call, return_lse)
    ]
    such = call.tuning_key(return_lse)
    registry.seconds.pop(such, None)
    chosen = registry.choose(call, return_lse=return_lse)
    device = call.query.device
    for name in _with_progress(able):
        one = registry[name]
        once = functools.partial(_once, one, call, arguments, return_lse)
        try:
            (seconds[name],) = in_turns({name: once}, 1, device)[name]
        except RuntimeError as error:  # a compiler's errors, and no memory
            warnings.warn(f"{name} failed: {error}", stacklevel=3)
        else:
            runs[name] = once
    if not runs:
        return
    limit = HOPELESS * min(seconds.values())
    close = {n: once for n, once in runs.items() if seconds[n] <= limit}
    for name, spent in in_turns(close, rounds, device).items():
        seconds[name] = statistics.median(spent)
    ranks = sorted(seconds, key=lambda name: seconds[name])
    usual = registry.name_of(chosen)
    if seconds.get(usual, torch.inf) <= CLOSE * seconds[ranks[0]]:
        ranks.sort(key=lambda name: name != usual)
    registry.seconds[such] = {n: seconds[n] for n in ranks}


def _with_progress(names: list[str]) -> Iterable[str]:
    try:
        from tqdm import tqdm
    except ImportError:  # torch alone is needed to compute
        return names
    return tqdm(names, desc="measuring", leave=False)


def _once(
    one: Implementation,
    call: Call,
    arguments: dict[str, Any],
    return_lse: bool,
) -> None:
    assert one.mask is not None
    with torch.random.fork_rng(enabled=call.dropout_p > 0):
        out = run(one.function, one.mask, call, arguments, return_lse, {})
    if call.wants_gradient:
        out = out[0] if return_lse else out
        tensors = (call.query, call.key, call.value)
        wanted = [x for x in tensors if x.requires_grad]
        torch.autograd.grad(out, wanted, torch.ones_like(out))
