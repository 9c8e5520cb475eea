"""The notebooks that the pages offer say what the pages say."""

import json
import re

import pytest
from bs4 import BeautifulSoup

from attn.exercises import APPENDICES, CHAPTERS
from attn.grading.plain.targets import targets

STEMS = (*CHAPTERS.values(), *APPENDICES)


@pytest.fixture(params=STEMS)
def both(request, book):
    """A chapter's page, and the notebook that its download button gives."""
    page = (book / "notebooks" / f"{request.param}.html").read_text("utf-8")
    file = book / "_sources" / "notebooks" / f"{request.param}.ipynb"
    article = BeautifulSoup(page, "html.parser").find("article")
    return article, json.loads(file.read_text("utf-8"))


def markdown(notebook):
    cells = notebook["cells"]
    return "\n\n".join(x["source"] for x in cells if x["cell_type"] != "code")


def test_a_figure_has_the_same_number_in_both(both):
    article, notebook = both
    page = [
        x.get_text(strip=True).replace("#", "")
        for x in article.select("figcaption .caption-number")
    ]
    copy = re.findall(r"(?m)^\*\*(Fig\. [\d.]+)\*\*", markdown(notebook))
    assert copy == page


def test_a_source_is_named_alike_in_both(both):
    article, notebook = both
    page = {
        link["href"].partition("#")[2]: link.get_text()
        for link in article.find_all("a", href=re.compile("bibliography.*#"))
    }
    text = markdown(notebook)
    for label in page.values():
        assert label in text
    known = {x.label for x in targets().sources.values()}
    assert set(page.values()) <= known


def test_the_download_is_a_plain_copy_that_can_install_attn(both):
    _, notebook = both
    assert not re.search(r"\{[\w:]+\}`|^:::", markdown(notebook), re.M)
    title, installer = notebook["cells"][:2]
    assert title["source"].startswith("# ")
    assert "%pip install" in installer["source"]
    assert installer["metadata"]["cellView"] == "form"
