"""Notice a result that was changed between two runs.

A result is written with a seal: a digest made with a key of this user's on
this machine. One whose seal does not fit is judged again, which costs time
and no more. The options of a batch have a seal, too. The key is outside the
batch and the submissions, and hidden from an isolated answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from functools import cache
from pathlib import Path
from typing import Any

from attn.grading.sandbox.files import state_folder

_NAME = "seal"


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a result, and its seal."""
    return data | {_NAME: _seal(data)}


def opened(data: dict[str, Any]) -> dict[str, Any]:
    """Return what was sealed.

    Raises:
        ValueError: something was changed, or sealed with another key.
    """
    own = dict(data)
    seal = str(own.pop(_NAME, "")).encode("utf-8", "replace")
    if not hmac.compare_digest(seal, _seal(own).encode()):
        raise ValueError("the seal of a result must fit what it holds")
    return own


def _seal(data: dict[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True)
    return hmac.new(_key(), text.encode(), hashlib.sha256).hexdigest()


@cache
def _key() -> bytes:
    """Return this user's key; make it where there is none.

    Where nothing can be kept, each run has its own, and judges all again.
    """
    path, fresh = state_folder() / "seal.key", secrets.token_bytes(32)
    try:
        draft = path.with_name(f".{secrets.token_hex(8)}")
        descriptor = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        try:
            with open(descriptor, "wb") as file:
                file.write(fresh)
            os.link(draft, path)  # whole, or another run's
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        kept = _own(path)
    except OSError:
        return fresh
    return kept if len(kept) == len(fresh) else fresh


def _own(path: Path) -> bytes:
    """Return what is in a file of this user's that no other could open.

    Where another could, nothing: the key may be known, or another's.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        is_own = about.st_uid == os.geteuid() and not about.st_mode & 0o077
        return file.read(64) if is_own else b""
