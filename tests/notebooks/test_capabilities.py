"""Stored outputs hold for every width of vectors that this CPU has.

Torch computes with the widest. The tests of scores and of the museum run with
that one; here are the others, as on the machines that have no more.
"""

import contextlib
import functools
import os
import sys

import nbformat
import pytest
import torch

from attn.publishing import notebooks
from tests.notebooks.conftest import kernels_from, nbval_from, started
from tests.notebooks.learners import pytest_nbval, written
from tests.processes import run_python

WHICH = "torch.backends.cpu.get_cpu_capability()"


@functools.cache
def has(capability):
    """Return whether torch obeys when told to compute with a capability."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    done = run_python(f"import torch; print({WHICH})", env=environment)
    return done.stdout.strip() == capability.upper()


@pytest.fixture(scope="session")
def servers(shared):
    """Servers whose kernels compute with a capability, until all has run."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def server(capability):
            environment = {"ATEN_CPU_CAPABILITY": capability}
            return stack.enter_context(
                started(shared, capability, **environment)
            )

        yield server


@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
@pytest.mark.parametrize("path", notebooks.pristine(), ids=lambda x: x.stem)
def test_stored_outputs_hold_for_every_cpu_capability(
    path, capability, servers, tmp_path, tmp_path_factory, monkeypatch
):
    if capability.upper() == torch.backends.cpu.get_cpu_capability():
        pytest.skip("tested without being told to")
    if not has(capability):
        pytest.skip(f"this CPU has no {capability}")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    nbval = pytest_nbval
    if sys.platform == "linux":
        server = servers(capability)
        python = kernels_from(server, tmp_path_factory, monkeypatch)
        nbval = nbval_from(python)
    notebook = notebooks.solved(notebooks.read(path))
    proof = f'import torch\nassert {WHICH} == "{capability.upper()}"'
    notebook.cells.append(nbformat.v4.new_code_cell(proof))
    result, _ = nbval(written(notebook, tmp_path, path.name), "--tb=short")
    assert result.returncode == 0, result.stdout[-4000:]
