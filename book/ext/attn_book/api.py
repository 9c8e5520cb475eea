"""Prepare the API pages for autodoc, which imports attn without torch.

Sphinx puts mocks in the place of torch and the others
(``autodoc_mock_imports`` in ``_config.yml``).
"""

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autodoc


def setup(app: Sphinx) -> None:
    # A class that inherits from a mock has the arguments of its __init__.
    autodoc._CLASS_NEW_BLACKLIST.append(
        "sphinx.ext.autodoc.mock._MockObject.__new__"
    )
    app.connect("autodoc-process-docstring", drop_text)


def drop_text(app: Sphinx, what: str, *about: Any) -> None:
    """Drop the docstrings of modules, and of the fields of named tuples."""
    text = about[-1]
    if what == "module" or "Alias for field number" in "".join(text):
        text.clear()
