"""CONTRIBUTING's recipe: a new exercise is four files, and nothing else."""

import json
import os
import shutil
from pathlib import Path

import pytest

from attn.exercises.cells import checked_id, exercise_id
from attn.exercises.spec import chapter
from attn.publishing.notebooks import digest
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = "solutions/ch02_scaled_dot_product.py"
NOTEBOOK = "notebooks/02_scaled_dot_product.ipynb"
STUB = '''
def scale(query: Tensor, key: Tensor) -> Tensor:
    """Return the scores of every query with every key, over sqrt(D).

    Args:
        query: (L, D).
        key: (S, D).
    """
    # YOUR CODE HERE
    raise NotImplementedError
'''.strip()
BODY = "    return query @ key.mT / math.sqrt(query.shape[-1])"
SOLUTION = "\n".join([*STUB.splitlines()[:-2], BODY])
EXERCISE = '''
"""Cases of ``sdp-scale``."""

import torch

from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import is_view, many_keys, many_queries


def _cases(g):
    def scores(L, S, D):
        shapes = ((D, L), (D, S))
        return tuple(torch.randn(x, generator=g).mT for x in shapes)

    yield Case("there is one query, and one key", scores(1, 1, 8))
    yield Case("there are several", scores(3, 5, 8))


exercise = Exercise(
    id="sdp-scale",
    points=1,
    reference=lambda query, key: query @ key.mT / query.shape[-1] ** 0.5,
    cases=_cases,
    breaks={
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
)

'''.lstrip()
TEXT = """
# Effort
5 minutes, easy

# Hints

1. Every query meets every key.
2. (L, D) times (D, S) is (L, S).
3. Divide by the root of the number of features.

# Mistakes

## The scores are not scaled
    -  / math.sqrt(query.shape[-1])
With D = 64 one key takes it all. By what do you divide?

## Divided by D, not by its square root
    - math.sqrt(query.shape[-1])
    + query.shape[-1]
The scores of long vectors are all but equal. What is their variance?

## Multiplied by the square root of D
    - /
    + *
The scores grow twice. Which way should they go?

## Keys and queries are exchanged
    return key @ query.mT / math.sqrt(key.shape[-1])
Rows are queries, columns are keys. Which axis is S?

# Right answers

## einsum
    scores = torch.einsum("ld,sd->ls", query, key)
    return scores * query.shape[-1] ** -0.5

## the query is divided first
    - query @ key.mT / math.sqrt(query.shape[-1])
    + (query / math.sqrt(query.shape[-1])) @ key.mT

## products, summed
    - query @ key.mT
    + (query[:, None] * key).sum(-1)
""".lstrip()
RUN = """
import json, sys
from pathlib import Path
import pytest
from attn.exercises import sources
from attn.exercises.spec import chapter
from attn.grading.diagnosis.judge import state_kill_rate
last = chapter("sdp")[-1]
facts = {
    "ids": [x.id for x in chapter("sdp")],
    "stub": sources.stub(last.id),
    "hints": sources.hints(last.id),
    "mistakes": [x.name for x in last.mistakes],
    "equivalents": [x.name for x in last.equivalents],
}
Path("facts.json").write_text(json.dumps(facts))
state_kill_rate(Path("README.md"))
sys.exit(pytest.main(sys.argv[1:]))
"""
TESTS = (
    "sdp-scale or readme or point_applies "
    "or (sdp and (drifted or in_order or specs or nbgrader))"
)


@pytest.fixture
def copy(tmp_path):
    """Copy the repository, as far as exercises reach."""
    folders = ("attn", "book/figures", "notebooks", "solutions", "tests")
    for name in folders:
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"),
        )
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def cell(like, **metadata):
    """Copy a cell, with other metadata of nbgrader's."""
    new = json.loads(json.dumps(like))
    new["metadata"]["nbgrader"].update(metadata)
    new["id"] = metadata["grade_id"].replace("_", "-")
    return new


def add_cells(path):
    """Append the stub and its check, as `make refresh` stores them."""
    notebook = json.loads(path.read_text("utf-8"))
    cells = notebook["cells"]
    stub = cell(next(filter(exercise_id, cells)), grade_id="sdp-scale")
    stub |= {"source": STUB, "outputs": [], "execution_count": 1}
    stub["metadata"]["attn"] = {"stub": digest(STUB)}
    ids = {"grade_id": "check-sdp-scale", "points": 1}
    check = cell(next(filter(checked_id, cells)), **ids)
    check["source"] = 'check("sdp-scale")'
    check["outputs"][0]["text"] = "✓ sdp-scale  1/1 points\n"
    cells += [stub, check]
    path.write_text(json.dumps(notebook), "utf-8")


def test_four_files_make_an_exercise(copy):
    with (copy / SOLUTIONS).open("a") as file:
        file.write(f"\n\n{SOLUTION}\n")
    (copy / "attn/exercises/sdp/scale.py").write_text(EXERCISE)
    (copy / "attn/exercises/sdp/scale.md").write_text(TEXT)
    add_cells(copy / NOTEBOOK)
    tests = ("tests/exercises", "tests/notebooks/test_drift.py", "-k", TESTS)
    options = ("-q", "-p", "no:cacheprovider", "-m", "not exhaustive")
    env = {**os.environ, "PYTHONPATH": str(copy)}
    done = run_python(RUN, *options, *tests, cwd=copy, env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    facts = json.loads((copy / "facts.json").read_text())
    assert facts["ids"] == [*(x.id for x in chapter("sdp")), "sdp-scale"]
    assert facts["stub"] == STUB
    assert [len(facts[x]) for x in ("hints", "mistakes")] == [3, 4]
    assert len(facts["equivalents"]) == 3
    assert "sdp-scale" in done.stdout  # its line of the kill rate
