"""The API page, from static analysis.

``api.md`` says where a module's names go: ``<!-- names of attn.masks -->``.
The names are read from the module's ``__all__``, and sphinx-autoapi, which
reads the source and imports nothing, describes each.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[3]
PLACE = re.compile(r"^<!-- names of (attn[\w.]*) -->$", re.MULTILINE)


def setup(app: Sphinx) -> None:
    app.setup_extension("autoapi.extension")
    app.connect("source-read", add_names)


def add_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a directive for each public name in the page's marked places."""
    if docname != "book/api":
        return
    for module in PLACE.findall(source[0]):
        app.env.note_dependency(str(path_of(module)))
    source[0] = PLACE.sub(lambda found: directives(found[1]), source[0])


def path_of(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def directives(module: str) -> str:
    """The directives for a module's public names, in their own order."""
    lines = ["```{eval-rst}"]
    for name, kind in public(path_of(module).read_text("utf-8")):
        lines += [f".. autoapi{kind}:: {module}.{name}"]
        if kind == "class":
            lines += ["   :members:"]
        lines += [""]
    return "\n".join([*lines, "```"])


def public(text: str) -> list[tuple[str, str]]:
    """The names in ``__all__`` and whether each is a function or a class."""
    kinds: dict[str, str] = {}
    names: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            kinds[node.name] = "function"
        elif isinstance(node, ast.ClassDef):
            kinds[node.name] = "class"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = (
                node.targets if isinstance(node, ast.Assign) else [node.target]
            )
            for target in targets:
                if isinstance(target, ast.Name):
                    kinds[target.id] = "data"
                    if target.id == "__all__" and node.value:
                        names = ast.literal_eval(node.value)
    return [(name, kinds[name]) for name in names if name in kinds]
