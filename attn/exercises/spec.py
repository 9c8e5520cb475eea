"""Define an exercise: its inputs, its reference, and the usual mistakes.

Inputs, call and comparison are separate, so that a grader can run a learner's
code on a case in another process and compare the result here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.exercises import CHAPTERS, place, shapes, sources
from attn.exercises.case import Case
from attn.exercises.conditions import Condition
from attn.exercises.draw import Draw
from attn.exercises.edits import Variant
from attn.exercises.form import form_of
from attn.exercises.markdown import Entry
from attn.exercises.mistakes import Mistake
from attn.exercises.signature import Signature

Kind = TypeVar("Kind", bound=Variant)


@dataclass(frozen=True)
class Property:
    """A claim about right results, used to explain a wrong one.

    ``holds(case, output)`` is evaluated for the failing case only; the
    learner reads ``says`` when it is false.
    """

    says: str
    holds: Callable[[Case, Any], bool]


@dataclass(frozen=True)
class Exercise(Signature):
    """One function or class that the learner writes.

    Args:
        id: ``<chapter key>-<name>``, never renamed.
        points: what a right answer earns; there are no partial points.
        reference: the right answer, built from ``attn``, with the task's
            own signature.
        cases: yields the cases, fundamental conditions first, drawn with the
            generator that they get.
        also: recurring conditions, whose cases are derived from these
            (``conditions.py``).
        returns: what the task calls the parts of a result, where it is a
            tuple; those of a dict are called by their keys.
        given: names that the task may use, and their values, in addition to
            torch's usual ones and the chapter's earlier exercises.
        forbids: what the answer may not call: names of functions of
            PyTorch, or ``"softmax"``, ``"scaled_dot_product_attention"``,
            ``"MultiheadAttention"`` and ``"item"``, each of which stands for
            everything that does the same, however it is spelled.
        properties: claims that help to explain a wrong result.
        breaks: for each symmetric point that applies (``symmetry.py``), a
            predicate that is true of a case away from it.
        launch: of a kernel, a function of the kernel and a case's inputs
            that launches it and returns the result. The reference is then
            ``Emulated``.
        loads_once: of a kernel, the tensors of which each program of the
            grid loads a tile once; the task says so.
        skips_hidden: of a kernel, the tensors of which no tile is loaded that
            a causal mask hides wholly, but for one a program; the task says
            so. Its launch takes ``is_causal``, ``block_l`` and ``block_s``.
        ieee: of a kernel, whether ``tl.dot`` must not round to TF32; the task
            says so.
        use: of an answer that is more than one call, a function of the answer
            and a case's inputs that uses it and returns what is compared.
    """

    id: str
    points: int
    reference: Any  # a function, a class, or Emulated
    cases: Callable[[Draw], Iterator[Case]]
    also: tuple[Condition, ...] = ()
    returns: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    forbids: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    breaks: Mapping[str, Callable[[Case], Any]] = field(default_factory=dict)
    launch: Callable[..., Any] | None = None
    loads_once: tuple[str, ...] = ()
    skips_hidden: tuple[str, ...] = ()
    ieee: bool = False
    use: Callable[..., Any] | None = None

    @property
    def caller(self) -> Callable[..., Any] | None:
        """The function of an answer and inputs; None: the answer itself."""
        return self.launch or self.use

    @property
    def called(self) -> Any:
        """The function or the class, or what uses an answer on inputs."""
        return self.caller or self.reference

    @property
    def documented(self) -> shapes.Documented:
        """The shapes that the task gives, as ``shapes.documented`` reads."""
        return shapes.documented(self.id)

    def undefined(self, error: str) -> dict[str, str] | None:
        """Return the name that a NameError lacks, if the chapter has it."""
        return place.undefined(self.id, error)

    @property
    def name(self) -> str:
        """The name that the learner defines."""
        return self.id.partition("-")[2]

    @property
    def form(self) -> str:
        """The form of an answer: a function, a class or a kernel."""
        return "kernel" if self.launch else form_of(self.reference)

    def usual(self) -> dict[str, Any]:
        """Return the names that every task of this kind may use."""
        names: dict[str, Any] = {"math": math, "torch": torch, "nn": nn}
        names |= {"F": F, "Tensor": Tensor}
        if self.launch:
            from attn.exercises.triton_compat import tl, triton

            names |= {"triton": triton, "tl": tl}
        return names | dict(self.given)

    def namespace(self) -> dict[str, Any]:
        """Return the names that the chapter has defined before this task."""
        earlier: dict[str, Any] = {}
        for exercise in chapter(self.id.partition("-")[0]):
            if exercise.id == self.id:
                break
            earlier[exercise.name] = exercise.reference
        return earlier | self.usual()

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """The known wrong answers, one an edit, in the order of their file."""
        return [*self._edits(Mistake, sources.text(self.id).mistakes)]

    @cached_property
    def equivalents(self) -> list[Variant]:
        """Right answers in other styles, in the order of their file."""
        return [*self._edits(Variant, sources.text(self.id).right_answers)]

    def _edits(self, kind: type[Kind], entries: list[Entry]) -> Iterator[Kind]:
        """Yield a mistake, or a right answer, for each edit of entries."""
        right, file = sources.solution(self.id), self.id.replace("-", "/", 1)
        for x in entries:
            for label, code in x.labelled():
                place = f"{file}.md: {label}"
                yield kind(x.name, code, place, right, self.namespace, x.why)

    def generate(self, seed: int) -> list[Case]:
        """Draw the cases of one seed, and derive those of ``also``."""
        g = Draw()
        g.manual_seed(seed)
        own = list(self.cases(g))
        return own + [x for derive in self.also for x in derive(self, own)]


def chapter(key: str) -> list[Exercise]:
    """Return the exercises of a chapter, in the order of its solutions."""
    modules = [
        importlib.import_module(f"attn.exercises.{key}.{name}")
        for name in sources.names(key)
    ]
    return [module.exercise for module in modules]


def every_exercise() -> list[Exercise]:
    """Return every exercise of the book, in order."""
    return [exercise for key in CHAPTERS for exercise in chapter(key)]


def find(exercise_id: str) -> Exercise:
    """Return the exercise with this id.

    Raises:
        ValueError: there is none; the error has the id that may be meant.
    """
    is_text = isinstance(exercise_id, str)
    text = exercise_id if is_text else getattr(exercise_id, "__name__", "")
    key = text.partition("-")[0]
    for exercise in chapter(key) if key in CHAPTERS else ():
        if exercise.id == exercise_id:
            return exercise
    ids = [f"{key}-{x}" for key in CHAPTERS for x in sources.names(key)]
    near = [x for x in ids if x.partition("-")[2] == text]
    near = near or get_close_matches(text, ids, 1)
    said = f"there is no exercise {exercise_id!r}"
    if not (is_text and text):
        said = f"exercise_id must be {'given' if is_text else 'a text'}"
    end = f': is it "{near[0]}"?' if near else ', such as "sdp-softmax"'
    raise ValueError(said + end)
