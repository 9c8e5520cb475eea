"""Note the checks that have begun: one that never ends took its kernel along.

A line of ``.attn/checking.txt``, beside the notebooks, is an exercise's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attn.data.files import write


def begun() -> list[str]:
    """Return the exercises of which a check has begun, and not ended."""
    with suppress(OSError, UnicodeDecodeError):
        return _file().read_text("utf-8").split()
    return []


@contextmanager
def checking(exercise_id: str) -> Iterator[None]:
    """Note that a check has begun, until it ends."""
    others = {*begun()} - {exercise_id}
    with suppress(OSError):
        write(_file(), "\n".join([*others, exercise_id]))
    try:
        yield
    finally:
        with suppress(OSError):
            if others:
                write(_file(), "\n".join(others))
            else:
                _file().unlink()


def _file() -> Path:
    return Path.cwd() / ".attn" / "checking.txt"
