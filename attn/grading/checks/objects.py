"""Make the objects that a case calls, prepare them, and see what changes."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

from attn.exercises.case import Case
from attn.exercises.outcome import SideEffect
from attn.grading.checks.inputs import (
    Inputs,
    copy_tensor,
    map_tensors,
    named_tensors,
    unchanged,
)


@dataclass
class Callee:
    """Hold what a case calls: a function, or an object of a class.

    Args:
        call: the function or the object.
        loaded: the weights that the object was given last.
    """

    call: Any
    loaded: Mapping[str, Tensor] | None = None

    def prepare(self, case: Case) -> dict[str, Tensor]:
        """Load a module, set its mode, and return copies of its parameters.

        Weights that it was given last are not loaded again: another object
        that shares them has changed them.
        """
        if case.init is None:
            return {}
        if case.state is None or case.state is not self.loaded:
            _load(self.call, case)
            self.loaded = case.state
        self.call.train(case.train)
        own = parameters(self.call)
        return {n: x.detach().clone() for n, x in own.items()}


def make(answer: Any, case: Case) -> Callee:
    """Return a function, or an object of a class made as the case says."""
    if case.init is None:
        return Callee(answer)
    return Callee(answer(**map_tensors(copy_tensor, dict(case.init))))


def parameters(module: Any) -> dict[str, Tensor]:
    """Return a module's parameters by name.

    Raises:
        TypeError: it is no module.
        AttributeError: it was made without ``super().__init__()``.
    """
    if not isinstance(module, nn.Module):
        name = type(module).__name__
        raise TypeError(f"{name} must be a subclass of nn.Module")
    return dict(module.named_parameters())


class WrongParameters(Exception):
    """A module's parameters are not those of the task.

    Args:
        text: what differs.
        extra: the names of those that are too many.
        missing: the names of those that are missing.
        shared: the names of one parameter, where the task has several.
    """

    def __init__(
        self,
        text: str,
        extra: Iterable[str] = (),
        missing: Iterable[str] = (),
        shared: Iterable[str] = (),
    ) -> None:
        super().__init__(text)
        self.extra, self.missing = {*extra}, {*missing}
        self.shared = tuple(shared)


def _load(module: Any, case: Case) -> None:
    """Load the case's weights into a learner's module.

    Extra buffers are welcome. Extra parameters are not: they would keep
    their random values. Where a task has no weights, a frozen parameter is
    memory like any other.

    Raises:
        WrongParameters: the module does not have these, or has more.
    """
    if (state := case.state) is None:
        own = [n for n, x in parameters(module).items() if x.requires_grad]
        if own:
            text = (
                f"it has learnable parameters ({', '.join(own)}), and the "
                "task has none: an optimizer would change them"
            )
            raise WrongParameters(text, own)
        return
    has = {n: tuple(x.shape) for n, x in module.state_dict().items()}
    needs = {n: tuple(x.shape) for n, x in state.items()}
    own = [n for n, _ in module.named_parameters() if n in has]
    wrong = [
        f"its {n} is {has[n]}, not {shape}"
        for n, shape in needs.items()
        if has.get(n, shape) != shape
    ]
    missing = {n: f"{n} {x}" for n, x in needs.items() if n not in has}
    extra = {n: f"{n} {has[n]}" for n in own if n not in needs}
    if missing:
        wrong.append(f"it has no parameter {', '.join(missing.values())}")
    if extra:
        wrong.append(f"the task does not have {', '.join(extra.values())}")
    if wrong:
        raise WrongParameters("; ".join(wrong), extra, missing)
    by_id: dict[int, list[str]] = {}
    for name, x in module.named_parameters(remove_duplicate=False):
        if name in needs:
            by_id.setdefault(id(x), []).append(name)
    for names in by_id.values():
        if len(names) > 1:
            text = f"{' and '.join(names)} are one and the same parameter"
            raise WrongParameters(text, shared=names)
    dtypes = {x.dtype for x in state.values()}
    tensors = [*module.parameters(), *module.buffers()]
    now = {x.dtype for x in tensors if x.is_floating_point()}
    if len(dtypes) == 1 and now != dtypes:
        module.to(dtypes.pop())
    # Copies: a method of the learner's may keep them, or write into them.
    loaded = {n: x.clone() for n, x in state.items() if n not in case.initial}
    module.load_state_dict(loaded, strict=False)


def held_memory(root: nn.Module) -> dict[int, int]:
    """Return all memory that an object refers to: elements by address.

    What its class refers to is not its own.
    """
    sizes: dict[int, int] = {}
    seen: dict[int, Any] = {}
    found: list[Any] = [root]
    while found:
        x = found.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        if isinstance(x, Tensor):
            memory = x.untyped_storage()
            sizes[memory.data_ptr()] = len(memory) // x.element_size()
        elif not isinstance(x, type | ModuleType | FunctionType):
            found += gc.get_referents(x)
    return sizes


def earlier_results(answer: Any, own: Callee, case: Case) -> list[Any]:
    """Make the earlier calls, and return their results.

    The other object, if some are of one, is made when it is first called:
    the case's own is ready by then. A call that may raise gives no result:
    one of an answer that ignores what has changed is the case's own.
    """
    results: list[Any] = []
    other = None
    for earlier in case.before:
        if earlier.another and other is None:
            own.prepare(case)
            other = make(answer, earlier)
        called = other if earlier.another and other else own
        called.prepare(earlier)
        x = Inputs(earlier)
        kept = [] if earlier.may_raise else results
        with suppress(Exception) if earlier.may_raise else nullcontext():
            kept.append(called.call(*x.args, **x.kwargs))
    return results


def effect_of(
    module: Any,
    output: Any,
    case: Case,
    weights: dict[str, Tensor],
    places: dict[int, int],
) -> SideEffect | None:
    """Find what a call changed in its own module, copied, or keeps.

    Args:
        module: what was called; a function has nothing to change.
        output: its result.
        case: the case.
        weights: copies of the module's parameters before the call.
        places: the memory that it held before the call.
    """
    if case.init is not None:
        for name, x in parameters(module).items():
            if name in weights and not unchanged(x.detach(), weights[name]):
                return SideEffect("changed parameter", (name,))
        if any(x.training != case.train for x in module.modules()):
            return SideEffect("eval mode" if case.train else "training mode")
    if case.one_tensor is not None:  # and not two of equal elements
        entries = dict(named_tensors(output))
        pair = [entries[name] for name in case.one_tensor if name in entries]
        if len({x.untyped_storage().data_ptr() for x in pair}) > 1:
            return SideEffect("copy", case.one_tensor)
    if case.max_kept is not None:
        memory = held_memory(module)
        if (kept := sum(memory.values())) > case.max_kept:
            return SideEffect("kept memory", peak=kept, limit=case.max_kept)
        if moved := [n for place, n in memory.items() if place not in places]:
            return SideEffect("moved memory", peak=max(moved))
    return None
