"""Transformers logs errors only, from its first import on."""

import os

import pytest

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@pytest.fixture
def one_thread():
    """Use one thread: tensors are tiny, and processes fill the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
