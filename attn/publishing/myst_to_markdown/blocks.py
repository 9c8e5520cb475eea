"""Translate a text in MyST into the Markdown that Jupyter shows."""

from __future__ import annotations

import base64
import mimetypes
import re
import textwrap

from attn.data.book import root
from attn.publishing.myst_to_markdown import myst
from attn.publishing.myst_to_markdown.roles import inline_to_markdown
from attn.publishing.myst_to_markdown.targets import Targets

_ADMONITIONS = {
    "admonition": "",
    "attention": "Attention",
    "caution": "Caution",
    "danger": "Danger",
    "error": "Error",
    "hint": "Hint",
    "important": "Important",
    "note": "Note",
    "seealso": "See also",
    "tip": "Tip",
    "warning": "Warning",
}
_LEFT_OUT = {"myst_block_break", "myst_line_comment", "myst_target"}
_KEPT = {"amsmath", "code_block", "fence", "html_block"}


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
        block = "\n".join(lines[start:end])
        if directive := myst.directive(token):
            first = block[: block.index(token.markup)]
            block = _directive(directive, targets)
            new = ["", _indented(block, first), ""]
        elif token.type == "inline":
            new = [inline_to_markdown(block, targets)]
        elif token.type in _LEFT_OUT | _KEPT:
            new = [block] if token.type in _KEPT else [""]
        else:
            continue
        written += [*lines[done:start], *new]
        done = end
    written += lines[done:]
    one_blank = [
        block
        for before, block in zip(["", *written], written, strict=False)
        if before.strip() or block.strip()
    ]
    return "\n".join(one_blank).strip("\n")


def _indented(block: str, first: str) -> str:
    """Indent a block in a list or a quote, whose marks may come first."""
    rest = re.sub(r"[^\s>]", " ", first)
    quoted = ">" in rest
    text = textwrap.indent(block, rest, lambda x: quoted or bool(x.strip()))
    return first + text.removeprefix(rest)


def _directive(directive: myst.Directive, targets: Targets) -> str:
    name, argument, body = directive.name, directive.argument, directive.body
    if name == "math":
        label = directive.options.get("label")
        tag = f" \\tag{{{targets.place(label).number}}}" if label else ""
        tex = f"{argument}\n{body}".strip()
        return f"$$\n{tex}{tag}\n$$"
    if name in ("code", "code-block"):
        return f"```{argument}\n{body}\n```"
    if name in ("figure", "image"):
        return _picture(directive, targets)
    if name in _ADMONITIONS:
        if name != "admonition":
            argument, body = "", f"{argument}\n\n{body}".strip()
        title = inline_to_markdown(argument or _ADMONITIONS[name], targets)
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
    if directive.name == "image" or not directive.body:
        return picture
    caption = to_markdown(directive.body, targets)
    place = targets.places.get(directive.options.get("name", ""))
    number = f"**{place.words}** " if place else ""
    return f"{picture}\n\n{number}{caption}"
