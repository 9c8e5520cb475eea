"""The notebooks that the pages offer say what the pages say."""

import importlib
import json
import os
import re
import shutil
from types import SimpleNamespace

import pytest

from attn.exercises import APPENDICES, CHAPTERS
from attn.publishing.myst_to_markdown.targets import targets
from tests.attn.test_workflows import FLOWS, TEXTS
from tests.book.pages import ROOT, soup
from tests.marks import exhaustive_but
from tests.processes import run

STEMS = (*CHAPTERS.values(), *APPENDICES)


@pytest.fixture(scope="module", params=exhaustive_but(STEMS[::4], STEMS))
def both(request, book):
    """A chapter's page, and the notebook that its download button gives."""
    page = book / "notebooks" / f"{request.param}.html"
    file = book / "_sources" / "notebooks" / f"{request.param}.ipynb"
    return soup(page).find("article"), json.loads(file.read_text("utf-8"))


def markdown(notebook):
    """The text of a notebook, without its code."""
    cells = notebook["cells"]
    texts = ["".join(x["source"]) for x in cells if x["cell_type"] != "code"]
    return "\n\n".join(texts)


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
    title, *cells = notebook["cells"]
    assert title["source"].startswith("# ")
    installer = next(x for x in cells if x["cell_type"] == "code")
    assert "%pip install" in installer["source"]
    assert installer["metadata"]["cellView"] == "form"


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "ext"))
    return importlib.import_module("attn_book.repository")


def test_colab_and_binder_open_the_branch_that_the_workflow_writes(
    repository, monkeypatch
):
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "you/attention")
    config = SimpleNamespace(html_theme_options={}, myst_substitutions={})
    repository.configure(SimpleNamespace(srcdir=ROOT), config)
    options = config.html_theme_options
    assert options["repository_url"] == "https://github.com/you/attention"
    assert options["launch_buttons"]["colab_url"].endswith("google.com")
    assert "mybinder.org" in options["launch_buttons"]["binderhub_url"]
    steps = TEXTS["pages.yml"]
    branch = options["repository_branch"]
    assert f"git init -q -b {branch}\n" in steps
    assert steps.count(f'/${{GITHUB_REPOSITORY}}" {branch}\n') == 1


def test_binder_installs_the_fixed_versions_and_the_small_torch(tmp_path):
    """The step of the workflow runs here, up to where it calls git."""
    steps = FLOWS["pages.yml"]["jobs"]["publish"]["steps"]
    (step,) = (x["run"] for x in steps if "copies" in x.get("name", ""))
    (tmp_path / "_build/html/_sources/notebooks").mkdir(parents=True)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    origin = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_SHA": "0a1b"}
    places = os.environ | origin | {"GITHUB_REPOSITORY": "you/attention"}
    words = ("bash", "-euc", step.partition("git init")[0])
    run(*words, cwd=tmp_path, env=places, check=True)
    copies = tmp_path / "_build" / "copies"
    assert (copies / "requirements.txt").read_text().splitlines() == [
        "-c constraints.txt",
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "torch",
        "attn[learn] @ git+https://github.com/you/attention@0a1b",
    ]
    pins = (copies / "constraints.txt").read_text()
    assert os.access(copies / "postBuild", os.X_OK)
    text = (copies / "postBuild").read_text()
    (package,) = re.findall(r"-c constraints.txt (\S+)$", text, re.M)
    for name in ("torch", package):
        assert re.search(rf"(?m)^{name}==\d", pins)


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        ("tag", "v1.0.0", "https://github.com/you/attention@v1.0.0"),
        ("branch", "main", "https://github.com/you/attention"),
    ],
)
def test_a_copy_installs_the_tag_that_it_is_of(
    kind, name, wanted, monkeypatch, repository, tmp_path
):
    known = {"SERVER_URL": "https://github.com", "REPOSITORY": "you/attention"}
    known |= {"REF_TYPE": kind, "REF_NAME": name}
    for variable, value in known.items():
        monkeypatch.setenv(f"GITHUB_{variable}", value)
    folder = tmp_path / "_sources" / "notebooks"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "03_masks.ipynb", folder)
    repository.make_copies(SimpleNamespace(outdir=tmp_path, srcdir=ROOT))
    copy = json.loads((folder / "03_masks.ipynb").read_text("utf-8"))
    known = f'setdefault("ATTN_REPOSITORY", "{wanted}")'
    source = copy["cells"][1]["source"]
    assert source.index("import os") < source.index(known)
    monkeypatch.delenv("GITHUB_REPOSITORY")
    monkeypatch.setattr(repository, "getoutput", lambda _: "")
    assert repository.source(ROOT) == ""


@pytest.mark.parametrize(
    "remote, public",
    [
        ("https://github.com/you/x.git", "https://github.com/you/x"),
        ("https://me:key@gitlab.com/a/b/x/", "https://gitlab.com/a/b/x"),
        ("https://example.org:8443/you/x", "https://example.org:8443/you/x"),
        ("http://localhost:3000/you/x", ""),
        ("http://me:key@127.0.0.1:3000/you/x", ""),
        ("http://[::1]/you/x", ""),
        ("git@github.com:you/x.git", ""),
        ("https://github.com/you", ""),
        ("fatal: not a git repository", ""),
    ],
)
def test_a_page_links_to_a_public_address_without_its_key(
    remote, public, repository
):
    assert repository.web_address(remote) == public
