"""Name the button of a folded cell by its visible words.

MyST-NB names the button "Toggle hidden content" for screen readers, which
hides its words, "Code of this figure", from them.
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
    """Drop the name, so that the button's words take its place."""
    if "body" in context:
        context["body"] = context["body"].replace(NAME, "")
