"""Kernels as a learner writes them: in a cell, which has a source."""

import importlib.util

import pytest

HEAD = "from attn.exercises.triton_compat import tl, triton\n\n\n"


@pytest.fixture
def write(tmp_path):
    """Return a kernel from its source, written to a file of its own."""

    def written(text, name):
        path = tmp_path / f"cell_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(f"{HEAD}{text}\n")
        spec = importlib.util.spec_from_file_location("__main__cell", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return written
