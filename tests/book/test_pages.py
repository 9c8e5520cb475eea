"""The built pages, as files: links, drop-downs, downloads, no torch."""

import ast
import json
import re
from html import unescape
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from docutils.nodes import make_id

from attn.exercises import CHAPTERS, sources
from attn.exercises.spec import chapter, every_exercise
from tests.book.pages import ROOT, chapters, pages, soup
from tests.processes import run_python

DEFINITION = ast.FunctionDef | ast.ClassDef


ID = re.compile(r'<[a-zA-Z][^<>]*?\sid="([^"]*)"')
LINK = re.compile(r'<a\b[^>]*?\shref="([^"]*)"')


def anchors(path):
    """The ids and the links of a page; a tenth of the time of a parser."""
    text = path.read_text("utf-8")
    ids, links = (map(unescape, x.findall(text)) for x in (ID, LINK))
    return set(ids), links


def test_no_internal_link_is_dead(book):
    files = (x for x in book.rglob("*.html") if "_static" not in x.parts)
    pages = {path: anchors(path) for path in files}
    dead, followed = [], 0
    for path, (_, links) in pages.items():
        for link in links:
            target, anchor = urldefrag(link)
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            followed += 1
            home = book if target.startswith("/") else path.parent  # of 404
            inside = unquote(target).lstrip("/")
            file = (home / inside).resolve() if target else path
            ok = file.exists() and (
                not anchor or file not in pages or anchor in pages[file][0]
            )
            if not ok:
                dead.append(f"{path.name}: {link}")
    assert followed > 10_000
    assert dead == []


CODE = ("code", "pre", "script", "style", "annotation")


@pytest.mark.parametrize("page", pages())
def test_backticks_are_left_in_code_alone(page, book):
    """Elsewhere they are marks that nothing has turned into code."""
    texts = soup(book / f"{page}.html").body.find_all(string=re.compile("`"))
    assert [x for x in texts if not x.find_parent(CODE)] == []


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_hints_and_solution_follow_each_exercise(exercise, book):
    key, _ = sources.split_id(exercise.id)
    page = soup(book / "notebooks" / f"{CHAPTERS[key]}.html")
    label = page.find(id=make_id(f"exercise-{exercise.id}"))
    assert label is not None
    boxes = label.find_all_next("details", limit=4)
    titles = [box.summary.get_text(strip=True) for box in boxes]
    assert titles == ["Hint 1", "Hint 2", "Hint 3", "Solution"]
    shown = "".join(boxes[-1].get_text().split())
    code = sources.solution(exercise.id)
    said = {
        ast.get_docstring(x)
        for x in ast.walk(ast.parse(code))
        if isinstance(x, ast.FunctionDef | ast.ClassDef)
    } - {None}
    for text in said:  # the card has all of it
        first = text.partition("\n")[0]
        assert "".join(first.split()) in shown
        if first != text:
            assert "".join(text.split()) not in shown
    bare = re.sub(r'""".*?"""', "", code, flags=re.S)
    shown = re.sub(r'""".*?"""', "", shown, flags=re.S)
    assert "".join(bare.split()) in shown


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_the_card_holds_the_task_the_stub_below_it_the_code(exercise, book):
    key, _ = sources.split_id(exercise.id)
    page = soup(book / "notebooks" / f"{CHAPTERS[key]}.html")
    card = page.find(id=make_id(f"exercise-{exercise.id}"))
    card = card if card.name == "div" else card.find("div")
    task = re.sub(r"[\W_]+", "", card.get_text())
    stub = sources.stub(exercise.id)
    for node in ast.walk(ast.parse(stub)):
        if isinstance(node, DEFINITION):
            text = ast.get_docstring(node) or ""
            for line in text.splitlines():
                words = re.sub(r"[\W_]+", "", line)
                if words not in ("Args", "Returns", "Raises", "Yields"):
                    assert words in task, line
    code = page.find(id=make_id(f"exercise-{exercise.id}")).find_next("pre")
    bare = ast.parse(stub)
    for node in ast.walk(bare):
        if isinstance(node, DEFINITION) and ast.get_docstring(node):
            del node.body[0]
    assert ast.dump(ast.parse(code.get_text())) == ast.dump(bare)


@pytest.mark.parametrize("key", CHAPTERS)
def test_the_download_is_the_stub_notebook_without_ticks(key, book):
    name = f"{CHAPTERS[key]}.ipynb"
    page = soup(book / "notebooks" / f"{CHAPTERS[key]}.html")
    links = [a["href"] for a in page.find_all("a", href=True)]
    assert any(link.endswith(f"_sources/notebooks/{name}") for link in links)
    text = (book / "_sources" / "notebooks" / name).read_text("utf-8")
    outputs = [c.get("outputs") for c in json.loads(text)["cells"]]
    shown = json.dumps(outputs, ensure_ascii=False)
    assert not re.search(rf"✓ {key}-", shown)
    assert text.count("raise NotImplementedError") >= len(chapter(key))


@pytest.mark.parametrize("page", chapters())
def test_chapters_sections_and_figures_have_the_number_of_the_file(page, book):
    chapter = int(re.search(r"/(\d+)_", page)[1])
    article = soup(book / f"{page}.html").find("article")

    def numbers(tag, name):
        spans = [x.find("span", class_=name) for x in article.find_all(tag)]
        return [x.get_text(strip=True) for x in spans if x]

    sections, figures = article.find_all("h2"), article.find_all("figcaption")
    assert numbers("h1", "section-number") == [str(chapter)]
    assert numbers("h2", "section-number") == [
        f"{chapter}.{n + 1}" for n in range(len(sections))
    ]
    assert numbers("figcaption", "caption-number") == [
        f"Fig. {chapter}.{n + 1}" for n in range(len(figures))
    ]
    assert len(sections) > 5 and len(figures) >= 5


READS = """
import importlib, re, sys, yaml
from pathlib import Path
from unittest import mock
from sphinx.ext.autodoc import mock as mocks
sys.path.insert(0, "book/ext")
import attn_book
attn_book.setup(mock.Mock())
absent = []
for name in attn_book.ABSENT:
    try:
        importlib.import_module(name)
    except ImportError:
        absent.append(name)
config = yaml.safe_load(Path("_config.yml").read_text("utf-8"))
names = config["sphinx"]["config"]["autodoc_mock_imports"]
before = set(sys.modules)
with mocks(names):
    for page in Path("book/api").glob("*.md"):
        text = page.read_text("utf-8")
        for module in re.findall("automodule:: (.*)", text):
            importlib.import_module(module)
    read = {name.partition(".")[0] for name in {*sys.modules} - before}
    read.discard("__mp_main__")  # multiprocessing's name for __main__
    print(absent, sorted(read - {*names, *sys.stdlib_module_names}), sep=", ")
"""


def test_the_book_is_built_without_torch_and_its_api_without_any_package():
    """A reader of the book installs none of them.

    The build that `make test` begins with is the proof that none needs torch.
    """
    done = run_python(READS, cwd=ROOT, check=True)
    absent, read = ast.literal_eval(done.stdout)
    assert absent == ["torch", "transformers", "matplotlib"]
    assert read == ["attn"]
