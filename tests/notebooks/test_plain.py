"""A learner's copy is plain Markdown, as MyST's own parser reads it."""

import copy
import json
import re
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from markdown_it import MarkdownIt
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import DocutilsRenderer
from myst_parser.parsers.mdit import create_md_parser

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS, cells
from attn.publishing import myst_to_markdown
from attn.publishing.myst_to_markdown.targets import notebook, targets
from attn.publishing.myst_to_markdown.translation import to_markdown
from tests.processes import run_python

STEMS = (*CHAPTERS.values(), *APPENDICES)
#: What Jupyter's Markdown has: CommonMark, tables, formulas.
JUPYTERS = (
    "blockquote bullet_list code_block code_inline em fence hardbreak heading "
    "hr html_block html_inline image inline link list_item math_block "
    "math_inline math_inline_double ordered_list paragraph softbreak strong "
    "table tbody td text th thead tr"
)
CODE = {"code_inline", "fence", "math_block", "math_inline"}


@cache
def parser():
    """The book's parser, with the extensions that the book enables."""
    config = yaml.safe_load((root() / "_config.yml").read_text("utf-8"))
    enabled = config["parse"]["myst_enable_extensions"]
    options = MdParserConfig(enable_extensions=set(enabled))
    return create_md_parser(options, DocutilsRenderer)


def tokens(text):
    """Every token of a text, those within others too."""
    flat = []
    for token in parser().parse(text):
        flat += [token, *(token.children or [])]
    return flat


def links(text):
    return [x for x in tokens(text) if x.type == "link_open"]


def foreign(text):
    """What in a text Jupyter would show as it is written."""
    wrong = []
    for token in tokens(text):
        kind = token.type.removesuffix("_open").removesuffix("_close")
        if kind not in JUPYTERS.split():
            wrong.append(f"{token.type}: {token.content}")
        if token.type == "fence" and token.info.startswith("{"):
            wrong.append(token.info)
        if token.attrs and token.type in ("em_open", "strong_open"):
            wrong.append(f"{token.type}: {token.attrs}")
    # Within HTML, Markdown and MyST are no tokens.
    html = [x.content for x in tokens(text) if x.type == "html_block"]
    return wrong + re.findall(r"\{[\w:+-]+\}`|:::|^\(.*\)=$", "\n".join(html))


def markdown(copied):
    return [x["source"] for x in copied["cells"] if x["cell_type"] != "code"]


def code_of(copied):
    return [x for x in copied["cells"] if x["cell_type"] == "code"]


@pytest.fixture(scope="module", params=STEMS)
def chapter(request):
    """A chapter, as it is written and as a learner gets it."""
    pristine = notebook(request.param)
    return SimpleNamespace(
        stem=request.param,
        number=request.param[:2] if request.param[:2].isdigit() else "",
        pristine=pristine,
        local=myst_to_markdown.copy_of(pristine, set_up=False),
        elsewhere=myst_to_markdown.copy_of(pristine, set_up=True),
    )


def test_no_myst_is_left_in_a_copy(chapter):
    """Nor in the other copy: it has the same text, below another title."""
    texts = markdown(chapter.local)
    assert len(texts) > 10 and texts == markdown(chapter.elsewhere)
    assert [foreign(text) for text in texts] == [[]] * len(texts)


def test_no_myst_is_left_in_the_glossary():
    text = myst_to_markdown.glossary()
    assert text.count("\n### <span id=") > 30
    assert foreign(text) == []


def written(text):
    """Code and formulas of a text in MyST, those in directives too."""
    pieces = []
    for token in tokens(text):
        directive = re.match(r"\{(\S+)\}", token.info)
        if token.type == "colon_fence" or directive:
            body = re.sub(r"\A(:\w+:.*\n)+", "", token.content)
            pieces += written(body)
            if "{admonition}" in token.info:
                pieces += written(token.info.partition("}")[2])
        elif token.type in CODE:
            pieces.append(token.content.strip())
    return pieces


def test_code_and_formulas_stay_as_they_were(chapter):
    before, after = (
        [
            x
            for cell in copied["cells"]
            if cell["cell_type"] != "code" and "caption-" not in cell["id"]
            for x in written("".join(cell["source"]))
        ]
        for copied in (chapter.pristine, chapter.local)
    )
    assert len(before) > (20 if chapter.number else 5)
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        ":::{margin}\nAside.\n:::",
        "```{list-table}\n* - a\n```",
        "::::{grid} 2\n:::{grid-item-card} One\n:::\n::::",
        "* a\n\n  :::{admonition} b\n  in a list\n  :::",
        "> :::{dropdown} a\n> quoted\n> :::",
        "{sub}`2`",
        "{cite}`nobody1999nothing`",
        "{numref}`fig-nowhere`",
        "{term}`no such term`",
        ":::{admonition} a\nnever closed",
        "````python\nclosed by fewer\n```",
        "$$\nnever closed",
        "{ref}`of a notebook <ch-nowhere>`",
    ],
)
def test_what_has_no_translation_stops_the_copy(text):
    """A kind that a later chapter brings is seen, not shown raw.

    The error names the file that needs it.
    """
    with pytest.raises(ValueError) as error:
        to_markdown(text, targets())
    said = str(error.value)
    if text.startswith(("{sub}", ":::{margin}")):
        assert re.search("has no translation.* add", said)
        assert (root() / said.split()[-1]).is_file()


@pytest.mark.parametrize(
    "text",
    [
        "term\n: definition",
        ":field: value",
        "A [span]{.class}.",
        "A footnote.[^1]\n\n[^1]: Here.",
        "<p>\n{math}`x`\n</p>",
        "{{ tracker }}",
        "% a comment",
        "+++",
    ],
)
def test_what_the_translation_does_not_see_the_test_above_does(text):
    """The proof that the parser's tokens can accuse a copy."""
    assert foreign(text)


def test_a_parser_is_imported_when_a_copy_is_made_and_not_before():
    """``attn grade`` imports the package, and makes no copy."""
    code = """
import sys
from attn.publishing.myst_to_markdown import translation
from attn.publishing.myst_to_markdown.targets import targets
assert not {'markdown_it', 'pybtex'} & set(sys.modules)
translation.to_markdown(":::{dropdown} a\\nb\\n:::", targets())
assert {'markdown_it', 'pybtex'} <= set(sys.modules)
"""
    run_python(code, check=True)


VASWANI = (
    '[Vaswani et al., 2017](https://arxiv.org/abs/1706.03762 "Attention Is '
    'All You Need")'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(ch-x)=\n# Title\n\nText", "# Title\n\nText"),
        (
            ":::{admonition} A *title*\nText\n:::",
            "> **A *title***\n> \n> Text",
        ),
        (
            ":::{dropdown} Why `x < 1`, *always*, and $a_i < b_i$?\n"
            "A **b**.\n:::",
            "<details>\n<summary><b>Why <code>x &lt; 1</code>, <em>always"
            "</em>, and $a_i &lt; b_i$?</b></summary>\n\nA **b**.\n\n"
            "</details>",
        ),
        ("see {cite}`vaswani2017attention`.", f"see [{VASWANI}]."),
        ("{cite:t}`vaswani2017attention` say", f"{VASWANI} say"),
        ("{ref}`ch-mask`", "[Masks](03_masks.ipynb)"),
        ("{numref}`ch-mask`", "[chapter 3](03_masks.ipynb)"),
        ("{numref}`{number} <ch-mask>`", "[3](03_masks.ipynb)"),
        ("{doc}`../notebooks/03_masks`", "[Masks](03_masks.ipynb)"),
        ("{doc}`the map <../book/map>`", "*the map*"),
        ("in {numref}`fig-causal`", "in Fig. 3.1"),
        ("$$ e^x $$", "$$\ne^x\n$$"),
        ("a `{term}` stays", "a `{term}` stays"),
        ("```\n:::{note}\n(a)=\n```", "```\n:::{note}\n(a)=\n```"),
        (
            "| a |\n|---|\n| $|$ {ref}`ch-mask` |",
            "| a |\n|---|\n| $|$ [Masks](03_masks.ipynb) |",
        ),
        ("[to {numref}`ch-mask`](x)", "[to [chapter 3](03_masks.ipynb)](x)"),
        (
            "``{ref}`x` `` {ref}`of\n  a <ch-mask>`",
            "``{ref}`x` `` [of a](03_masks.ipynb)",
        ),
        ("```\na\n\n\n\nb\n```", "```\na\n\n\n\nb\n```"),
        (
            "::::{dropdown} A\n:::{admonition} B\nc\n:::\n::::",
            "<details>\n<summary><b>A</b></summary>\n\n> **B**\n> \n> c\n\n"
            "</details>",
        ),
    ],
)
def test_each_kind_has_its_form_in_jupyter(text, expected):
    copied = to_markdown(text, targets())
    assert (copied, foreign(copied)) == (expected, [])


def test_a_term_says_what_it_means_and_leads_to_the_glossary():
    copied = to_markdown("# It {term}`decodes <decode>`s", targets())
    assert foreign(copied) == []
    [link] = links(copied)
    file, _, name = link.attrs["href"].partition("#")
    assert file == "glossary.md"
    at = f'### <span id="{name}"></span>decode\n\nTo generate'
    assert at in myst_to_markdown.glossary()
    assert link.attrs["title"].startswith("To generate")


def test_a_reference_to_a_section_leads_to_its_cell():
    every = notebook("museum")["cells"]
    room = next(x for x in every if "(museum-mask)=" in "".join(x["source"]))
    copied = to_markdown("{ref}`a room <museum-mask>`", targets())
    assert copied == f"[a room](museum.ipynb#cell-id={room['id']})"


def test_every_link_leads_to_a_cell_of_the_workspace(chapter):
    ids = {
        f"{x}.ipynb": {f"cell-id={y['id']}" for y in notebook(x)["cells"]}
        for x in STEMS
    }
    glossary = myst_to_markdown.glossary()
    ids["glossary.md"] = set(re.findall(r'<span id="(.+?)">', glossary))
    found = (y for text in markdown(chapter.local) for y in links(text))
    addresses = [link.attrs["href"] for link in found]
    own = [x for x in addresses if not x.startswith(("http://", "https://"))]
    assert own or chapter.stem == "museum"
    for link in own:
        file, _, anchor = link.partition("#")
        assert file in ids, link
        assert not anchor or anchor in ids[file], link


def test_a_questions_answer_is_folded_and_its_markdown_is_read(chapter):
    texts = "\n".join(markdown(chapter.local))
    folded = texts.count("<details>")
    sources = ("".join(x["source"]) for x in chapter.pristine["cells"])
    asked = sum(x.count(":::{dropdown}") for x in sources)
    assert folded == asked == texts.count("</details>")
    html = MarkdownIt().render(texts)
    for answer in re.findall(r"(?s)</summary>(.*?)</details>", html):
        assert answer.strip().startswith(("<p>", "<ul>", "<ol>", "<pre>"))


def test_a_chapter_has_its_number_and_leads_to_the_next(chapter):
    texts = markdown(chapter.local)
    number = chapter.number.removeprefix("0")
    assert texts[0].startswith(f"# {number} · " if number else "# ")
    files = [*(f"{stem}.ipynb" for stem in STEMS), "glossary.md"]
    title, link = re.fullmatch(r"Next: \[(.+)\]\((.+)\)", texts[-1]).groups()
    assert link == files[files.index(f"{chapter.stem}.ipynb") + 1]
    following = int(number or 0) + 1
    assert title.startswith(f"{following} · ") == (1 < following < 20)


def test_the_first_code_is_one_cell_and_says_so(chapter):
    """It is silent, and holds all that the book runs before the imports."""
    first, *rest = code_of(chapter.local)
    if chapter.stem == "where_this_went":  # its only code
        assert rest == []
        return
    assert first["source"].startswith("# @title Run this first\n")
    assert first["metadata"]["tags"] == ["hide-input", "run-first"]
    assert first["outputs"] == [] and "%" not in first["source"]
    hidden = [
        line
        for cell in chapter.pristine["cells"]
        if "remove-cell" in cell["metadata"].get("tags", [])
        for line in cell["source"]
        if line.startswith("warnings.")
    ]
    assert all(x.strip() in first["source"] for x in hidden)
    for cell in rest:
        assert "run-first" not in cell["metadata"].get("tags", [])
        claims = re.match(r"(.*\n)?@\w+\.shows", cell["source"])
        assert not claims or "hide-input" in cell["metadata"]["tags"]


def test_what_the_book_folds_is_folded_in_the_copy(chapter):
    shown = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
    for cell in code_of(chapter.elsewhere):
        about = cell["metadata"]
        folded = bool(shown.intersection(about.get("tags", [])))
        assert about.get("jupyter", {}).get("source_hidden", False) == folded
        assert (about.get("cellView") == "form") == folded
        assert cell["source"].startswith("# @title ") == folded


def test_only_where_attn_may_be_missing_a_copy_installs_it(chapter):
    installs = [
        [i for i, x in enumerate(code_of(y)) if "%pip" in x["source"]]
        for y in (chapter.local, chapter.elsewhere)
    ]
    assert installs == [[], [0]]


def test_what_the_set_up_imports_is_still_imported(chapter):
    """A copy in a workspace lacks that cell, not what it imports."""
    for copied in (chapter.local, chapter.elsewhere):
        code = [x["source"] for x in code_of(copied)]
        for name in ("importlib", "os"):
            imported = re.compile(rf"^\s*import {name}\b", re.MULTILINE)
            for number, source in enumerate(code):
                if re.search(rf"\b{name}\.", source):
                    before = "\n".join(code[: number + 1])
                    assert imported.search(before), source


def test_exercises_and_checks_are_the_books_to_the_letter(chapter):
    def kept(notebook):
        return [
            ("".join(x["source"]), x["id"], x["metadata"])
            for x in notebook["cells"]
            if cells.exercise_id(x) or cells.checked_id(x)
        ]

    assert kept(chapter.local) == kept(chapter.pristine)
    for cell in chapter.local["cells"]:
        if cells.checked_id(cell):
            assert cell["outputs"] == []


def test_a_copy_is_a_valid_notebook_without_what_the_book_alone_reads(chapter):
    """Its kernel is named: else JupyterLab opens a dialog to choose it."""
    before = copy.deepcopy(chapter.pristine)
    for copied in (chapter.local, chapter.elsewhere):
        nbformat.validate(nbformat.from_dict(json.loads(json.dumps(copied))))
        kernel = chapter.pristine["metadata"]["kernelspec"]
        assert copied["metadata"]["kernelspec"] == kernel
        assert not [x for x in copied["cells"] if "mystnb" in x["metadata"]]
    assert chapter.pristine == before


def test_every_figure_has_its_number_and_caption_below_it(chapter):
    figures = [
        i
        for i, x in enumerate(chapter.pristine["cells"])
        if "caption" in x["metadata"].get("mystnb", {}).get("figure", {})
    ]
    copied = chapter.local["cells"]
    captions = [x["source"] for x in copied if "caption-" in x["id"]]
    assert len(figures) == len(captions) and (figures or not chapter.number)
    for second, caption in enumerate(captions, 1):
        first = chapter.number.removeprefix("0")
        assert caption.startswith(f"**Fig. {first}.{second}** ")


def test_an_interactive_figure_of_the_page_is_at_its_place(chapter):
    """It is stored, so that it moves before anything has run."""
    above = {
        tag: x["id"]
        for x in chapter.pristine["cells"]
        for tag in x["metadata"].get("tags", [])
        if tag.startswith("touch-")
    }
    for copied in (chapter.local, chapter.elsewhere):
        pairs = pairwise(copied["cells"])
        pairs = [x for x in pairs if x[1]["id"].startswith("touch-")]
        assert [cell["id"] for _, cell in pairs] == [*above]
        for before, cell in pairs:
            own = above[cell["id"]]
            assert before["id"] in (own, f"caption-{own}"[:64])
            # nbval refuses a cell that has not run and yet has an output.
            assert "nbval-skip" in cell["metadata"]["tags"]
            imports, _, call = cell["source"].rpartition("\n")
            assert call == f'touch("{cell["id"].removeprefix("touch-")}")'
            names = {}
            exec(imports, names)
            shown = eval(call, names)
            stored = cell["outputs"][0]["data"]
            assert stored["text/html"] == shown._repr_html_()
            assert stored["text/plain"] == repr(shown)
