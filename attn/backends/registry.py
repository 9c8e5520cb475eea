"""Pairs of an attention function and the form of its masks, under names.

The names are asked in their order for who takes a call. What comes with the
book is registered in ``attn.backends.builtin``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn.backends.forms import FORMS, MaskForm, why_not_in_form
from attn.functional.inputs import Call

__all__ = ["ONE_GRAPH", "Implementation", "Registry", "registry"]

#: Why nobody is chosen by the sizes of a call while torch traces it.
ONE_GRAPH = "a graph is being traced: it must not depend on a length"

Result = Tensor | tuple[Tensor, Tensor]
Attention = Callable[..., Any]


@dataclass(frozen=True)
class Implementation:
    """One way to compute a call: a function, and the form of its masks."""

    function: Attention
    mask: str | MaskForm | None
    why_not: Callable[[Call], list[str]]
    slower: Callable[[Call], str | None]
    has_lse: Callable[[Call], bool]
    measured: Callable[[Call], bool]
    declares: frozenset[str] | None  # keywords; None: any

    def takes(self, keyword: str) -> bool:
        """Whether the function declares a keyword."""
        return self.declares is None or keyword in self.declares


class UnknownName(ValueError, KeyError):
    """No implementation has this name."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class Registry(Mapping[str, Implementation]):
    """Implementations by name, looked up like a dictionary.

    Args:
        parent: asked for names that this one has not; what is registered
            here does not change it.

    Source: transformers ``AttentionInterface``, ``AttentionMaskInterface``.
    """

    def __init__(self, parent: Registry | None = None) -> None:
        self._own: dict[str, Implementation] = {}
        self._masks: dict[str, MaskForm] = {}
        self._parent = parent
        self._default = "auto"
        #: By the kind of call, what ``warmup`` measured; first who is taken.
        self.seconds: dict[tuple[Any, ...], dict[str, float]] = {}

    # --- a dictionary --------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for name in self._parent or ():
            if name not in self._own:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __getitem__(self, name: str) -> Implementation:
        one = self._own.get(name)
        if one is None and name in (self._parent or ()):
            assert self._parent is not None
            return self._parent[name]
        if one is None and name in self._masks:
            raise LookupError(
                f"{name!r} has a mask function and no attention function: "
                f'write @register("{name}", mask=None) above one'
            )
        if one is None:
            raise UnknownName(
                f"impl is {name!r}: it needs 'auto' or one of {list(self)}"
            )
        if one.mask is None:
            raise LookupError(
                f"{name!r} has an attention function and no mask function: "
                f'write @register_mask("{name}") above one, or register it '
                "with mask='bool'; without one, masks would be dropped"
            )
        return one

    # --- registration --------------------------------------------------------

    def register(
        self,
        name: str,
        *,
        mask: str | Callable[[Call], Any] | None = "rules",
        why_not: Callable[[Call], list[str]] | None = None,
        slower: Callable[[Call], str | None] | None = None,
        has_lse: bool | Callable[[Call], bool] = True,
        measured: bool | Callable[[Call], bool] = True,
        before: str | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add an implementation, as a decorator; see ``attn.api.register``."""
        if name in self._own or name == "auto":
            raise ValueError(f"name is {name!r}: it is taken")
        if isinstance(mask, str) and mask not in FORMS:
            raise ValueError(f"mask is {mask!r}: it needs one of {FORMS}")
        if before is not None and before not in self._own:
            raise ValueError(
                f"before is {before!r}: it needs one of {list(self._own)}"
            )
        form = self._masks.get(name) if mask is None else mask

        def add(function: Attention) -> Attention:
            later = {}
            if before is not None:
                names = list(self._own)
                for after in names[names.index(before) :]:
                    later[after] = self._own.pop(after)
            self._own[name] = Implementation(
                function,
                form,
                why_not or (lambda call: []),
                slower or (lambda call: None),
                _said(has_lse),
                _said(measured),
                _declared(function),
            )
            self._own.update(later)
            self.seconds.clear()
            return function

        return add

    def register_mask(
        self, name: str
    ) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Add the mask function of a name, as a decorator."""

        def add(form: MaskForm) -> MaskForm:
            self._masks[name] = form
            if one := self._own.get(name):
                self._own[name] = Implementation(**{**vars(one), "mask": form})
            self.seconds.clear()
            return form

        return add

    def remove(self, name: str) -> None:
        """Forget a name that was registered here."""
        self._own.pop(name, None)
        self._masks.pop(name, None)
        self.seconds.clear()

    # --- who takes a call ----------------------------------------------------

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Within it, calls that name nobody are computed by this one.

        It holds for all threads: a plain attribute is what ``torch.compile``
        can look at.
        """
        if name != "auto":
            _ = self[name]
        before, self._default = self._default, name
        try:
            yield
        finally:
            self._default = before

    def choose(
        self,
        call: Call,
        impl: str | None = None,
        return_lse: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> Implementation:
        """Who computes a call.

        Args:
            call: what is to be computed.
            impl: a name, which then has to take it; ``"auto"`` or None for
                who was the fastest in ``attn.api.warmup``, else the first
                that can, and is not known to be slower.
            return_lse: whether the lse is wanted too.
            extra: keywords that the contract does not have.

        Raises:
            ValueError: who was named cannot, with the reasons.
            TypeError: nobody declares an extra keyword.
        """
        name = impl or "auto"
        name = self._default if name == "auto" else name
        extra = extra or {}
        if name != "auto":
            one = self[name]
            if unknown := [key for key in extra if not one.takes(key)]:
                raise TypeError(
                    f"{name} got {', '.join(unknown)}: its function does not "
                    "declare that, and nothing is ignored"
                )
            if reasons := self.reasons(name, call, return_lse):
                raise ValueError(f"{name} cannot: {'; '.join(reasons)}")
            return one
        if not extra and (found := self._fastest(call, return_lse)):
            return found
        able = None
        for _, one in self.whole():
            if extra and not all(map(one.takes, extra)):
                continue
            if _reasons(one, call, return_lse):
                continue
            if one.slower(call) is None:
                return one
            # Who is slow may have to be compiled: not without being named.
            able = able if extra else one
        if able is None:
            raise TypeError(
                f"attention got {', '.join(extra)}: no implementation that "
                "auto would take for this call declares that, and nothing is "
                "ignored; name one with impl"
            )
        return able

    def reasons(
        self, name: str, call: Call, return_lse: bool = False
    ) -> list[str]:
        """Why an implementation cannot take a call; empty when it can."""
        return _reasons(self[name], call, return_lse)

    def slower(
        self, name: str, call: Call, return_lse: bool = False
    ) -> str | None:
        """Why an implementation that can take a call is not the one to."""
        seconds = self._measured(call, return_lse)
        if name not in seconds:
            return self[name].slower(call)
        best = next(iter(seconds))
        if name == best:
            return None
        own, least = seconds[name], seconds[best]
        said = f"{1e3 * own:.3g} ms here, and {best} {1e3 * least:.3g} ms"
        return said if own > least else f"{said}: too close to change"

    def _measured(self, call: Call, return_lse: bool) -> dict[str, float]:
        if not self.seconds or torch.compiler.is_compiling():
            return {}
        return self.seconds.get(call.tuning_key(return_lse), {})

    def _fastest(self, call: Call, return_lse: bool) -> Implementation | None:
        for name in self._measured(call, return_lse):
            if name in self and not self.reasons(name, call, return_lse):
                return self[name]
        return None

    def name_of(self, chosen: Implementation) -> str:
        """The name of one that ``choose`` gave."""
        return next(name for name, one in self.whole() if one is chosen)

    def whole(self) -> Iterator[tuple[str, Implementation]]:
        """Every name whose pair has both halves, in order."""
        for name, one in self._own.items():
            if one.mask is not None:
                yield name, one
        for name, one in self._parent.whole() if self._parent else ():
            if name not in self._own:
                yield name, one


def _reasons(one: Implementation, call: Call, return_lse: bool) -> list[str]:
    reasons = one.why_not(call)
    if isinstance(one.mask, str) and one.mask not in ("rules", "call"):
        reasons = [*reasons, *why_not_in_form(one.mask, one.takes, call)]
    if return_lse and not one.has_lse(call):
        reasons = [*reasons, "return_lse is given: it has no lse to give"]
    return reasons


def _said(answer: bool | Callable[[Call], bool]) -> Callable[[Call], bool]:
    return answer if callable(answer) else lambda call: bool(answer)


def _declared(function: Attention) -> frozenset[str] | None:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


registry = Registry()
"""The one that ``attn.attention`` asks."""
