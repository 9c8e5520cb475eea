"""What an exercise is: its inputs, its reference, and the usual mistakes.

Inputs, call and comparison are kept apart. A ``Case`` holds raw data only,
so that a grader can run a learner's code on it in another process and
compare the result here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.exercises import CHAPTERS, mistakes, sources
from attn.exercises.mistakes import Mistake


@dataclass(frozen=True)
class Case:
    """One call of the learner's function, or one use of the learner's class.

    Args:
        stage: what this case isolates, in words that the learner reads
            after "wrong when": ``"there is one key, so only the values
            count"``. Cases of one stage share the text.
        args, kwargs: what the function, or the module's ``forward``, is
            called with. Tensors, numbers, strings, and tuples, lists and
            dicts of them.
        init: a class: the keywords of its constructor.
        state: a class: the state dict that is loaded before the call.
        train: a class: whether the module is in training mode; a function:
            that it may draw from torch's random numbers, freshly seeded.
        grad: also compare the gradients of every floating input (and of
            every parameter) for one fixed cotangent; or of the inputs with
            these paths, ``("args.0",)``.
        max_numel: size limit, in elements, of any tensor that the answer
            allocates; None for no limit. Views do not count, copies do.
        rtol: tolerance for a randomly drawn result, relative to the largest
            element of the reference's.
    """

    stage: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    init: Mapping[str, Any] | None = None
    state: Mapping[str, Tensor] | None = None
    train: bool = False
    grad: bool | tuple[str, ...] = False
    max_numel: int | None = None
    rtol: float = 0.0


@dataclass(frozen=True)
class Property:
    """A claim about right results, used to explain a wrong one.

    ``holds(case, output)`` is asked for the failing case only; ``says``
    is what the learner reads when it does not hold.
    """

    says: str
    holds: Callable[[Case, Any], bool]


@dataclass(frozen=True)
class Exercise:
    """One function or class that the learner writes.

    Args:
        id: ``<chapter key>-<name>``, never renamed.
        points: what a right answer earns; there are no partial points.
        reference: the right answer, built from ``attn``, with the task's
            own signature.
        cases: yields the cases, fundamental stages first, drawn with the
            generator that it is given.
        given: names that the task may use besides torch's usual ones and
            the chapter's earlier exercises, and what they stand for.
        forbids: names of torch functions that the answer may not call
            (``"softmax"`` stands for every spelling of it).
        properties: claims that help to explain a wrong result.
        breaks: for each symmetric point that applies (``symmetry.py``), a
            predicate that is true of a case away from it.
        launch: a kernel: called with it and with a case's arguments, it
            launches it and returns what was written. The reference is then
            ``Emulated``.
    """

    id: str
    points: int
    reference: Any  # a function, a class, or Emulated
    cases: Callable[[torch.Generator], Iterator[Case]]
    given: Mapping[str, Any] = field(default_factory=dict)
    forbids: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    breaks: Mapping[str, Callable[[Case], Any]] = field(default_factory=dict)
    launch: Callable[..., Any] | None = None
    equivalents: dict[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that the learner defines."""
        return self.id.partition("-")[2]

    def namespace(self) -> dict[str, Any]:
        """What a chapter has defined by the time that this task comes."""
        usual = {"math": math, "torch": torch, "nn": nn, "F": F}
        if self.launch:
            from attn.exercises.triton_compat import tl, triton

            usual |= {"triton": triton, "tl": tl}
        earlier: dict[str, Any] = {}
        for exercise in chapter(self.id.partition("-")[0]):
            if exercise.id == self.id:
                break
            earlier[exercise.name] = exercise.reference
        return {**usual, "Tensor": Tensor, **earlier, **self.given}

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """The known wrong answers, in the order of their file."""
        path = sources.mistakes_path(self.id)
        right = sources.solution(self.id)
        file = f"{path.parent.name}/{path.name}"
        return [
            Mistake(name, why, code, f"{file}: {name}", right, self.namespace)
            for name, code, why in mistakes.read(path)[1]
        ]

    def generate(self, seed: int) -> list[Case]:
        """The cases drawn from one seed."""
        return list(self.cases(torch.Generator().manual_seed(seed)))

    def equivalent(self, style: str) -> Callable:
        """Record a right answer in another style."""

        def record(answer: Callable[..., Any]) -> Callable[..., Any]:
            self.equivalents[style] = answer
            return answer

        return record


def chapter(key: str) -> list[Exercise]:
    """The exercises of a chapter, in the order in which it sets them."""
    modules = [
        importlib.import_module(f"attn.exercises.{key}.{name}")
        for name in sources.names(key)
    ]
    return [module.exercise for module in modules]


def every_exercise() -> list[Exercise]:
    """Every exercise of the book, in order."""
    return [exercise for key in CHAPTERS for exercise in chapter(key)]


def find(exercise_id: str) -> Exercise:
    """The exercise with this id."""
    key = exercise_id.partition("-")[0] if isinstance(exercise_id, str) else ""
    exercises = {x.id: x for x in chapter(key)} if key in CHAPTERS else {}
    if exercise_id not in exercises:
        known = exercises or {x.id: x for x in every_exercise()}
        raise ValueError(
            f"no exercise is called {exercise_id!r}: it needs one of "
            + ", ".join(known)
        )
    return exercises[exercise_id]
