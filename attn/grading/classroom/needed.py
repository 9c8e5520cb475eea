"""Keep what an answer needs, by the text: of its cell and of the others.

An honest cell holds more than its answer: a plot, a test, a magic. What the
answer does not use is left out, and what it uses of other cells comes along.
Nothing is run, and what is kept is judged like any other text.
"""

from __future__ import annotations

import builtins
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from attn.grading.classroom.magics import without_magics
from attn.grading.classroom.reading import Cell
from attn.grading.classroom.remarks import Names, showing, without_remarks
from attn.grading.classroom.statements import (
    STAR,
    Effect,
    Statement,
    statements,
)

_LONGEST = 2**21  # characters of all cells: with more, each is on its own
_MOST = 5000  # look-ups for one answer
_STATEMENTS = 10_000
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Needed:
    """Hold the text of an answer, and of nothing else.

    Args:
        text: what the answer needs. Lines of its own cell keep their
            distance; what comes from other cells is above or below.
        left_out: the beginnings of the statements of its cell that it does
            not need, and of those that only show something.
        brought: names that other cells define.
    """

    text: str
    left_out: tuple[str, ...] = ()
    brought: tuple[str, ...] = ()


class Notebook:
    """The cells of a submission, in which names are looked up.

    Args:
        cells: all of them, in order.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = [x for x in cells if x.kind == "code"]
        self._is_long = sum(len(x.source) for x in cells) > _LONGEST
        self._read: dict[int, tuple[Statement, ...]] = {}

    def needed(
        self, cell: Cell, exercise: str, given: Container[str]
    ) -> Needed:
        """Return what defines an answer, as it is when it is checked.

        Where the cell does not define the answer's name, or is not Python,
        that is all of the cell.

        Args:
            cell: in which the answer was found.
            exercise: its id.
            given: names that an answer gets from the sandbox: they are looked
                up in its own cell only.
        """
        own = next(i for i, x in enumerate(self._cells) if x is cell)
        search = _Search(given, self._later(own, exercise))
        if not self._is_long:
            # What is below helps where nothing above does: it comes first.
            search.add(self._of(range(own + 1, len(self._cells))))
            search.begin_above()
            search.add(self._of(range(own)))
        search.add_own(self._of([own]))
        if not self._is_long:
            search.add(self._of(range(own + 1, self._end(own, exercise))))
        text, left_out = self._text(own)
        return search.needed(exercise.partition("-")[2], text, left_out)

    def _later(self, own: int, exercise: str) -> dict[str, set[int]]:
        """Return the cells in which an earlier answer may be written again.

        They are those of no exercise below its check, by the answer's name.
        """
        later = {}
        free = {i for i in range(own) if not self._cells[i].exercise}
        for i, cell in enumerate(self._cells[:own]):
            if (name := cell.exercise) and name != exercise:
                below = free.intersection(range(self._end(i, name), own))
                later[name.partition("-")[2]] = below
        return later

    def _of(self, indices: Iterable[int]) -> list[tuple[int, Statement]]:
        found = []
        for i in indices:
            if i not in self._read:
                self._read[i] = statements(self._text(i)[0]) or ()
            found += [(i, x) for x in self._read[i]]
        return found

    def _text(self, index: int) -> tuple[str, tuple[str, ...]]:
        text = without_magics(self._cells[index].source)[0]
        return without_remarks(text, self._showing)

    @cached_property
    def _showing(self) -> Names:
        if self._is_long:
            return {}
        texts = (without_magics(x.source)[0] for x in self._cells)
        return showing(y for x in texts for y in statements(x) or ())

    def _end(self, own: int, exercise: str) -> int:
        """Return the cell after an answer's check, or the next exercise's."""
        calls = (f'check("{exercise}")', f"check('{exercise}')")
        for i in range(own + 1, len(self._cells)):
            cell = self._cells[i]
            if cell.exercise not in (None, exercise):
                return i
            if cell.checks == exercise or any(x in cell.source for x in calls):
                return i + 1
        return len(self._cells)


class _Search:
    """A search among statements, each at a place in the order of their run.

    Args:
        given: names that are looked up in the answer's cell only.
        later: the cells, too, in which some of them are looked up.
    """

    def __init__(
        self, given: Container[str], later: Mapping[str, Container[int]]
    ) -> None:
        self._given, self._later = given, later
        self._places: list[tuple[int, Statement]] = []  # and their cells
        self._of_name: dict[str, list[int]] = defaultdict(list)
        self._above, self._own = 0, range(0)

    def add(self, found: Iterable[tuple[int, Statement]]) -> None:
        """Add statements, with their cells."""
        for cell, statement in found:
            for name in statement.effects:
                self._of_name[name].append(len(self._places))
            self._places.append((cell, statement))

    def begin_above(self) -> None:
        """Say that what follows is not below the answer."""
        self._above = len(self._places)

    def add_own(self, found: Iterable[tuple[int, Statement]]) -> None:
        """Add the statements of the answer's cell."""
        start = len(self._places)
        self.add(found)
        self._own = range(start, len(self._places))

    def needed(self, name: str, text: str, left_out: Iterable[str]) -> Needed:
        """Return what an answer needs.

        Args:
            name: of the answer.
            text: of its cell.
            left_out: of its functions, and not in the text.
        """
        kept = self._kept(name)
        if not kept:
            return Needed(text)
        parts = []
        brought: dict[str, None] = {}
        for _, places in groupby(sorted(kept), lambda x: self._places[x][0]):
            chosen = {x: self._places[x][1].importing(kept[x]) for x in places}
            if min(chosen) in self._own:
                parts.append(self._own_text(chosen, text))
            else:
                parts.append("\n".join(chosen.values()))
                brought |= dict.fromkeys(y for x in chosen for y in kept[x])
        unused = [
            x.short
            for place in self._own
            if place not in kept
            and not (x := self._places[place][1]).is_remark
        ]
        brought.pop(name, None)
        return Needed(
            "\n\n\n".join(parts), (*unused, *left_out), tuple(brought)
        )

    def _own_text(self, chosen: dict[int, str], text: str) -> str:
        """Return the text of the answer's cell without what it leaves out."""
        data = text.encode()
        for place in reversed(self._own):
            statement = self._places[place][1]
            new = chosen.get(place)
            if new == statement.text:
                continue
            end = statement.end
            if new is None:
                new = ""
            elif data[:end].rstrip().endswith(b";"):
                new += "; "
            lines = data[statement.start : end].count(b"\n")
            more = b"\n" * (lines - new.count("\n"))
            data = data[: statement.start] + more + new.encode() + data[end:]
        changed = data.decode()
        return text if changed == text else changed.rstrip() + "\n"

    def _kept(self, name: str) -> dict[int, set[str]]:
        """Return the places of what an answer needs, and what for.

        Nothing, if no statement defines it, or if it needs too much.
        """
        kept: dict[int, set[str]] = defaultdict(set)
        end = len(self._places)
        if end > _STATEMENTS:
            return {}
        first = [x for x in self._giving(name, end) if x >= self._own.start]
        if not any(self._effect(x, name) >= Effect.MAY_BIND for x in first):
            return {}
        todo = [(place, name, end) for place in first]
        seen = set(todo)
        while todo:
            place, name, when = todo.pop()
            kept[place].add(name)
            at_once, when_called = self._places[place][1].uses
            uses = [(x, place) for x in at_once]
            uses += [(x, when) for x in when_called]
            for used, before in uses:
                for x in self._giving(used, before):
                    if (use := (x, used, before)) not in seen:
                        seen.add(use)
                        todo.append(use)
            if len(seen) > _MOST:
                return {}
        return kept

    def _giving(self, name: str, before: int) -> list[int]:
        """Return what gives a name its value, before a place."""
        places = self._of_name.get(name, [])
        if not places and STAR in self._of_name and name != STAR:
            is_known = name in _BUILTINS or name in self._given
            return [] if is_known else self._giving(STAR, before)
        where = range(before)
        if name in _BUILTINS:
            where = range(self._above, before)
        elif any(x not in self._own for x in places) and name in self._given:
            stop = min(self._own.stop, before)
            later = self._later.get(name, ())
            start = next(
                (x for x in places if self._places[x][0] in later),
                self._own.start,
            )
            where = range(min(start, self._own.start), stop)
        first, stop = (
            bisect_left(places, x) for x in (where.start, where.stop)
        )
        found: list[int] = []
        for place in reversed(places[first:stop]):
            found.append(place)
            if self._effect(place, name) == Effect.BINDS:
                break
        effects = [self._effect(x, name) for x in found]
        if not found or max(effects) < Effect.MAY_BIND:
            return []
        least = self._places[found[-1]][1].keeps
        return [x for x, y in zip(found, effects, strict=True) if y >= least]

    def _effect(self, place: int, name: str) -> Effect:
        return self._places[place][1].effects[name]
