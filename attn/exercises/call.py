"""Write the call of a case as Python, which a learner can read and run.

A tensor has its name in the task; a number or a list is written out.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.literal import KEPT, assigned, brief, cut, literal
from attn.exercises.wrapping import WIDTH

if TYPE_CHECKING:
    from attn.exercises.spec import Exercise

_COLUMNS = 72  # of a line of a cell


@dataclass(frozen=True)
class Call:
    """One call of an answer.

    Args:
        start: ``softmax(``, ``SelfAttention(embed_dim=8)(``, or for instance
            ``copy_tile_kernel[(3, 1)](``.
        args, kwargs: the arguments by their names, as they are written.
        given: the positional ones, and the others, as they are passed.
        cell: lines that make the call in a notebook, by means of ``case()``.
        defaults: numbers that the call leaves out.
        grid: of a kernel.
    """

    start: str
    args: dict[str, Any]
    kwargs: dict[str, Any]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    cell: str
    defaults: dict[str, Any] = field(default_factory=dict)
    grid: Any = None

    def __str__(self) -> str:
        lines = [assigned(name, x) for name, x in self.named.items()]
        return "\n".join([*self.lines(WIDTH), *lines])

    @property
    def named(self) -> dict[str, Any]:
        """All arguments by name; those of ``*masks`` are one."""
        names = [*self.args]
        if "[" not in "".join(names):
            return self.args | self.kwargs
        return {names[0].partition("[")[0]: self.given[0]} | self.kwargs

    def lines(self, width: int, is_brief: bool = False) -> list[str]:
        """Return the call and, behind it or below, what its tensors are.

        Args:
            width: of a line; a call that takes more is a line all the same.
            is_brief: of the tensors, name those for which there is room.
        """
        tensors = [x for x in self.args.values() if isinstance(x, Tensor)]
        for kept in KEPT:
            words = [literal(x, kept) or n for n, x in self.args.items()]
            if "[" in "".join(self.args):  # they are one list
                words = cut(words, kept)
            words += [
                f"{n}={literal(x, kept) or n}" for n, x in self.kwargs.items()
            ]
            if self.grid and is_brief and kept:  # strides and sizes
                words = cut(words, kept + len(tensors))
            call = f"{self.start}{', '.join(words)})"
            if len(call) <= width:
                break
        every = [*self.args.items(), *self.kwargs.items()]
        shapes = [y for n, x in every if not literal(x) and (y := brief(n, x))]
        shapes += [f"{n}={literal(x)}" for n, x in self.defaults.items()]
        about, more = f"  # {', '.join(shapes)}", ""
        while is_brief and shapes and len(call + about + more) > width:
            del shapes[-1]
            about, more = f"  # {', '.join(shapes)}", ", …"
        if not shapes:
            return [call]
        one = call + about + more
        return [one] if len(one) <= width else [call, about.strip()]


def call_of(exercise: Exercise, case: Case, answer: Any = None) -> Call:
    """Return the call that a case makes.

    Args:
        exercise: the exercise.
        case: the case.
        answer: the learner's: what is no tensor is given by name, where the
            answer calls it by the task's.
    """
    if exercise.launch:
        return _launch(exercise, case)
    name, answer = exercise.name, answer if callable(answer) else None
    args = dict(zip(exercise.input_names(case), case.args, strict=True))
    kwargs, names = dict(case.kwargs), [*args]
    function = exercise.use or answer or exercise.reference
    own = _parameters(getattr(function, "forward", function))
    for i, first in enumerate(names):
        rest = names[i:]
        if literal(args[first]) and own[i : i + len(rest)] == rest:
            kwargs = {n: args.pop(n) for n in rest} | kwargs
            break
    start, made, called = f"{name}(", name, "f("
    if exercise.use:
        start, called = f"case().use({name}, ", "c.use(f, "
    if case.init is not None:
        init = ", ".join(f"{n}={literal(x)}" for n, x in case.init.items())
        start, made = f"{name}({init})(", f"{name}({init})"
    words = [f"c.{n}" for n in args] + [f"{n}=c.{n}" for n in kwargs]
    line = f"{called}{', '.join(words)})"
    if len(line) > _COLUMNS or "[" in line:
        words = ["*c.args"] * bool(case.args) + ["**c.kwargs"] * bool(kwargs)
        line = f"{called}{', '.join(words)})"
    left_out = {
        n: x
        for n, x in exercise.defaults.items()
        if type(x) in (int, float) and x and n not in {*names, *kwargs}
    }
    given = case.args, dict(case.kwargs)
    return Call(start, args, kwargs, given, _cell(made, line), left_out)


def _cell(made: str, line: str) -> str:
    return f"c = case()\nf = c.yours()  # {made}\n{line}"


class _Launched(BaseException):
    """Leave a launch before its kernel runs; no ``except`` there sees it."""


class _Recorder:
    """Take the place of a kernel, and record its launch."""

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **kwargs: Any) -> None:
            raise _Launched(grid, args, kwargs)

        return launch


def _launch(exercise: Exercise, case: Case) -> Call:
    """Return the launch of a kernel, as the task's caller makes it."""
    from attn.exercises import sources

    assert exercise.launch
    try:
        exercise.launch(_Recorder(), *case.args, **case.kwargs)
    except _Launched as launched:
        grid, args, kwargs = launched.args
    tree = ast.parse(sources.stub(exercise.id)).body[-1]
    assert isinstance(tree, ast.FunctionDef)
    named = dict(zip([x.arg for x in tree.args.args], args, strict=False))
    results = [
        f"c.{n}"
        for n, x in named.items()
        if isinstance(x, Tensor) and x.isnan().all()
    ]
    line = f"f[c.grid](*c.args, **c.kwargs)\n{', '.join(results)}"
    start, cell = f"{exercise.name}[{grid}](", _cell(exercise.name, line)
    return Call(start, named, kwargs, (args, kwargs), cell, grid=grid)


def _parameters(function: Any) -> list[str]:
    """Return the names of what may be given by name or by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C
        return []
    own = [x.name for x in parameters if x.kind is x.POSITIONAL_OR_KEYWORD]
    return [x for x in own if x not in ("self", "answer")]
