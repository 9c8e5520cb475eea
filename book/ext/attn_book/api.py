"""Prepare the API pages; autodoc imports attn with mocks in torch's place."""

import inspect
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autodoc


def setup(app: Sphinx) -> None:
    # A class that inherits from a mock has the arguments of its __init__.
    mocks = "sphinx.ext.autodoc.mock._MockObject.__new__"
    autodoc._CLASS_NEW_BLACKLIST.append(mocks)
    app.connect("autodoc-process-docstring", describe)
    # After autodoc's own, which keeps the defaults as they are written.
    app.connect("autodoc-before-process-signature", keep_first, priority=501)


def keep_first(app: Sphinx, thing: Any, is_bound: bool) -> None:
    """Drop a bound method's signature, stored for a function with self."""
    if inspect.ismethod(thing) and not isinstance(thing.__self__, type):
        vars(thing.__func__).pop("__signature__", None)


def describe(app: Sphinx, what: str, name: str, *about: Any) -> None:
    """List a module's functions; drop the docstrings of tuples' fields."""
    thing, _, text = about
    if what == "module" and name != "attn":
        # A container keeps the link's target; what loads later is no constant.
        rows = [x for x in thing.__all__ if callable(vars(thing).get(x, vars))]
        head = ["   .. autosummary::", "      :nosignatures:", ""]
        text[:] = [".. container::", "", *head, *(f"      {x}" for x in rows)]
    elif "Alias for field number" in "".join(text):
        text.clear()
