"""The page for teachers, and the workflow on it, show what happens."""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

import attn.__main__
from attn.data.book import root
from attn.grading.learner import workspace
from attn.publishing import notebooks
from tests.attn.test_workflows import TARGETS
from tests.notebooks.learners import answered, ids, short
from tests.processes import run

BOOK = root() / "book"
PAGE = (BOOK / "for-teachers.md").read_text("utf-8")
#: The calls that the page shows, and what each prints.
NBVAL = re.search(r"```console\n\$ pytest --nbval sub.+\n((?s:.+?))```", PAGE)
SHOWN = re.search(r"```console\n\$ attn (grade .+)\n((?s:.+?))```", PAGE)

#: GitHub's workflow, which teachers copy, and our own.
WORKFLOW = (BOOK / "classroom" / "grade.yml").read_text("utf-8")
STEPS = yaml.safe_load(WORKFLOW)["jobs"]["grade"]["steps"]
RUNS = "\n".join(x["run"] for x in STEPS if "run" in x)
WORKFLOWS = (root() / ".github" / "workflows").glob("*.yml")
OURS = "\n".join(x.read_text("utf-8") for x in WORKFLOWS)


def test_the_options_on_the_page_are_those_of_the_command(capsys):
    with pytest.raises(SystemExit) as end:
        attn.__main__.main(["grade", "--help"])
    assert end.value.code == 0
    usage = " ".join(capsys.readouterr().out.split())
    for word in ("examples:", "goes on", "exit status", "that is thrown away"):
        assert word in usage
    start, end = PAGE.index("## A mark"), PAGE.index("(nbgrader)=")
    called = re.search(r"book/.venv/bin/attn grade ([^|>&]+)", RUNS)[1]
    named = set(re.findall(r"--[a-z]+", PAGE[start:end] + called))
    assert {"--seed", "--points", "--timeout", "--jobs", "--dask"} <= named
    assert [x for x in sorted(named) if x not in usage] == []


def test_the_workflow_makes_a_target_and_keeps_the_folders_it_names():
    assert re.search(r"make -C book (\S+)", RUNS)[1] in TARGETS
    paths = [x["with"]["path"] for x in STEPS if "path" in x.get("with", {})]
    learners, _, kept = paths
    assert f" grade {learners.partition('/')[0]} --out {kept}" in RUNS


def test_actions_are_ours_pinned_by_commit_and_say_their_version():
    uses = re.compile(r"^ *(?:- )?uses: (?!\./)(.+)$", re.M)
    every, ours = map(uses.findall, (WORKFLOW + OURS, OURS))
    assert len(ours) > 6 and len(every) - len(ours) == 4
    assert set(every) == set(ours)
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [x for x in every if not pinned.fullmatch(x)] == []
    assert len(set(every)) == len({x.partition("@")[0] for x in every})


def test_the_files_that_teachers_copy_are_on_the_page():
    for name in ("Dockerfile", "nbgrader_config.py", "grade.yml"):
        assert f"{{literalinclude}} classroom/{name}\n" in PAGE
        assert (BOOK / "classroom" / name).is_file()


def terminal(folder, module, *words):
    """Run a module of Python in a terminal of 80 columns."""
    places = {"COLUMNS": "80", "PYTHONPATH": str(Path.cwd())}
    command = (sys.executable, "-m", module, *words)
    return run(*command, cwd=folder, env=os.environ | places)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="the page shows Linux's")
def test_attn_grade_prints_what_the_page_shows(tmp_path):
    chapter = short("gqa")
    names = ids(chapter)
    handed_in = {
        "ana": answered(chapter, names),
        "bo": answered(chapter, set(names) - {names[3]}, names[3:4]),
        "chidi": answered(chapter, set(names) - {names[2]}, names[2:3]),
        "dilek": answered(chapter, names[:1], names[1:2]),
        "emil": answered(chapter, names),
    }
    for name, notebook in handed_in.items():
        path = tmp_path / "handed-in" / name / "05_gqa.ipynb"
        path.parent.mkdir(parents=True)
        notebooks.write(notebook, path)
    # Emil's breaks off in the cell that sets up: no edit of the chapter
    # moves the place.
    path.write_text(path.read_text("utf-8")[:200], "utf-8")
    done = terminal(tmp_path, "attn", *SHOWN[1].split())
    assert done.returncode == 0, done.stderr
    # The machine of the tests may close an answer off in another way.
    pattern = r"isolation: (?s:.+?)\nseed"
    printed = re.sub(pattern, "seed", done.stdout)
    lines = [x.rstrip() for x in printed.splitlines()]
    assert lines == re.sub(pattern, "seed", SHOWN[2]).splitlines()


@pytest.mark.exhaustive
def test_a_chapter_with_learners_answers_prints_what_the_page_shows(tmp_path):
    workspace.fill(tmp_path)
    chapter = notebooks.read(tmp_path / "03_masks.ipynb")
    names = ids(chapter)
    path = tmp_path / "submission.ipynb"
    notebooks.write(answered(chapter, names[:2], names[2:3]), path)
    done = terminal(tmp_path, "pytest", "--nbval", path.name)
    assert done.returncode == 1, done.stderr
    printed = re.sub(r"\x1b\[\d+m", "", done.stdout)
    shown = [x.strip("…= ") for x in NBVAL[1].splitlines()]
    shown = [re.sub(" in .*s", "", x) for x in shown]
    assert len(shown) > 15
    assert [x for x in shown if x not in printed] == []
