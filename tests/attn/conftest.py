"""Transformers logs errors only, from its first import on."""

import os

import pytest

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@pytest.fixture
def one_thread():
    """Use one thread: tensors are tiny, and processes fill the cores."""
    from attn.profiling import calls

    with calls.one_thread():
        yield


@pytest.fixture
def record(monkeypatch):
    """Return how to list the calls of a function: arguments and options."""

    def recorded(owner, name):
        real, calls = getattr(owner, name), []

        def noted(*args, **options):
            calls.append((args, options))
            return real(*args, **options)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return recorded


@pytest.fixture
def in_double():
    """Make float64 the default dtype, and draw the same numbers each time."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
