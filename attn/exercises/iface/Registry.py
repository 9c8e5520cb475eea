"""Cases and properties of ``iface-Registry``."""

import copy
from collections import ChainMap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property

NAMES = ("eager", "flex", "sdpa", "tiled")
MANY = (*NAMES, "linear", "local", "paged", "ring")


def _function(name: str) -> Callable:
    def function() -> str:
        return name

    # Some are objects that can be called, as a module is.
    is_object = name.endswith("mask") or name.startswith("own")
    made: Any = partial(function) if is_object else function
    made.__name__ = name
    return made


WORDS = ("plain", "fused", "blocks", "own")
FUNCTIONS: dict[str, Any] = {
    name: _function(name)
    for word in WORDS
    for name in (f"{word}_attention", f"{word}_mask")
}
FUNCTIONS |= {"nothing": None, "a name": "plain_mask"}


class Registry:
    """Look names up in a chain of tables: the reference."""

    def __init__(self, parent: Any = None) -> None:
        above = parent.tables.maps if parent else []
        self.tables: ChainMap = ChainMap({}, *above)

    def register(self, name: str, attention: Any, mask: Any) -> None:
        if not (callable(attention) and callable(mask)):
            raise TypeError(f"{name!r} must be two functions")
        self.tables[name] = attention, mask

    def names(self) -> list[str]:
        return list(self.tables)  # the last of the maps first

    def __getitem__(self, name: str) -> tuple[Callable, Callable]:
        if name not in self.tables:
            raise KeyError(f"{name!r} must be one of {self.names()}")
        return self.tables[name]


def _use(answer: Any, *steps: tuple[str, ...]) -> dict[str, str]:
    """Make registries, register and look up; return what came of it."""
    made: dict[str, Any] = {}
    found: dict[str, str] = {}
    answer = _apart(answer)
    for what, registry, *rest in steps:
        if what == "make":
            made[registry] = answer(*(made[x] for x in rest))
            continue
        call = f"{registry}.{what}({', '.join(rest)})"
        try:
            got = _step(made[registry], what, rest)
        except (KeyError, TypeError) as error:
            # The name itself may be in the text, or not.
            others = [x for x in NAMES if x not in rest]
            listed = [x for x in others if x in str(error)]
            named = f", which names {', '.join(listed)}" if listed else ""
            is_key = isinstance(error, KeyError)
            kind = "KeyError" if is_key else "TypeError"
            got = f"{kind}{named if what == 'look_up' else ''}"
        while call in found:
            call += " again"
        found[call] = got
    return found


def _apart(answer: Any) -> Any:
    """Return a subclass with copies of the tables that a class shares.

    What one case leaves in them would show in another.
    """
    shared = {
        name: copy.copy(x)
        for name, x in vars(answer).items()
        if isinstance(x, dict | list | set)
    }
    return type(answer.__name__, (answer,), shared)


def _step(registry: Any, what: str, rest: list[str]) -> str:
    if what == "register":
        name, *pair = rest
        registry.register(name, *(FUNCTIONS[x] for x in pair))
        return "registered"
    if what == "names":
        given = registry.names()
        if not isinstance(given, list | tuple):
            return f"not a list, but of the type {type(given).__name__}"
        return ", ".join(map(str, given)) or "none"
    pair = registry[rest[0]]
    if not isinstance(pair, tuple | list):
        return _word(pair)
    return " and ".join(map(_word, pair))


def _word(x: Any) -> str:
    return getattr(x, "__name__", repr(x))


def _cases(g: Draw) -> Iterator[Case]:
    at = g.between(0, 23)
    order = [NAMES[i] for i in _permutation(at)]
    words = [WORDS[i] for i in _permutation(23 - at)]
    a, b, c, d = order

    def add(registry: str, name: str, word: str) -> tuple[str, ...]:
        pair = f"{word}_attention", f"{word}_mask"
        return ("register", registry, name, *pair)

    def look(registry: str, *names: str) -> list[tuple[str, ...]]:
        return [("look_up", registry, name) for name in names]

    one, two, three, four = words
    new = ("make", "one")
    names = ("names", "one")

    when = "there is one registry, and one pair in it"
    yield Case(when, (new, add("one", a, one), *look("one", a), names))

    when = "there are several pairs"
    several = (new, add("one", a, one), add("one", b, two), add("one", c, one))
    yield Case(when, (*several, *look("one", b, a, c), names))

    when = "there are many pairs: no other order is theirs by chance"
    many = [MANY[i] for i in torch.randperm(len(MANY), generator=g).tolist()]
    each = (
        add("one", name, word)
        for name, word in zip(many, 2 * words, strict=True)
    )
    yield Case(when, (new, *each, names))

    when = "a pair is replaced"
    again = add("one", a, three)
    yield Case(when, (*several, again, *look("one", a, b), names))

    when = "names are listed, and then a pair is registered"
    listed = (new, add("one", a, one), names, add("one", b, two), names)
    yield Case(when, listed)
    child = ("make", "child", "one")
    of_child = (*listed[:2], child, ("names", "child"), add("one", b, two))
    yield Case(when, (*of_child, ("names", "child")))

    when = "there is no such name"
    yield Case(when, (*several, *look("one", d, "other"), names))
    yield Case(when, (new, *look("one", a), names))

    when = "half a pair is registered"
    for half in (
        (f"{one}_attention", "nothing"),
        ("nothing", f"{one}_mask"),
        (f"{one}_attention", "a name"),
        ("a name", f"{one}_mask"),
        ("nothing", "nothing"),
    ):
        bad = ("register", "one", d, *half)
        yield Case(when, (*several, bad, names, *look("one", d)))

    when = "a good pair is replaced by half of one, in vain"
    bad = ("register", "one", a, f"{two}_attention", "nothing")
    yield Case(when, (*several, bad, *look("one", a)))

    when = "there are two registries, without parents"
    other = ("make", "two")
    alone = (new, other, add("one", a, one), add("two", b, two))
    yield Case(
        when, (*alone, *look("two", b), *look("one", a), ("names", "two"))
    )
    yield Case(when, (*alone, *look("two", a), names))

    when = "a registry has a parent, and no pairs of its own"
    yield Case(
        when, (*several, child, *look("child", c, a), ("names", "child"))
    )

    when = "a pair comes before the parent's of the same name"
    own = add("child", b, four)
    hidden = (*several, child, own)
    yield Case(when, (*hidden, *look("child", b, a), ("names", "child")))

    when = "half a pair is registered where the parent has a whole one"
    bad = ("register", "child", c, f"{four}_attention", "nothing")
    yield Case(when, (*hidden, bad, *look("child", c)))

    when = "a child registers, and then its parent is looked at"
    new_one = add("child", d, four)
    yield Case(when, (*hidden, new_one, *look("one", b, d), names))
    twice = (*hidden, add("child", b, three))
    yield Case(when, (*twice, *look("child", b), *look("one", b), names))

    when = "the parent gets a pair after the child was made"
    late = (new, child, add("one", a, one), add("child", b, two))
    yield Case(when, (*late, *look("child", a, b), ("names", "child")))
    late = (*late, add("one", a, three), add("one", c, four))
    yield Case(when, (*late, *look("child", a, c), ("names", "child")))
    late = (*hidden, add("one", b, three))
    yield Case(when, (*late, *look("child", b), ("names", "child")))

    when = "a name is looked up, and then the parent replaces its pair"
    late = (*several, child, *look("child", a, b), add("one", a, four))
    yield Case(when, (*late, *look("child", a, b), ("names", "child")))

    when = "a child does not have a name that its parent lacks, either"
    yield Case(when, (*hidden, new_one, *look("child", "other")))

    when = "a parent has a parent"
    deep = (*several, child, ("make", "leaf", "child"))
    yield Case(when, (*deep, *look("leaf", a, c), ("names", "leaf")))
    deep = (*hidden, ("make", "leaf", "child"))
    yield Case(when, (*deep, *look("leaf", b, c), ("names", "leaf")))
    deep = (*deep, add("leaf", d, two), add("one", a, two))
    yield Case(when, (*deep, *look("leaf", d, a), ("names", "leaf")))
    yield Case(when, (*deep, *look("child", d), ("names", "child")))
    yield Case(when, (*deep, *look("leaf", "other"), names))
    deep = (*deep, add("leaf", c, two))
    yield Case(when, (*deep, *look("leaf", c), ("names", "leaf")))


def _permutation(index: int) -> list[int]:
    """Return one of the 24 orders of four."""
    rest, order = [0, 1, 2, 3], []
    for size in (6, 2, 1, 1):
        order.append(rest.pop(index // size % len(rest)))
    return order


exercise = Exercise(
    id="iface-Registry",
    points=3,
    reference=Registry,
    cases=_cases,
    use=_use,
    given={"Callable": Callable},
    properties=(
        Property(
            "A name that is not there is a KeyError, and a pair is two "
            "functions: nothing of it is None.",
            lambda case, out: not any("None" in line for line in out.values()),
        ),
    ),
)
