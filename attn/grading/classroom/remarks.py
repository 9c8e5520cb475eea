"""Take out of a function what it only tells its author: logs and plots.

``logger.debug(x.shape)`` and ``plt.plot(weights)`` change no result. Where
such a name goes elsewhere, as in ``for i in tqdm(range(n))``, what the sandbox
has in place of its module does nothing. Nothing is run here, and a line keeps
its number. A name counts where every line of its scope that gives it a value
imports such a module, or calls it; a parameter called ``display`` is the
learner's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from attn.grading.classroom.edits import Cell, Edit
from attn.grading.classroom.magics import parse
from attn.grading.classroom.statements import Effect, Statement
from attn.grading.sandbox.silent import SHOWING

#: A name, and what it is: ``{"plt": "matplotlib.pyplot"}``.
Names = Mapping[str, str]

#: Assertions of which the sandbox has not the modules.
_ASSERTIONS = ("torch.testing.assert_", "numpy.testing.assert_")
_TESTING = ("torch.testing", "numpy.testing")
_HOLD_THEM = {"numpy", "torch"}
_BUILT_IN = {
    "breakpoint": "pdb.set_trace",
    "display": "IPython.display",
    "np": "numpy",
    "torch": "torch",
}
_ECHO = "icecream.ic"  # returns what it shows
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ASSIGNING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.withitem)
_LISTS = (ast.Tuple, ast.List)
_DECLARING = (ast.Global, ast.Nonlocal)
_NAMING = (ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_DOING = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


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
        others |= _declared(statement.node)
    return {x: y for x, y in names.items() if x not in others}


def without_remarks(text: str, names: Names) -> tuple[str, tuple[str, ...]]:
    """Return a cell's text whose functions only compute, and what they lost.

    Args:
        text: of a cell.
        names: that only show something, outside its functions.
    """
    if not any(x in text for x in (*names, *SHOWING)):
        return text, ()
    tree = parse(text)
    if tree is None:
        return text, ()
    cell = Cell(text)
    edits: list[Edit] = []
    left_out = []
    declared = _declared(tree)
    known = {x: y for x, y in names.items() if x not in declared}
    for node, own in _remarks(tree, known, declared, cell):
        edits += own
        left_out.append((cell.span(node)[0], cell.short(node)))
    changed = cell.changed(edits)
    if parse(changed) is None:
        return text, ()
    return changed, tuple(x for _, x in sorted(left_out))


def _remarks(
    tree: ast.Module, names: Names, declared: set[str], cell: Cell
) -> Iterator[tuple[ast.AST, list[Edit]]]:
    """Yield what only shows something in functions, and what it becomes.

    What gives a name a value stays: what the sandbox has in place of such a
    module does nothing.
    """
    waiting: list[tuple[ast.AST, Names]] = [(tree, names)]
    while waiting:
        scope, known = waiting.pop()
        nodes = [*_own(scope)]
        if isinstance(scope, _FUNCTIONS):
            known = _known(scope, nodes, known, declared)
            yield from _of_function(nodes, known, cell)
        waiting += [(x, known) for x in nodes if isinstance(x, _FUNCTIONS)]


def _of_function(
    nodes: list[ast.AST], names: Names, cell: Cell
) -> Iterator[tuple[ast.AST, list[Edit]]]:
    for node in nodes:
        if isinstance(node, ast.Expr):
            if _called(node.value, names) and not _does(node.value):
                yield node, cell.nothing(node)
        elif isinstance(node, ast.Assign) and _bound(node, names):
            first, stop = cell.span(node.value)
            if isinstance(target := node.targets[0], _LISTS):
                new = _like(target, _first(node.value))
                yield node.value, [cell.edit(first, stop, f"({new}", ")")]


def _like(target: ast.expr, name: str) -> str:
    """Return a text that can be unpacked into a target."""
    if not isinstance(target, _LISTS):
        return name
    return "(" + "".join(f"{_like(x, name)}, " for x in target.elts) + ")"


def _first(node: ast.expr) -> str:
    """Return the name that a call begins with."""
    return next(x.id for x in ast.walk(node) if isinstance(x, ast.Name))


def _does(value: ast.expr) -> bool:
    """Return whether what is shown also changes something."""
    for node in ast.walk(value):
        function = getattr(node, "func", None)
        if isinstance(node, _DOING):
            return True
        if isinstance(function, ast.Attribute) and function.attr[-1] == "_":
            return True  # ``x.add_(1)``
    return False


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in order, without those of its functions.

    Nor those in an f-string, whose places Python 3.11 gets wrong.
    """
    waiting = [*reversed(getattr(scope, "body", []))]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.JoinedStr)):
            waiting += reversed([*ast.iter_child_nodes(node)])


def _known(
    function: ast.AST, nodes: list[ast.AST], names: Names, declared: set[str]
) -> Names:
    """Return the names that only show something in a function."""
    known, others = dict(names), set(declared)
    taken: set[int] = set()
    signature = getattr(function, "args", None)
    for node in (*ast.walk(signature or ast.Pass()), *nodes):
        own = _bound(node, known)
        known |= own
        taken |= {id(x) for x in _targets(node) if own}
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound = {x.asname or _root(x.name) for x in node.names}
            others |= bound - own.keys()
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in taken:
                others.add(node.id)
        elif isinstance(node, (*_FUNCTIONS, *_NAMING)):
            others.add(node.name or "")
        elif isinstance(node, ast.MatchMapping):
            others.add(node.rest or "")
    return {x: y for x, y in known.items() if x not in others}


def _declared(tree: ast.AST) -> set[str]:
    """Return the names that a function may give a value outside of it."""
    found = (x for x in ast.walk(tree) if isinstance(x, _DECLARING))
    return {name for x in found for name in x.names}


def _bound(node: ast.AST, names: Names) -> dict[str, str]:
    """Return the names that a node binds to what only shows something."""
    if isinstance(node, ast.Import):
        whole = {x.asname or _root(x.name): x for x in node.names}
        return {
            name: x.name if x.asname else name
            for name, x in whole.items()
            if _root(x.name) in SHOWING | _HOLD_THEM
        }
    if isinstance(node, ast.ImportFrom):
        module = "" if node.level else node.module or ""
        paths = {x.asname or x.name: f"{module}.{x.name}" for x in node.names}
        return {x: y for x, y in paths.items() if _shows(y) or y in _TESTING}
    targets = _targets(node)
    value = getattr(node, "value", getattr(node, "context_expr", None))
    bound = [x.id for x in targets if isinstance(x, ast.Name)]
    if not targets or value is None or len(bound) < len(targets):
        return {}
    function = _called(value, names)
    if not function or function == _ECHO:
        return {}
    return dict.fromkeys(bound, f"{function}()")


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what a node gives a value to, other than by an import."""
    if not isinstance(node, _ASSIGNING):
        return []
    if isinstance(node, ast.withitem):
        return [node.optional_vars] if node.optional_vars else []
    if isinstance(node, ast.Assign):
        return [y for x in node.targets for y in _parts(x)]
    return [node.target]


def _parts(target: ast.expr) -> list[ast.expr]:
    if not isinstance(target, _LISTS):
        return [target]
    return [y for x in target.elts for y in _parts(x)]


def _shows(path: str) -> bool:
    """Return whether a path leads to what only shows something."""
    return _root(path) in SHOWING or path.startswith(_ASSERTIONS)


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
    return path if _shows(path) else ""
