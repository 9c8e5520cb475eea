"""Tell which text is the answer of an exercise in a session, from its runs.

The rule is that of ``answers``. A definition that ran counts, whatever its
cell raises below it; a cell that failed above has left an older one in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from attn.exercises.answers import digest
from attn.exercises.bindings import binds, used, used_at_once


@dataclass(eq=False)
class Run:
    """One run of one cell.

    Args:
        text: of the cell.
        cell: its id; None where the front end sends none.
        number: in the notebook's margin.
        bound: the names whose value it changed.
        error: that ended it, with its article: ``a NameError``.
        ended: in seconds since 1970; 0 while it runs.
    """

    text: str
    cell: str | None = None
    number: int = 0
    bound: set[str] = field(default_factory=set)
    error: str = ""
    ended: float = 0.0

    def defines(self, name: str) -> bool:
        """Return whether the name got its value in this run.

        A definition that ran counts, whatever its cell raised below it.
        """
        is_text = bool(self.ended and not self.error)
        return name in self.bound or is_text and binds(name, self.text)


class Standing:
    """The answer of an exercise after some runs of cells.

    Args:
        name: that the exercise defines.
        runs: of all cells, in their order.

    Attributes:
        run: that defined the name last; None if none has.
        failed: a later run, of the same cell where ids are known, that left
            the name as it was.
        others: the last runs of other cells that may define it.
        is_newer: whether what has read its value read one of before.
        calls_back: whether it uses in its turn what it is a helper of.
    """

    is_newer = calls_back = False

    def __init__(self, name: str, runs: Sequence[Run]) -> None:
        self.name = name
        last = max(
            (n for n, x in enumerate(runs) if x.defines(name)), default=-1
        )
        self.run = runs[last] if last >= 0 else None
        own = self.run.cell if self.run else None
        latest: dict[object, int] = {}  # the last run of each cell
        for n, x in enumerate(runs):
            latest.pop(x.cell or n, None)
            latest[x.cell or n] = n
        self.failed: Run | None = None
        for x in (runs[n] for n in latest.values() if n > last):
            unknown = x.error and binds(name, x.text) and not (own and x.cell)
            if x.ended and (unknown or own and x.cell == own):
                self.failed = x
        self.others = [
            x
            for x in map(runs.__getitem__, latest.values())
            if own and x.cell not in (own, None)
            if binds(name, x.text) and self.run and x.text != self.run.text
        ]

    @property
    def text(self) -> str:
        """The text that a verdict is about; empty if no cell has one."""
        last = self.failed or self.run
        return last.text if last else ""

    @property
    def trouble(self) -> str:
        """The reason why what is defined is not what its cell says."""
        name, run, failed = self.name, self.run, self.failed
        if failed and failed.error:
            older = "; what is defined is older" if run else ""
            return f"Your cell ended in {failed.error}{older}."
        if failed:
            return (
                f"Nothing in cell [{failed.number}] defines {name} now: what "
                "is defined is older."
            )
        if (
            run
            and run.text.lstrip().startswith("%")
            and not binds(name, run.text)
        ):
            magic = run.text.strip().splitlines()[0]
            return (
                f"{name} comes from {magic}: write it in a cell, and run that."
            )
        return ""

    @property
    def beside(self) -> list[str]:
        """Sentences on the answer's cell, and on other cells with the name."""
        run, name = self.run, self.name
        if run is None or self.failed:
            return []
        said = (
            [f"Below {name}, its cell ended in {run.error}."]
            if run.error
            else []
        )
        for x in self.others:
            how = f"ended in {x.error}" if x.error else "ran before"
            said.append(
                f"{name} is in two cells, [{x.number}] and [{run.number}]: "
                f"[{x.number}] {how}, [{run.number}] counts."
            )
        return said


def helpers_of(
    name: str, run: Run, runs: Sequence[Run]
) -> dict[str, Standing]:
    """Return the standing of each name that a value needs, transitively.

    Args:
        name: of the value.
        run: that gave it.
        runs: of all cells, in their order.
    """
    found: dict[str, Standing] = {}
    todo = [(name, run)]
    for defined, where in todo:
        needs = used(defined, where.text)
        if defined in found:
            found[defined].calls_back = name in needs
        for needed in sorted(needs - {*found}):
            is_older = needed == name
            before = runs[: runs.index(where)] if is_older else runs
            found[needed] = stands = Standing(needed, before)
            if not stands.run:
                continue
            todo.append((needed, stands.run))
            at_once = used_at_once(defined, where.text)
            if needed in at_once and runs.index(stands.run) > runs.index(
                where
            ):
                read = Standing(needed, runs[: runs.index(where)]).run
                stands.is_newer = bool(read) and digest(read.text) != digest(
                    stands.run.text
                )
    return found
