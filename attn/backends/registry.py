"""Backends under names, and the selection of one for a call.

``auto`` considers the names in their order. The built-in backends are
registered in ``attn.api``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from attn.backends.mask_formats import with_booleans
from attn.functional.inputs import AttentionInputs

__all__ = ["Implementation", "Registry", "registry"]

#: Why size-based selection is off under torch.compile.
TRACING = "a graph is being traced: it must not depend on a length"
MASKS = ("contract", "inputs", "bool")

Attention = Callable[..., Any]
Reasons = Callable[[AttentionInputs], list[str]]
Reason = Callable[[AttentionInputs], str | None]
Condition = Callable[[AttentionInputs], bool]


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention; ``Registry.register`` has the fields."""

    function: Attention
    takes_inputs: bool  # or the arguments of the contract
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
        if return_lse and not self.supports_lse(inputs):
            reasons.append("return_lse is given: it computes no lse")
        return reasons

    def run(
        self,
        inputs: AttentionInputs,
        options: dict[str, Any],
        return_lse: bool,
        extra: dict[str, Any],
    ) -> Any:
        """Compute a call.

        ``options`` are the contract's optional arguments, as given; ``extra``
        are keywords outside the contract.
        """
        if return_lse:
            extra = {**extra, "return_lse": True}
        if self.takes_inputs:
            return self.function(inputs, **extra)
        tensors = (inputs.query, inputs.key, inputs.value)
        return self.function(*tensors, **options, **extra)


class UnknownName(ValueError, KeyError):
    """Raised for a name without an implementation."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class Registry(Mapping[str, Implementation]):
    """Implementations by name, looked up like a dictionary.

    Args:
        parent: holds the names that this one does not; registering here
            does not change it.

    Example:
        >>> own = attn.api.Registry(parent=attn.api.registry)
        >>> mine = own.register("mine")(attn.tiled_attention)
        >>> x = torch.randn(1, 2, 5, 8)
        >>> out = attn.attention(x, x, x, impl="mine", registry=own)
        >>> "mine" in own, "mine" in attn.api.registry
        (True, False)

    Source: transformers ``AttentionInterface``.
    """

    def __init__(self, parent: Registry | None = None) -> None:
        self._own: dict[str, Implementation] = {}
        self._parent = {} if parent is None else parent
        #: What ``impl="auto"`` means.
        self.default = "auto"
        #: By tuning key, what ``autotune`` measured; the selected one first.
        self.seconds: dict[tuple[Any, ...], dict[str, float]] = {}
        #: How often a name was registered or removed.
        self.changes = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Registry:
        """Return the registry itself, also for a copy of a module with it."""
        return self

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in self._parent if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._parent

    def __getitem__(self, name: str) -> Implementation:
        if isinstance(name, str):  # a list has no hash
            if (own := self._own.get(name)) is not None:
                return own
            if name in self._parent:
                return self._parent[name]
        raise UnknownName(
            f"impl must be 'auto' or one of {list(self)}; got {name!r}"
        )

    def register(
        self,
        name: str,
        *,
        mask: str = "contract",
        unsupported_reasons: Reasons = lambda inputs: [],
        deprioritized: Reason = lambda inputs: None,
        supports_lse: bool | Condition = True,
        tunable: bool | Condition = True,
    ) -> Callable[[Attention], Attention]:
        """Register an implementation, as a decorator.

        Args:
            name: the value of ``attention(impl=...)`` that selects it.
            mask: how it takes masks. ``"contract"``: the function takes the
                arguments of ``attn.scaled_dot_product_attention``, as given;
                ``"inputs"``: one ``AttentionInputs``; ``"bool"``: ``(query,
                key, value, mask, scale=…)`` and, if it declares them,
                ``dropout_p``, ``softcap``, ``sinks`` and ``enable_gqa``,
                passed unless they have their defaults. That mask is one
                tensor of booleans for all masks of the call, or None.
            unsupported_reasons: returns why it cannot compute a call, in
                sentences; empty when it can, which is the default.
            deprioritized: returns why a call is faster elsewhere, cheaply;
                None when this one is preferred. Only ``impl="auto"`` uses it.
            supports_lse: whether it takes ``return_lse``.
            tunable: whether ``autotune`` tries it.

        Returns:
            The decorator, which returns the function unchanged.

        Raises:
            ValueError: the name is in use, or ``mask`` unknown.

        Example:
            >>> @attn.api.register("halved")
            ... def halved(*tensors, **options):
            ...     return attn.tiled_attention(*tensors, **options) / 2
            >>> x = torch.ones(1, 2, 5, 8)
            >>> attn.attention(x, x, x, impl="halved").unique()
            tensor([0.5000])
            >>> attn.api.registry.remove("halved")
        """
        if name in self._own or name == "auto":
            raise ValueError(f"name must be new; {name!r} is in use")
        if mask not in MASKS:
            raise ValueError(f"mask must be one of {MASKS}; got {mask!r}")

        def add(function: Attention) -> Attention:
            declared = declared_keywords(function)
            run, reasons = function, unsupported_reasons
            if mask == "bool":
                run, reasons = with_booleans(function, declared, reasons)
            self._own[name] = Implementation(
                run,
                mask != "contract",
                reasons,
                deprioritized,
                _constant(supports_lse),
                _constant(tunable),
                declared,
            )
            self._changed()
            return function

        return add

    def remove(self, name: str) -> None:
        """Remove a name that was registered here."""
        self._own.pop(name, None)
        self._changed()

    def _changed(self) -> None:
        self.seconds.clear()
        self.changes += 1

    @contextmanager
    def use_impl(self, name: str) -> Iterator[None]:
        """Make ``impl="auto"`` mean one implementation, in all threads.

        Models need not be rebuilt or reloaded. (The default is a plain
        attribute, which ``torch.compile`` can read.)

        Raises:
            ValueError: the name is not ``"auto"`` or an implementation.

        Example:
            >>> model = attn.MultiHeadAttention(embed_dim=8, num_heads=2)
            >>> x = torch.randn(1, 5, 8)
            >>> with attn.api.use_impl("reference"):
            ...     exact = model(x)
            >>> torch.allclose(model(x), exact, atol=1e-5)
            True
        """
        if name != "auto":
            _ = self[name]
        before, self.default = self.default, name
        try:
            yield
        finally:
            self.default = before

    def select(
        self,
        inputs: AttentionInputs,
        impl: str | None = None,
        return_lse: bool = False,
        extra: Collection[str] = (),
    ) -> tuple[str, Implementation]:
        """Select the implementation that computes a call; return its name too.

        Arguments and errors are those of ``attn.attention``.
        """
        name = impl or "auto"
        name = self.default if name == "auto" else name
        if not isinstance(name, str):
            raise TypeError(f"impl must be a name; got {name!r}")
        if name != "auto":
            named = self[name]
            if unknown := [x for x in extra if not named.declares(x)]:
                raise TypeError(
                    f"{name} got an unexpected keyword argument: "
                    f"{', '.join(unknown)}"
                )
            if reasons := named.reasons(inputs, return_lse):
                raise ValueError(f"{name} cannot: {'; '.join(reasons)}")
            return name, named
        for name in () if extra else self.measured(inputs, return_lse):
            if name in self and not self[name].reasons(inputs, return_lse):
                return name, self[name]
        deferred: list[str] = []
        for name in self:
            candidate = self[name]
            if extra and not all(map(candidate.declares, extra)):
                continue
            # Unlike the reasons, this never imports PyTorch's compiler.
            if candidate.deprioritized(inputs) is not None:
                deferred.append(name)
            elif not candidate.reasons(inputs, return_lse):
                return name, candidate
        # With extra, a deprioritized one may have to be compiled: only by
        # name.
        for name in () if extra else reversed(deferred):
            if not self[name].reasons(inputs, return_lse):
                return name, self[name]
        raise TypeError(
            "attention got an unexpected keyword argument: "
            f"{', '.join(extra)}; no implementation that auto selects for "
            "this call declares it, name one with impl"
        )

    def measured(
        self, inputs: AttentionInputs, return_lse: bool
    ) -> dict[str, float]:
        """Return the seconds that ``autotune`` cached, the selected first."""
        if not self.seconds or torch.compiler.is_compiling():
            return {}
        return self.seconds.get(inputs.tuning_key(return_lse), {})


def _constant(answer: bool | Condition) -> Condition:
    return answer if callable(answer) else lambda inputs: bool(answer)


def declared_keywords(function: Attention) -> frozenset[str] | None:
    """Return the names of its parameters; None if it takes any keyword."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def check_registry(registry: object) -> None:
    """Require a registry, where a function takes one."""
    if not isinstance(registry, Registry):
        raise TypeError(
            f"registry must be an attn.api.Registry; got {registry!r}"
        )


registry = Registry()
"""The registry that ``attn.attention`` uses by default."""
