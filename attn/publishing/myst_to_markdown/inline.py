"""Translate the roles within a paragraph: citations, references, terms."""

from __future__ import annotations

import re
from collections.abc import Callable

from attn.publishing.myst_to_markdown.targets import (
    GLOSSARY,
    Target,
    Targets,
    term_cell,
)

# As Markdown reads a line, from left to right: what is in a role, in
# code or in a formula is no text.
_PIECE = re.compile(
    r"(?P<escaped>\\.)"
    r"|\{(?P<role>[\w:+-]+)\}(?P<ticks>`+)(?P<content>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?P<code>(?P<marks>`+)(?!`).+?(?<!`)(?P=marks)(?!`))"
    r"|(?P<formula>\$\$[^$]+\$\$|\$(?=\S)(?:[^$\\]|\\.)+?(?<=\S)\$)",
    re.DOTALL,
)
_NAMED = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>", re.DOTALL)


def plain_inline(text: str, targets: Targets) -> str:
    """Return a paragraph without roles.

    Raises:
        ValueError: a role that no rule translates, or a target that is
            nowhere in the book.
    """

    def translated(found: re.Match[str]) -> str:
        if not (role := found["role"]):
            return found[0]
        if role not in _ROLES:
            raise ValueError(
                f"the role {{{role}}} has no translation for Jupyter: add it "
                "to attn/publishing/myst_to_markdown/inline.py"
            )
        return _ROLES[role](" ".join(found["content"].split()), targets)

    return _PIECE.sub(translated, text)


def tooltip(text: str, targets: Targets) -> str:
    """Return a link's title; none for a text that needs more than words."""

    def words(found: re.Match[str]) -> str:
        if found["role"]:
            return _words_and_target(found["content"])[0]
        return (found["code"] or found[0]).strip("`")

    bare = re.sub(r"(?<!\w)\*+|\*+(?!\w)", "", _PIECE.sub(words, text))
    if "$" in bare:
        return ""
    escaped = re.sub(r'(["|\\])', r"\\\1", " ".join(bare.split()))
    return f' "{escaped}"'


def _words_and_target(content: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(content)
    return (found["words"], found["target"]) if found else (content, content)


def _cite(content: str, targets: Targets) -> str:
    links = []
    for key in content.split(","):
        if key.strip() not in targets.sources:
            raise ValueError(f"the bibliography has no entry {key.strip()!r}")
        source = targets.sources[key.strip()]
        words = source.label
        if source.url:
            title = tooltip(source.title, targets)
            words = f"[{words}]({source.url}{title})"
        links.append(words)
    return ", ".join(links)


def _cite_in_brackets(content: str, targets: Targets) -> str:
    return f"[{_cite(content, targets)}]"


def _term(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    term, definition = targets.term(name)
    title = tooltip(definition, targets)
    return f"[{words}]({GLOSSARY}#cell-id={term_cell(term)}{title})"


def _place(name: str, targets: Targets) -> Target:
    if name not in targets.places:
        raise ValueError(f"nothing in the notebooks has the label {name!r}")
    return targets.places[name]


def _ref(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    place = _place(name, targets)
    words = place.words if words == name else words
    return _link(words, place)


def _numref(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    place = _place(name, targets)
    kind = "" if place.words.startswith("Fig. ") else "chapter "
    if words == name:
        words = f"{kind}{place.number}" if kind else place.words
    words = words.replace("%s", place.number)
    words = words.replace("{number}", place.number)
    return _link(words.replace("{name}", place.words), place)


def _link(words: str, place: Target) -> str:
    """Link to headings; a figure's number says where it is."""
    if not words:
        raise ValueError(f"a reference to {place.link} needs words of its own")
    if place.words.startswith(("Fig. ", "(")):
        return words
    return f"[{words}]({place.link})"


def _doc(content: str, targets: Targets) -> str:
    """Link to a notebook; the other pages are not in a learner's folder."""
    words, name = _words_and_target(content)
    stem = name.rpartition("/")[2]
    if words != name and stem not in targets.places:
        return f"*{words}*"
    place = _place(stem, targets)
    return _link(place.words if words == name else words, place)


def _eq(content: str, targets: Targets) -> str:
    return _place(content, targets).words


def _math(content: str, targets: Targets) -> str:
    return f"${content}$"


_ROLES: dict[str, Callable[[str, Targets], str]] = {
    "cite": _cite_in_brackets,
    "cite:p": _cite_in_brackets,
    "cite:t": _cite,
    "term": _term,
    "ref": _ref,
    "numref": _numref,
    "doc": _doc,
    "eq": _eq,
    "math": _math,
}
