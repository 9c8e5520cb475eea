"""Transformers logs errors only, from its first import on."""

import os

import pytest

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@pytest.fixture
def one_thread():
    """Use one thread: tensors are tiny, and processes fill the cores."""
    from attn.grading.checks import failures

    with failures.one_thread():
        yield
