"""Link to the repository, when its address is known, and hand out copies.

The address comes from GitHub's environment variables, from the remote
``origin`` when that is a web address, or from ``attn.data.book.ADDRESS``.
Without one there is no button.

The pages are made from notebooks in MyST, with the outputs of the solved run.
A learner has solved nothing yet, and elsewhere MyST is shown as it is
written: the notebooks under ``_sources``, which the download button gives,
become plain copies without the outputs of checks.
"""

import json
import os
import re
import shlex
from pathlib import Path
from subprocess import getoutput

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.ext.autodoc.mock import mock

from attn.data.book import ADDRESS, origin
from attn.publishing.myst_to_markdown import copy_of, glossary
from attn.publishing.myst_to_markdown.targets import GLOSSARY
from attn_book import ABSENT

#: The branch of the learner's copies, written by the workflow ``pages``.
COPIES = "copies"
PUBLIC = re.compile(
    r"""(https?://) (?:[^/@]*@)?             # user and password
        ((?!localhost | [\d.:]+/ | \[)       # a host with a name
        [^/@]+ /[^/]+ /.+?) (?:\.git)? /*    # owner and name
    """,
    re.VERBOSE,
)
LAUNCH = {
    "colab_url": "https://colab.research.google.com",
    "binderhub_url": "https://mybinder.org",
}


def setup(app: Sphinx) -> None:
    app.connect("config-inited", configure, priority=100)  # before the theme
    app.connect("html-collect-pages", make_copies)


def configure(app: Sphinx, config: Config) -> None:
    """Set the theme's buttons; ``{{ tracker }}`` and ``{{ origin }}``."""
    url = address(app.srcdir)
    tracker = "issue tracker of the repository that you got this book from"
    if url:
        tracker = f"[issue tracker]({url}/issues)"
        if re.match(r"https?://[^/]*github", url):
            config.html_theme_options.update(
                repository_url=url,
                repository_branch=COPIES,
                use_repository_button=True,
                use_issues_button=True,
                launch_buttons=LAUNCH,
            )
    config.myst_substitutions["tracker"] = tracker
    config.myst_substitutions["origin"] = origin(url)


def make_copies(app: Sphinx) -> list[str]:
    """Write every notebook under ``_sources`` translated, and the glossary."""
    folder = Path(app.outdir, "_sources", "notebooks")
    origin = source(app.srcdir)
    with mock([*ABSENT]):  # attn.plot loads them; a figure is shown unrun
        for path in Path(app.srcdir, "notebooks").glob("*.ipynb"):
            pristine = json.loads(path.read_text("utf-8"))
            copy = copy_of(pristine, set_up=True, repository=origin)
            text = json.dumps(copy, indent=1, ensure_ascii=False)
            (folder / path.name).write_text(text + "\n", "utf-8")
    (folder / GLOSSARY).write_text(glossary(), "utf-8")
    return []  # no page more


def address(folder: str | os.PathLike[str]) -> str:
    """Return the repository's web address, or an empty string."""
    server = os.environ.get("GITHUB_SERVER_URL", "")
    name = os.environ.get("GITHUB_REPOSITORY", "")
    if server and name:
        return web_address(f"{server}/{name}")
    git = ["git", "-C", os.fspath(folder), "remote", "get-url", "origin"]
    found = getoutput(shlex.join(git))  # also what went wrong
    return web_address(found) or ADDRESS


def source(folder: str | os.PathLike[str]) -> str:
    """Return what a notebook installs attn from: the tag that is published.

    Without a tag it is the newest commit; without an address an empty string.
    """
    url = address(folder)
    if url and os.environ.get("GITHUB_REF_TYPE") == "tag":
        url += f"@{os.environ['GITHUB_REF_NAME']}"
    return url


def web_address(url: str) -> str:
    """Return a public ``url`` without user, password and ``.git``."""
    public = PUBLIC.fullmatch(url)
    return public[1] + public[2] if public else ""
