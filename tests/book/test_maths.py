"""Formulas, typeset when the book is built."""

import html
import importlib
import logging
from types import SimpleNamespace

import pytest
from docutils import nodes

from tests.book.pages import ROOT


@pytest.fixture
def written(monkeypatch):
    """The HTML of a formula, as its page will have it."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "ext"))
    maths = importlib.import_module("attn_book.maths")
    translator = SimpleNamespace(
        body=[],
        encode=html.escape,
        starttag=lambda node, tag, end, CLASS: f'<{tag} class="{CLASS}">',
    )

    def write(tex, kind=nodes.math):
        node = kind(tex, tex, nowrap=False)
        with pytest.raises(nodes.SkipNode):
            maths.write(translator, node)
        return translator.body.pop()

    return write


@pytest.fixture
def warnings():
    """What the extension logs meanwhile, as Sphinx gets it."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("sphinx.attn_book.maths")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def test_a_formula_is_rendered_for_eyes_and_screen_readers(written, warnings):
    made = written(r"q_i^\top k_j / \sqrt{D}")
    assert made.startswith('<span class="math notranslate"><span class="katex')
    assert 'class="katex-html" aria-hidden="true"' in made
    assert "<msqrt><mi>D</mi></msqrt>" in made
    assert warnings == []


def test_the_lines_of_a_display_are_aligned(written):
    made = written(r"a &= b \\ c &= d", nodes.math_block)
    assert made.startswith("<div") and 'display="block"' in made
    assert made.count("<mtr>") == 2


@pytest.mark.parametrize("tex", [r"\nosuch{x}", "x^", "café"])
def test_an_invalid_formula_is_a_warning_of_the_build(written, warnings, tex):
    """A warning, which `make book` makes an error, and the source to see."""
    assert html.escape(tex) in written(tex)
    assert "KaTeX" in warnings[0] or "LaTeX" in warnings[0]
