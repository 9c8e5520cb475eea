"""Data of the chapters: models, a text, and the files of the book."""

from attn.data.topics import text

__all__ = ["text"]
