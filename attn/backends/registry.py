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

from attn import arguments
from attn.backends.mask_formats import with_booleans
from attn.backends.results import check_result
from attn.functional.inputs import AttentionInputs, AttentionOptions

__all__ = ["Implementation", "Registry", "registry"]

#: Why size-based selection is off under torch.compile.
TRACING = "a graph is being traced: it must not depend on a length"
RECORDING = "torch.jit.trace: it cannot record a loop over tiles"
MASKS = ("contract", "inputs", "bool")


Attention = Callable[..., Any]
Reasons = Callable[[AttentionInputs], list[str]]
Reason = Callable[[AttentionInputs], str | None]
Condition = Callable[[AttentionInputs], bool]


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention; ``Registry.register`` has the fields."""

    name: str
    function: Attention
    takes_inputs: bool  # or the arguments of the contract
    unsupported_reasons: Reasons
    deprioritized: Reason
    supports_lse: Condition
    tunable: Condition
    keywords: frozenset[str]  # that it declares
    takes_any: bool  # keyword, also one that it does not declare
    is_tested: bool  # one of attn, whose results need no check

    def declares(self, keyword: str, is_named: bool) -> bool:
        """Return whether a keyword may be passed to the function.

        With ``**options`` any may, if the call names the implementation.
        """
        return keyword in self.keywords or (is_named and self.takes_any)

    def reasons(self, inputs: AttentionInputs, return_lse: bool) -> list[str]:
        """Return why it cannot compute a call; empty when it can."""
        found = self.unsupported_reasons(inputs)
        if not isinstance(found, list):
            raise self._wrong(
                "unsupported_reasons", "a list of sentences", found
            )
        if return_lse and not self.supports_lse(inputs):
            return [*found, "return_lse is given: it computes no lse"]
        if return_lse and not self.declares("return_lse", is_named=True):
            return [*found, "return_lse is given: its function declares none"]
        return found

    def why_later(self, inputs: AttentionInputs) -> str | None:
        """Return why a call is faster elsewhere; None if it is not."""
        found = self.deprioritized(inputs)
        if found is None or isinstance(found, str):
            return found
        raise self._wrong("deprioritized", "a sentence or None", found)

    def _wrong(self, part: str, need: str, found: object) -> TypeError:
        return TypeError(
            f"{part} of {self.name} must return {need}; got {found!r}"
        )

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
            result = self.function(inputs, **extra)
        else:
            result = self.function(*inputs.qkv, **options, **extra)
        if self.is_tested:
            return result
        return check_result(self.name, result, inputs, return_lse)


class UnknownName(ValueError, KeyError):
    """Raised for a name without an implementation."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class Registry(Mapping[str, Implementation]):
    """Implementations by name, looked up like a dictionary.

    ``impl="auto"`` tries them in the order in which they were registered,
    and those of the parent last. In ``attn.api.registry``, a function of
    yours comes after ``"grouped"``, which supports every call: it needs its
    name, ``use_impl``, or an ``autotune`` that finds it the fastest. In a
    registry with that one as its parent, it comes first.

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
            The decorator, which returns the function unchanged. What the
            function returns is checked: ``out``, or ``(out, lse)``, of the
            contract's shapes and dtypes.

        Raises:
            ValueError: the name is in use, or ``mask`` unknown.
            TypeError: there is no name, or the function does not declare
                the arguments of its ``mask``.

        Example:
            >>> @attn.api.register("halved")
            ... def halved(*tensors, **options):
            ...     return attn.tiled_attention(*tensors, **options) / 2
            >>> x = torch.ones(1, 2, 5, 8)
            >>> attn.attention(x, x, x, impl="halved").unique()
            tensor([0.5000])
            >>> attn.api.registry.remove("halved")
        """
        if not isinstance(name, str):
            raise TypeError(
                f"name must be a string; got {name!r}: write "
                '@register("mine"), or register("mine")(function)'
            )
        if name in self._own or name == "auto":
            raise ValueError(f"name must be new; {name!r} is in use")
        arguments.choice("mask", mask, MASKS)

        def add(function: Attention) -> Attention:
            arguments.function("function", function)
            declared = declared_keywords(function)
            run, reasons = function, unsupported_reasons
            if mask == "bool":
                run, reasons = with_booleans(function, declared, reasons)
            elif mask == "contract" and declared is not None:
                _check_contract(name, declared)
            module = getattr(function, "__module__", None) or ""
            self._own[name] = Implementation(
                name,
                run,
                mask != "contract",
                reasons,
                deprioritized,
                _constant("supports_lse", supports_lse),
                _constant("tunable", tunable),
                frozenset(arguments.declared(function)),
                takes_any=declared is None,
                is_tested=module.partition(".")[0] == "attn",
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
        if not isinstance(return_lse, bool):
            arguments.flag("return_lse", return_lse)
        name = impl or "auto"
        name = self.default if name == "auto" else name
        if not isinstance(name, str):
            raise TypeError(f"impl must be a name; got {name!r}")
        if name != "auto":
            named = self[name]
            for keyword in extra:
                if not named.declares(keyword, is_named=True):
                    raise _unknown(keyword, f"{name} does not declare it")
            if reasons := named.reasons(inputs, return_lse):
                raise ValueError(f"{name} cannot: {'; '.join(reasons)}")
            return name, named
        for name in () if extra else self.measured(inputs, return_lse):
            if name in self and not self[name].reasons(inputs, return_lse):
                return name, self[name]
        deferred: list[str] = []
        for name in self:
            candidate = self[name]
            if not candidate.keywords.issuperset(extra):
                continue
            # Unlike the reasons, this never imports PyTorch's compiler.
            if candidate.why_later(inputs) is not None:
                deferred.append(name)
            elif not candidate.reasons(inputs, return_lse):
                return name, candidate
        # With extra, a deprioritized one may have to be compiled: only by
        # name.
        for name in () if extra else reversed(deferred):
            if not self[name].reasons(inputs, return_lse):
                return name, self[name]
        raise _unknown(
            next(iter(extra)),
            "no implementation that auto selects for this call declares it, "
            "name one with impl",
        )

    def measured(
        self, inputs: AttentionInputs, return_lse: bool
    ) -> dict[str, float]:
        """Return the seconds that ``autotune`` cached, the selected first."""
        if not self.seconds or torch.compiler.is_compiling():
            return {}
        return self.seconds.get(inputs.tuning_key(return_lse), {})


def _constant(name: str, answer: bool | Condition) -> Condition:
    if callable(answer):
        return answer
    arguments.flag(name, answer)
    return lambda inputs: answer


def _unknown(keyword: str, why: str) -> TypeError:
    known = (*AttentionOptions.__annotations__, "return_lse", "impl")
    return arguments.unknown("attention", keyword, known, f": {why}")


def _check_contract(name: str, declared: frozenset[str]) -> None:
    """Require the arguments of a function that is called with all of them."""
    if missing := [*sorted({*AttentionOptions.__annotations__} - declared)]:
        raise TypeError(
            f"{name} must declare the contract's arguments, or **options; got "
            f'a function without {", ".join(missing)}: mask="bool" needs fewer'
        )


def declared_keywords(function: Attention) -> frozenset[str] | None:
    """Return the names of its parameters; None if it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a built-in one, such as PyTorch's
        raise TypeError(
            f"function must have a signature; got {function!r}: call it in a "
            "function of your own"
        ) from None
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
