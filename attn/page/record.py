"""Record what a page needs to judge an exercise: run by ``make refresh``.

    python -m attn.page.record [FOLDER [ID …]]

The real engine runs the cases on the reference, and the page's own runner, on
real PyTorch, runs them on the solution and on each known mistake. Of the cases
those are stored that catch every mistake and tell any two of them apart, small
ones first, and at least one of each condition. A file is written again only
where more has changed than rounding, which differs from CPU to CPU.
"""

from __future__ import annotations

import gzip
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attn.data.book import root
from attn.exercises import sources
from attn.exercises.case import Case
from attn.exercises.draw import Draw
from attn.exercises.given import words
from attn.exercises.mistakes import Mistake
from attn.exercises.outcome import Outcome
from attn.exercises.place import place
from attn.exercises.spec import Exercise, chapter, find
from attn.grading.checks.compare import Problem, alike, max_abs
from attn.grading.checks.evidence import Evidence, Failure, agree
from attn.grading.checks.failures import one_thread
from attn.grading.checks.inputs import (
    input_size,
    leaves,
)
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failure
from attn.grading.checks.run import run as run_engine
from attn.grading.diagnosis.input_changes import input_changes
from attn.grading.diagnosis.kinds import Kind
from attn.page.encode import SAMPLE, CannotStore, Encoder, equal
from attn.page.running import Program, run

FOLDER = "book/page/data"
MOST_BYTES = 60_000  # of an exercise
_LARGEST, _MANY = 50_000, 5_000  # elements of a case's inputs
_ENOUGH = 9000  # elements in all: what a file has room for
_FEW = 4  # elements of each result of a prediction
_DIGITS = 6  # of a result: float32 forgives as much
_IMPORTS = """\
import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
"""


class _Coarse(Draw):
    """Draw elements of three decimals, which are the same on every CPU.

    Where there are thousands, of none: they take room.
    """

    def randn(self, *shape: int) -> Tensor:
        """Draw elements of mean 0 and variance 1."""
        x = torch.randn(shape, generator=self, dtype=torch.float64)
        return x.round(decimals=3 if x.numel() < _MANY else 0).float()


class Record:
    """The cases of an exercise that a page can have, and all outcomes."""

    def __init__(self, exercise: Exercise) -> None:
        def coarse(g: Draw) -> Iterator[Case]:
            own = _Coarse()
            own.set_state(g.get_state())
            return exercise.cases(own)

        self.exercise = replace(exercise, cases=coarse)
        self.oracle = Oracle(self.exercise, seed=0)
        self.oracle.cases = [_unmeasured(x) for x in self.oracle.cases]
        self.cases = [
            i for i, _ in enumerate(self.oracle.cases) if self._fits(i)
        ]
        self.given = given(exercise)
        self.solution = self._outcomes(sources.solution(exercise.id))
        wrong = [i for i, x in self.solution.items() if self._is_wrong(i, x)]
        if wrong:
            when = self.oracle.cases[wrong[0]].condition
            raise CannotStore(f"the solution is wrong on a page when {when}")
        self.mistakes = {
            x: self._told(self._outcomes(x.source)) for x in exercise.mistakes
        }

    def _fits(self, i: int) -> bool:
        """Return whether a page can have a case, and compare its result."""
        case = self.oracle.cases[i]
        try:
            Encoder().case(case)
            Encoder().outcome(right := self.oracle.expected(i), None)
        except CannotStore:
            return False
        many = sum(map(input_size, (*case.before, case)))
        drawn = case.shares or case.largest_over is not None
        return not (right.random_used or drawn or case.once or many > _LARGEST)

    def _outcomes(self, source: str) -> dict[int, Outcome]:
        """Run an answer on the cases, up to one that ends the check."""
        names: dict[str, Any] = {}
        exec(self.given, names)
        program = Program(source, names)
        program.run()
        exercise, outcomes = self.exercise, {}
        for i in self.cases:
            case = self.oracle.cases[i]
            outcomes[i] = run(
                program,
                program.names[exercise.name],
                case,
                forbids=exercise.forbids,
                names=exercise.input_names(case),
                use=exercise.use,
            )
        return outcomes

    def _told(self, outcomes: dict[int, Outcome]) -> dict[int, Outcome]:
        """Return outcomes without the gradients of results that are wrong."""
        right = {i: self.oracle.expected(i).output for i in outcomes}
        return {
            i: x if alike(x.output, right[i]) else replace(x, grads={})
            for i, x in outcomes.items()
        }

    def _is_wrong(self, i: int, outcome: Outcome) -> bool:
        return failure(self.oracle, i, outcome) is not None

    def chosen(self) -> list[int]:
        """Return the cases to store.

        Raises:
            CannotStore: a mistake is right in all cases of a page.
        """
        oracle, every = self.oracle, self.cases
        wrong = {
            x: {i for i in every if self._is_wrong(i, own[i])}
            for x, own in self.mistakes.items()
        }
        if unseen := [x.label for x, cases in wrong.items() if not cases]:
            raise CannotStore(f"no case of a page catches {'; '.join(unseen)}")
        costs = {}
        for i in every:
            case, right = oracle.cases[i], oracle.expected(i)
            kinds = sum(i in cases for cases in wrong.values())
            given = sum(map(input_size, (*case.before, case)))
            results = [x.numel() for x in _tensors(right)]
            each = sum(min(n, SAMPLE) for n in results)
            costs[i] = given + sum(results) + kinds * each
        cheap = sorted(every, key=lambda i: (costs[i], i))
        chosen: list[int] = []

        def take(fitting: Callable[[int], bool]) -> None:
            if not any(map(fitting, chosen)):
                chosen.extend([i for i in cheap if fitting(i)][:1])

        usual = [i for i in every if costs[i] < _MANY]
        for when in dict.fromkeys(oracle.cases[i].condition for i in usual):
            same = {i for i in every if oracle.cases[i].condition == when}
            take(same.__contains__)
        for cases in wrong.values():
            take(cases.__contains__)
        for x, y in combinations(self.mistakes, 2):
            if x.name != y.name:
                take(partial(self._differ, x, y))
        room = _ENOUGH - sum(costs[i] for i in chosen)
        for i in cheap:
            if i not in chosen and costs[i] <= room:
                chosen.append(i)
                room -= costs[i]
        return sorted(chosen)

    def _differ(self, x: Mistake, y: Mistake, i: int) -> bool:
        """Return whether a case tells two mistakes apart."""
        one, two = self.mistakes[x][i], self.mistakes[y][i]
        case, rtol = self.oracle.cases[i], self.oracle.rtol(i)
        return not agree(one, two, case, rtol)

    def data(self) -> dict[str, Any]:
        """Return what is stored."""
        exercise, oracle, encoder = self.exercise, self.oracle, Encoder()
        chosen = self.chosen()
        rows = [self._row(encoder, i) for i in chosen]
        outcomes: list[Any] = []
        at: dict[str, int] = {}

        def stored(
            x: Mistake | Kind, own: dict[int, Outcome], most: int
        ) -> Any:
            """Return a mistake with its outcomes where they are not right."""
            places = {}
            for n, i in enumerate(chosen):
                if own[i].error is None and agree(
                    own[i], oracle.expected(i), oracle.cases[i], oracle.rtol(i)
                ):
                    continue
                right = oracle.expected(i)
                row = encoder.mistaken(own[i], right, _DIGITS, most)
                key = json.dumps(row)
                if key not in at:
                    at[key] = len(outcomes)
                    outcomes.append(row)
                places[str(n)] = at[key]
            return {"name": x.name, "why": x.why, "outcomes": places}

        mistakes = [stored(x, y, SAMPLE) for x, y in self.mistakes.items()]
        predicted = [stored(x, y, _FEW) for x, y in self._predicted(chosen)]
        when = {oracle.cases[i].condition for i in chosen}
        found = {
            "id": exercise.id,
            "name": exercise.name,
            "title": place(exercise.id).title,
            "points": exercise.points,
            "form": exercise.form,
            "stub": sources.stub(exercise.id),
            "given": self.given,
            "forbids": [*exercise.forbids],
            "returns": [*exercise.returns],
            "documented": exercise.documented,
            "tried": [f"{len(chosen)} inputs in {len(when)} conditions"],
            "cases": rows,
            "mistakes": mistakes,
            "predicted": predicted,
            "outcomes": outcomes,
            "tensors": encoder.tensors,
            "states": encoder.states,
        }
        if exercise.use:
            text = inspect.getsource(exercise.use)
            found["use"] = f"from __future__ import annotations\n{text}"
            found["use_name"] = exercise.use.__name__
        return json.loads(json.dumps(found))

    def _predicted(
        self, chosen: list[int]
    ) -> Iterator[tuple[Kind, dict[int, Outcome]]]:
        """Yield what is right for other inputs, as the engine tries them.

        Some of it, where there is much.
        """
        oracle, room, names = self.oracle, _ENOUGH, set[str]()
        by_inputs = sorted(
            chosen, key=lambda i: len(self.exercise.inputs(oracle.cases[i]))
        )
        for first in (by_inputs[-1], by_inputs[0]):
            case, right = oracle.cases[first], oracle.expected(first)
            wrong = [Failure(case, right, [Problem("value", "")], first)]
            for claim in input_changes(Evidence(oracle, [], wrong)):
                own: dict[int, Outcome | None] = {}
                for i in chosen:
                    own[i] = None
                    with suppress(Exception):  # an input is lacking
                        own[i] = claim.predict(i)
                made = {i: x or oracle.expected(i) for i, x in own.items()}
                is_right = all(
                    agree(x, oracle.expected(i), oracle.cases[i])
                    for i, x in made.items()
                )
                failed = any(x.error for x in made.values())
                if claim.name.name in names or is_right or failed:
                    continue
                room -= _FEW * len(chosen)
                if claim.rival or room < 0 or not isinstance(claim.name, Kind):
                    continue
                names.add(claim.name.name)
                yield claim.name, made

    def _row(self, encoder: Encoder, i: int) -> dict[str, Any]:
        """Return a case, its right outcome, and what is forgiven."""
        oracle, case = self.oracle, self.oracle.cases[i]
        expected, exact = oracle.expected(i), oracle.expected_fp64(i)
        kinds = [x.dtype for x in _tensors(expected)]
        floats = [x for x in kinds if x.is_floating_point]
        is_exact = torch.float64 in floats and not case.rtol
        digits = None if is_exact else _DIGITS
        row: dict[str, Any] = {"case": encoder.case(case)}
        row["right"] = encoder.outcome(_only(exact), digits)
        row["dtypes"] = [str(x).removeprefix("torch.") for x in kinds]
        row["moved"], is_rounded = self._moved(i)
        if is_rounded:
            row["rounded"] = encoder.outcome(_only(expected), None)
        alone = run_engine(
            self.exercise.reference,
            replace(case, before=(), grad=False),
            launch=self.exercise.caller,
        )
        if case.before and not agree(alone, expected, case):
            row["needs_before"] = True
        if (rtol := oracle.rtol(i)) > 1e-5:
            row["rtol"] = float(f"{rtol:.2g}")
        return row

    def _moved(self, i: int) -> tuple[list[float], bool]:
        """Return an eighth of the error that is forgiven of each tensor.

        In addition to what ``compare`` forgives in any case; and whether the
        reference is too far off for that, and has to be stored too.
        """
        oracle = self.oracle
        both = oracle.expected(i), oracle.expected_fp64(i)
        perturbed, found, is_rounded = oracle.perturbed_fp64(i), [], False
        moved = _numbers(perturbed) if perturbed else [None] * 999
        for right, exact, other in zip(
            *map(_numbers, both), moved, strict=False
        ):
            if not exact.is_floating_point():
                found.append(0.0)
                continue
            finite = exact.isfinite()
            own = 4 * max_abs((right.double() - exact)[finite])
            noise = 0.0
            if other is not None:
                finite &= other.isfinite()
                noise = 8 * max_abs((other.double() - exact)[finite])
            most = 1e-3 * max_abs(exact)
            if right.element_size() < 4 or own + noise > most:
                is_rounded = True
            total = min(noise, most) + own * (not is_rounded)
            found.append(float(f"{total / 8:.1e}"))
        return found, is_rounded


def _unmeasured(case: Case) -> Case:
    before = tuple(map(_unmeasured, case.before))
    return replace(case, max_live=None, max_kept=None, before=before)


def _only(outcome: Outcome) -> Outcome:
    """Return a right outcome without what a case's memory is."""
    return replace(outcome, shapes_seen={}, printed="", side_effect=None)


def _tensors(outcome: Outcome) -> list[Tensor]:
    every = [x for _, x in leaves(outcome.output)]
    every += _in_order(outcome.grads)
    return [x for x in every if isinstance(x, Tensor)]


def _in_order(grads: dict[str, Tensor]) -> list[Tensor]:
    return [x for _, x in sorted(grads.items())]


def _numbers(outcome: Outcome) -> list[Tensor]:
    """Return the tensors and the floats of a result, and its gradients."""
    every = [x for _, x in leaves(outcome.output)]
    numbers = [
        torch.tensor(x, dtype=torch.float64) if isinstance(x, float) else x
        for x in (*every, *_in_order(outcome.grads))
    ]
    return [x for x in numbers if isinstance(x, Tensor)]


def given(exercise: Exercise) -> str:
    """Return what a task may use: imports, and the chapter's earlier answers.

    Raises:
        CannotStore: it may use what a page does not have.
    """
    own = [sources.solution(exercise.id), sources.stub(exercise.id)]
    own += [x.source for x in (*exercise.mistakes, *exercise.equivalents)]
    used, texts = words("\n".join(own)), list[str]()
    earlier = [x.name for x in chapter(exercise.id.partition("-")[0])]
    earlier = earlier[: earlier.index(exercise.name)]
    known = offered()
    for name in reversed(earlier):
        whole = f"{exercise.id.partition('-')[0]}-{name}"
        if name in used or whole in known:
            texts.insert(0, text := sources.solution(whole))
            used |= words(text) if name in used else set()
    lacks = {*exercise.given} & used - {"Callable", "Iterable"}
    if lacks:
        raise CannotStore(f"a page lacks {', '.join(sorted(lacks))}")
    return "\n\n\n".join([_IMPORTS, *texts]) + "\n"


def packed(data: dict[str, Any]) -> bytes:
    """Return a file's bytes, which are the same for the same data."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), 9, mtime=0)


def stored(file: Path) -> Any:
    """Return what is stored in a file; None if it is none."""
    return (
        json.loads(gzip.decompress(file.read_bytes()))
        if file.exists()
        else None
    )


def offered() -> list[str]:
    """Return the exercises that a page has, in the order of the book."""
    text = (root() / FOLDER / "exercises.txt").read_text("utf-8")
    return text.split()


def refresh(folder: Path, ids: Iterable[str]) -> None:
    """Write the files of exercises, where they have changed, and the index."""
    index = folder / "index.json"
    about = json.loads(index.read_text("utf-8")) if index.exists() else {}
    for name in ids:
        with one_thread():
            data = Record(find(name)).data()
        file = folder / f"{name}.json.gz"
        if not equal(stored(file), data):
            file.write_bytes(packed(data))
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise CannotStore(f"{name} takes {size} bytes, above {MOST_BYTES}")
        about[name] = {
            "bytes": size,
            "chapter": sources.notebook_path(name.partition("-")[0]).stem,
            "title": data["title"],
        }
        print(f"{name:<32} {size:>6} bytes, {len(data['cases'])} cases")
    about = {x: about[x] for x in offered() if x in about}
    index.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    where = Path(sys.argv[1]) if sys.argv[1:] else root() / FOLDER
    refresh(where, sys.argv[2:] or offered())
