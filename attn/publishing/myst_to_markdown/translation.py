"""Translate a text in MyST into the Markdown that Jupyter shows.

The chapters use two directives and six roles. One pattern finds them, and
code, which stays as it is; whatever else is MyST is an error.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from attn.publishing.myst_to_markdown.targets import (
    GLOSSARY,
    Targets,
    term_id,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_ROLE = r"\{(?P<role>[\w:+-]+)\}`(?P<content>[^`]+)`"
_PIECE = re.compile(
    rf"""
      ^(?P<fence>`{{3,}}+|:{{3,}}+) (?P<info>[^\n]*)\n
        (?P<body>.*?\n?) ^(?P=fence)[ ]*$       # code, or a directive
    | ^\((?P<label>\S+)\)=(?:\n+|\Z)
    | {_ROLE}
    | (?P<code>`+)(?!`) .+? (?<!`)(?P=code)(?!`)
    | ^\$\$(?P<formula>.+?)\$\$$ | \$\$.+?\$\$
    | (?P<foreign> ^[ >*]*(?:`{{3,}}|:{{3,}})\{{?[\w-]* | \$\$
        | \{{[\w:+-]+\}}(?=`))
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"\{(admonition|dropdown)\} +(.+)")
_NAMED = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>")


def to_markdown(text: str, targets: Targets) -> str:
    """Return a text without MyST.

    An admonition becomes a quote with a bold title, a drop-down details that
    open with a click, a role words with a link.

    Raises:
        ValueError: a directive or a role that no rule translates, or a
            target that is nowhere in the book.
    """
    copied = _PIECE.sub(lambda piece: _translated(piece, targets), text)
    return copied.strip("\n")


def html(text: str) -> str:
    """Set a line as HTML, its formulas as they are written."""
    return _parser().renderInline(text)


def _translated(piece: re.Match[str], targets: Targets) -> str:
    if piece["fence"] and piece["info"][:1] == "{":
        return _directive(piece, targets)
    if piece["role"]:
        return _reference(piece, targets)
    if piece["foreign"] or piece["fence"] and piece["fence"][0] == ":":
        raise _unknown(piece[0])
    if formula := piece["formula"]:
        return f"$$\n{formula.strip()}\n$$"
    return "" if piece["label"] else piece[0]


def _unknown(source: str) -> ValueError:
    line = source.strip().split("\n")[0]
    return ValueError(
        f"{line!r} has no translation for Jupyter: add it to "
        "attn/publishing/myst_to_markdown/translation.py"
    )


def _directive(piece: re.Match[str], targets: Targets) -> str:
    if not (found := _DIRECTIVE.fullmatch(piece["info"])):
        raise _unknown(piece[0])
    title = to_markdown(found[2], targets)
    body = to_markdown(piece["body"], targets)
    if found[1] == "admonition":
        return textwrap.indent(f"**{title}**\n\n{body}", "> ", lambda _: True)
    return (
        f"<details>\n<summary><b>{html(title)}</b></summary>\n\n"
        f"{body}\n\n</details>"
    )


def _reference(piece: re.Match[str], targets: Targets) -> str:
    """Return what a role becomes: words, and where they lead."""
    role, content = piece["role"], " ".join(piece["content"].split())
    words, name = _words_and_target(content)
    if role.startswith("cite"):
        links = ", ".join(_cited(x.strip(), targets) for x in name.split(","))
        return links if role == "cite:t" else f"[{links}]"
    if role == "term":
        term, definition = targets.term(name)
        link = f"{GLOSSARY}#{term_id(term)}{_tooltip(definition)}"
        return f"[{words or name}]({link})"
    if role == "doc":  # the other pages are not in a learner's folder
        name = name.rpartition("/")[2]
        if words and name not in targets.places:
            return f"*{words}*"
    elif role not in ("ref", "numref"):
        raise _unknown(piece[0])
    place = targets.place(name)
    if role == "numref":
        words = words or ("chapter {number}" if place.link else "{name}")
        words = re.sub("%s|{number}", place.number, words)
        words = words.replace("{name}", place.words)
    if not (words := words or place.words):
        raise ValueError(
            f"a reference to {place.link} must have words of its own"
        )
    # A figure has no cell to lead to: its number says where it is.
    return f"[{words}]({place.link})" if place.link else words


def _cited(key: str, targets: Targets) -> str:
    source = targets.source(key)
    link = f"[{source.label}]({source.url}{_tooltip(source.title)})"
    return link if source.url else source.label


def _words_and_target(content: str) -> tuple[str, str]:
    named = _NAMED.fullmatch(content)
    return (named["words"], named["target"]) if named else ("", content)


@cache
def _tooltip(text: str) -> str:
    """Return a link's title; none for a text that needs more than words."""
    if "$" in text:
        return ""
    words = re.sub(
        _ROLE,
        lambda role: next(filter(None, _words_and_target(role[2]))),
        text,
    )
    escaped = re.sub(r'(["|\\])', r"\\\1", re.sub(r"[`*]", "", words))
    return f' "{escaped}"'


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import escapeHtml
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark").use(dollarmath_plugin)
    parser.add_render_rule(
        "math_inline",
        lambda self, tokens, i, *_: f"${escapeHtml(tokens[i].content)}$",
    )
    return parser
