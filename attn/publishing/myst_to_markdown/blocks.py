"""Split a text in MyST into its blocks: prose, code, directives, labels.

Fences, labels and comments are whole lines in MyST, and a fence ends at the
first line of as many marks: lines are all there is to parse. Blocks within a
directive come from splitting its body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,}|~{3,}|:{3,})(?P<info>.*)")
_DIRECTIVE = re.compile(r"\{(?P<name>[^{}\s]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r":(?P<name>[\w-]+):\s*(?P<value>.*)")
_LABEL = re.compile(r" *\((?P<name>[^()\n]+)\)=\s*")
_DOLLARS = re.compile(
    r"(?s) *\$\$(?P<tex>.*?)\$\$\s*(?:\((?P<name>\S+)\))?\s*"
)


@dataclass(frozen=True)
class Prose:
    """A paragraph, a heading, a list, a table."""

    text: str


@dataclass(frozen=True)
class Code:
    """A fenced block, as it is written."""

    text: str


@dataclass(frozen=True)
class Maths:
    """A displayed formula, and its label."""

    tex: str
    name: str = ""
    indent: str = ""


@dataclass(frozen=True)
class Label:
    """The name of the heading that follows."""

    name: str


@dataclass(frozen=True)
class Directive:
    """``:::{name} argument``, its options and its body."""

    name: str
    argument: str
    body: str
    options: dict[str, str] = field(default_factory=dict)
    indent: str = ""


Block = Prose | Code | Maths | Label | Directive


def split(text: str) -> Iterator[Block]:
    """Yield the blocks of a text, from top to bottom.

    Raises:
        ValueError: a fence is not closed.
    """
    lines = text.split("\n")
    prose: list[str] = []

    def gathered() -> Iterator[Prose]:
        if any(line.strip() for line in prose):
            yield Prose("\n".join(prose).strip("\n"))
        prose.clear()

    while lines:
        line = lines.pop(0)
        if fence := _FENCE.fullmatch(line):
            yield from gathered()
            body = _until_closed(fence, lines)
            yield _fenced(fence, body)
        elif line.strip().startswith("$$") and not _is_inline(line):
            yield from gathered()
            yield _formula(line, lines)
        elif label := _LABEL.fullmatch(line):
            yield from gathered()
            yield Label(label["name"])
        elif not line.strip() or line.startswith(("% ", "+++")):
            yield from gathered()  # no line, a comment, a new cell
        else:
            prose.append(line)
    yield from gathered()


def walk(text: str) -> Iterator[Block]:
    """Yield the blocks of a text, and after each those within it."""
    for block in split(text):
        yield block
        if isinstance(block, Directive):
            yield from walk(block.body)


def _until_closed(fence: re.Match[str], lines: list[str]) -> list[str]:
    marks, indent = fence["marks"], len(fence["indent"])
    body: list[str] = []
    closes = re.compile(rf" *{marks[0]}{{{len(marks)},}}\s*")
    while lines:
        line = lines.pop(0)
        if closes.fullmatch(line):
            return body
        cut = min(indent, len(line) - len(line.lstrip(" ")))
        body.append(line[cut:])
    raise ValueError(f"a fence is not closed: {fence[0]!r}")


def _fenced(fence: re.Match[str], body: list[str]) -> Block:
    found = _DIRECTIVE.fullmatch(fence["info"].strip())
    if not found and fence["marks"][0] == ":":
        found = re.fullmatch(r"(?P<name>\S*)(?P<argument>.*)", fence["info"])
    indent = fence["indent"]
    if not found:
        marks = fence["marks"]
        lines = [marks + fence["info"], *body, marks]
        return Code("\n".join(indent + x if x else x for x in lines))
    options = {}
    while body and (option := _OPTION.fullmatch(body[0].strip())):
        options[option["name"]] = option["value"].strip()
        del body[0]
    text = "\n".join(body).strip("\n")
    argument = found["argument"].strip()
    if found["name"] == "math":
        tex = f"{argument}\n{text}".strip()
        return Maths(tex, options.get("label", ""), indent)
    return Directive(found["name"], argument, text, options, indent)


def _is_inline(line: str) -> bool:
    """Return whether a line goes on after its formula."""
    return line.count("$$") == 2 and not _DOLLARS.fullmatch(line)


def _formula(line: str, lines: list[str]) -> Maths:
    text = line
    while not (found := _DOLLARS.fullmatch(text)):
        if not lines or text.count("$$") > 1:
            raise ValueError(f"a formula is not closed: {line!r}")
        text += "\n" + lines.pop(0)
    indent = line[: len(line) - len(line.lstrip(" "))]
    return Maths(found["tex"].strip("\n"), found["name"] or "", indent)
