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
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

SILENT = (
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.title,
    nodes.comment,
    addnodes.desc_signature,
)


@dataclass
class Place:
    """A part of a page that a search can lead to."""

    page: str
    anchor: str
    title: str
    texts: list[str] = field(default_factory=list)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", restore)
    app.connect("build-finished", write)


def files(app: Sphinx) -> tuple[Path, Path]:
    """Return where the index is, and where Sphinx's own is kept."""
    name = "searchindex.js"
    return Path(app.outdir, name), Path(app.doctreedir, name)


def restore(app: Sphinx) -> None:
    """Give Sphinx its own index back, to which it adds what is built anew."""
    index, own = files(app)
    if index.exists() and own.exists():
        shutil.copyfile(own, index)


def walk(node: nodes.Element, here: Place, places: list[Place]) -> None:
    """Share the text below a node out among the places in it."""
    for child in node.children:
        inside = here
        match child:
            case nodes.Text():
                here.texts.append(child.astext())
            case nodes.section():
                anchor = child["ids"][0] if here.title else ""
                inside = Place(here.page, anchor, child[0].astext())
            case nodes.definition_list_item() if child[0]["ids"]:
                term = next(child.findall(nodes.term))
                inside = Place(here.page, term["ids"][0], term.astext())
            case addnodes.desc() if child[0]["ids"]:
                (name, *_) = child[0]["ids"]
                inside = Place(here.page, name, name)
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
    places: list[Place] = []
    for page in sorted(app.env.found_docs):
        walk(app.env.get_doctree(page), Place(page, "", ""), places)
    language = builder.indexer.lang
    file, own = files(app)
    shutil.copyfile(file, own)
    call, _, rest = file.read_text("utf-8").partition("(")
    index = json.loads(rest.rpartition(")")[0])
    index = {x: index[x] for x in ("docnames", "filenames", "titles")}
    terms: dict[str, list[int]] = {}  # steps from place to place, and counts
    last: Counter[str] = Counter()
    found = []
    for i, place in enumerate(places):
        words = map(language.stem, language.split(" ".join(place.texts)))
        counts = Counter(x for x in words if language.word_filter(x))
        for word, times in counts.items():
            terms.setdefault(word, []).extend((i - last[word], times))
            last[word] = i
        page = index["docnames"].index(place.page)
        title = re.sub(r"\\sqrt\{(\w+)\}", r"√\1", place.title)
        found.append([page, place.anchor, title, counts.total()])
    index |= {"places": found, "terms": terms}
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    file.write_text(f"{call}({text})", "utf-8")
