"""Derive the cases of recurring conditions from an exercise's own cases.

An exercise names them in a line, ``also=(views(), gradients())``, and writes
only the cases that are its own subject. Nothing is drawn for them: typical
cases are repeated in other memory, in another dtype, with gradients, with
another number, or cut down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from attn.exercises.case import Case
from attn.exercises.shapes import documented, named_axes


class Exercise(Protocol):
    """Declare what is used of ``attn.exercises.spec.Exercise``."""

    @property
    def id(self) -> str:
        """The exercise's id."""

    def input_names(self, case: Case) -> list[str]:
        """Return the names of ``case.args``, as the task writes them."""

    def inputs(self, case: Case) -> dict[str, Any]:
        """Return a case's inputs by the names that the task gives."""


Condition = Callable[[Exercise, Sequence[Case]], Iterator[Case]]
"""Yields more cases of an exercise, given its own."""


def views(when: str = "") -> Condition:
    """Repeat typical cases with inputs that are views of larger tensors.

    In their memory the axes are in the opposite order; or the elements are
    apart; or a first axis, of three or more, is expanded.

    Args:
        when: the condition, in place of "x is a view of another tensor".
    """

    def derive(exercise: Exercise, cases: Sequence[Case]) -> Iterator[Case]:
        for case in typical(exercise, cases):
            text = when or _about(
                [
                    name
                    for name, x in exercise.inputs(case).items()
                    if _leaves(x)
                ],
                "a view of another tensor",
                "views of other tensors",
            )
            for view in (_turned, _apart, _expanded):
                viewed = _changed(case, view)
                if not all(x.is_contiguous() for x in _tensors(viewed)):
                    yield replace(viewed, condition=text)

    return derive


def gradients(*names: str, when: str = "gradients flow back") -> Condition:
    """Repeat typical cases, and compare gradients as well.

    Args:
        names: of the arguments whose gradients are compared; by default,
            those of all floating inputs, and of a module's parameters.
        when: the condition.
    """

    def derive(exercise: Exercise, cases: Sequence[Case]) -> Iterator[Case]:
        for case in typical(exercise, cases):
            args = exercise.input_names(case)
            paths = tuple(f"args.{args.index(name)}" for name in names)
            yield replace(case, condition=when, grad=paths or True)

    return derive


def dtypes(*others: torch.dtype) -> Condition:
    """Repeat typical cases with floating inputs in other dtypes."""

    def derive(exercise: Exercise, cases: Sequence[Case]) -> Iterator[Case]:
        for dtype in others:
            name = str(dtype).removeprefix("torch.")
            for case in typical(exercise, cases):
                names = [
                    x
                    for x, y in exercise.inputs(case).items()
                    if any(leaf.is_floating_point() for leaf in _leaves(y))
                ]
                cast = _changed(case, partial(_cast, dtype))
                yield replace(cast, condition=_about(names, name, name))

    return derive


def dial(name: str, *values: float) -> Condition:
    """Repeat the typical case of the fullest kind with other numbers.

    Args:
        name: of the argument.
        values: between those of the exercise's own cases, none of them 1, a
            power of 2, or another number at which mistakes cancel.
    """

    def derive(exercise: Exercise, cases: Sequence[Case]) -> Iterator[Case]:
        case = typical(exercise, cases)[-1]
        names = exercise.input_names(case)
        for value in values:
            args, kwargs = list(case.args), dict(case.kwargs)
            if name in names:
                args[names.index(name)] = value
            else:
                kwargs[name] = value
            yield replace(
                case,
                condition=f"{name} is {value}",
                args=tuple(args),
                kwargs=kwargs,
            )

    return derive


def ones(*together: str) -> Condition:
    """Repeat the first typical case with axes cut down to length 1.

    Args:
        together: the letters of axes that are 1 at once, ``"B H"``; ``...``
            stands for the axes in front of those that have letters.
    """

    def derive(exercise: Exercise, cases: Sequence[Case]) -> Iterator[Case]:
        shapes = documented(exercise.id)[0]
        case = typical(exercise, cases)[0]
        names = exercise.input_names(case)

        def cut(name: str, x: Any, axes: Sequence[str]) -> Any:
            if not isinstance(x, Tensor):
                return x
            letters = named_axes(shapes, name, x.dim())
            if x.dim() and not any(letters):
                raise ValueError(
                    f"the task of {exercise.id} must give the shape of "
                    f"{name}; got none to cut it down by"
                )
            for k, letter in enumerate(letters):
                if (letter or "...") in axes and x.shape[k]:
                    x = x.narrow(k, 0, 1)
            return x.clone()

        for axes in map(str.split, together):
            args = [
                cut(name, x, axes)
                for name, x in zip(names, case.args, strict=True)
            ]
            kwargs = {
                name: cut(name, x, axes) for name, x in case.kwargs.items()
            }
            yield replace(
                case,
                condition=_are_one(axes),
                args=tuple(args),
                kwargs=kwargs,
            )

    return derive


def _are_one(axes: Sequence[str]) -> str:
    """Make a sentence about axes of length 1, given by their letters."""
    words = ["the axes in front" if x == "..." else x for x in axes]
    verb = "is" if len(words) == 1 and words[0] in axes else "are"
    return f"{' and '.join(words)} {verb} 1"


def typical(exercise: Exercise, cases: Sequence[Case]) -> list[Case]:
    """Choose one case of the first kind of inputs, one of the fullest kind.

    It has the most axes, then the most different lengths and elements: with
    one token, or as many tokens as features, or zeros, mistakes hide.
    """
    kinds: dict[Any, list[Case]] = {}
    for case in filter(_is_plain, cases):
        given = tuple(
            (name, frozenset(leaf.dtype for leaf in _leaves(x)))
            for name, x in exercise.inputs(case).items()
        )
        kinds.setdefault(given, []).append(case)
    if not kinds:
        raise ValueError(
            f"the cases of {exercise.id} must include one of float32, in one "
            "call, with nothing else to it; got none to derive others from"
        )
    first, *others = map(_most_varied, kinds.values())
    return [first, *sorted(others, key=_count, reverse=True)[:1]]


def _is_plain(case: Case) -> bool:
    """Return whether a case is one exact call in float32."""
    special = case.rtol, case.max_live, case.once, case.grad, case.train
    floats = {x.dtype for x in _tensors(case) if x.is_floating_point()}
    return not any((*special, case.before)) and floats <= {torch.float32}


def _most_varied(cases: Sequence[Case]) -> Case:
    """Return the case with the most axes, different lengths and elements.

    Elements are counted, which takes long, where the shapes decide nothing.
    """
    shapes = {id(case): _variety_of_shapes(case) for case in cases}
    most = max(shapes.values())
    varied = [case for case in cases if shapes[id(case)] == most]
    return varied[0] if len(varied) == 1 else max(varied, key=_elements)


def _variety_of_shapes(case: Case) -> tuple[int, int]:
    tensors = _tensors(case) + _leaves(case.state)
    lengths = {n for x in tensors for n in x.shape if n > 1}
    return max((x.dim() for x in tensors), default=0), len(lengths)


def _elements(case: Case) -> int:
    """Count the different elements of each input."""
    return sum(len(x.unique()) for x in _tensors(case) + _leaves(case.state))


def _count(case: Case) -> int:
    return len(case.args) + len(case.kwargs)


def _leaves(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor | int | float | None):  # which most are
        return [tree] if isinstance(tree, Tensor) else []
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _tensors(case: Case) -> list[Tensor]:
    inputs = chain(case.args, case.kwargs.values())
    return [leaf for x in inputs for leaf in _leaves(x)]


def _changed(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    args = tree_map_only(Tensor, change, case.args)
    kwargs = tree_map_only(Tensor, change, dict(case.kwargs))
    return replace(case, args=args, kwargs=kwargs)


def _turned(x: Tensor) -> Tensor:
    order = tuple(range(x.dim()))[::-1]
    return x.permute(order).contiguous().permute(order)


def _apart(x: Tensor) -> Tensor:
    return torch.stack([x, x], -1)[..., 0]


def _expanded(x: Tensor) -> Tensor:
    is_batch = x.dim() > 2 and x.is_floating_point()
    return x[:1].expand_as(x) if is_batch else x


def _cast(dtype: torch.dtype, x: Tensor) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


def _about(names: Sequence[str], one: str, many: str) -> str:
    """Make a sentence about an argument, or about all of them."""
    if len(names) == 1:
        return f"{names[0]} is {one}"
    return f"the inputs are {many}"
