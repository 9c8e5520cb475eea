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

EVERYDAY = frozenset(
    ("bias", "grid", "head", "kernel", "key", "mask", "query", "scale")
    + ("scores", "tile", "value", "weights")
)
NOT_PROSE = (nodes.title, nodes.figure, nodes.table, nodes.Admonition)
NOT_PROSE += (nodes.literal, nodes.math, nodes.reference, pending_xref)
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
        entries = self.env.get_domain("std").objects
        terms = {name for kind, name in entries if kind == "term"} - EVERYDAY
        pattern = re.compile("|".join(f"({form(x)})" for x in sorted(terms)))
        by_hand = {
            xref["reftarget"].lower()
            for xref in self.document.findall(pending_xref)
            if xref["reftype"] == "term"
        }
        linked = {x for x in terms if x.lower() in by_hand}
        for text in list(self.document.findall(nodes.Text)):
            if not is_prose(text):
                continue
            parts, end = [], 0
            for found in pattern.finditer(text):
                term = sorted(terms)[found.lastindex - 1]
                if term not in linked:
                    linked.add(term)
                    parts += [nodes.Text(text[end : found.start()])]
                    parts += [self.reference(term, found[0])]
                    end = found.end()
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])

    def reference(self, term: str, words: str) -> pending_xref:
        xref = nodes.inline(words, words, classes=["xref", "std", "std-term"])
        return pending_xref(
            words,
            xref,
            refdomain="std",
            reftype="term",
            reftarget=term,
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )


def form(term: str) -> str:
    """Return a pattern for a term and its plural, with a capital or not."""
    stem = re.sub("(?<!s)s$", "", term)
    first, rest = re.escape(stem[0]), re.escape(stem[1:])
    return rf"(?<![\w-])(?i:{first}){rest}s?(?![\w-])"


def is_prose(node: nodes.Node) -> bool:
    """Return whether a text is in a paragraph, and in nothing else."""
    outer = [node.parent]
    while outer[-1].parent is not None:
        outer.append(outer[-1].parent)
    return any(isinstance(x, nodes.paragraph) for x in outer) and not any(
        isinstance(x, NOT_PROSE) or BOXES & x.attributes.keys() for x in outer
    )
