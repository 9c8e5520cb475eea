"""Stored outputs hold for every width of vectors that this CPU has.

Torch computes with the widest. The tests of scores and of the museum run with
that one; here are the others, as on the machines that have no more.
"""

import functools
import os
import subprocess
import sys

import nbformat
import pytest
import torch

from attn.grading import notebooks
from tests.notebooks.learners import pytest_nbval

WHICH = "torch.backends.cpu.get_cpu_capability()"


@functools.cache
def has(capability):
    """Return whether torch obeys when told to compute with a capability."""
    found = subprocess.run(
        [sys.executable, "-c", f"import torch; print({WHICH})"],
        env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() == capability.upper()


@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
@pytest.mark.parametrize("path", notebooks.pristine(), ids=lambda x: x.stem)
def test_stored_outputs_hold(path, capability, tmp_path, monkeypatch):
    if capability.upper() == torch.backends.cpu.get_cpu_capability():
        pytest.skip("tested without being told to")
    if not has(capability):
        pytest.skip(f"this CPU has no {capability}")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    notebook = notebooks.solved(notebooks.read(path))
    proof = f'import torch\nassert {WHICH} == "{capability.upper()}"'
    notebook.cells.append(nbformat.v4.new_code_cell(proof))
    notebooks.write(notebook, tmp_path / path.name)
    result, _ = pytest_nbval(tmp_path / path.name, "--tb=short")
    assert result.returncode == 0, result.stdout[-4000:]
