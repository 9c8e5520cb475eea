"""The workflows call what exists, and a tag publishes all that it should."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.yml")}
FLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [
    (name, key, job)
    for name, flow in FLOWS.items()
    for key, job in flow["jobs"].items()
]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = {
    name
    for line in re.findall(r"(?m)^([\w./ -]+):(?!=)", MAKEFILE)
    for name in line.split()
}
WRITES = {"read": 1, "write": 2}


def steps(flow):
    """The steps of a workflow, and of those that it calls."""
    for job in FLOWS[flow]["jobs"].values():
        if "uses" in job:
            yield from steps(Path(job["uses"]).name)
        yield from job.get("steps", [])


def triggers(flow):
    return FLOWS[flow][True]  # YAML's `on`


def test_the_workflows_are_read():
    assert {"test.yml", "pages.yml", "release.yml"} <= {*FLOWS}
    assert {"book", "pdf", "test", ".venv/.test"} <= TARGETS


@pytest.mark.parametrize("flow", FLOWS)
def test_every_command_of_a_workflow_exists(flow):
    scripts = [step["run"] for step in steps(flow) if "run" in step]
    assert scripts
    if flow == "test.yml":  # its script is a part of it
        scripts.append((ROOT / ".ci" / "run").read_text("utf-8"))
    for script in scripts:
        for line in re.findall(r"(?m)^\s*make (.+)", script):
            words = shlex.split(line, comments=True)
            targets = [x for x in words if "=" not in x]
            assert targets and {*targets} <= TARGETS, line
        for path in re.findall(r"(?m)(?:^|python )(\.ci/\S+)", script):
            assert (ROOT / path).is_file(), path


@pytest.mark.parametrize(("flow", "key", "job"), JOBS)
def test_called_workflows_can_be_called_and_do_what_they_may(flow, key, job):
    if "uses" not in job:
        assert job["timeout-minutes"] <= 60
        return
    called = Path(job["uses"]).name
    assert job["uses"] == f"./.github/workflows/{called}"
    assert "workflow_call" in triggers(called)
    given = job.get("permissions", FLOWS[flow]["permissions"])
    for name, needs in FLOWS[called]["permissions"].items():
        assert WRITES[given[name]] >= WRITES[needs], name


def test_a_tag_is_tested_before_anything_is_published():
    assert triggers("release.yml") == {"push": {"tags": ["v*"]}}
    jobs = FLOWS["release.yml"]["jobs"]
    assert jobs["test"]["uses"].endswith("/test.yml")
    for key in jobs:
        waiting, before = [key], set()
        while waiting:
            needs = jobs[waiting.pop()].get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            before.update(needs)
            waiting += needs
        assert key == "test" or "test" in before, key
    for flow in ("release.yml", "pages.yml"):
        assert "branches" not in triggers(flow).get("push", {})


def test_a_tag_publishes_package_book_copies_and_pdf():
    all_steps = [*steps("release.yml")]
    artifacts = {
        step["with"]["name"]: step["with"]["path"]
        for step in all_steps
        if "/upload-artifact@" in step.get("uses", "")
    }
    taken = [
        step["with"]["name"]
        for step in all_steps
        if "/download-artifact@" in step.get("uses", "")
    ]
    assert {*taken} == {"dist", "notes", "book"} <= {*artifacts}
    scripts = "\n".join(step.get("run", "") for step in all_steps)
    assert "python -m hatchling build\n" in scripts + "\n", "both kinds"
    assert 'gh release create "$GITHUB_REF_NAME" dist/* book/*' in scripts
    for name in ("book.pdf", "book-html.zip", "notebooks.zip"):
        place = f"release/{name}" if "zip" in name else f"_build/{name}"
        assert place in scripts
    uses = " ".join(step.get("uses", "") for step in all_steps)
    assert "gh-action-pypi-publish@" in uses and "deploy-pages@" in uses


@pytest.mark.parametrize("flow", FLOWS)
def test_a_workflow_has_no_secret_and_no_machines_path(flow):
    text = TEXTS[flow]
    assert not re.search(
        r"secrets\.|password:|/(?:home|Users|root|work)/", text
    )
