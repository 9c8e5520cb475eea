"""Keep the machine's folders out of what an answer's process says.

An error of PyTorch's may name the file that raised it: where this user's
Python is, and the sandbox's folder, another one each time. This keeps
messages plain, and alike in two runs. It is no boundary: what an answer can
read, it can spell in another way.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import cache
from pathlib import Path

from attn.grading.sandbox.isolation import packages, pythons

PREFIX = "attn-sandbox-"
"""Of a sandbox's folder."""


def neutral(text: str) -> str:
    """Replace folders in a text, or in a JSON's text."""
    pattern, names = _places()
    return pattern.sub(lambda found: names.get(found[0], "<sandbox>"), text)


@cache
def _places() -> tuple[re.Pattern[str], dict[str, str]]:
    names = {Path(os.path.expanduser("~")): "<home>"}
    names |= {Path(__file__).resolve().parents[3]: "<book>"}
    names |= dict.fromkeys([*packages(), *pythons()], "<python>")
    texts = {
        spelled: name
        for path, name in names.items()
        if len(path.parts) > 1 and path not in _EVERYWHERE
        for spelled in (str(path), json.dumps(str(path))[1:-1])
    }
    longest_first = sorted(texts, key=len, reverse=True)
    own = re.escape(str(Path(tempfile.gettempdir(), PREFIX))) + r"\w+"
    return re.compile("|".join([own, *map(re.escape, longest_first)])), texts


_EVERYWHERE = {Path("/usr"), Path("/usr/local"), Path("/tmp"), Path("/home")}
