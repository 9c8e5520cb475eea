"""Write the API page, from static analysis.

``api.md`` marks where a module's names go: ``<!-- names of attn.masks -->``.
The names come from the module's ``__all__``. sphinx-autoapi describes each
from the source, without an import, under the path that users import it from;
a reference to the file that defines it leads there.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import TextElement, reference
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[3]
PLACE = re.compile(r"^<!-- names of (attn[\w.]*) -->$", re.MULTILINE)


def setup(app: Sphinx) -> None:
    from astroid.astroid_manager import MANAGER
    from astroid.manager import AstroidManager

    # New managers share the first; MANAGER has taken its own already.
    foreign = AstroidManager.brain["module_denylist"] = Foreign()
    MANAGER.module_denylist = foreign
    app.setup_extension("autoapi.extension")
    app.connect("source-read", add_names)
    app.connect("missing-reference", to_public_name)


class Foreign(set[str]):
    """Modules of other packages, whose sources need not be read.

    For a class that inherits from one of transformers', astroid searches all
    of transformers and torch for metaclasses, which takes a minute.
    """

    def __contains__(self, name: object) -> bool:
        package = str(name).partition(".")[0]
        return package != "attn" and package not in sys.stdlib_module_names


def add_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a directive for each public name in the page's marked places."""
    if docname != "book/api":
        return
    for module in PLACE.findall(source[0]):
        app.env.note_dependency(str(path_of(module)))
    source[0] = PLACE.sub(lambda found: directives(found[1]), source[0])


def path_of(module: str) -> Path:
    place = ROOT.joinpath(*module.split("."))
    if place.is_dir():
        return place / "__init__.py"
    return place.with_suffix(".py")


def directives(module: str) -> str:
    """Return the directives for a module's public names, in their order."""
    lines = ["```{eval-rst}"]
    for name in names_in(module):
        _, kind = origin(module, name)
        lines += [f".. autoapi{kind}:: {module}.{name}"]
        if kind == "class":
            lines += ["   :members:"]
        lines += [""]
    return "\n".join([*lines, "```"])


def to_public_name(
    app: Sphinx,
    env: BuildEnvironment,
    node: pending_xref,
    content: TextElement,
) -> reference | None:
    """Resolve a reference to a name that the page has under another path."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    if not module.startswith("attn.") or not path_of(module).exists():
        return None
    target = published().get((origin(module, name)[0], name))
    if target is None:
        return None
    return env.get_domain("py").resolve_xref(
        env,
        node["refdoc"],
        app.builder,
        node["reftype"],
        target,
        node,
        content,
    )


@cache
def published() -> dict[tuple[str, str], str]:
    """Return each name's path on the page, by the file that defines it."""
    text = (ROOT / "book" / "api.md").read_text("utf-8")
    return {
        (origin(module, name)[0], name): f"{module}.{name}"
        for module in PLACE.findall(text)
        for name in names_in(module)
    }


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text("utf-8"))


def names_in(module: str) -> list[str]:
    """Return the names in a module's ``__all__``.

    It is a list, to which ``__all__ += part.__all__`` adds a file's own.
    """
    names: list[str] = []
    for node in tree_of(module).body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")]):
                names += ast.literal_eval(node.value)
            case ast.AugAssign(
                target=ast.Name("__all__"),
                value=ast.Attribute(value=ast.Name(part)),
            ):
                names += names_in(f"{module}.{part}")
    if not names:
        raise LookupError(
            f"{module} is on the API page: it must have an __all__"
        )
    return names


def origin(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines a public name, and its kind."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ImportFrom) and name in imported(node):
            return origin(node.module or "", name)
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return module, "function"
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, "class"
    return module, "data"


def imported(node: ast.ImportFrom) -> list[str]:
    names = [alias.asname or alias.name for alias in node.names]
    return names_in(node.module or "") if names == ["*"] else names
