"""Translate the roles within a paragraph: citations, references, terms."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from attn.publishing.myst_to_markdown import myst
from attn.publishing.myst_to_markdown.targets import (
    GLOSSARY,
    Target,
    Targets,
    term_cell,
)

_NAMED = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>")


def inline_to_markdown(text: str, targets: Targets) -> str:
    """Return a paragraph without roles.

    Raises:
        ValueError: a role that no rule translates, or a target that is
            nowhere in the book.
    """
    if "{" not in text and "$$" not in text:
        return text
    written, done = "", 0
    for token in myst.inline(text):
        if token.type != "myst_role":
            continue
        if (role := token.meta["name"]) not in _ROLES:
            raise ValueError(
                f"the role {{{role}}} has no translation for Jupyter: add it "
                "to attn/publishing/myst_to_markdown/roles.py"
            )
        start, end = token.meta["place"]
        content = " ".join(token.content.split())
        written += text[done:start] + _ROLES[role](content, targets)
        done = end
    return written + text[done:]


@cache
def _tooltip(text: str) -> str:
    """Return a link's title; none for a text that needs more than words."""
    words = ""
    for token in myst.inline(text):
        if token.type.startswith("math"):
            return ""
        if token.type == "myst_role":
            own, name = _words_and_target(token.content)
            words += own or name
        else:
            words += " " if token.type.endswith("break") else token.content
    escaped = re.sub(r'(["|\\])', r"\\\1", " ".join(words.split()))
    return f' "{escaped}"'


def _words_and_target(content: str) -> tuple[str, str]:
    named = _NAMED.fullmatch(content)
    return (named["words"], named["target"]) if named else ("", content)


def _cite(content: str, targets: Targets) -> str:
    links = []
    for key in content.split(","):
        source = targets.source(key.strip())
        title = _tooltip(source.title)
        link = f"[{source.label}]({source.url}{title})"
        links.append(link if source.url else source.label)
    return ", ".join(links)


def _term(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    term, definition = targets.term(name)
    cell = f"{GLOSSARY}#cell-id={term_cell(term)}"
    return f"[{words or name}]({cell}{_tooltip(definition)})"


def _ref(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    return _link(words, targets.place(name))


def _numref(content: str, targets: Targets) -> str:
    words, name = _words_and_target(content)
    place = targets.place(name)
    words = words or ("chapter {number}" if place.link else "{name}")
    for field in ("%s", "{number}"):
        words = words.replace(field, place.number)
    return _link(words.replace("{name}", place.words), place)


def _doc(content: str, targets: Targets) -> str:
    """Link to a notebook; the other pages are not in a learner's folder."""
    words, name = _words_and_target(content)
    stem = name.rpartition("/")[2]
    if words and stem not in targets.places:
        return f"*{words}*"
    return _link(words, targets.place(stem))


def _link(words: str, place: Target) -> str:
    """Link to a heading; a figure's number says where it is."""
    if not (words := words or place.words):
        raise ValueError(
            f"a reference to {place.link} must have words of its own"
        )
    return f"[{words}]({place.link})" if place.link else words


_ROLES: dict[str, Callable[[str, Targets], str]] = {
    "cite": lambda content, targets: f"[{_cite(content, targets)}]",
    "cite:t": _cite,
    "term": _term,
    "ref": _ref,
    "numref": _numref,
    "doc": _doc,
    "eq": lambda content, targets: targets.place(content).words,
    "math": lambda content, _: f"${content}$",
}
