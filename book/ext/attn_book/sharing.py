"""Describe each page to search engines, and to whoever shares its address.

A chapter is described by its summary (``chapters``), another page by the
``og:description`` above its title, or by its first words. The address of the
published book comes from the build, as ``BOOK_ADDRESS``; with one, pages give
theirs, a chapter's also the picture of its card, and there is a sitemap.
"""

import base64
import html
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

from attn.publishing.myst_to_markdown.targets import figure_name, notebook

BEFORE_OPENGRAPH = 400  # whose own handler has the priority 500


def setup(app: Sphinx) -> None:
    # Here, so that it finds no matplotlib; it prints that it has none.
    with redirect_stdout(None):
        app.setup_extension("sphinxext.opengraph")
    app.connect("html-page-context", describe, BEFORE_OPENGRAPH)
    app.connect("html-collect-pages", missing)
    if os.environ.get("BOOK_ADDRESS"):
        app.setup_extension("sphinx_sitemap")
        app.connect("config-inited", configure)
        app.connect("html-page-context", picture, BEFORE_OPENGRAPH + 1)


def configure(app: Sphinx, config: Config) -> None:
    """Set the address of the published book."""
    address = os.environ["BOOK_ADDRESS"].rstrip("/") + "/"
    config.html_baseurl = config.ogp_site_url = address
    config.ogp_image = "_static/front-page.png"
    config.ogp_image_alt = "One trained head reads one sentence"
    config.sitemap_url_scheme = "{link}"
    config.sitemap_excludes = ["search.html", "genindex.html"]


def missing(app: Sphinx) -> list[str]:
    """Write what a server shows for an address without a page."""
    root = urlsplit(os.environ.get("BOOK_ADDRESS", "")).path.rstrip("/") + "/"
    titles = app.env.titles.items()
    chapters = [(x, y.astext()) for x, y in titles if x[10:12].isdigit()]
    about = {"root": root, "chapters": sorted(chapters)}
    text = app.builder.templates.render("404.html", about)
    Path(app.outdir, "404.html").write_text(text, "utf-8")
    return []  # no page of the theme's


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


def picture(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Give a chapter the picture of its card, stored in its notebook."""
    about = json.loads(app.env.metadata.get(page, {}).get("attn", "{}"))
    if "picture" not in about:
        return
    stem, _, name = about["picture"].removesuffix("-narrow").partition("/")
    cells = notebook(stem)["cells"]
    cell = next(x for x in cells if figure_name(x) == name)
    shown = (x.get("data", {}).get("image/png") for x in cell["outputs"])
    file = Path("_static", "shared", f"{Path(page).name}.png")
    Path(app.outdir, file).parent.mkdir(parents=True, exist_ok=True)
    image = base64.b64decode("".join(next(filter(None, shown))))
    Path(app.outdir, file).write_bytes(image)
    context["meta"] |= {
        "og:image": app.config.ogp_site_url + file.as_posix(),
        "og:image:alt": cell["metadata"]["mystnb"]["image"]["alt"],
    }


def summary(app: Sphinx, page: str) -> str:
    """Return a chapter's summary without its Markdown; others have none."""
    meta = app.env.metadata.get(page, {}).get("attn", "{}")
    return re.sub(r"[`$*\\]", "", json.loads(meta).get("summary", ""))
