"""Translate a text in MyST into the Markdown that Jupyter shows."""

from __future__ import annotations

import base64
import mimetypes
import re
import textwrap
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from attn.data.book import root
from attn.publishing.myst_to_markdown import blocks
from attn.publishing.myst_to_markdown.inline import plain_inline
from attn.publishing.myst_to_markdown.targets import Targets

_ADMONITIONS = {
    name: name.capitalize()
    for name in (
        "attention",
        "caution",
        "danger",
        "error",
        "hint",
        "important",
        "note",
        "tip",
        "warning",
    )
} | {"seealso": "See also", "admonition": ""}
_FORMULA = re.compile(r"\$[^$]+\$")


def plain(text: str, targets: Targets) -> str:
    """Return a text without MyST.

    Admonitions become quotes with a bold title, drop-downs details that open
    with a click, roles words with links.

    Raises:
        ValueError: a directive or a role that no rule translates.
    """
    parts = [_block(block, targets) for block in blocks.split(text)]
    return "\n\n".join(part for part in parts if part)


def _block(block: blocks.Block, targets: Targets) -> str:
    match block:
        case blocks.Prose(text):
            return plain_inline(text, targets)
        case blocks.Code(text):
            return text
        case blocks.Label():
            return ""
        case blocks.Maths(tex, name, indent):
            number = targets.places[name].number if name else ""
            tag = f" \\tag{{{number}}}" if number else ""
            return textwrap.indent(f"$$\n{tex.strip()}{tag}\n$$", indent)
    return textwrap.indent(_directive(block, targets), block.indent)


def _directive(found: blocks.Directive, targets: Targets) -> str:
    name, argument, body = found.name, found.argument, found.body
    if name in _ADMONITIONS:
        if name != "admonition":
            argument, body = "", f"{argument}\n\n{body}".strip()
        title = plain_inline(argument or _ADMONITIONS[name], targets)
        quoted = f"**{title}**\n\n{plain(body, targets)}".strip()
        return textwrap.indent(quoted, "> ", lambda line: True)
    if name == "dropdown":
        opened = " open" if "open" in found.options else ""
        title = _as_html(plain_inline(argument, targets))
        return (
            f"<details{opened}>\n<summary><b>{title}</b></summary>\n\n"
            f"{plain(body, targets)}\n\n</details>"
        )
    if name in ("figure", "image"):
        return _picture(found, targets)
    if name in ("code", "code-block"):
        return f"```{argument}\n{body}\n```"
    raise ValueError(
        f"the directive {{{name}}} has no translation for Jupyter: add it to "
        "attn/publishing/myst_to_markdown/text.py"
    )


def _picture(found: blocks.Directive, targets: Targets) -> str:
    """Put the picture into the text: a copy is one file."""
    path = root() / "notebooks" / found.argument
    kind, _ = mimetypes.guess_type(path.name)
    data = base64.b64encode(Path(path).read_bytes()).decode()
    alt = plain_inline(found.options.get("alt", ""), targets)
    picture = f"![{alt}](data:{kind};base64,{data})"
    if found.name == "image" or not found.body:
        return picture
    caption = plain(found.body, targets)
    place = targets.places.get(found.options.get("name", ""))
    number = f"**{place.words}** " if place else ""
    return f"{picture}\n\n{number}{caption}"


def _as_html(title: str) -> str:
    """Set a line as HTML, for a place where Markdown is not read."""
    formulas: list[str] = []

    def kept(found: re.Match[str]) -> str:
        formulas.append(escape(found[0], quote=False))
        return f"\ufff9{len(formulas) - 1}\ufffb"

    html = _markdown().renderInline(_FORMULA.sub(kept, title))
    return re.sub("\ufff9(\\d+)\ufffb", lambda x: formulas[int(x[1])], html)


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt()
