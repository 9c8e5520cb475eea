"""Serve a learner: check, hints, progress, the workspace."""
