"""Number chapters as their files are, in whatever order they are listed.

Sphinx numbers the listed chapters 1, 2, 3; here ``07_rope`` is chapter 7, its
third section 7.3 and its sixth figure Fig. 7.6, in a book in which a chapter
is missing as in a whole one.
"""

import functools
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

CHAPTER = re.compile(r"notebooks/(\d+)_\w+")
AFTER_SPHINX = 900  # whose own handler has the priority 500


def setup(app: Sphinx) -> None:
    app.connect("env-get-updated", number_chapters, AFTER_SPHINX)
    app.connect("env-check-consistency", read_once)


def number_chapters(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Put a chapter's own number first in every number of its page."""
    for page, title in env.titles.items():
        if not (name := CHAPTER.fullmatch(page)):
            continue
        chapter = int(name[1])
        figures = env.toc_fignumbers.get(page, {}).values()
        for numbers in (env.toc_secnumbers.get(page, {}), *figures):
            for place, number in numbers.items():
                numbers[place] = number and (chapter, *number[1:])
        for node in (title, *env.tocs[page].findall(nodes.reference)):
            if number := node.get("secnumber"):
                node["secnumber"] = (chapter, *number[1:])
    return []  # to write again: a build is always whole


def read_once(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep each page: Sphinx reads it again for every reference to it."""
    vars(env)["get_doctree"] = functools.cache(env.get_doctree)
