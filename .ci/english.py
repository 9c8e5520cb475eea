"""Find wording that the package does not use; print each as file:line.

    python .ci/english.py [FILE …]

Without files it reads all of ``attn``: comments, strings and docstrings of
Python, and every line of Markdown. The rules are those of "House style" in
``CONTRIBUTING.md``. The exit status is 1 when something was found, and 2 when
there was nothing to read.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ATTN = Path(os.path.relpath(Path(__file__).parents[1])) / "attn"

EVERYWHERE = r"""
    anew | likewise | besides | to\s+be\s+had | dear
    | nobody | somebody | everybody | lies | stands?(?!\s+for|-in)
    | of\s+torch's
"""
IN_CODE = r"""
    who | whom | wants? | asks? | asked | knows? | (?:is|are)\s+told
    | takes?\s+(?:a|the|such|every)\s+calls?
"""
NOT_A_VERB = r"(?:What|Why|Who|Whether|Where|When|Which|How|That)\b"
FLAGS = re.IGNORECASE | re.VERBOSE
BANNED = {
    ".md": re.compile(rf"\b(?:{EVERYWHERE})\b", FLAGS),
    ".py": re.compile(rf"\b(?:{EVERYWHERE}|{IN_CODE})\b", FLAGS),
}
TEXT = {tokenize.COMMENT, tokenize.STRING}
if sys.version_info >= (3, 12):  # where an f-string is several tokens
    TEXT.add(tokenize.FSTRING_MIDDLE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of what people read in a file."""
    if path.suffix == ".md":
        yield 1, path.read_text("utf-8")
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in TEXT:
                yield token.start[0], token.string


def first_words(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, word) of docstrings that begin without a verb."""
    if path.suffix != ".py":
        return
    documented = ast.FunctionDef | ast.ClassDef | ast.Module
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, documented):
            match = re.match(NOT_A_VERB, ast.get_docstring(node) or "")
            if match:
                yield node.body[0].lineno, match[0]


def faults(path: Path) -> list[tuple[int, str]]:
    """Return (line, complaint) of a file, in order."""
    found = [
        (line + text.count("\n", 0, match.start()), repr(match[0]))
        for line, text in prose(path)
        for match in BANNED[path.suffix].finditer(text)
    ]
    found += [
        (line, f"{word!r}: a docstring begins with a verb")
        for line, word in first_words(path)
    ]
    return sorted(found)


def main(names: list[str]) -> int:
    """Read the files, print what was found, return the exit status."""
    files = [Path(x) for x in names] or sorted(ATTN.rglob("*"))
    files = [x for x in files if x.suffix in BANNED]
    if not files:
        print("english: nothing to read", file=sys.stderr)
        return 2
    found = [
        f"{path}:{line}: {complaint}"
        for path in files
        for line, complaint in faults(path)
    ]
    print(*found, f"{len(files)} files, {len(found)} wordings", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
