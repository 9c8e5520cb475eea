"""A learner's copy is plain Markdown, as MyST's own parser reads it."""

import copy
import json
import re
from functools import cache
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
from attn.publishing.myst_to_markdown.targets import Target, Targets, notebook
from attn.publishing.myst_to_markdown.text import plain as translated

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
    found = []
    for token in parser().parse(text):
        found += [token, *(token.children or [])]
    return found


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


def markdown(made):
    return [x["source"] for x in made["cells"] if x["cell_type"] != "code"]


@pytest.fixture(scope="module", params=STEMS)
def made(request):
    """A chapter, as it stands and as a learner gets it."""
    pristine = notebook(request.param)
    return SimpleNamespace(
        stem=request.param,
        pristine=pristine,
        local=myst_to_markdown.copy_of(pristine, set_up=False),
        elsewhere=myst_to_markdown.copy_of(pristine, set_up=True),
    )


def test_no_myst_is_left_in_a_copy(made):
    assert len(markdown(made.local)) > 10
    for text in [*markdown(made.local), *markdown(made.elsewhere)]:
        assert foreign(text) == []


def test_no_myst_is_left_in_the_glossary():
    texts = markdown(myst_to_markdown.glossary())
    assert len(texts) > 30
    assert [foreign(text) for text in texts] == [[]] * len(texts)


def test_what_the_book_alone_reads_is_not_in_a_copy(made):
    for cell in made.local["cells"]:
        assert "mystnb" not in cell["metadata"]


def written(text):
    """Code and formulas of a text in MyST, those in directives too."""
    found = []
    for token in tokens(text):
        directive = re.match(r"\{(\S+)\}", token.info)
        if token.type == "colon_fence" or directive:
            body = re.sub(r"\A(:\w+:.*\n)+", "", token.content)
            found += written(body)
            if "{admonition}" in token.info:
                found += written(token.info.partition("}")[2])
        elif token.type in CODE:
            found.append(token.content.strip())
    return found


def test_code_and_formulas_stay_as_they_were(made):
    before = [
        x
        for cell in made.pristine["cells"]
        if cell["cell_type"] != "code"
        for x in written("".join(cell["source"]))
    ]
    after = [
        x
        for cell in made.local["cells"]
        if cell["cell_type"] != "code" and "caption-" not in cell["id"]
        for x in written(cell["source"])
    ]
    assert len(before) > (20 if made.stem[:2].isdigit() else 5)
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        ":::{margin}\nAside.\n:::",
        "```{list-table}\n* - a\n```",
        "::::{grid} 2\n:::{grid-item-card} One\n:::\n::::",
        "{sub}`2`",
        "{cite}`nobody1999nothing`",
        "{numref}`fig-nowhere`",
        "{term}`no such term`",
        "> quoted\n\n:::{note}\nnever closed",
    ],
)
def test_what_has_no_translation_stops_the_copy(text):
    """A kind that a later chapter brings is seen, not shown raw."""
    with pytest.raises(ValueError):
        translated(text, book())


@pytest.mark.parametrize(
    "text",
    [
        "term\n: definition",
        ":field: value",
        "A [span]{.class}.",
        "A footnote.[^1]\n\n[^1]: Here.",
        "> :::{note}\n> in a quote\n> :::",
        "{{ tracker }}",
    ],
)
def test_what_the_translation_does_not_see_the_test_above_does(text):
    """The proof that the parser's tokens can accuse a copy."""
    assert foreign(translated(text, book()))


@cache
def book():
    targets = Targets()
    targets.places["eq-one"] = Target("(2.1)", "2.1")
    targets.places["fig-logo"] = Target("Fig. 2.9", "2.9")
    return targets


VASWANI = (
    '[Vaswani et al., 2017](https://arxiv.org/abs/1706.03762 "Attention Is '
    'All You Need")'
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(ch-x)=\n# Title\n\nText", "# Title\n\nText"),
        (
            ":::{admonition} A *title*\nText\n:::",
            "> **A *title***\n> \n> Text",
        ),
        ("```{note}\nText\n```", "> **Note**\n> \n> Text"),
        (":::{warning} At once\nand after\n:::", None),
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
        ("in {numref}`fig-causal`, {eq}`eq-one`", "in Fig. 3.1, (2.1)"),
        ("{math}`e^{-x}`", "$e^{-x}$"),
        ("```{math}\n:label: eq-one\ne^x\n```", "$$\ne^x \\tag{2.1}\n$$"),
        ("$$ e^x $$ (eq-one)", "$$\ne^x \\tag{2.1}\n$$"),
        (
            "```{code-block} python\nx = {ref}`y`\n```",
            "```python\nx = {ref}`y`\n```",
        ),
        ("a `{term}` stays", "a `{term}` stays"),
        ("```\n:::{note}\n(a)=\n```", "```\n:::{note}\n(a)=\n```"),
        ("* a\n\n  :::{tip}\n  b\n  :::", "* a\n\n  > **Tip**\n  > \n  > b"),
        ("% a comment\na\n+++\nb", "a\n\nb"),
    ],
)
def test_each_kind_has_its_form_in_jupyter(text, wanted):
    plainly = translated(text, book())
    assert foreign(plainly) == []
    if wanted is not None:
        assert plainly == wanted


def test_a_term_says_what_it_means_and_leads_to_the_glossary():
    plainly = translated("when it {term}`decodes <decode>`", book())
    link = next(x for x in tokens(plainly) if x.type == "link_open")
    ids = {cell["id"] for cell in myst_to_markdown.glossary()["cells"]}
    file, _, cell = link.attrs["href"].partition("#cell-id=")
    assert (file, cell in ids) == ("glossary.ipynb", True)
    assert link.attrs["title"].startswith("To generate")


def test_a_reference_to_a_section_leads_to_its_cell():
    room = next(
        x
        for x in notebook("museum")["cells"]
        if "(museum-mask)=" in "".join(x["source"])
    )
    plainly = translated("{ref}`a room <museum-mask>`", book())
    assert plainly == f"[a room](museum.ipynb#cell-id={room['id']})"


def test_a_picture_is_in_the_copy_itself():
    figure = (
        ":::{figure} ../book/_static/front-page.png\n"
        ":name: fig-logo\n:alt: A map\nIts caption.\n:::"
    )
    plainly = translated(figure, book())
    assert plainly.startswith("![A map](data:image/png;base64,iVBOR")
    assert plainly.endswith("**Fig. 2.9** Its caption.")


def links(text):
    return [x.attrs["href"] for x in tokens(text) if x.type == "link_open"]


def test_every_link_leads_to_a_cell_of_the_workspace(made):
    files = {f"{stem}.ipynb": notebook(stem) for stem in STEMS}
    files["glossary.ipynb"] = myst_to_markdown.glossary()
    ids = {name: {c["id"] for c in x["cells"]} for name, x in files.items()}
    followed = 0
    for text in markdown(made.local):
        for link in links(text):
            if link.startswith(("http://", "https://")):
                continue
            file, _, anchor = link.partition("#cell-id=")
            followed += 1
            assert file in ids, link
            assert not anchor or anchor in ids[file], link
    assert followed or made.stem == "museum"


def test_a_questions_answer_is_folded_and_its_markdown_is_read(made):
    texts = "\n".join(markdown(made.local))
    folded = texts.count("<details>")
    asked = sum(
        "".join(x["source"]).count(":::{dropdown}")
        for x in made.pristine["cells"]
    )
    assert folded == asked == texts.count("</details>")
    html = MarkdownIt().render(texts)
    for answer in re.findall(r"(?s)</summary>(.*?)</details>", html):
        assert answer.strip().startswith(("<p>", "<ul>", "<ol>", "<pre>"))


def test_what_the_book_folds_is_folded_in_the_copy(made):
    shown = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
    for cell in made.elsewhere["cells"]:
        if cell["cell_type"] != "code":
            continue
        about = cell["metadata"]
        folded = bool(shown.intersection(about.get("tags", [])))
        assert about.get("jupyter", {}).get("source_hidden", False) == folded
        assert (about.get("cellView") == "form") == folded
        assert cell["source"].startswith("# @title ") == folded


def test_only_where_attn_may_be_missing_a_copy_installs_it(made):
    installs = [
        [i for i, x in enumerate(y["cells"]) if "%pip" in x["source"]]
        for y in (made.local, made.elsewhere)
    ]
    assert installs == [[], [1]]  # below the title


def test_what_the_set_up_imports_is_still_imported(made):
    """A copy in a workspace lacks that cell, not what it imports."""
    for one in (made.local, made.elsewhere):
        code = [x["source"] for x in one["cells"] if x["cell_type"] == "code"]
        for name in ("importlib", "os"):
            imported = re.compile(rf"^\s*import {name}\b", re.MULTILINE)
            for number, source in enumerate(code):
                if re.search(rf"\b{name}\.", source):
                    before = "\n".join(code[: number + 1])
                    assert imported.search(before), source


def test_colab_is_not_asked_for_an_address_that_is_known(made):
    address = "https://example.org/you/book"
    with_it = myst_to_markdown.copy_of(
        made.pristine, set_up=True, repository=address
    )
    source = with_it["cells"][1]["source"]
    assert f'setdefault("ATTN_REPOSITORY", "{address}")' in source
    assert source.index("import os") < source.index(address)


def test_exercises_and_checks_are_the_books_to_the_letter(made):
    def kept(one):
        return [
            ("".join(x["source"]), x["id"], x["metadata"])
            for x in one["cells"]
            if cells.exercise_id(x) or cells.checked_id(x)
        ]

    assert kept(made.local) == kept(made.pristine)


def test_a_copy_is_a_valid_notebook_and_its_source_is_not_changed(made):
    before = copy.deepcopy(made.pristine)
    for one in (made.local, made.elsewhere, myst_to_markdown.glossary()):
        nbformat.validate(nbformat.from_dict(json.loads(json.dumps(one))))
    assert made.pristine == before


def test_every_figure_has_its_number_and_caption_below_it(made):
    figures = [
        i
        for i, x in enumerate(made.pristine["cells"])
        if "caption" in x["metadata"].get("mystnb", {}).get("figure", {})
    ]
    captions = [
        x["source"] for x in made.local["cells"] if "caption-" in x["id"]
    ]
    chapter = int(made.stem[:2]) if made.stem[:2].isdigit() else None
    assert len(figures) == len(captions) and (figures or not chapter)
    for number, caption in enumerate(captions, 1):
        assert caption.startswith(f"**Fig. {chapter}.{number}** ")
