"""Run an answer, measure it, and compare it with the reference."""
