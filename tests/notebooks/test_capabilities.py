"""Stored outputs hold for every width of vectors that this CPU has.

Torch computes with the widest. Solved chapters and the museum run with that
one in their own tests; here are the others, as on the machines that have no
more. Solved chapters run with the narrowest, untouched ones with the next.
"""

import contextlib
import functools
import os
import sys

import nbformat
import pytest
import torch

from attn.exercises import CHAPTERS, cells, sources
from attn.publishing import notebooks
from tests.notebooks.conftest import kernels_from, started
from tests.notebooks.learners import junit_of, pytest_nbval, written
from tests.processes import run_python

WHICH = "torch.backends.cpu.get_cpu_capability()"
CAPABILITIES = ("default", "avx2", "avx512")
NATIVE = torch.backends.cpu.get_cpu_capability().lower()


@functools.cache
def has(capability):
    """Return whether torch computes with a capability when told to.

    Where the CPU has AMX, attention in bfloat16 needs AVX-512 even so.
    """
    code = f"""import torch
print({WHICH})
x = torch.ones(1, 1, 64, 64, dtype=torch.bfloat16)
torch.nn.functional.scaled_dot_product_attention(x, x, x)"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    done = run_python(code, env=environment)
    return not done.returncode and done.stdout.strip() == capability.upper()


@functools.cache
def narrower():
    """Return the capabilities below the widest, the narrowest first."""
    return [x for x in CAPABILITIES if x != NATIVE and has(x)] or [NATIVE]


@pytest.fixture(scope="session")
def servers(shared):
    """Servers whose kernels compute with a capability, until all has run."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def server(capability):
            setting = {"ATEN_CPU_CAPABILITY": capability}
            return stack.enter_context(started(shared, capability, **setting))

        yield server


@pytest.fixture
def nbval_at(servers, tmp_path, tmp_path_factory, monkeypatch):
    """``pytest --nbval`` whose kernels compute with a given capability.

    The notebook's last cell asserts that they do.
    """

    def at(capability, notebook, name, *options):
        proof = f'import torch\nassert {WHICH} == "{capability.upper()}"'
        notebook.cells.append(nbformat.v4.new_code_cell(proof))
        path = written(notebook, tmp_path, name)
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
        kernels = None
        if sys.platform == "linux":
            server = servers(capability)
            kernels = kernels_from(server, tmp_path_factory, monkeypatch)
        return pytest_nbval(path, *options, python=kernels)

    return at


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", CHAPTERS)
def test_an_untouched_chapter_fails_only_its_checks(key, nbval_at, tmp_path):
    """Its demonstrations see the book's own functions, and print the same."""
    path, junit = sources.notebook_path(key), tmp_path / "junit.xml"
    notebook = notebooks.read(path)
    worth = cells.points(notebook)
    words = path.name, f"--junitxml={junit}"
    _, score = nbval_at(narrower()[-1], notebook, *words)
    failed = {
        about.get("exercise", case.get("name"))
        for case, about in junit_of(junit)
        if case.find("failure") is not None
    }
    assert failed == set(worth)
    assert score == {path.stem: {x: ("·", 0, worth[x]) for x in worth}}


@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("path", notebooks.pristine(), ids=lambda x: x.stem)
def test_stored_outputs_hold_for_every_capability(path, capability, nbval_at):
    if capability == NATIVE:
        pytest.skip("tested without being told to")
    if not has(capability):
        pytest.skip(f"this CPU has no {capability}")
    is_chapter = path in map(sources.notebook_path, CHAPTERS)
    if capability != narrower()[0] and is_chapter:
        pytest.skip("tested above, untouched")
    notebook = notebooks.solved(notebooks.read(path))
    worth = cells.points(notebook)
    result, score = nbval_at(capability, notebook, path.name, "--tb=short")
    assert result.returncode == 0, result.stdout[-4000:]
    right = {x: ("✓", worth[x], worth[x]) for x in worth}
    assert score.get(path.stem, {}) == right
