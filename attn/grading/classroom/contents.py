"""Read a submitted file as text, whatever it is."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
from pathlib import Path

LIMIT = 32 * 2**20  # bytes

_KINDS = {
    stat.S_IFLNK: "a symbolic link, which is not followed: submit the file",
    stat.S_IFIFO: "a pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}
_MAGIC = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x1f\x8b": "a compressed file: unpack it first",
    b"%PDF": "a PDF: the notebook itself is needed",
    b"\x89PNG": "a picture: the notebook itself is needed",
    b"\xff\xd8\xff": "a picture: the notebook itself is needed",
    b"\x80\x04": "a pickle, which is never loaded",
    b"\x80\x05": "a pickle, which is never loaded",
}
_DOCUMENTS = {".doc", ".docx", ".odt", ".pages", ".pptx", ".rtf", ".xlsx"}
_MARKS = {  # the longer mark first: UTF-32's begins as UTF-16's
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Unreadable(Exception):
    """A submission in which nothing can be graded.

    Args:
        message: why, after "it is" or as a sentence of its own.
    """


def load(path: Path) -> bytes:
    """Return the bytes of a submitted file, and never wait for them.

    Raises:
        Unreadable: it is no regular file, cannot be opened, or is larger
            than ``LIMIT``.
    """
    try:
        before = os.lstat(path).st_mode
        if stat.S_ISDIR(before):
            raise Unreadable(_about_folder(path))
        if not stat.S_ISREG(before):
            kind = _KINDS.get(stat.S_IFMT(before), "not a file")
            raise Unreadable(f"it is {kind}")
        # Between the two calls it may have become a pipe.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable("it is not a file")
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from error
    if len(data) > LIMIT:
        size = os.path.getsize(path) / 2**20
        raise Unreadable(
            f"it must have at most {LIMIT // 2**20} MiB; it has {size:.0f}. "
            "Clear its outputs (in Jupyter: Edit, Clear Outputs of All "
            "Cells) and submit it again"
        )
    return data


def digest(path: Path) -> str:
    """Hash a submitted file, or the reason why it cannot be read."""
    try:
        return hashlib.sha256(load(path)).hexdigest()
    except Unreadable as error:
        return hashlib.sha256(f"unreadable: {error}".encode()).hexdigest()


def decode(data: bytes, suffix: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a text with ``\\n`` at the end of its lines, and notes on it.

    Args:
        data: of a file.
        suffix: of its name: a word processor's document is a zip archive.

    Raises:
        Unreadable: it is empty, or of a kind that is no text.
    """
    if not data.strip():
        raise Unreadable("it is empty")
    if suffix in _DOCUMENTS:
        raise Unreadable(f"it is a {suffix} file: the notebook is needed")
    for magic, kind in _MAGIC.items():
        if data.startswith(magic):
            raise Unreadable(f"it is {kind}")
    marked = [x for mark, x in _MARKS.items() if data.startswith(mark)]
    # Without a mark, by the place of its zero bytes.
    codec = marked[0] if marked else json.detect_encoding(data)
    notes: tuple[str, ...] = ()
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        text, notes = data.decode("latin-1"), ("read as Latin-1: not UTF-8",)
    return clean(text.removeprefix("\ufeff")), notes


def clean(text: str) -> str:
    """Give a text one kind of line end, and characters that can be stored.

    Python ends a line at the same places. Half a surrogate pair, which JSON
    can hold and no file can, becomes U+FFFD.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _about_folder(path: Path) -> str:
    try:
        os.scandir(path).close()
    except OSError as error:
        return f"it is a folder that cannot be listed: {error.strerror}"
    return "it is a folder without a notebook (.ipynb) or a .py"
