"""What the book gets of the page: its files, what npm brings, what is kept."""

import json
import re
from urllib.request import urlopen

from book.page import build, node
from tests.book.pages import ROOT


def test_a_server_says_what_a_browser_needs_to_hear_of_the_files(address):
    for name in ("engine.mjs", "pyodide/pyodide.asm.mjs"):
        with urlopen(f"{address}/_static/page/{name}") as answer:
            kind = answer.headers.get_content_type()
        assert kind in ("text/javascript", "application/javascript")


def test_the_book_has_all_that_a_page_may_load(book):
    page = book / "_static" / "page"
    made = {"built.mjs", "page.zip", "snapshot.gz", "LICENSES.txt"}
    made |= {*build.SCRIPTS, *build.BUNDLED, "data", "pyodide"}
    assert {path.name for path in page.iterdir()} == made
    for path in page.rglob("*.*"):
        assert path.stat().st_size > 0, path


def test_the_button_says_the_megabytes_that_python_takes(book):
    page = book / "_static" / "page"
    facts = (page / "built.mjs").read_text("utf-8")
    loaded = [*page.glob("*.zip"), *page.glob("*.gz"), *page.glob("pyodide/*")]
    size = sum(path.stat().st_size for path in loaded) / 1e6
    said = int(re.search(r"megabytes = (\d+)", facts)[1])
    assert size <= said < size + 1 <= 17


def test_what_npm_brings_has_checksums_and_no_address():
    lock = json.loads(node.PINS.read_text("utf-8"))["packages"]
    own, brought = lock.pop(""), lock
    manifest = json.loads((node.HERE / "package.json").read_text("utf-8"))
    assert own["dependencies"] == manifest["dependencies"]
    assert all(x[0].isdigit() for x in own["dependencies"].values())
    assert len(brought) > 20
    for name, package in brought.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name
    assert re.search(
        rf"(?m)^{node.WHEEL}==", (ROOT / "constraints.txt").read_text("utf-8")
    )


def test_a_machine_without_npm_gets_a_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not node.of_the_machine()
    for version, fits in (("v12.22.9", False), ("v22.1.0", True)):
        for name in ("node", "npm"):
            (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
            (tmp_path / name).chmod(0o755)
        assert node.of_the_machine() is fits


def test_what_takes_seconds_is_made_again_only_where_it_changes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(build, "KEPT", tmp_path / "kept")
    made = []

    def make():
        made.append(len(made))
        return bytes(made)

    first = build.kept("code", make, b"1", b"2")
    assert build.kept("code", make, b"1", b"2") == first and made == [0]
    again = build.kept("code", make, b"1", b"3")
    assert made == [0, 1]
    assert [*(tmp_path / "kept").iterdir()] == [again] != [first]


def test_the_same_files_make_the_same_archive():
    assert build.archive() == build.archive()
