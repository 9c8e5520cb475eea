"""Prepare the API page for autodoc, which imports attn without torch.

Sphinx puts mocks in the place of torch and the others
(``autodoc_mock_imports`` in ``_config.yml``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sphinx.ext import autodoc

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    # A class that inherits from a mock has the arguments of its __init__.
    autodoc._CLASS_NEW_BLACKLIST.append(
        f"{autodoc.mock.__module__}._MockObject.__new__"
    )
    app.connect("autodoc-process-docstring", drop_text)


def drop_text(
    app: Sphinx,
    what: str,
    name: str,
    thing: Any,
    options: Any,
    text: list[str],
) -> None:
    """Drop the docstrings of modules, and of the fields of named tuples."""
    if what == "module" or "Alias for field number" in "".join(text):
        text.clear()
