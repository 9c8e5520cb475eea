"""Describe each page to search engines, and to whoever shares its address.

A chapter is described by its summary (``chapters``), another page by the
``og:description`` above its title, or by its first words. The address of the
published book comes from the build, as ``BOOK_ADDRESS``; with one, pages give
theirs and there is a sitemap.
"""

import html
import json
import os
import re
from contextlib import redirect_stdout
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

BEFORE_OPENGRAPH = 400  # whose own handler has the priority 500


def setup(app: Sphinx) -> None:
    # Here, so that it finds no matplotlib; it prints that it has none.
    with redirect_stdout(None):
        app.setup_extension("sphinxext.opengraph")
    app.connect("html-page-context", describe, BEFORE_OPENGRAPH)
    if os.environ.get("BOOK_ADDRESS"):
        app.setup_extension("sphinx_sitemap")
        app.connect("config-inited", configure)


def configure(app: Sphinx, config: Config) -> None:
    """Set the address of the published book."""
    address = os.environ["BOOK_ADDRESS"].rstrip("/") + "/"
    config.html_baseurl = config.ogp_site_url = address
    config.sitemap_url_scheme = "{link}"
    config.sitemap_excludes = ["search.html", "genindex.html"]


def describe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Describe a chapter by its summary, a page by what it says of itself."""
    meta = context.get("meta") or {}
    description = summary(app, page) or meta.get("og:description", "")
    if text := html.escape(description):
        tag = f'<meta name="description" content="{text}" />\n'
        context["metatags"] += tag
        context["meta"] = {**meta, "og:description": text}


def summary(app: Sphinx, page: str) -> str:
    """Return a chapter's summary without its Markdown; others have none."""
    meta = app.env.metadata.get(page, {}).get("attn", "{}")
    return re.sub(r"[`$*\\]", "", json.loads(meta).get("summary", ""))
