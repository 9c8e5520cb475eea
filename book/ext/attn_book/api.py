"""Prepare the API pages; autodoc imports attn with mocks in torch's place."""

import inspect
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autodoc

#: How the docstrings of built-in types begin.
BUILT_IN = tuple(
    (x.__doc__ or "").splitlines()[0]
    for x in (bool, dict, float, int, list, set, str, tuple)
)


def setup(app: Sphinx) -> None:
    # A class that inherits from a mock has the arguments of its __init__.
    mocks = "sphinx.ext.autodoc.mock._MockObject.__new__"
    autodoc._CLASS_NEW_BLACKLIST.append(mocks)
    app.connect("autodoc-process-docstring", describe)
    # After autodoc's own, which keeps the defaults as they are written.
    app.connect("autodoc-before-process-signature", keep_first, priority=501)


def keep_first(app: Sphinx, thing: Any, is_bound: bool) -> None:
    """Drop the signature that autodoc stores with a bound method's function.

    It has no ``self``; of the function, the first argument would be dropped.
    """
    if inspect.ismethod(thing) and not isinstance(thing.__self__, type):
        vars(thing.__func__).pop("__signature__", None)


def describe(app: Sphinx, what: str, name: str, *about: Any) -> None:
    """List a module's functions; drop docstrings of Python's own."""
    thing, _, text = about
    if what == "module" and name != "attn":
        # A container keeps the link's target; what loads later is no constant.
        rows = [x for x in thing.__all__ if callable(vars(thing).get(x, vars))]
        head = ["   .. autosummary::", "      :nosignatures:", ""]
        text[:] = [".. container::", "", *head, *(f"      {x}" for x in rows)]
    elif "Alias for field number" in "".join(text):
        text.clear()
    elif what in ("attribute", "property") and "\n".join(text).startswith(
        BUILT_IN
    ):
        text.clear()  # of the value's type, which has no words of ours
