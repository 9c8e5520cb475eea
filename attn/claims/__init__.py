"""Experiments of the book, and the claims that rest on them.

A chapter writes an experiment as a function of its seed and its steps, and
asserts what follows from it with a bound. ``python -m attn.claims`` calls the
same functions with more seeds and more steps, and records the margins.
"""

from attn.claims.experiment import Claim, Experiment, claim, experiment

__all__ = ["Claim", "Experiment", "claim", "experiment"]
