"""Read the inputs of a case by the names that a task gives them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from attn.exercises.case import Case


class Signature:
    """The parameters of a task's call, and a case's inputs by their names."""

    @property
    def called(self) -> Any:
        """The function or the class, or what uses an answer on inputs."""
        raise NotImplementedError

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the call: of a class, of its ``forward``."""
        is_class = inspect.isclass(self.called)
        target = self.called.forward if is_class else self.called
        return inspect.signature(target).parameters

    def input_names(self, case: Case) -> list[str]:
        """Return the names of ``case.args``, as the task writes them."""
        names: list[str] = []
        for name, parameter in self.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = len(case.args) - len(names)
                names += [f"{name}[{i}]" for i in range(rest)]
            elif name not in ("self", "kernel", "answer"):
                names.append(name)
        return names[: len(case.args)]

    def inputs(self, case: Case) -> dict[str, Any]:
        """Return a case's inputs by the names that the task gives."""
        names = self.input_names(case)
        return {**dict(zip(names, case.args, strict=True)), **case.kwargs}

    def with_inputs(self, case: Case, inputs: Mapping[str, Any]) -> Case:
        """Return a case with these inputs, all by name, in place of its own.

        A positional one that is left out, and all after it, are given by name.
        """
        names = self.input_names(case)
        positional = list(takewhile(inputs.__contains__, names))
        args = tuple(inputs[name] for name in positional)
        rest = {n: x for n, x in inputs.items() if n not in positional}
        return replace(case, args=args, kwargs=rest)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The arguments that may be left out, and what they are then."""
        parameters = self.parameters.values()
        return {
            x.name: x.default for x in parameters if x.default is not x.empty
        }
