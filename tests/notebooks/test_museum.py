"""The museum's exhibits fail, are explained, and are repaired."""

import copy
import re
from itertools import pairwise

import pytest

from attn.data.book import root
from attn.exercises import CHAPTERS, sources
from attn.publishing import myst_to_markdown, notebooks
from attn.publishing.museum import FACTS, SHOWN
from attn.publishing.museum import exhibits as indexed
from tests.notebooks.learners import flaws, written

MUSEUM = root() / "notebooks" / "museum.ipynb"


@pytest.fixture(scope="module")
def museum():
    return notebooks.read(MUSEUM)


def is_exhibit(cell):
    return "raises-exception" in cell.metadata.get("tags", [])


@pytest.fixture(scope="module")
def exhibits(museum):
    """For each failing cell: itself, and the cells up to the next one."""
    at = [i for i, cell in enumerate(museum.cells) if is_exhibit(cell)]
    return [museum.cells[a:b] for a, b in pairwise([*at, None])]


def test_every_exhibit_fails_and_nothing_else_does(museum):
    for cell in museum.cells:
        failed = any(o.output_type == "error" for o in cell.get("outputs", []))
        assert failed == is_exhibit(cell), cell.source
    assert list(flaws(museum)) == []


def test_every_exhibit_has_its_reason_and_its_repair(exhibits):
    assert len(exhibits) >= 30
    for broken, *rest in exhibits:
        text = "".join(c.source for c in rest if c.cell_type == "markdown")
        assert "**Why.**" in text, broken.source
        assert text.count("**Repaired.**") == 1, broken.source
        assert any(c.cell_type == "code" for c in rest), broken.source


def source(exhibit):
    """Return what an exhibit's **Source.** paragraph says."""
    text = "\n\n".join(c.source for c in exhibit if c.cell_type == "markdown")
    (found,) = re.findall(r"^\*\*Source\.\*\* (.+)$", text, re.M)
    return found


def test_every_exhibit_has_its_source_or_says_it_is_invented(museum, exhibits):
    """And the first page counts them right."""
    sources = [source(exhibit) for exhibit in exhibits]
    found = [x for x in sources if x.startswith("Found here")]
    invented = [x for x in sources if x.startswith("Invented here")]
    public = [x for x in sources if x not in found + invented]
    for text in public:
        assert re.search(r"\]\(https://[\w.]+/[\w./#-]+\)", text), text
    first_page = museum.cells[1].source
    assert f"Of the {len(sources)} exhibits, {len(public)} have" in first_page
    words = {7: "seven", 8: "eight"}
    assert f"{words[len(found)].capitalize()} were found here" in first_page
    assert f"{words[len(invented)]} were invented here" in first_page
    summary = museum.metadata["attn"]["summary"]
    for text in (summary, (root() / "README.md").read_text("utf-8")):
        assert f" {len(sources)} faults" in text


def test_a_pull_request_has_its_month_and_its_fate(museum):
    """A source that was never merged is not cited as a repair."""
    text = "".join(c.source for c in museum.cells if c.cell_type != "code")
    link = r"\]\(https://github\.com/[\w./-]+/pull/\d+\)(.{,40})"
    fates = re.findall(link, text)
    assert len(fates) >= 50
    fate = r" \(([A-Z]\w+ )?20\d\d, (merged|closed|open)\b| \(fate unknown\)"
    for after in fates:
        assert re.match(fate, after), after


def test_the_index_has_every_exhibit_and_every_fact(museum, exhibits):
    index = indexed(museum)
    assert len(index) == len(exhibits)
    for exhibit in index:
        assert re.fullmatch(r"bug-[a-z0-9-]+", exhibit["label"])
        assert set(FACTS) | {"title"} == set(exhibit)
    assert len({x["label"] for x in index}) == len(index)
    effects = [x["effect"] for x in index]
    assert set(effects) == {"silent", "loud"}
    silent = effects.count("silent") / len(index)
    last = museum.cells[-1].source
    assert abs(silent - 3 / 4) < 0.05
    assert "Three quarters raise nothing" in last
    for kind in ("found here", "invented here"):
        starts = [source(x).lower().startswith(kind) for x in exhibits]
        assert [x["source"] == kind for x in index] == starts


@pytest.mark.parametrize(
    "fact, text, replacement",
    [
        ("label", "(bug-true-is-one)=", ""),
        ("room", "## Room 2: ", "## "),
        ("library", "https://github.com/", "https://example.org/"),
        ("source", "**Source.**", "**Where.**"),
        ("effect", None, None),
    ],
)
def test_an_exhibit_without_a_fact_is_named(museum, fact, text, replacement):
    changed = copy.deepcopy(museum)
    for cell in changed.cells:
        if text is None and is_exhibit(cell):
            cell.outputs = []
        elif text is not None and cell.cell_type == "markdown":
            cell.source = cell.source.replace(text, replacement)
    needed = re.escape(FACTS[fact])
    with pytest.raises(ValueError, match=f"the exhibit '.+' must .*{needed}"):
        indexed(changed)


def test_a_copy_has_the_index_as_a_table_of_links(museum):
    made = myst_to_markdown.copy_of(museum, set_up=False)
    cells = {x["id"]: x["source"] for x in made["cells"]}
    (text,) = [x for x in cells.values() if "| exhibit" in x]
    row = r"^\| \[(.+)\]\(museum.ipynb#cell-id=(.+?)\) \| (.+) \|$"
    pairs = zip(re.findall(row, text, re.M), indexed(museum), strict=True)
    for (title, cell, facts), exhibit in pairs:
        assert f"### {title}\n" in cells[cell].replace("`", "")
        assert facts.split(" | ") == [exhibit[x] for x in SHOWN]


def test_a_chapter_and_its_room_link_to_each_other(museum):
    rooms = "".join(cell.source for cell in museum.cells)
    have = [key for key in CHAPTERS if f"(museum-{key})=" in rooms]
    assert len(have) >= 8
    for key, stem in CHAPTERS.items():
        chapter = notebooks.read(sources.notebook_path(key))
        text = "".join(cell.source for cell in chapter.cells)
        links = [f"museum-{key}" in text, f"({stem}.ipynb)" in rooms]
        assert links == [key in have] * 2, key


def test_the_museum_passes_every_cell(museum, nbval, tmp_path):
    result, _ = nbval(written(museum, tmp_path), "--tb=short")
    assert result.returncode == 0, result.stdout[-4000:]


def test_an_exhibit_that_does_not_fail_fails_its_cell(museum, nbval, tmp_path):
    """When a library is repaired, its exhibit has to go."""
    changed = copy.deepcopy(museum)
    broken = next(cell for cell in changed.cells if is_exhibit(cell))
    broken.source = "pass"
    changed.cells = [changed.cells[2], broken]
    result, _ = nbval(written(changed, tmp_path))
    assert result.returncode == 1, result.stdout[-2000:]
