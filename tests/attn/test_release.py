"""A release has one version, its tag, and its section of the changelog."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import attn

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "release.py"
notes = runpy.run_path(str(SCRIPT))["notes"]
CHANGELOG = """# Changelog

## [0.2.0] - 2026-12-01

### Added

- A mask.

## [0.1.0] - 2026-11-30

The first.
"""


def test_the_notes_of_a_release_are_the_newest_section():
    assert notes("v0.2.0", "0.2.0", CHANGELOG) == "### Added\n\n- A mask."
    first = CHANGELOG.replace("[0.2.0]", "[0.1.0]", 1).partition("## [0.1")
    assert notes("v0.1.0", "0.1.0", "".join(first)).startswith("### Added")


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "says"),
    [
        ("v0.1.0", "0.2.0", CHANGELOG, "the tag must be v0.2.0"),
        ("v0.3.0", "0.3.0", CHANGELOG, r"must be \[0.3.0\]; got 0.2.0"),
        ("v0.3.0", "0.3.0", "# Changelog\n", "got no section"),
        (
            "v0.2.0",
            "0.2.0",
            CHANGELOG.replace("2026-12-01", "unreleased"),
            "must have the date of 0.2.0; got unreleased",
        ),
    ],
)
def test_a_release_whose_tag_version_and_changelog_differ_is_refused(
    tag, version, changelog, says
):
    with pytest.raises(ValueError, match=says):
        notes(tag, version, changelog)


def test_the_version_is_in_one_place_and_has_its_section():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{attn.__version__}] - " in changelog
    for name in ("pyproject.toml", "CITATION.cff"):
        text = (ROOT / name).read_text("utf-8")
        assert f'"{attn.__version__}"' not in text
        assert "\nversion" not in text
    command = [sys.executable, SCRIPT, "v99.0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and attn.__version__ in done.stderr
