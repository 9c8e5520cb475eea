"""Read MyST with markdown-it and the plugins of the book's own parser.

Blocks have markdown-it's lines; a role's place in its text is noted here.
Code and formulas are tokens of their own, in which no role is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

#: Directives whose body is not Markdown.
LITERAL = {"code", "code-block", "math"}

_FENCES = {"fence", "colon_fence"}
_DIRECTIVE = re.compile(r"\{(?P<name>[^{}\s]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r":(?P<name>[\w-]+):\s*(?P<value>.*)")


@dataclass(frozen=True)
class Directive:
    """Hold ``:::{name} argument``, its options and its body."""

    name: str
    argument: str
    body: str
    options: dict[str, str] = field(default_factory=dict)


@cache
def blocks(text: str) -> list[Token]:
    """Return the tokens of a text's blocks, from top to bottom.

    An ``inline`` token has the tag of its block, ``h2`` in a heading.

    Raises:
        ValueError: a fence is not closed.
    """
    tokens: list[Token] = []
    _parser().block.parse(text, _parser(), {}, tokens)
    for before, token in pairwise(tokens):
        if token.type == "inline":
            token.tag = before.tag
    lines = text.split("\n")
    for token in tokens:
        if token.type in _FENCES and token.map:
            start, end = token.map
            last = lines[end - 1].strip(" >")
            if start == end - 1 or not re.fullmatch(f"{token.markup}+", last):
                raise ValueError(f"a fence is not closed: {lines[start]!r}")
    return tokens


def walk(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, after a directive those of its body."""
    for token in blocks(text):
        yield token
        inner = directive(token)
        if inner and inner.name not in LITERAL:
            yield from walk(inner.body)


def directive(token: Token) -> Directive | None:
    """Return a block's directive; ``$$`` is another form of ``{math}``."""
    if token.type.startswith("math_block"):
        return Directive("math", "", token.content, {"label": token.info})
    info = token.info.strip()
    named = _DIRECTIVE.fullmatch(info)
    if token.type not in _FENCES or not (named or token.markup[0] == ":"):
        return None
    name, argument = named.group("name", "argument") if named else (info, "")
    body, options = token.content.split("\n"), {}
    while option := _OPTION.fullmatch(body[0].strip()):
        options[option["name"]] = option["value"].strip()
        del body[0]
    return Directive(name, argument, "\n".join(body).strip("\n"), options)


def inline(text: str) -> list[Token]:
    """Return the tokens within a paragraph; ``meta["place"]`` is a role's."""
    return _parser().parseInline(text)[0].children or []


def html(text: str) -> str:
    """Set a line as HTML, its formulas as they are written."""
    return _parser().renderInline(text)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import escapeHtml
    from mdit_py_plugins.amsmath import amsmath_plugin
    from mdit_py_plugins.colon_fence import colon_fence_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.myst_blocks import myst_block_plugin
    from mdit_py_plugins.myst_role.index import myst_role

    def placed_role(state: StateInline, silent: bool) -> bool:
        start = state.pos
        is_role = myst_role(state, silent)
        if is_role and not silent:
            state.tokens[-1].meta["place"] = start, state.pos
        return is_role

    def open_formula(state: StateInline, silent: bool) -> bool:
        if state.src.startswith("$$", state.pos):
            raise ValueError(f"a formula is not closed: {state.src!r}")
        return False

    parser = MarkdownIt("commonmark").enable("table")
    parser.use(colon_fence_plugin).use(myst_block_plugin).use(amsmath_plugin)
    parser.use(dollarmath_plugin, double_inline=True)
    parser.inline.ruler.after("math_inline", "open_formula", open_formula)
    parser.inline.ruler.before("backticks", "myst_role", placed_role)
    parser.add_render_rule(
        "math_inline",
        lambda self, tokens, i, *_: f"${escapeHtml(tokens[i].content)}$",
    )
    return parser
