"""Link to the repository, when its address is known, and hand out copies.

Without an address there is no button.

The pages are made from notebooks in MyST, with the outputs of the solved run.
A learner has solved nothing yet, and elsewhere MyST is shown as it is
written: the notebooks under ``_sources``, which the download button gives,
become plain copies without the outputs of checks.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from attn.publishing import myst_to_markdown
from attn.publishing.repository import address, source

#: The branch of the learner's copies, written by the workflow ``pages``.
COPIES = "copies"
LAUNCH = {
    "colab_url": "https://colab.research.google.com",
    "binderhub_url": "https://mybinder.org",
}


def setup(app: Sphinx) -> None:
    app.connect("config-inited", configure, priority=100)  # before the theme
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
                launch_buttons=LAUNCH,
            )
    config.myst_substitutions["tracker"] = tracker


def make_copies(app: Sphinx) -> list[str]:
    """Translate every notebook under ``_sources``, and add the glossary."""
    folder = Path(app.outdir, "_sources", "notebooks")
    myst_to_markdown.translate(folder, source(app.srcdir))
    return []  # no page more
