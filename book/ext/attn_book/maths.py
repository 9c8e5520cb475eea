"""Typeset the formulas when the book is built.

A page needs no script for its maths then, only a style sheet and fonts. In
the browser MathJax took 1.2 MB and a second or two for it; MathML alone would
be lighter still, but Chromium sets roots and indices less well. KaTeX gives
both: what is seen, in MathJax's own typeface, and MathML for screen readers.
"""

from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from dukpy import JSInterpreter, JSRuntimeError
from sphinx.application import Sphinx
from sphinx.util import logging

KATEX = Path(__file__).resolve().parents[2] / "_static/katex/katex.min.js"
RENDER = """katex.renderToString(dukpy.tex,
    {displayMode: dukpy.display, strict: "error"})"""


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("katex", (write, None), (write, None))


def write(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula, within a line or on lines of its own."""
    tex, display = node.astext(), isinstance(node, nodes.math_block)
    if display and r"\\" in tex and not node["nowrap"]:
        tex = rf"\begin{{split}}{tex}\end{{split}}"
    try:
        formula = typeset(tex, display)
    except JSRuntimeError as error:
        logging.getLogger(__name__).warning("%s", error, location=node)
        formula = translator.encode(tex)
    tag = "div" if display else "span"
    start = translator.starttag(node, tag, "", CLASS="math notranslate")
    translator.body.append(f"{start}{formula}</{tag}>")
    raise nodes.SkipNode


@cache
def typeset(tex: str, display: bool) -> str:
    return str(katex().evaljs(RENDER, tex=tex, display=display))


@cache
def katex() -> JSInterpreter:
    engine = JSInterpreter()
    engine.evaljs(KATEX.read_text("utf-8"))
    return engine
