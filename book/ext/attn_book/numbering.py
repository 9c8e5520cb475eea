"""Number chapters as their files are, in whatever order they are listed.

Sphinx numbers the listed chapters 1, 2, 3; here ``07_rope`` is chapter 7, its
third section 7.3 and its sixth figure Fig. 7.6, in a book in which a chapter
is missing as in a whole one.
"""

import functools
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment

CHAPTER = re.compile(r"notebooks/(\d+)_\w+")
AFTER_SPHINX = 900  # whose own handler has the priority 500


def setup(app: Sphinx) -> None:
    app.add_domain(Numbered, override=True)
    app.connect("env-get-updated", number_chapters, AFTER_SPHINX)


def number_chapters(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Put a chapter's own number first in every number of its page."""
    found = {page: CHAPTER.fullmatch(page) for page in env.titles}
    chapters = {page: int(name[1]) for page, name in found.items() if name}
    for page, chapter in chapters.items():
        figures = env.toc_fignumbers.get(page, {}).values()
        for numbers in (env.toc_secnumbers.get(page, {}), *figures):
            for place, number in numbers.items():
                numbers[place] = renumbered(number, chapter)
        links = env.tocs[page].findall(nodes.reference)
        for node in (env.titles[page], *links):
            if node.get("secnumber"):
                node["secnumber"] = renumbered(node["secnumber"], chapter)
    return list(chapters)


def renumbered(number: Any, chapter: int) -> Any:
    """Return a number, ``(3, 6)``, with the chapter's in the first place."""
    return type(number)((chapter, *number[1:])) if number else number


class Numbered(StandardDomain):
    """Sphinx's own, but a page is read once, not once a reference to it."""

    def _resolve_numref_xref(
        self, env: BuildEnvironment, *reference: Any
    ) -> nodes.Element | None:
        cached: Any = OnceRead(env)
        return super()._resolve_numref_xref(cached, *reference)


@functools.cache
class OnceRead:
    """The environment, whose pages are read once."""

    def __init__(self, env: BuildEnvironment) -> None:
        self._env = env
        self.get_doctree = functools.cache(env.get_doctree)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
