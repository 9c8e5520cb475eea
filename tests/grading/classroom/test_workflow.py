"""The workflow for teachers calls commands and targets that exist."""

import re
import shlex

import pytest
import yaml

import attn.__main__
from attn.data.book import root

ROOT = root()
TEXT = (ROOT / "book" / "classroom" / "grade.yml").read_text("utf-8")
STEPS = yaml.safe_load(TEXT)["jobs"]["grade"]["steps"]
RUNS = "\n".join(x["run"] for x in STEPS if "run" in x)


OURS = "\n".join(
    x.read_text("utf-8")
    for x in (ROOT / ".github" / "workflows").glob("*.yml")
)


def actions(text):
    """Return what is used, with the version that is a comment."""
    return re.findall(r"^ *(?:- )?uses: (?!\./)(.+)$", text, re.M)


def test_actions_are_pinned_by_commit_and_say_their_version():
    used = actions(TEXT + OURS)
    assert len(used) > 10
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [x for x in used if not pinned.fullmatch(x)] == []
    assert len(set(used)) == len({x.partition("@")[0] for x in used})


def test_actions_are_those_of_our_own_workflows():
    used = actions(TEXT)
    assert len(used) == sum("uses" in x for x in STEPS) == 4
    assert set(used) <= set(actions(OURS))


def test_the_workflow_makes_a_target_of_the_makefile():
    target = re.search(r"make -C book (\S+)", RUNS)[1]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^{re.escape(target)}:", makefile, re.M)


def test_the_workflow_calls_attn_with_options_that_exist(capsys):
    line = re.search(r"book/.venv/bin/attn ([^|>&]+)", RUNS)[1]
    name, *words = shlex.split(line)
    with pytest.raises(SystemExit) as end:
        attn.__main__.main([name, "--help"])
    assert end.value.code == 0
    usage = capsys.readouterr().out
    options = [x for x in words if x.startswith("--")]
    assert options and all(x in usage for x in options)


def test_the_workflow_grades_and_keeps_the_folders_it_names():
    paths = [x["with"]["path"] for x in STEPS if "path" in x.get("with", {})]
    learners, _, kept = paths
    assert f" grade {learners.partition('/')[0]} --out {kept}" in RUNS
