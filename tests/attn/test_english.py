"""Docstrings, comments and messages of ``attn`` use the field's English."""

import ast
import re
import tokenize
from pathlib import Path

import pytest

ATTN = Path(__file__).parents[2] / "attn"
SOURCES = sorted(ATTN.rglob("*.py"))
TEXTS = sorted(ATTN.rglob("*.md"))
ANYWHERE = r"""anew|likewise|besides|to be had|dear|nobody|somebody|everybody|
    lies|stands?(?!\s+for)|of\s+torch's"""
IN_CODE = r"""who|whom|wants?|asks?|asked|knows?|(is|are)\s+told|
    takes?\s+(a|the|such|every)\s+calls?"""
NOT_A_VERB = r"(What|Why|Who|Whether|Where|When|Which|How|That)\b"


def banned(words):
    return re.compile(rf"\b({''.join(words.split())})\b", re.I)


BANNED = {
    ".py": banned(f"{ANYWHERE}|{IN_CODE}".replace(r"\s+", r"\s*")),
    ".md": banned(ANYWHERE.replace(r"\s+", r"\s*")),
}


def prose(path):
    """Yield (line, text) of every comment and string of a Python file."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text("utf-8").splitlines(), 1)
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.start[0], token.string


def test_there_is_something_to_read():
    assert len(SOURCES) > 100 and len(TEXTS) > 30


@pytest.mark.parametrize(
    "path", SOURCES + TEXTS, ids=lambda x: str(x.relative_to(ATTN))
)
def test_no_banned_words(path):
    found = [
        f"{path.name}:{line}: {match[0]!r} in {text.strip()[:90]!r}"
        for line, text in prose(path)
        for match in BANNED[path.suffix].finditer(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "path", SOURCES, ids=lambda x: str(x.relative_to(ATTN))
)
def test_docstrings_begin_with_a_verb(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node) or ""
            if re.match(NOT_A_VERB, text):
                found.append(text.splitlines()[0])
    assert not found, "\n".join(found)
