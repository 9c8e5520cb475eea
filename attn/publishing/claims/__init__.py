"""Experiments of the book, and the claims that rest on them.

A chapter writes an experiment as a function of its seed and its steps, and
asserts what follows from it with a bound. ``make claims`` calls the same
functions with more seeds and more steps, and records the margins in
``record/``; ``python -m attn.publishing.claims --stale`` repeats what has
changed, in code or in claims.

::

    @experiment(steps=100, longer=20)
    def beyond_training(seed: int, steps: int) -> dict: ...

    found = beyond_training()  # the page's run: seed 0, 100 steps

    @beyond_training.shows
    def waves_break(found):
        worst = found["sinusoidal"]["beyond"]
        return [claim("waves guess badly beyond 32", worst, above=1.39)]

The page asserts what ``shows`` returns, and prints its sentences. The longer
run has ``longer`` times the steps, ten or more. ``shows(after=100)`` claims
something about 100 steps only; ``beyond_training.longer()`` is the recorded
result of the longer run. The runner executes the cells that bind names which
an experiment uses, and no others: an experiment is one cell, and the call
that draws it is another.
"""

from attn.publishing.claims.experiment import (
    Claim,
    Experiment,
    claim,
    experiment,
)

__all__ = ["Claim", "Experiment", "claim", "experiment"]
