"""Notice a result that was changed between two runs.

A result is written with a seal: a digest made with a key of this user's on
this machine. One whose seal does not fit is judged again, which costs time
and no more: the seed is that of the batch. The key is outside the batch, the
submissions and what an isolated answer can see or write.
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
    if not hmac.compare_digest(str(own.pop(_NAME, "")), _seal(own)):
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
    import platformdirs

    path = Path(platformdirs.user_state_dir("attn"), "seal.key")
    fresh = secrets.token_bytes(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        kept = path.read_bytes()
    except OSError:
        return fresh
    return kept if len(kept) == len(fresh) else fresh
