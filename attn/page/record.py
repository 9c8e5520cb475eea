"""Record what a page needs to judge an exercise: run by ``make refresh``.

    python -m attn.page.record [FOLDER [ID …]]

A file is written again only where more has changed than rounding, which
differs from CPU to CPU.
"""

from __future__ import annotations

import gzip
import inspect
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attn.data.book import root
from attn.exercises import sources
from attn.exercises.mistakes import Mistake
from attn.exercises.outcome import Outcome
from attn.exercises.place import place
from attn.exercises.spec import find
from attn.grading.checks.compare import max_abs
from attn.grading.checks.evidence import agree
from attn.grading.checks.failures import one_thread
from attn.grading.checks.run import run
from attn.grading.diagnosis.kinds import Kind
from attn.page.encode import SAMPLE, CannotStore, Encoder, equal
from attn.page.offered import FOLDER, offered
from attn.page.outcomes import FEW, Outcomes, Tried, tensors

MOST_BYTES = 60_000  # of an exercise
_OWN = ("id", "name", "points", "form", "forbids", "returns", "documented")
_DIGITS = 6  # of a result: float32 forgives as much


def recorded(name: str) -> dict[str, Any]:
    """Return what is stored of an exercise."""
    with one_thread():
        return _Record(Tried(find(name))).data()


class _Record:
    """A file: the cases that are chosen, and what they share."""

    def __init__(self, tried: Tried) -> None:
        self.tried, self.oracle = tried, tried.oracle
        self.chosen, self.encoder = tried.chosen(), Encoder()
        self.outcomes: dict[str, int] = {}

    def data(self) -> dict[str, Any]:
        """Return what is stored."""
        tried, exercise, stored = self.tried, self.tried.exercise, self._stored
        rows = [self._row(i) for i in self.chosen]
        mistakes = [stored(x, y, SAMPLE) for x, y in tried.mistakes.items()]
        predicted = [stored(*x, FEW) for x in tried.predicted(self.chosen)]
        when = {self.oracle.cases[i].condition for i in self.chosen}
        found = {x: getattr(exercise, x) for x in _OWN} | {
            "title": place(exercise.id).title,
            "stub": sources.stub(exercise.id),
            "given": tried.given,
            "tried": [f"{len(rows)} inputs in {len(when)} conditions"],
            "cases": rows,
            "mistakes": mistakes,
            "predicted": predicted,
            "outcomes": [*map(json.loads, self.outcomes)],
            "tensors": self.encoder.tensors,
            "states": self.encoder.states,
        }
        if exercise.use:
            text = inspect.getsource(exercise.use)
            found["use"] = f"from __future__ import annotations\n{text}"
            found["use_name"] = exercise.use.__name__
        return json.loads(json.dumps(found))

    def _stored(self, x: Mistake | Kind, own: Outcomes, most: int) -> Any:
        """Return a mistake with its outcomes where they are not right."""
        places = {}
        for n, i in enumerate(self.chosen):
            if not self.tried.is_right(i, own[i]):
                right = self.oracle.expected(i)
                row = self.encoder.mistaken(own[i], right, _DIGITS, most)
                at = len(self.outcomes)
                places[str(n)] = self.outcomes.setdefault(json.dumps(row), at)
        return {"name": x.name, "why": x.why, "outcomes": places}

    def _row(self, i: int) -> dict[str, Any]:
        """Return a case, its right outcome, and what is forgiven."""
        oracle, encoder = self.oracle, self.encoder
        case, expected = oracle.cases[i], oracle.expected(i)
        exact = oracle.expected_fp64(i)
        kinds = [x.dtype for x in tensors(expected)]
        is_exact = torch.float64 in kinds and not case.rtol
        digits = None if is_exact else _DIGITS
        row: dict[str, Any] = {"case": encoder.case(case)}
        row["right"] = encoder.outcome(_only(exact), digits)
        row["dtypes"] = [str(x).removeprefix("torch.") for x in kinds]
        row["moved"], is_rounded = self._moved(i)
        if is_rounded:
            row["rounded"] = encoder.outcome(_only(expected), None)
        alone = run(
            self.tried.exercise.reference,
            replace(case, before=(), grad=False),
            launch=self.tried.exercise.caller,
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
        right, exact = oracle.expected(i), oracle.expected_fp64(i)
        three = right, exact, oracle.perturbed_fp64(i) or exact
        found, is_rounded = [], False
        for right, exact, other in zip(
            *(tensors(x, floats=True) for x in three), strict=True
        ):
            if not exact.is_floating_point():
                found.append(0.0)
                continue
            finite = exact.isfinite()
            own = 4 * max_abs((right.double() - exact)[finite])
            finite &= other.isfinite()
            noise = 8 * max_abs((other.double() - exact)[finite])
            most = 1e-3 * max_abs(exact)
            if right.element_size() < 4 or own + noise > most:
                is_rounded = True
            total = min(noise, most) + own * (not is_rounded)
            found.append(float(f"{total / 8:.1e}"))
        return found, is_rounded


def _only(outcome: Outcome) -> Outcome:
    """Return a right outcome without what a case's memory is."""
    return replace(outcome, shapes_seen={}, printed="", side_effect=None)


def stored(file: Path) -> Any:
    """Return what is stored in a file; None if it is none."""
    if file.exists():
        return json.loads(gzip.decompress(file.read_bytes()))
    return None


def refresh(folder: Path, ids: Iterable[str]) -> None:
    """Write the files of exercises, where they have changed, and the index."""
    index = folder / "index.json"
    about = json.loads(index.read_text("utf-8")) if index.exists() else {}
    for name in ids:
        data, file = recorded(name), folder / f"{name}.json.gz"
        if not equal(stored(file), data):
            text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
            file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
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
