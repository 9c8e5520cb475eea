"""Show the prose of hints and mistakes as HTML."""

from __future__ import annotations

import re
from html import escape

_MARKED = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)"
    r"|(?<![\w*])\*(?P<em>\w|\w[^*`]*\w)\*(?![\w*])"
)


def as_html(text: str) -> str:
    """Return a text as HTML: of Markdown, `code` and *emphasis* alone."""

    def element(found: re.Match[str]) -> str:
        tag = "code" if found["code"] else "em"
        return f"<{tag}>{found[tag]}</{tag}>"

    return _MARKED.sub(element, escape(text))
