"""Link to the repository, when its address is known, and hand out copies.

The address comes from the build: GitHub's environment variables, or the
remote ``origin`` when it is a web address. Without an address, the pages
mention the repository and show no button.

The pages are made from notebooks in MyST, with the outputs of the solved run.
A learner has solved nothing yet, and elsewhere MyST is shown as it is
written: the notebooks under ``_sources``, which the download button gives,
become plain copies without the outputs of checks.
"""

import os
import re
import shlex
from pathlib import Path
from subprocess import getoutput

from sphinx.application import Sphinx
from sphinx.config import Config

from attn.publishing import myst_to_markdown

#: The branch that holds the learner's copies, and nothing else: Colab opens
#: notebooks from GitHub only. The workflow ``pages`` writes it; of the theme's
#: buttons Colab's alone uses it.
COPIES = "copies"
PUBLIC = re.compile(
    r"""(https?://) (?:[^/@]*@)?             # user and password
        ((?!localhost | [\d.:]+/ | \[)       # a host with a name
        [^/@]+ /[^/]+ /.+?) (?:\.git)? /*    # owner and name
    """,
    re.VERBOSE,
)


def setup(app: Sphinx) -> None:
    # Before the theme reads its options.
    app.connect("config-inited", configure, priority=100)
    app.connect("html-collect-pages", make_copies)


def configure(app: Sphinx, config: Config) -> None:
    """Set the theme's buttons, and the text of ``{{ tracker }}``."""
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
                launch_buttons={
                    "colab_url": "https://colab.research.google.com"
                },
            )
    config.myst_substitutions["tracker"] = tracker


def make_copies(app: Sphinx) -> list[str]:
    """Translate every notebook under ``_sources``, and add the glossary."""
    folder = Path(app.outdir, "_sources", "notebooks")
    myst_to_markdown.translate(folder, address(app.srcdir))
    return []  # no page more


def address(folder: str | os.PathLike[str]) -> str:
    """Return the repository's web address, or an empty string."""
    server = os.environ.get("GITHUB_SERVER_URL", "")
    name = os.environ.get("GITHUB_REPOSITORY", "")
    if server and name:
        return web_address(f"{server}/{name}")
    git = ["git", "-C", os.fspath(folder), "remote", "get-url", "origin"]
    return web_address(getoutput(shlex.join(git)))  # also of what went wrong


def web_address(url: str) -> str:
    """Return a public ``url`` without user, password and ``.git``."""
    found = PUBLIC.fullmatch(url)
    return found[1] + found[2] if found else ""
