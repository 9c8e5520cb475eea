"""Backends under names: a function, and the form in which it takes masks.

Selection considers the names in their order. The built-in backends are
registered in ``attn.backends.builtin``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from attn.backends.forms import FORMS, MaskForm, unsupported_in_form
from attn.functional.inputs import AttentionInputs

__all__ = ["Implementation", "Registry", "registry"]

#: Why size-based selection is off under torch.compile.
TRACING = "a graph is being traced: it must not depend on a length"

Attention = Callable[..., Any]
Reasons = Callable[[AttentionInputs], list[str]]
Reason = Callable[[AttentionInputs], str | None]
Condition = Callable[[AttentionInputs], bool]


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention; ``Registry.register`` has the fields."""

    function: Attention
    mask: str | MaskForm | None
    unsupported_reasons: Reasons
    deprioritized: Reason
    supports_lse: Condition
    tunable: Condition
    keywords: frozenset[str] | None  # that it declares; None: any

    def declares(self, keyword: str) -> bool:
        """Return whether the function declares a keyword."""
        return self.keywords is None or keyword in self.keywords

    def reasons(self, inputs: AttentionInputs, return_lse: bool) -> list[str]:
        """Return why it cannot compute a call; empty when it can."""
        reasons = [*self.unsupported_reasons(inputs)]
        if self.mask is not None:
            reasons += unsupported_in_form(self.mask, self.declares, inputs)
        if return_lse and not self.supports_lse(inputs):
            reasons.append("return_lse is given: it computes no lse")
        return reasons


class UnknownName(ValueError, KeyError):
    """Raised for a name without an implementation."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class HalfAPair(LookupError):
    """Raised for an attention function without its masks, or the reverse."""

    def __init__(self, name: str, missing: str, decorator: str) -> None:
        super().__init__(
            f"{name!r} must have an attention function and a mask function, "
            "because masks would be dropped without it; got no "
            f"{missing} function: write @{decorator} above one"
        )


class Registry(Mapping[str, Implementation]):
    """Implementations by name, looked up like a dictionary.

    Args:
        parent: holds the names that this one does not; registering here
            does not change it.

    Source: transformers ``AttentionInterface``, ``AttentionMaskInterface``.
    """

    def __init__(self, parent: Registry | None = None) -> None:
        self._own: dict[str, Implementation] = {}
        self._masks: dict[str, MaskForm] = {}
        self._parent = parent
        #: What ``impl="auto"`` means.
        self.default = "auto"
        #: By tuning key, what ``autotune`` measured; the selected one first.
        self.seconds: dict[tuple[Any, ...], dict[str, float]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Registry:
        """Return the registry itself, also for a copy of a module with it."""
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._own, *(self._parent or ())]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __getitem__(self, name: str) -> Implementation:
        one = self._own.get(name)
        if one is None and name in self._masks:
            raise HalfAPair(
                name, "attention", f'register("{name}", mask=None)'
            )
        if one is None and self._parent and name in self._parent:
            return self._parent[name]
        if one is None:
            raise UnknownName(
                f"impl must be 'auto' or one of {list(self)}; got {name!r}"
            )
        if one.mask is None:
            raise HalfAPair(name, "mask", f'register_mask("{name}")')
        return one

    def register(
        self,
        name: str,
        *,
        mask: str | MaskForm | None = "contract",
        unsupported_reasons: Reasons = lambda inputs: [],
        deprioritized: Reason = lambda inputs: None,
        supports_lse: bool | Condition = True,
        tunable: bool | Condition = True,
        before: str | None = None,
    ) -> Callable[[Attention], Attention]:
        """Register an implementation, as a decorator.

        Args:
            name: the value of ``attention(impl=...)`` that selects it.
            mask: the form of its masks. ``"contract"``: the function takes
                the arguments of ``attn.scaled_dot_product_attention``, as
                given; ``"inputs"``: one ``AttentionInputs``. In all other
                forms it takes ``(query, key, value, mask, scale=…)`` and, if
                it declares them, ``dropout_p``, ``softcap``, ``sinks`` and
                ``enable_gqa``, passed unless they have their defaults. The
                mask combines every mask of the call: ``"bool"`` and
                ``"additive"`` are one tensor, ``"block"`` is a
                ``BlockMask``, and a function makes its own from the
                ``AttentionInputs``, whose ``mask`` then includes every mask
                of the call (``lambda call: call.allowed()`` is ``"bool"``).
                None: ``register_mask`` gives that function.
            unsupported_reasons: returns why it cannot compute a call, in
                sentences; empty when it can, which is the default.
            deprioritized: returns why a call is faster elsewhere, cheaply;
                None when this one is preferred. Only ``impl="auto"`` uses it.
            supports_lse: whether it takes ``return_lse``.
            tunable: whether ``autotune`` tries it.
            before: the implementation that auto considers after it; the last
                place by default.

        Returns:
            The decorator, which returns the function unchanged.

        Raises:
            ValueError: the name is in use, or ``mask`` or ``before`` unknown.
        """
        if name in self._own or name == "auto":
            raise ValueError(f"name must be new; {name!r} is in use")
        if isinstance(mask, str) and mask not in FORMS:
            raise ValueError(f"mask must be one of {FORMS}; got {mask!r}")
        if before is not None and before not in self._own:
            raise ValueError(
                f"before must be one of {list(self._own)}; got {before!r}"
            )
        form = self._masks.get(name) if mask is None else mask

        def add(function: Attention) -> Attention:
            names = list(self._own)
            later = names[names.index(before) :] if before else []
            self._own[name] = Implementation(
                function,
                form,
                unsupported_reasons,
                deprioritized,
                _constant(supports_lse),
                _constant(tunable),
                declared_keywords(function),
            )
            for after in later:
                self._own[after] = self._own.pop(after)
            self.seconds.clear()
            return function

        return add

    def register_mask(self, name: str) -> Callable[[MaskForm], MaskForm]:
        """Register the function that makes an implementation's masks.

        Returned is the decorator, for a function of ``AttentionInputs``; the
        implementation of that name may be registered later.
        """

        def add(form: MaskForm) -> MaskForm:
            self._masks[name] = form
            if one := self._own.get(name):
                self._own[name] = replace(one, mask=form)
            self.seconds.clear()
            return form

        return add

    def remove(self, name: str) -> None:
        """Remove a name that was registered here."""
        self._own.pop(name, None)
        self._masks.pop(name, None)
        self.seconds.clear()

    @contextmanager
    def use_impl(self, name: str) -> Iterator[None]:
        """Make ``impl="auto"`` mean one implementation, in all threads.

        Models need not be rebuilt or reloaded. (The default is a plain
        attribute, which ``torch.compile`` can read.)

        Raises:
            ValueError: the name is not ``"auto"`` or an implementation.
        """
        if name != "auto":
            _ = self[name]
        before, self.default = self.default, name
        try:
            yield
        finally:
            self.default = before

    def complete(self) -> Iterator[tuple[str, Implementation]]:
        """Yield, in order, every name whose pair has both halves."""
        for name, one in self._own.items():
            if one.mask is not None:
                yield name, one
        for name, one in self._parent.complete() if self._parent else ():
            if name not in self._own and name not in self._masks:
                yield name, one


def _constant(answer: bool | Condition) -> Condition:
    return answer if callable(answer) else lambda inputs: bool(answer)


def declared_keywords(function: Attention) -> frozenset[str] | None:
    """Return the names of its parameters; None if it takes any keyword."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


registry = Registry()
"""The registry that ``attn.attention`` uses by default."""
