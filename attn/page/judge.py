"""Judge a learner's text on a page, with what was recorded of its exercise."""

from __future__ import annotations

import traceback
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from attn.exercises.form import misfit
from attn.exercises.outcome import Forbidden, Outcome
from attn.exercises.wrapping import marked
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.problems import failures
from attn.page.running import FILE, Program, learners_line, restored, run
from attn.page.stored import StoredOracle

RIGHT, WRONG = "right", "not right yet"
NOT_STARTED, UNFINISHED = "not started", "not finished"
ELSEWHERE = "not on this page"
#: What Jupyter has, and a page does not; and of PyTorch, what it lacks.
_ELSEWHERE = {
    *("IPython", "attn", "matplotlib", "numpy", "sympy"),
    *("torch", "tqdm", "transformers", "triton"),
}
_SENTENCES = ("title", "question", "condition", "what", "details")
_MOST = 2000  # characters of a value

Card = dict[str, Any]

_oracles: dict[str, StoredOracle] = {}
#: By exercise, the inputs of the call that was wrong, by name.
_failing: dict[str, dict[str, Any]] = {}
#: By exercise, the lines without a value that were typed below an editor.
_typed: dict[str, list[str]] = {}


@restored()
def check(data: dict[str, Any], source: str) -> Card:
    """Judge an answer, and return its card.

    Args:
        data: what was recorded of the exercise.
        source: the text in the editor.
    """
    oracle = _oracle(data)
    exercise = oracle.exercise
    if not source.strip():
        return _card("calm", NOT_STARTED, "there is nothing here yet")
    program = Program(source, exercise.names)
    if (failed := _defined(program)) is not None:
        return failed
    answer = program.names.get(exercise.name)
    if exercise.name not in program.names:
        said = f"{exercise.name} is not defined"
        return _card("calm", NOT_STARTED, said, printed=program.printed.take())
    if said := misfit(exercise.name, exercise.form, answer):
        return _card("wrong", WRONG, said)
    printed = program.printed.take()
    outcomes = _outcomes(program, oracle, answer)
    printed += "".join(x.printed for x in outcomes[:1])
    missing = outcomes[-1].error
    said = _missing(missing)
    if said:
        outcomes.pop()
    oracle.answered = outcomes
    wrong = failures(oracle, outcomes)  # type: ignore[arg-type]
    if missing and said and not wrong:
        return _card("calm", ELSEWHERE, said, line=_line(missing))
    if not wrong:
        return _card("right", RIGHT, "", tried=data["tried"], printed=printed)
    if isinstance(wrong[0].outcome.error, NotImplementedError):
        said = "`raise NotImplementedError` is still there."
        return _card("calm", UNFINISHED, said, printed=printed)
    runner: Any = partial(run, program)
    return _explained(
        _Evidence(oracle, outcomes, wrong, answer, runner),  # type: ignore[arg-type]
        printed,
    )


@restored()
def evaluate(
    data: dict[str, Any], source: str, expression: str
) -> dict[str, Any]:
    """Return the value of an expression that may use the learner's function.

    Args:
        data: what was recorded of the exercise.
        source: the text in the editor.
        expression: to be evaluated, or statements that are run.
    """
    names = _oracle(data).exercise.names | _failing.get(data["id"], {})
    program = Program(source, names)
    text, error, line = "", "", None
    try:
        program.run()
        lines = _typed.setdefault(data["id"], [])
        for earlier in lines:
            with suppress(Exception):
                program.value(earlier)
        if lines:
            program.printed.take()
        value = program.value(expression.strip())
        if value is not None:
            text = repr(value)
            text = text if len(text) <= _MOST else f"{text[:_MOST]} …"
        elif expression.strip() not in lines:
            lines.append(expression.strip())  # it may give a name a value
    except BaseException as raised:
        error, line = _error(raised), _line(raised)
    printed = program.printed.take()
    return {"text": text, "printed": printed, "error": error, "line": line}


def shown(card: Card) -> Card:
    """Return a card whose sentences have Markdown's marks around code."""
    return card | {name: _marked(card[name]) for name in _SENTENCES}


def _oracle(data: dict[str, Any]) -> StoredOracle:
    if data["id"] not in _oracles:
        _oracles[data["id"]] = StoredOracle(data)
    return _oracles[data["id"]]


def _defined(program: Program) -> Card | None:
    """Run a learner's text; return a card if that fails."""
    try:
        program.run()
    except BaseException as error:
        state, word, more = "wrong", WRONG, []
        if _missing(error):
            state, word = "calm", ELSEWHERE
        line = _line(error)
        if not isinstance(error, OutOfTime) and line:
            text, _, _ = learners_line(error)
            text = text or (getattr(error, "text", "") or "").strip()
            more = [f"  in the line  {text}"] if text else []
        said, printed = _error(error), program.printed.take()
        return _card(state, word, said, more=more, line=line, printed=printed)
    return None


def _missing(error: BaseException | None) -> str:
    """Say what a page lacks, if that is what an error is about."""
    if type(error).__name__ == "NotOnThisPage":  # of the page
        return str(error)
    name = getattr(error, "name", None) or ""
    is_module = isinstance(error, ImportError)
    if is_module and name.partition(".")[0] in _ELSEWHERE:
        return f"{name} is not on this page; in Jupyter it is"
    return ""


def _error(error: BaseException) -> str:
    if isinstance(error, OutOfTime) or _missing(error):
        return _missing(error) or str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return "".join(traceback.format_exception_only(error)).strip()


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return error.lineno
    return learners_line(error)[2]


def _outcomes(
    program: Program, oracle: StoredOracle, answer: Any
) -> list[Outcome]:
    """Run the cases in order; stop where no other can say more."""
    exercise, outcomes = oracle.exercise, []
    for case in oracle.cases:
        outcome = run(
            program,
            answer,
            case,
            forbids=exercise.forbids,
            names=exercise.input_names(case),
            use=exercise.use,
        )
        outcomes.append(outcome)
        stops = OutOfTime | NotImplementedError | Forbidden
        if isinstance(outcome.error, stops) or _missing(outcome.error):
            break
    return outcomes


class _Evidence(Evidence):
    def reference(self, i: int, **fields: Any) -> Outcome:
        """Return the right outcome of a case without its earlier calls."""
        oracle: Any = self.oracle
        return oracle.expected(i) if oracle.is_alone(i) else Outcome()


def _explained(evidence: Evidence, printed: str) -> Card:
    """Return the card of a wrong answer; what explains it is loaded now."""
    from attn.grading.diagnosis.kinds import Claim, Kind
    from attn.grading.diagnosis.naming import diagnose, true
    from attn.grading.diagnosis.refusal import explain

    exercise: Any = evidence.exercise
    mistaken: Any = evidence.oracle.mistaken
    claims = [
        Claim(Kind(x.name, x.why), partial(mistaken, x))
        for x in exercise.predicted
    ]
    diagnosis = diagnose(evidence, lambda e: [*islice(true(e, claims), 1)])
    _, parts = explain(evidence, diagnosis)
    shown, grid = parts.shown, None
    if parts.grid:
        grid = parts.grid._asdict()
        grid["columns"] = [*parts.grid.columns]
    error = shown.outcome.error if shown else None
    if shown:
        _failing[exercise.id] = exercise.inputs(shown.case)
    return _card(
        "wrong",
        WRONG,
        parts.title,
        label=parts.label,
        question=parts.question,
        condition=parts.condition,
        what=parts.what,
        more=[*parts.more],
        elements=[[*x] for x in parts.elements],
        grid=grid,
        call=parts.call.strip(),
        printed=printed,
        line=_line(error) if error else None,
        details=parts.details,
        name=diagnosis.name,
    )


def _card(state: str, word: str, title: str, **others: Any) -> Card:
    empty: Card = {
        **dict.fromkeys(("label", "question", "condition", "what"), ""),
        **{"more": [], "elements": [], "grid": None, "call": ""},
        **{"printed": "", "line": None, "tried": [], "details": ""},
        "name": None,
    }
    return {"state": state, "word": word, "title": title, **empty, **others}


def _marked(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(x if x[:1] == " " else marked(x) for x in lines)
