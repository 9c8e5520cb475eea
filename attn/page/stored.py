"""Take the place of an exercise and its oracle, with what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attn.exercises.outcome import Outcome
from attn.exercises.signature import Signature
from attn.grading.checks.inputs import map_tensors
from attn.page.decode import Decoder


@dataclass(frozen=True, eq=False)
class StoredMistake:
    """A known wrong answer: what it gives where it is not right.

    Args:
        name: as the learner reads it.
        why: the paragraph that explains it and ends in a question.
        outcomes: by the index of a case, those that are not the right one.
    """

    name: str
    why: str
    outcomes: dict[str, Any]


class StoredExercise(Signature):
    """An exercise, as far as an answer is compared and explained."""

    launch = None
    properties: tuple[Any, ...] = ()

    def __init__(self, data: dict[str, Any]) -> None:
        self.id, self.name = data["id"], data["name"]
        self.form: str = data["form"]
        self.forbids, self.returns = (
            tuple(data[x]) for x in ("forbids", "returns")
        )
        arguments, text, results = data["documented"]
        shapes = {n: [*map(tuple, x)] for n, x in arguments.items()}
        self.documented = shapes, text, results
        self.names: dict[str, Any] = {"__name__": "answer"}
        exec(compile(data["given"], "<the book>", "exec"), self.names)
        stub = dict(self.names)
        exec(compile(data["stub"], "<the task>", "exec"), stub)
        self.reference = stub[self.name]
        self.use: Callable[..., Any] | None = None
        if "use" in data:
            exec(compile(data["use"], "<the book>", "exec"), stub)
            self.use = stub[data["use_name"]]
        self.mistakes, self.predicted = (
            [StoredMistake(**x) for x in data[name]]
            for name in ("mistakes", "predicted")
        )

    @property
    def caller(self) -> Callable[..., Any] | None:
        """The function that uses an answer on inputs."""
        return self.use

    @property
    def called(self) -> Any:
        """The task's stub, or what uses an answer on inputs."""
        return self.use or self.reference

    def undefined(self, error: str) -> None:
        """Return nothing: on a page all that a task gives is defined."""


@dataclass
class StoredOracle:
    """The recorded cases, the right outcomes, and those of mistakes.

    Args:
        data: what was recorded.
        answered: the outcomes of the answer that is judged.
    """

    data: dict[str, Any]
    answered: list[Outcome] = field(default_factory=list)
    kept: dict[Any, Any] = field(default_factory=dict)
    tosses_coins = False

    def __post_init__(self) -> None:
        self.exercise = StoredExercise(self.data)
        decoder = Decoder(self.data["tensors"], self.data["states"])
        self._decoder, self._rows = decoder, self.data["cases"]
        self.cases = [decoder.case(x["case"]) for x in self._rows]
        self.expected = cache(self._expected)
        self.expected_fp64 = cache(self._expected_fp64)
        self.perturbed_fp64 = cache(self._perturbed_fp64)

    def rtol(self, i: int) -> float:
        """Return the relative tolerance between two answers of one mistake."""
        return self._rows[i].get("rtol", 1e-5)

    def is_alone(self, i: int) -> bool:
        """Return whether a case is right without its earlier calls too."""
        return not self._rows[i].get("needs_before", False)

    def _expected(self, i: int) -> Outcome:
        """Return the reference's outcome, in the case's dtype."""
        row = self._rows[i]
        if "rounded" in row:
            return self._decoder.outcome(row["rounded"])
        exact = self.expected_fp64(i)
        dtypes = iter(row["dtypes"])

        def rounded(x: Tensor) -> Tensor:
            return x.to(getattr(torch, next(dtypes)))

        return Outcome(
            map_tensors(rounded, exact.output),
            {n: rounded(x) for n, x in exact.grads.items()},
            random_used=exact.random_used,
            repeats=exact.repeats,
        )

    def _expected_fp64(self, i: int) -> Outcome:
        return self._decoder.outcome(self._rows[i]["right"])

    def _perturbed_fp64(self, i: int) -> Outcome:
        """Return an outcome as far from the exact one as is forgiven.

        It is an eighth of the way, as ``compare`` expects it.
        """
        exact = self.expected_fp64(i)
        moved = iter(self._rows[i]["moved"])

        def move(x: Any) -> Any:
            if isinstance(x, Tensor):
                by = next(moved)
                return x + by if x.is_floating_point() else x
            if isinstance(x, tuple | list):
                return type(x)([move(y) for y in x])
            if isinstance(x, dict):
                return {k: move(y) for k, y in x.items()}
            return x + next(moved) if isinstance(x, float) else x

        output = move(exact.output)
        return Outcome(output, {n: move(x) for n, x in exact.grads.items()})

    def mistaken(self, mistake: StoredMistake, i: int) -> Outcome:
        """Return what a mistake gives in a case."""
        if (at := mistake.outcomes.get(str(i))) is None:
            return self.expected(i)
        self._decoder.answered = self.answered[i].output
        return self._decoder.outcome(self.data["outcomes"][at])
