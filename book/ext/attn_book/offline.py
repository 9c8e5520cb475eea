"""Remove the scripts that use the network.

sphinx-thebe, which Jupyter Book always loads, puts the address of a CDN into
every page and declares it twice, which is an error in the browser's console.
The book does not use sphinx-thebe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    # After sphinx-thebe and the theme have added their scripts.
    app.connect("html-page-context", drop_thebe, priority=900)


def drop_thebe(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Remove sphinx-thebe's scripts from the page."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "thebe" not in (str(script) + str(script.attributes)).lower()
    ]
