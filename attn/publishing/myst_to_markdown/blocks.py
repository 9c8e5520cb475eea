"""Translate a text in MyST into the Markdown that Jupyter shows."""

from __future__ import annotations

import base64
import mimetypes
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING

from attn.data.book import root
from attn.publishing.myst_to_markdown import myst
from attn.publishing.myst_to_markdown.roles import inline_to_markdown
from attn.publishing.myst_to_markdown.targets import Targets

if TYPE_CHECKING:
    from markdown_it.token import Token

_ADMONITIONS = {"note": "Note", "tip": "Tip", "warning": "Warning"}
_LEFT_OUT = {"myst_block_break", "myst_line_comment", "myst_target"}
_AS_WRITTEN = {"amsmath", "code_block", "fence", "html_block"}


def to_markdown(text: str, targets: Targets) -> str:
    """Return a text without MyST.

    Admonitions become quotes with a bold title, drop-downs details that open
    with a click, roles words with links.

    Raises:
        ValueError: a directive or a role that no rule translates.
    """
    lines, written, done = text.split("\n"), [""], 0
    for token in myst.blocks(text):
        # The cells of a table's row are tokens of the same line.
        if not token.map or token.map[0] < done:
            continue
        start, end = token.map
        block = _block(token, "\n".join(lines[start:end]), targets)
        if block is not None:
            written += [*lines[done:start], *block]
            done = end
    written += lines[done:]
    blocks = [
        block
        for before, block in pairwise(["", *written])
        if before.strip() or block.strip()  # one blank line, not several
    ]
    return "\n".join(blocks).strip("\n")


def _block(token: Token, source: str, targets: Targets) -> list[str] | None:
    """Return a block's lines in Markdown; None when it holds other blocks."""
    if directive := myst.directive(token):
        marks = source[: source.index(token.markup)]
        return ["", _indented(_directive(directive, targets), marks), ""]
    if token.type == "inline":
        return [inline_to_markdown(source, targets)]
    if token.type in _AS_WRITTEN:
        return [source]
    return [""] if token.type in _LEFT_OUT else None


def _indented(block: str, marks: str) -> str:
    """Put a block into a list or a quote, whose marks come first."""
    rest = re.sub(r"[^\s>]", " ", marks)
    quoted = ">" in rest
    text = textwrap.indent(block, rest, lambda x: quoted or bool(x.strip()))
    return marks + text.removeprefix(rest)


def _directive(directive: myst.Directive, targets: Targets) -> str:
    name, argument, body = directive.name, directive.argument, directive.body
    if name == "math":
        label = directive.options.get("label")
        tag = f" \\tag{{{targets.place(label).number}}}" if label else ""
        tex = f"{argument}\n{body}".strip()
        return f"$$\n{tex}{tag}\n$$"
    if name in ("code", "code-block"):
        return f"```{argument}\n{body}\n```"
    if name == "figure":
        return _picture(directive, targets)
    if name in ("admonition", *_ADMONITIONS):
        if name in _ADMONITIONS:
            body = f"{argument}\n\n{body}".strip()
            argument = _ADMONITIONS[name]
        title = inline_to_markdown(argument, targets)
        quoted = f"**{title}**\n\n{to_markdown(body, targets)}".strip()
        return textwrap.indent(quoted, "> ", lambda line: True)
    if name == "dropdown":
        opened = " open" if "open" in directive.options else ""
        title = myst.html(inline_to_markdown(argument, targets))
        return (
            f"<details{opened}>\n<summary><b>{title}</b></summary>\n\n"
            f"{to_markdown(body, targets)}\n\n</details>"
        )
    raise ValueError(
        f"the directive {{{name}}} has no translation for Jupyter: add it to "
        "attn/publishing/myst_to_markdown/blocks.py"
    )


def _picture(directive: myst.Directive, targets: Targets) -> str:
    """Put the picture into the text: a copy is one file."""
    path = root() / "notebooks" / directive.argument
    kind, _ = mimetypes.guess_type(path.name)
    data = base64.b64encode(path.read_bytes()).decode()
    alt = inline_to_markdown(directive.options.get("alt", ""), targets)
    picture = f"![{alt}](data:{kind};base64,{data})"
    caption = to_markdown(directive.body, targets)
    place = targets.places.get(directive.options.get("name", ""))
    number = f"**{place.words}** " if place else ""
    return f"{picture}\n\n{number}{caption}".strip()
