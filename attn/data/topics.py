"""English that comes with Python: the pages of ``help("topics")``."""

from __future__ import annotations

__all__ = ["text"]


def text() -> str:
    """Return the text of Python's own help topics, in alphabetic order.

    Nearly half a million characters of English, with some code. Each version
    of Python has its own: 465,048 characters in 3.11.7.

    Example:
        >>> text = attn.data.text()
        >>> "assert" in text, len(text) > 400_000
        (True, True)
    """
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))
