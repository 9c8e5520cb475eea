"""State what an experiment shows, and assert it on the page."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attn.publishing.claims import record

if TYPE_CHECKING:  # the book reads the record without torch
    from torch import Tensor


@dataclass(frozen=True)
class Claim:
    """A comparison: what was measured, and the bound that it keeps."""

    text: str  # in the words of the page
    value: float
    bound: float
    above: bool  # the value must be above the bound, else below it

    @property
    def margin(self) -> float:
        """The distance from the bound, negative where the claim fails."""
        return (self.value - self.bound) * (1 if self.above else -1)

    @property
    def holds(self) -> bool:
        """Say if the value is on its side of the bound; NaN never is."""
        return self.margin > 0

    def __str__(self) -> str:
        side = "above" if self.above else "below"
        return f"{self.text}: {self.value:.4g}, {side} {self.bound:.4g}"


def claim(
    text: str,
    value: float | Tensor,
    *,
    above: float | Tensor | None = None,
    below: float | Tensor | None = None,
) -> Claim:
    """Compare a measured value with a bound, under a name.

    Args:
        text: what is claimed, in words that need no code to be understood.
        value: the measured number, of any 0-dim type.
        above, below: the bound, exactly one of the two.

    Raises:
        ValueError: both bounds are given, or neither is.
    """
    if (above is None) == (below is None):
        raise ValueError(f"{text!r} needs one bound: above=… or below=…")
    bound = below if above is None else above
    return Claim(text, float(value), float(bound), below is None)  # type: ignore[arg-type]


Claims = Callable[[Any], Iterable[Claim]]


class Experiment:
    """A function of a seed and, when it trains, of a number of steps.

    Called without arguments it is the page's own run: seed 0 and the page's
    steps. Any other seed and number of steps repeats it elsewhere.
    """

    def __init__(
        self, function: Callable[..., Any], steps: int | None, longer: int
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = function.__name__
        self.steps = steps
        self.long_steps = steps and steps * longer
        self.stated: list[tuple[Claims, int | None]] = []
        self.results: dict[tuple[int, int | None], Any] = {}

    def __call__(self, seed: int = 0, steps: int | None = None) -> Any:
        steps = self.steps if steps is None else steps
        key = seed, steps
        if key not in self.results:
            known = {} if self.steps is None else {"steps": steps}
            self.results[key] = self.function(seed=seed, **known)
        return self.results[key]

    def longer(self, seed: int = 0) -> Any:
        """Return the recorded result of the longer run, made by others.

        A chapter has no time for it: ``make claims`` trains it and stores
        it with its provenance.
        """
        return record.result(self.name, seed, self.long_steps)

    def shows(
        self, function: Claims | None = None, *, after: int | None = None
    ) -> Any:
        """Assert claims about the page's own run, and keep them for others.

        Args:
            function: returns claims, given the experiment's result.
            after: the claims are about this number of steps only; else they
                hold for more steps as well. With the steps of the longer
                run, they are asserted of its recorded result.

        Raises:
            AssertionError: a claim does not hold.
            ValueError: the experiment did not run for ``after`` steps.
        """
        if function is None:
            return functools.partial(self.shows, after=after)
        if after not in (None, self.steps, self.long_steps):
            raise ValueError(
                f"after must be {self.steps} or {self.long_steps}, the steps "
                f"of {self.name}; got {after}"
            )
        self.stated.append((function, after))
        if record.REPEATING:  # the claims are judged there
            return function
        is_long = after is not None and after != self.steps
        judged = function(self.longer() if is_long else self())
        for one in named(judged, after):
            if not one.holds:
                raise AssertionError(str(one))
            print("✓", one.text)
        return function

    def claims(self, seed: int, steps: int | None) -> list[Claim]:
        """Run the experiment and return the claims that are about the run."""
        result = self(seed, steps)
        return [
            one
            for function, after in self.stated
            if after in (None, steps)
            for one in named(function(result), after)
        ]


def named(claims: Iterable[Claim], after: int | None) -> list[Claim]:
    """Return the claims, each with the steps that it is about."""
    found = list(claims)
    if not found:
        raise ValueError("an experiment must show something: return claims")
    if after is None:
        return found
    prefix = f"after {after:,} steps, "
    return [Claim(prefix + x.text, x.value, x.bound, x.above) for x in found]


def experiment(
    function: Callable[..., Any] | None = None,
    *,
    steps: int | None = None,
    longer: int = 10,
) -> Any:
    """Mark a function of ``seed``, and of ``steps`` if given, as one.

    Args:
        function: runs the experiment and returns what was measured: numbers,
            lists and dicts with string keys where the longer run is shown.
        steps: the page's own number of training steps.
        longer: how many times these steps the longer run takes, at least 10.

    Raises:
        ValueError: ``longer`` is less than 10.
    """
    if longer < 10:
        raise ValueError(
            f"longer must be at least 10, or what comes later stays unseen; "
            f"got {longer}"
        )
    if function is None:
        return lambda f: Experiment(f, steps, longer)
    return Experiment(function, steps, longer)
