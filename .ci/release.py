"""Print the changelog of a tag, if everything agrees that it is a release.

    python .ci/release.py v1.0.0

The tag must be ``v`` and the version in ``attn/__init__.py``; the newest
section of CHANGELOG.md must be of that version, with a date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## \[(.+?)\] - (.+)$", re.M)


def notes(tag: str, version: str, changelog: str) -> str:
    """Return the text of the newest section.

    Raises:
        ValueError: tag, version and section differ, or there is no date.
    """
    if tag != f"v{version}":
        raise ValueError(
            f"the tag must be v{version}, the version in attn/__init__.py; "
            f"got {tag}"
        )
    found = SECTION.search(changelog)
    if found is None or found[1] != version:
        raise ValueError(
            f"the newest section of CHANGELOG.md must be [{version}]; got "
            f"{found[1] if found else 'no section'}"
        )
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", found[2]):
        raise ValueError(
            f"CHANGELOG.md must have the date of {version}; got {found[2]}"
        )
    rest = changelog[found.end() :]
    return re.split(r"^## ", rest, maxsplit=1, flags=re.M)[0].strip()


def main(tag: str) -> int:
    """Print the notes of a tag, or what is wrong; return the exit status."""
    text = (ROOT / "attn" / "__init__.py").read_text("utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', text, re.M)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    try:
        print(notes(tag, *version, changelog))
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
