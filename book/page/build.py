"""Put what answers on a page into the built book, under ``_static/page``.

    python -m book.page.build _build/html

What takes seconds to make is kept in ``_build/page`` until it changes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from attn.page import FILES
from book.page.node import HERE, MODULES, PINS, install, run

ROOT = HERE.parents[1]
KEPT = ROOT / "_build" / "page"
DATA = HERE / "data"
PYODIDE = MODULES / "pyodide"
#: What a browser loads of Pyodide, but for its code, which is packed.
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "python_stdlib.zip")
CODE = "pyodide.asm.wasm"
#: What it loads as it is here, and what esbuild bundles.
SCRIPTS = ("engine.mjs", "worker.mjs")
BUNDLED = ("answers.mjs", "answers.css")
ESBUILD = MODULES / "esbuild" / "bin" / "esbuild"
OPTIONS = ("--bundle", "--format=esm", "--minify", "--log-level=warning")
OPTIONS += ("--external:./engine.mjs", "--out-extension:.js=.mjs")
#: A fixed date: the same files make the same archive.
DATE = (1980, 1, 1, 0, 0, 0)
SOURCES = """Pyodide is under the Mozilla Public License 2.0; its source is at
https://github.com/pyodide/pyodide, that of its Python at https://python.org.
"""


def main(built: Path) -> None:
    """Write the folder ``_static/page`` of a built book."""
    if not PYODIDE.exists():
        install()
    to = built.resolve() / "_static" / "page"
    shutil.rmtree(to, ignore_errors=True)
    for folder, files in {
        to: [HERE / name for name in SCRIPTS],
        to / "data": DATA.glob("*.json.gz"),
        to / "pyodide": [PYODIDE / name for name in RUNTIME],
    }.items():
        folder.mkdir(parents=True)
        for path in files:
            shutil.copyfile(path, folder / path.name)
    python = archive()
    (to / "page.zip").write_bytes(python)
    shutil.copyfile(packed_code(), to / "pyodide" / f"{CODE}.gz")
    shutil.copyfile(snapshot(python), to / "snapshot.gz")
    (to / "built.mjs").write_text(facts(to), "utf-8")
    (to / "LICENSES.txt").write_text(licenses(), "utf-8")
    bundled = (HERE / name for name in BUNDLED)
    run("node", ESBUILD, *bundled, *OPTIONS, f"--outdir={to}")
    shorten(to.parent)


def shorten(static: Path) -> None:
    """Take blanks and comments out of the book's styles: 28 kB a page."""
    styles = [*static.glob("*.css"), *static.glob("touch/*.css")]
    options = ("--minify", "--allow-overwrite", f"--outbase={static}")
    run("node", ESBUILD, *styles, *options, f"--outdir={static}")


def archive() -> bytes:
    """Return page.zip: the judge with what it imports, and ``torch``."""
    files = {f"attn/{name}": ROOT / "attn" / name for name in FILES}
    torch = ROOT / "attn" / "page" / "torch"
    for path in sorted(torch.rglob("*")):
        if path.suffix in (".py", ".txt"):
            files[f"torch/{path.relative_to(torch).as_posix()}"] = path
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as packed:
        for name, path in files.items():
            # The library's own would look for all of the library.
            data = b"" if name == "attn/__init__.py" else path.read_bytes()
            info = zipfile.ZipInfo(name, DATE)
            packed.writestr(info, data, zipfile.ZIP_DEFLATED)
    return memory.getvalue()


def packed_code() -> Path:
    """Return the file of Pyodide's code, packed."""
    return kept(CODE, (PYODIDE / CODE).read_bytes, PINS.read_bytes())


def snapshot(python: bytes) -> Path:
    """Return the file of a Python's memory that has imported the archive."""
    script, sample = HERE / "snapshot.mjs", min(DATA.glob("*.json.gz"))

    def make() -> bytes:
        with TemporaryDirectory() as folder:
            zipped, memory = Path(folder, "page.zip"), Path(folder, "memory")
            zipped.write_bytes(python)
            run("node", script, PYODIDE, zipped, sample, memory)
            return memory.read_bytes()

    sources = (path.read_bytes() for path in (PINS, script, sample))
    return kept("snapshot", make, python, *sources)


def kept(name: str, make: Callable[[], bytes], *made_of: bytes) -> Path:
    """Return a packed file, made again only where its sources have changed."""
    digest = hashlib.sha256(b"".join(made_of)).hexdigest()[:16]
    path = KEPT / f"{name}-{digest}.gz"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in KEPT.glob(f"{name}-*"):
            old.unlink()
        new = path.with_suffix(".new")
        new.write_bytes(gzip.compress(make(), 6, mtime=0))
        new.rename(path)
    return path


def facts(to: Path) -> str:
    """Return built.mjs: how much is loaded, and a lock of no packages."""
    loaded = [*to.glob("*.zip"), *to.glob("*.gz"), *to.glob("pyodide/*")]
    sizes = {path: path.stat().st_size for path in loaded}
    counted = sum(x for path, x in sizes.items() if path.suffix != ".mjs")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text("utf-8"))
    lock = json.dumps({"info": lock["info"], "packages": {}})
    return (
        f"export const counted = {counted};\n"
        f"export const megabytes = {math.ceil(sum(sizes.values()) / 1e6)};\n"
        f"export const lock = {json.dumps(lock)};\n"
    )


def licenses() -> str:
    """Return the licences of what npm brought."""
    found = [SOURCES]
    for path in sorted(MODULES.glob("**/LICENSE*")):
        name = path.parent.relative_to(MODULES).as_posix()
        found.append(f"{name}\n\n{path.read_text('utf-8')}")
    return "\n\n".join(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
