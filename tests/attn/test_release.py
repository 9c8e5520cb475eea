"""A release has one version, its tag, and its section of the changelog."""

import runpy
import sys
from pathlib import Path

import pytest
import yaml

import attn
from tests.processes import run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "release.py"
release = runpy.run_path(str(SCRIPT))
notes = release["notes"]
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


def test_version_changelog_and_citation_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = release["SECTION"].search(changelog)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert newest[1] == attn.__version__ == citation["version"]
    assert newest[2] == str(citation["date-released"])
    assert notes(f"v{attn.__version__}", attn.__version__, changelog)


def test_the_package_takes_its_version_from_one_place():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'"{attn.__version__}"' not in text
    assert "\nversion" not in text
    done = run(sys.executable, SCRIPT, "v99.0")
    assert done.returncode == 1 and attn.__version__ in done.stderr
