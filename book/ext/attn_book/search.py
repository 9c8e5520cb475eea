"""Let the search find sections: keep how often each has which word.

Sphinx's own index knows on which pages a word is. Here a chapter's sections,
the glossary's terms and the functions of the API are found each by itself;
``book/_static/search.js`` ranks them. Code and its outputs are not text.
"""

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

SILENT = (
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.title,
    nodes.comment,
    nodes.system_message,
    addnodes.desc_signature,
)


NAMELESS = ("ref", "numref", "doc", "myst", "any")
#: What is counted, and how. Most words come again: a stem is looked up once.
LANGUAGE = SearchEnglish({})
stem = cache(LANGUAGE.stem)


@dataclass
class Place:
    """A part of a page that a search can lead to."""

    anchor: str
    title: str
    texts: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", restore)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("doctree-read", count)
    app.connect("build-finished", write)


def kept(env: Any) -> dict[str, list[Place]]:
    """Return the places of each page, kept with what else Sphinx has read."""
    return env.__dict__.setdefault("attn_places", {})


def forget(app: Sphinx, env: Any, page: str) -> None:
    kept(env).pop(page, None)


def merge(app: Sphinx, env: Any, pages: Any, other: Any) -> None:
    kept(env).update(kept(other))


def files(app: Sphinx) -> tuple[Path, Path]:
    """Return where the index is, and where Sphinx's own is kept."""
    name = "searchindex.js"
    return Path(app.outdir, name), Path(app.doctreedir, name)


def restore(app: Sphinx) -> None:
    """Give Sphinx its own index back, to which it adds what is built anew."""
    index, own = files(app)
    if index.exists() and own.exists():
        shutil.copyfile(own, index)


def count(app: Sphinx, doctree: nodes.document) -> None:
    """Count the words of each place of a page that is read."""
    places: list[Place] = []
    walk(doctree, Place("", ""), places)
    for place in places:
        words = map(stem, LANGUAGE.split(" ".join(place.texts)))
        place.counts.update(x for x in words if LANGUAGE.word_filter(x))
        place.texts.clear()
    kept(app.env)[app.env.docname] = places


def walk(node: nodes.Element, here: Place, places: list[Place]) -> None:
    """Share the text below a node out among the places in it."""
    for child in node.children:
        inside = here
        match child:
            case addnodes.pending_xref() if (
                child["reftype"] in NAMELESS and not child["refexplicit"]
            ):
                continue  # the name of what it leads to is not here yet
            case nodes.Text():
                here.texts.append(child.astext())
            case nodes.section():
                anchor = child["ids"][0] if here.title else ""
                inside = Place(anchor, child[0].astext())
            case nodes.definition_list_item() if child[0]["ids"]:
                term = next(child.findall(nodes.term))
                inside = Place(term["ids"][0], term.astext())
            case addnodes.desc() if child[0]["ids"]:
                (name, *_) = child[0]["ids"]
                inside = Place(name, name)
        if inside is not here:
            places.append(inside)
            inside.texts.append(inside.title)
        if isinstance(child, nodes.Element) and not isinstance(child, SILENT):
            walk(child, inside, places)


def write(app: Sphinx, error: Exception | None) -> None:
    """Put the places into the index, instead of what Sphinx has there."""
    builder: Any = app.builder
    if error or builder.format != "html":
        return
    file, own = files(app)
    shutil.copyfile(file, own)
    call, _, rest = file.read_text("utf-8").partition("(")
    index = json.loads(rest.rpartition(")")[0])
    index = {x: index[x] for x in ("docnames", "filenames", "titles")}
    terms: dict[str, list[int]] = {}  # steps from place to place, and counts
    last: Counter[str] = Counter()
    found: list[Any] = []
    for page, places in sorted(kept(app.env).items()):
        number = index["docnames"].index(page)
        for place in places:
            for word, times in place.counts.items():
                terms.setdefault(word, []).extend(
                    (len(found) - last[word], times)
                )
                last[word] = len(found)
            title = re.sub(r"\\sqrt\{(\w+)\}", r"√\1", place.title)
            length = place.counts.total()
            found.append([number, place.anchor, title, length])
    index |= {"places": found, "terms": terms}
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    file.write_text(f"{call}({text})", "utf-8")
