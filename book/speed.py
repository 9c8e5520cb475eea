"""Measure how heavy the built pages are, and how soon they can be read.

    python -m book.speed _build/html [page …]

Each page is opened several times, with nothing in the cache, over HTTP from
this machine. The table has medians, in milliseconds from the request: the
first paint, and the last formula in its fonts. Weight is in kB as served; the
pictures of a page, files or drawings in it, are counted apart.
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from book.browser import chromium
from book.paper import HERE, parts

LOADS = 5
FONTS = """document.fonts.addEventListener("loadingdone",
  () => { window.fontsLoaded = performance.now(); })"""
MEASURED = """async () => {
  await document.fonts.ready;
  const paint = await new Promise((done) => new PerformanceObserver((all) =>
    all.getEntriesByName("first-contentful-paint").forEach(done)
  ).observe({ type: "paint", buffered: true }));
  const size = (files) => files.reduce((sum, x) => sum + x.encodedBodySize, 0);
  const [html] = performance.getEntriesByType("navigation");
  const files = performance.getEntriesByType("resource");
  const images = files.filter((x) => /\\.(png|svg)(\\?|$)/.test(x.name));
  const drawings = [...document.querySelectorAll(".drawn")].reduce(
    (sum, x) => sum + new Blob([x.innerHTML]).size, 0);
  const pictures = size(images) + drawings;
  return { page: size([html, ...files]) - pictures, pictures,
    paint: paint.startTime, typeset: Math.max(
      paint.startTime, html.domInteractive, window.fontsLoaded ?? 0) };
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


def _ignore(*_: Any) -> None:
    """Say nothing of a tab that was closed before all had come."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; gives its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = _ignore  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def measured(browser: Any, address: str) -> dict[str, float]:
    """Return the medians of a page: bytes and milliseconds."""
    loads = []
    for _ in range(LOADS):
        tab = browser.new_page()  # a context of its own: an empty cache
        tab.add_init_script(FONTS)
        tab.goto(address)
        loads.append(tab.evaluate(MEASURED))
        tab.close()
    return {name: median(x[name] for x in loads) for name in loads[0]}


def main(built: Path, pages: list[str]) -> None:
    """Print the table."""
    pages = pages or [x for _, part in parts(HERE.parent) for x in part]
    with chromium() as browser, served(built) as address:
        print(f"{'':36}   kB  pictures  paint  maths")
        measured(browser, f"{address}/{pages[0]}.html")  # the first is slow
        for page in pages:
            x = measured(browser, f"{address}/{page}.html")
            print(
                f"{page:36} {x['page'] / 1e3:4.0f} {x['pictures'] / 1e3:9.0f}"
                f" {x['paint']:6.0f} {x['typeset']:6.0f}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
