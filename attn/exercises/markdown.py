"""Read an exercise's Markdown file, and show its prose as HTML.

It holds the effort, three hints, the mistakes, and right answers in other
styles: the latter two as edits of the solution (``edits.py``), each below its
name. A paragraph below a mistake explains it, and may explain several edits,
with a line ``or`` between them. A line that is only a link to a file of the
same folder is replaced by that file, which two exercises share.
Nothing here needs torch.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attn.exercises.edits import EditError
from attn.exercises.wrapping import marked

if TYPE_CHECKING:
    from jinja2 import Environment

_LINK = re.compile(r"^\[.+\]\((\w+\.md)\)$", re.M)
_PARTS = re.compile(
    r"# Effort\n(\d+ minutes, (?:easy|medium|hard))\n\n# Hints\n(.*)\n"
    r"# Mistakes\n(.*)\n# Right answers\n(.*)",
    re.S,
)
_MARKED = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?P=ticks)"
    r"|(?<![\w*])\*(?P<em>\w|\w[^*`]*\w)\*(?![\w*])"
)


class Entry(NamedTuple):
    """A mistake, or a right answer, as the file has it."""

    name: str
    edits: tuple[str, ...]  # without indentation
    why: str

    def labelled(self) -> Iterator[tuple[str, str]]:
        """Yield a label and an edit: of several, the label has a number."""
        for i, code in enumerate(self.edits, 1):
            number = f", edit {i}" if len(self.edits) > 1 else ""
            yield self.name + number, code


class Text(NamedTuple):
    """The parts of an exercise's file."""

    effort: str  # minutes and difficulty
    hints: tuple[str, ...]
    mistakes: list[Entry]
    right_answers: list[Entry]


def read(path: Path) -> Text:
    """Read all parts.

    Raises:
        EditError: a part is missing or unknown, or an entry is malformed.
    """
    place = f"{path.parent.name}/{path.name}"

    def linked(link: re.Match[str]) -> str:
        return path.with_name(link[1]).read_text(encoding="utf-8")

    try:
        text = _LINK.sub(linked, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise EditError(f"{place} cannot be read: {error}") from error
    parts = _PARTS.fullmatch(text)
    if not parts:
        raise EditError(
            f"{place} must hold '# Effort' and, below it, a line such as "
            "'10 minutes, medium' (or easy, or hard), then '# Hints', "
            "'# Mistakes' and '# Right answers'"
        )
    hints = [line for line in parts[2].splitlines() if line.strip()]
    if odd := [x for x in hints if not re.match(r"\d+\. ", x)]:
        raise EditError(
            f"{place}: a hint must be one line that begins with its number; "
            f"got\n{odd[0]}"
        )
    numbered = tuple(x.partition(". ")[2] for x in hints)
    mistakes = _entries(parts[3], place, are_right=False)
    right_answers = _entries(parts[4], place, are_right=True)
    return Text(parts[1], numbered, mistakes, right_answers)


def _entries(text: str, place: str, are_right: bool) -> list[Entry]:
    """Split a section at its headings."""
    lost, *parts = re.split(r"^## ", text, flags=re.M)
    if lost.strip():
        raise EditError(
            f"{place}: an entry must begin with ## and its name; "
            f"got\n{lost.strip()}"
        )
    entries: dict[str, Entry] = {}
    for part in parts:
        name, _, below = part.partition("\n")
        name, pieces = name.strip(), re.split(r"(?m)^or[ \t]*$", below)
        codes, texts = zip(*map(_code_and_text, pieces), strict=True)
        faults = {
            "an entry must have a name and code": not (name and any(codes)),
            "a right answer must be one edit": are_right and codes[1:],
            "a line 'or' must be between two edits": not all(codes),
            "the explanation must be below all edits": any(texts[:-1]),
            "its edits must differ": len({*codes}) < len(codes),
            "a mistake must have an explanation": not (are_right or texts[-1]),
            "two entries share this name": name in entries,
        }
        for fault in (x for x, is_there in faults.items() if is_there):
            raise EditError(f"{place}: ## {name}: {fault}")
        entries[name] = Entry(name, codes, texts[-1])
    return [*entries.values()]


def _code_and_text(piece: str) -> tuple[str, str]:
    """Return the indented lines, and the others as one."""
    lines = piece.splitlines()
    code = [line[4:] for line in lines if line.startswith("    ")]
    text = " ".join(x for x in lines if not x.startswith("    "))
    return "\n".join(code), " ".join(text.split())


def as_html(text: str) -> str:
    """Return a text as HTML: of Markdown, `code` and *emphasis* alone."""

    def element(found: re.Match[str]) -> str:
        tag = "code" if found["code"] else "em"
        is_short = tag == "code" and len(found[tag]) <= 32
        style = ' style="white-space:nowrap"' if is_short else ""
        return f"<{tag}{style}>{found[tag]}</{tag}>"

    return _MARKED.sub(element, escape(marked(text)))


def parts(message: str) -> list[tuple[str, str]]:
    """Cut a diagnosis into ``("p", sentence)`` and ``("pre", block)``.

    In a diagnosis tensors, inputs and code are indented, sentences are not.
    """
    blocks: list[tuple[str, str]] = []
    for line in message.splitlines():
        kind = "pre" if line[:1].isspace() else "p"
        if kind == "pre" and blocks and blocks[-1][0] == "pre":
            blocks[-1] = ("pre", f"{blocks[-1][1]}\n{line}")
        elif line.strip():
            blocks.append((kind, line))
    return [(kind, textwrap.dedent(x).rstrip()) for kind, x in blocks]


def pages(folder: Path) -> Environment:
    """Return what fills in a folder's pages; every text is escaped."""
    # Only where a page is shown: `attn progress` needs none.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "parts": parts,
        "prose": lambda text: Markup(as_html(text)),
    }
    return environment
