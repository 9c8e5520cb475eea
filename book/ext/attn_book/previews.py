"""Keep what links lead to, for ``book/_static/preview.js`` to show.

A figure is on the page that refers to it. Terms, sources, chapters and
labelled sections are on others, which a page opened as a file cannot read:
they go into a script, which the page loads before its first preview.
"""

import json
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from attn_book.sharing import summary


def setup(app: Sphinx) -> None:
    kept: dict[str, str] = {}
    app.connect("html-page-context", partial(keep, kept))
    app.connect("html-collect-pages", partial(write, kept))


def keep(kept: dict[str, str], app: Sphinx, page: str, *about: Any) -> None:
    """Keep what a page has for previews, by the addresses that lead to it."""
    doctree = about[-1]
    if doctree is None:
        return
    builder: Any = app.builder
    file = PurePosixPath(page).with_suffix(".html").name
    labels = app.env.domaindata["std"]["labels"].values()
    places = {f"#{place}" for name, place, _ in labels if name == page}
    for node in doctree.findall(nodes.Element):
        own = [f"#{place}" for place in node["ids"]]
        match node:
            case nodes.term() if own:
                parts = node.parent[-1].children
            case nodes.citation():
                parts = node[1:]
            case nodes.section() if node.parent is doctree:
                parts, own = beginning(node, summary(app, page)), [*own, ""]
            case nodes.section() if places.intersection(own):
                parts = beginning(node)
            case _:
                continue
        shown = (builder.render_partial(unlinked(x)) for x in parts)
        text = "".join(x["fragment"] for x in shown)
        kept.update((file + place, text) for place in own)


def beginning(section: nodes.section, about: str = "") -> list[nodes.Element]:
    """Return a title, and what the section is about or begins with."""
    title = nodes.strong("", "", *section[0].deepcopy().children)
    boxes = [x if isinstance(x, nodes.container) else [x] for x in section]
    texts = [x for x in chain(*boxes) if isinstance(x, nodes.paragraph)][:1]
    if about:
        texts = [nodes.paragraph("", about)]
    return [nodes.paragraph("", "", title), *texts]


def unlinked(node: nodes.Element) -> nodes.Element:
    """Return a copy in which links are words."""
    copy = node.deepcopy()
    for link in list(copy.findall(nodes.reference)):
        link.replace_self(link.children)
    return copy


def write(kept: dict[str, str], app: Sphinx) -> list[str]:
    """Write the script, once every page is kept."""
    text = json.dumps(kept, indent=0, ensure_ascii=False)
    file = Path(app.outdir, "_static", "preview.data.js")
    file.write_text(f"window.previews = {text};\n", "utf-8")
    return []  # no page more
