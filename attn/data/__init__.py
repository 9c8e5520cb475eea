"""Data of the chapters: models, a text, and the files of the book."""

from typing import TYPE_CHECKING, Any

from attn.data.topics import text

if TYPE_CHECKING:
    from attn.data.smollm import smollm2

__all__ = ["smollm2", "text"]


def __getattr__(name: str) -> Any:
    """Import the model when it is used: the book is built without torch."""
    if name != "smollm2":
        raise AttributeError(f"attn.data has no {name!r}; it has {__all__}")
    from attn.data.smollm import smollm2

    return smollm2
