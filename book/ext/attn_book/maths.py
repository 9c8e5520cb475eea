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
    app.add_html_math_renderer("katex", (inline, None), (display, None))


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    _write(translator, node, "span", node.astext())


def display(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that has its own lines."""
    tex = node.astext()
    if r"\\" in tex and not node["nowrap"]:
        tex = rf"\begin{{split}}{tex}\end{{split}}"
    _write(translator, node, "div", tex)


def _write(translator: Any, node: nodes.Element, tag: str, tex: str) -> None:
    try:
        formula = _typeset(tex, tag == "div")
    except JSRuntimeError as error:
        logging.getLogger(__name__).warning("%s", error, location=node)
        formula = translator.encode(tex)
    start = translator.starttag(node, tag, "", CLASS="math notranslate")
    translator.body.append(f"{start}{formula}</{tag}>")
    raise nodes.SkipNode


@cache
def _typeset(tex: str, display: bool) -> str:
    made: str = _katex().evaljs(RENDER, tex=tex, display=display)
    return made


@cache
def _katex() -> JSInterpreter:
    engine = JSInterpreter()
    engine.evaljs(KATEX.read_text("utf-8"))
    return engine
