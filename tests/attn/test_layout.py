"""The layout of the package: few rooms, imports one way, and no circle."""

import ast
import os
from functools import cache
from pathlib import Path

import pytest

import attn
from tests.processes import run_python

ROOT = Path(attn.__file__).parent
MOST_ROOMS = 21
# A room imports from lines above its own, never from its own line or below.
LAYERS = (
    "arguments tracing",
    "cost masks plot positions",
    "functional profiling",
    "cache kernels linear",
    "backends",
    "api",
    "nn",
    "distributed hf serving",
    "data",
    "bench",
    "exercises",
    "publishing",
    "grading",
    "page",
    "__main__",
)
# The same for the folders of attn/grading.
SHELVES = ("checks", "diagnosis sandbox", "classroom learner")
# From `attn.attention(...)` to the source of the Triton kernel.
MOST_FILES = 9
# Prints file and name of every function on that way, and the file that
# registers the name "triton". The kernel runs in the interpreter.
WAY_TO_THE_KERNEL = """
import sys

import torch

from attn.backends.registry import Registry

functions = {}


def note(frame):
    functions[frame.f_code.co_filename, frame.f_code.co_name] = None


def register(self, name, **options):
    if name == "triton":
        note(sys._getframe(1))
    return original(self, name, **options)


original, Registry.register = Registry.register, register

import attn.api
import attn.kernels.forward  # so that the call imports nothing

q = torch.zeros(1, 2, 4, 16)
sys.setprofile(lambda frame, event, _: event == "call" and note(frame))
attn.api.attention(q, q, q, impl="triton")
sys.setprofile(None)
for file, name in functions:
    print(file, name, sep="\\t")
"""


def ranks(layers):
    return {name: i for i, line in enumerate(layers) for name in line.split()}


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(tree, module, is_package, modules):
    """Return the modules that a file imports, wherever the imports are."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    targets = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1]
            base = ".".join(above) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            names = [
                inner if inner in modules else base
                for inner in (f"{base}.{alias.name}" for alias in node.names)
            ]
        else:
            continue
        targets |= {name for name in names if name in modules}
    return targets - {module}


@cache
def graph():
    return {
        module: imported(
            ast.parse(path.read_text("utf-8")),
            module,
            path.name == "__init__.py",
            FILES,
        )
        for module, path in FILES.items()
    }


def room_of(module):
    return module.split(".")[1] if "." in module else ""


def shelf_of(module):
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["grading"] and parts[2:] else ""


def upward(arrows, folder_of=room_of, layers=LAYERS):
    """Return the imports that go against the order of the folders."""
    wrong, rank = [], ranks(layers)
    for source, targets in arrows.items():
        for target in sorted(targets):
            here, there = folder_of(source), folder_of(target)
            if not here or here == there:  # attn/__init__.py names them all
                continue
            if not there or rank[there] >= rank[here]:
                wrong.append(f"{source} -> {target}")
    return wrong


def circles(arrows):
    """Return the groups of modules that import one another."""
    reach = {}
    for start in arrows:
        seen, todo = set(), [start]
        while todo:
            new = arrows[todo.pop()] - seen
            seen |= new
            todo += new
        reach[start] = seen
    groups = {
        frozenset(b for b in reach[a] if a in reach[b])
        for a in arrows
        if a in reach[a]
    }
    return sorted(sorted(group) for group in groups)


def test_the_package_has_few_rooms():
    # Every room checks with these two: they are no rooms, but the ground.
    ground = {"arguments", "tracing"}
    rooms = {room_of(x) for x in FILES} - {"", "__main__", *ground}
    others = {p.name for p in ROOT.iterdir() if p.is_file()} - {
        f"{room}.py" for room in rooms
    }
    beside = {"__init__.py", "__main__.py", "py.typed"}
    beside |= {f"{name}.py" for name in ground}
    assert others <= beside
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)
    assert rooms <= ranks(LAYERS).keys(), "a new room needs its line in LAYERS"


def test_a_room_imports_only_from_those_above_it():
    assert upward(graph()) == []


def test_a_folder_of_grading_imports_only_from_those_before_it():
    inside = {
        module: {x for x in targets if shelf_of(x)}
        for module, targets in graph().items()
        if shelf_of(module)
    }
    assert upward(inside, shelf_of, SHELVES) == []
    back = {"attn.grading.checks.run": {"attn.grading.diagnosis.naming"}}
    assert upward(back, shelf_of, SHELVES), "a wrong import is found"


def tops(tree):
    """Return the packages that a file imports, by their first names."""
    return {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }


def test_the_book_imports_the_package_and_the_package_nothing_of_the_book():
    """Pages are built from attn; what a page alone needs is beside it."""
    book = {p.name for p in ROOT.parent.iterdir()} - {"attn"}
    book |= {p.name for p in (ROOT.parent / "book" / "ext").iterdir()}
    assert {"book", "attn_book", "solutions", "tests"} <= book
    for module, path in FILES.items():
        assert not tops(ast.parse(path.read_text("utf-8"))) & book, module
    assert tops(ast.parse("def f():\n    import book.paper")) == {"book"}


def test_no_file_imports_itself_by_way_of_others():
    assert circles(graph()) == []


def test_from_attention_to_the_kernel_are_nine_files_at_most():
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    run = run_python(WAY_TO_THE_KERNEL, env=env, check=True)
    entered = [line.split("\t") for line in run.stdout.splitlines()]
    way = [name for file, name in entered if Path(file).is_relative_to(ROOT)]
    for name in ("attention", "validate", "select", "attention_forward"):
        assert name in way, "the trace is incomplete"
    assert "tile_scores" in way, "of the kernel too"
    files = {Path(file) for file, _ in entered}
    opened = sorted(str(x) for x in files if x.is_relative_to(ROOT))
    assert len(opened) <= MOST_FILES, opened


@pytest.mark.parametrize(
    "line",
    [
        "from attn.grading.checks.run import run",
        "def f():\n    from attn import grading",
        "if TYPE_CHECKING:\n    import attn.grading.checks.run",
        "from ..grading import run",
    ],
)
def test_a_wrong_import_is_found(line):
    modules = {"attn.masks.mask", "attn.grading", "attn.grading.checks.run"}
    arrows = imported(ast.parse(line), "attn.masks.mask", False, modules)
    assert arrows and upward({"attn.masks.mask": arrows})
    assert upward({"attn.masks.mask": {"attn"}}), "the package as a whole"


def test_a_circle_is_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}}
    assert circles(arrows) == [["b", "c"], ["d"]]
