"""Find uses of the book's own package in an answer."""

import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from attn.exercises.kernel import function_of, is_kernel
from attn.exercises.spec import Exercise


def use_of_the_package(exercise: Exercise, answer: Any) -> str | None:
    """Return a complaint if the answer is, or calls, the book's own package.

    This is for honest learners; a grader that cannot be fooled runs the
    answer where the package does not exist.
    """
    answer = _unwrapped(answer)
    module = _module_of(answer)
    if module.startswith("attn.exercises"):
        return None  # a mistake or a right answer, under test
    if _is_of_the_book(module):
        return (
            f"{exercise.name} is {module}'s own: write it yourself, in the "
            "cell above"
        )
    supplied = [_unwrapped(x) for x in exercise.namespace().values()]
    for name, value in _reachable(exercise.name, answer, set()):
        home = _module_of(value)
        if not _is_of_the_book(home) or any(value is x for x in supplied):
            continue
        # An earlier exercise's reference is there because check put it there.
        if getattr(value, "__attn_reference__", exercise.id) == exercise.id:
            return (
                f"it uses {name} from {home}, which holds the answer: write "
                "it without"
            )
    return None


def _unwrapped(value: Any) -> Any:
    """Return the function of a kernel; anything else as it is."""
    return function_of(value) if is_kernel(value) else value


def _module_of(value: Any) -> str:
    """Return the module that a value is, or is defined in."""
    attribute = "__name__" if inspect.ismodule(value) else "__module__"
    return getattr(value, attribute, "") or ""


def _is_of_the_book(module: str) -> bool:
    return module.partition(".")[0] == "attn"


def _reachable(
    name: str, item: Any, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yield what the learner's code reaches, by the name that it has there.

    Functions are followed to their globals, closures and default values,
    containers to what they hold.
    """
    item = _unwrapped(item)
    if id(item) in seen:
        return
    seen.add(id(item))
    for inner, value in _parts(name, item):
        value = _unwrapped(value)
        yield inner, value
        own = not isinstance(value, type | types.FunctionType)
        if own or _module_of(value) == _module_of(item):
            yield from _reachable(inner, value, seen)


def _parts(name: str, item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, Mapping):
        yield from ((name, x) for x in item.values())
    elif isinstance(item, list | tuple | set | frozenset):
        yield from ((name, x) for x in item)
    elif isinstance(item, functools.partial):
        yield from ((name, x) for x in (item.func, item.args, item.keywords))
    elif isinstance(item, type):
        members = vars(item).values()
        yield from (
            (name, inspect.unwrap(x) if callable(x) else x) for x in members
        )
    elif isinstance(item, functools._lru_cache_wrapper):
        yield name, item.__wrapped__
    elif isinstance(item, types.FunctionType):
        known = {**sys.modules, **item.__globals__}
        yield from ((x, known[x]) for x in _names(item.__code__) if x in known)
        yield from inspect.getclosurevars(item).nonlocals.items()
        yield name, (item.__defaults__, item.__kwdefaults__)


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names read as globals, or imported; attributes are not."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
            yield step.argval
        elif isinstance(step.argval, types.CodeType):
            yield from _names(step.argval)
