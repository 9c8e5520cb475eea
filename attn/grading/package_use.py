"""Find uses of the book's own package in an answer."""

import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

from attn.exercises.kernel import is_kernel
from attn.exercises.spec import Exercise


def use_of_the_package(exercise: Exercise, answer: Any) -> str | None:
    """Return a complaint if the answer is, or calls, the book's own package.

    This is for honest learners; a grader that cannot be fooled runs the
    answer where the package does not exist.
    """
    answer = _plain(answer)
    module = _home(answer)
    if module.startswith("attn.exercises"):
        return None  # a mistake or an equivalent, under test
    if _is_ours(module):
        return (
            f"{exercise.name} is {module}'s own: write it yourself, in the "
            "cell above"
        )
    namespace = exercise.namespace()
    for name, value in _globals_used(answer, set()):
        home = _home(value)
        if not _is_ours(home) or value is _plain(namespace.get(name)):
            continue
        # An earlier exercise's reference is there because check put it there.
        if getattr(value, "__attn_reference__", exercise.id) == exercise.id:
            return (
                f"it uses {name} from {home}, which holds the answer: write "
                "it without"
            )
    return None


def _plain(value: Any) -> Any:
    """Return the function of a kernel; anything else as it is."""
    return value.fn if is_kernel(value) else value


def _home(value: Any) -> str:
    """Return the module that a value is, or is defined in."""
    attribute = "__name__" if inspect.ismodule(value) else "__module__"
    return getattr(value, attribute, "") or ""


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "attn"


def _globals_used(item: Any, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that the learner's code reads, by name."""
    if not isinstance(item, type | types.FunctionType) or item in seen:
        return
    seen.add(item)
    if isinstance(item, type):
        for member in filter(callable, vars(item).values()):
            yield from _globals_used(inspect.unwrap(member), seen)
        return
    for name in _names(item.__code__):
        if name in item.__globals__:
            value = _plain(item.__globals__[name])
            yield name, value
            if _home(value) == item.__module__:
                yield from _globals_used(value, seen)


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names read as globals, or imported; attributes are not."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
            yield step.argval
        elif isinstance(step.argval, types.CodeType):
            yield from _names(step.argval)
