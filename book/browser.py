"""Start the system's Chromium: to print the book, to measure it, to test it.

Playwright adds flags of its own: Chromium shows no window, and updates and
synchronises nothing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

#: The first renders the same, without a browser's window: it loads a page in
#: less than half of the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
NAMES += ("google-chrome", "chrome")
FLAGS = ("--no-sandbox", "--disable-gpu")


def lacking(*packages: str) -> str:
    """Return what is not installed, as a line, or an empty string.

    Args:
        packages: what is needed besides Chromium and Playwright.
    """
    if not _path():
        return f"Chromium must be installed; found none of {', '.join(NAMES)}"
    for name in ("playwright", *packages):
        if find_spec(name) is None:
            return f"{name} must be installed: pip install {name}"
    return ""


@contextmanager
def chromium(*packages: str) -> Iterator[Any]:
    """Start Chromium, and close it in the end.

    Args:
        packages: what is needed besides Chromium and Playwright.

    Raises:
        SystemExit: something is not installed; the message says what.
    """
    if said := lacking(*packages):
        sys.exit(said)
    from playwright.sync_api import sync_playwright

    with (
        sync_playwright() as started,
        started.chromium.launch(executable_path=_path(), args=FLAGS) as made,
    ):
        yield made


def _path() -> str | None:
    return next((x for n in NAMES if (x := shutil.which(n))), None)
