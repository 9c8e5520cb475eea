"""Link a term of the glossary where a chapter first uses it.

Only in prose: headings, captions, tables, boxes, code and formulas stay as
they are. Everyday words have other meanings, too ("kernel regression", "the
weights of the model"): they, like forms other than the plural, are linked by
hand with the role ``term``, where a link helps.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

EVERYDAY = {"bias", "grid", "head", "kernel", "key", "mask", "query", "scale"}
EVERYDAY |= {"scores", "tile", "value", "weights"}
NOT_PROSE: tuple[type, ...] = (nodes.title, nodes.figure, nodes.table)
NOT_PROSE += (nodes.Admonition, nodes.literal, nodes.math)
NOT_PROSE += (nodes.reference, pending_xref)
BOXES = {"design_component", "nb_element"}  # cards, questions, cells


def setup(app: Sphinx) -> None:
    app.add_post_transform(LinkFirstUse)


class LinkFirstUse(SphinxPostTransform):
    """Add references to the glossary, before Sphinx resolves references."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        if not self.env.docname.startswith("notebooks/"):
            return
        by_hand = {
            xref["reftarget"].lower()
            for xref in self.document.findall(pending_xref)
            if xref["reftype"] == "term"
        }
        left = {
            term: form(term)
            for kind, term in self.env.domaindata["std"]["objects"]
            if kind == "term" and term.lower() not in EVERYDAY | by_hand
        }
        for text in list(self.document.findall(nodes.Text)):
            if is_prose(text):
                text.parent.replace(text, linked(str(text), left))


def linked(text: str, left: dict[str, re.Pattern[str]]) -> list[nodes.Node]:
    """Return a text with links for the terms that are left, each once."""
    for term, pattern in left.items():
        if found := pattern.search(text):
            del left[term]
            word = nodes.inline("", found[0], classes=["std-term"])
            about = {"refdomain": "std", "reftype": "term", "reftarget": term}
            link = pending_xref("", word, **about)
            before = linked(text[: found.start()], left)
            return [*before, link, *linked(text[found.end() :], left)]
    return [nodes.Text(text)]


def form(term: str) -> re.Pattern[str]:
    """Return a pattern for a term and its plural, with a capital or not."""
    first, rest = re.escape(term[0]), re.escape(term[1:])
    return re.compile(rf"(?<![\w-])(?i:{first}){rest}s?(?![\w-])")


def is_prose(node: nodes.Node) -> bool:
    """Return whether a text is in a paragraph, and in nothing else."""
    outer = [node.parent]
    while outer[-1].parent is not None:
        outer.append(outer[-1].parent)
    return any(isinstance(x, nodes.paragraph) for x in outer) and not any(
        isinstance(x, NOT_PROSE) or BOXES & x.attributes.keys() for x in outer
    )
