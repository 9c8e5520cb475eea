"""Take out of a function what it only tells its author: logs, plots, bars.

``logger.debug(x.shape)`` and ``plt.plot(weights)`` change no result, and
``tqdm(range(n))`` is ``range(n)``. Where such a name goes elsewhere, what the
sandbox has in place of its module does nothing. Nothing is run here, and a
line keeps its number.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from attn.grading.classroom.magics import parse
from attn.grading.classroom.statements import Effect, Statement
from attn.grading.sandbox.missing import SHOWING

#: A name, and what it is: ``{"plt": "matplotlib.pyplot"}``.
Names = Mapping[str, str]

#: Assertions of which the sandbox has not the modules.
_ASSERTIONS = ("torch.testing.assert_", "numpy.testing.assert_")
_HOLD_THEM = {"numpy", "torch"}
_TESTING = ("torch.testing", "numpy.testing")
_SHOWN = "icecream.ic"  # returns what it shows
_BUILT_IN = {
    "breakpoint": "pdb.set_trace",
    "display": "IPython.display",
    "np": "numpy",
    "torch": "torch",
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def showing(found: Iterable[Statement]) -> Names:
    """Return the global names that only show something.

    Args:
        found: the statements of a notebook, in order. Each that binds such a
            name imports it, or calls what was imported, as in ``logger =
            logging.getLogger()``.
    """
    names, others = dict(_BUILT_IN), set[str]()
    for statement in found:
        names |= (own := _bound(statement.node, names))
        effects = statement.effects.items()
        others |= {x for x, y in effects if y >= Effect.MAY_BIND} - own.keys()
    return {x: y for x, y in names.items() if x not in others}


def without_remarks(text: str, names: Names) -> tuple[str, tuple[str, ...]]:
    """Return a cell's text whose functions only compute, and what they lost.

    Args:
        text: of a cell.
        names: that only show something, outside its functions.
    """
    tree = parse(text)
    if tree is None:
        return text, ()
    data = text.encode()
    lines = data.split(b"\n")
    starts = [0, *accumulate(len(x) + 1 for x in lines)]
    changes = []
    for node, new in _remarks(tree, dict(names)):
        first = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        changes.append((first, stop, new))
    at, kept, left_out = len(data), [b""], [""]
    for first, stop, new in _outermost(changes):
        old = data[first:stop].decode()
        more = "\n" * old.count("\n")
        own = f"({new}{more})" if new else f"pass{more}"
        kept += [data[stop:at], own.encode()]
        left_out.append(textwrap.shorten(old, 40, placeholder=" …"))
        at = first
    changed = b"".join((data[:at], *reversed(kept))).decode()
    if parse(changed) is None:
        return text, ()
    return changed, tuple(left_out[:0:-1])


def _outermost(
    changes: list[tuple[int, int, str]],
) -> list[tuple[int, int, str]]:
    """Return the changes that are in no other, from the last on."""
    found: list[tuple[int, int, str]] = []
    for first, stop, new in sorted(changes, key=lambda x: (x[0], -x[1])):
        if not found or first >= found[-1][1]:
            found.append((first, stop, new))
    return found[::-1]


def _remarks(
    tree: ast.Module, names: dict[str, str]
) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield what only shows something, and what it would be without that."""
    functions = [x for x in ast.walk(tree) if isinstance(x, _FUNCTIONS)]
    inside = {id(y): y for x in functions for z in x.body for y in ast.walk(z)}
    for node in inside.values():
        names |= (own := _bound(node, names))
        if isinstance(node, ast.Call):
            if bar := _without_bar(node, names):
                yield node, bar
        elif isinstance(node, ast.Assign) and own:
            if isinstance(target := node.targets[0], ast.Tuple):
                yield node.value, _like(target, _first(node.value))
        elif isinstance(node, ast.Expr) and _called(node.value, names):
            yield node, ""


def _without_bar(node: ast.expr, names: Names) -> str:
    """Return what a progress bar goes through."""
    function = _called(node, names)
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    if function.startswith("tqdm.") and function.endswith("trange"):
        return f"range({', '.join(map(ast.unparse, node.args))})"
    if function.endswith((".tqdm", ".progress.track", _SHOWN)):
        return ast.unparse(node.args[0])
    return ""


def _bound(node: ast.AST, names: Names) -> dict[str, str]:
    """Return the names that a statement binds to what only shows something."""
    if isinstance(node, ast.Import):
        whole = {x.asname or _root(x.name): x for x in node.names}
        return {
            name: x.name if x.asname else name
            for name, x in whole.items()
            if _root(x.name) in SHOWING | _HOLD_THEM
        }
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        paths = {x.asname or x.name: f"{module}.{x.name}" for x in node.names}
        return {
            name: path
            for name, path in paths.items()
            if _root(module) in SHOWING
            or path in _TESTING
            or _is_assertion(path)
        }
    if not isinstance(node, ast.Assign):
        return {}
    function = _called(node.value, names)
    if function == _SHOWN:
        return {}
    targets = [y for x in node.targets for y in _parts(x)]
    bound = [x.id for x in targets if isinstance(x, ast.Name)]
    if not function or len(bound) < len(targets):
        return {}
    return dict.fromkeys(bound, f"{function}()")


def _parts(target: ast.expr) -> list[ast.expr]:
    if not isinstance(target, ast.Tuple):
        return [target]
    return [y for x in target.elts for y in _parts(x)]


def _like(target: ast.expr, name: str) -> str:
    """Return a text that can be unpacked into a target."""
    if not isinstance(target, ast.Tuple):
        return name
    return "(" + "".join(f"{_like(x, name)}, " for x in target.elts) + ")"


def _first(node: ast.expr) -> str:
    """Return the name that a call begins with."""
    names = (x.id for x in ast.walk(node) if isinstance(x, ast.Name))
    return next(names)


def _is_assertion(path: str) -> bool:
    return path.startswith(_ASSERTIONS)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _called(node: ast.expr, names: Names) -> str:
    """Return what a call is of, if that only shows something."""
    parts: list[str] = []
    if not isinstance(node, ast.Call):
        return ""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        else:
            node = node.func
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    path = ".".join((names[node.id], *reversed(parts)))
    return path if _root(path) in SHOWING or _is_assertion(path) else ""
