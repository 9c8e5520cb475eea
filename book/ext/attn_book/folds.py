"""A folded cell is called what is written on it.

MyST-NB names the button of a hidden cell "Toggle hidden content", which
hides its visible words, "Show code cell source", from a screen reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAME = ' aria-label="Toggle hidden content"'


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", drop_name)


def drop_name(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Let the words of the button be its name."""
    if "body" in context:
        context["body"] = context["body"].replace(NAME, "")
