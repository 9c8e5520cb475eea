"""No script that asks the network.

sphinx-thebe, which Jupyter Book always loads, puts the address of a CDN into
every page and declares it twice, which is an error in the browser's console.
The book does not use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    # After sphinx-thebe and the theme have added theirs.
    app.connect("html-page-context", drop_thebe, priority=900)


def drop_thebe(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Take sphinx-thebe's scripts out of the page."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "thebe" not in (str(script) + str(script.attributes)).lower()
    ]
