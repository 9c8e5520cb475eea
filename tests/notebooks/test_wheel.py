"""The wheel holds all that a user needs, and declares what it needs."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import attn
from attn.data.book import PACKAGE, install, root
from attn.exercises import sources
from attn.exercises.cells import exercise_id
from attn.grading.learner import start_page
from attn.publishing import notebooks
from tests import processes

USE = """
import attn, torch
query, key, value = torch.randn(3, 1, 2, 5, 8)
out = attn.attention(query, key, value, attn.causal())
exact = attn.scaled_dot_product_attention(query, key, value, attn.causal())
print(attn.__version__, torch.allclose(out, exact, atol=1e-5))
print(attn.__file__)
"""
ADDRESS = "https://github.com/you/attention"  # what a learner enters
# Every module that a user imports, but the one that draws.
EVERY = "import attn; [getattr(attn, x) for x in attn.__all__ if x != 'plot']"
# A chapter of the wheel, with the solutions of the wheel, in its environment.
CHAPTER = """
from pathlib import Path
from attn.exercises import sources
from attn.publishing import notebooks
solved = notebooks.solved(notebooks.read(sources.notebook_path("mask")))
notebooks.execute(solved, Path.cwd())
"""


def run(folder, *words, **environment):
    """Run a command in an environment without this checkout."""
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return processes.run(*words, cwd=folder, env={**clean, **environment})


def test_every_pinned_version_installs_with_the_oldest_python():
    """Debian 12 has 3.11.2: a package that needs 3.11.5 would stop `make`."""
    about = tomllib.loads((root() / "pyproject.toml").read_text("utf-8"))
    oldest = about["project"]["requires-python"].removeprefix(">=") + ".0"
    every = {x.name: x.metadata for x in distributions()}
    needs = {n: x.get("Requires-Python", "") for n, x in every.items()}
    assert len(needs) > 100
    assert [n for n in needs if oldest not in SpecifierSet(needs[n])] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The file of ``make wheel``, which installs nothing here."""
    folder = tmp_path_factory.mktemp("checkout") / "_build"
    make = ["make", "-s", "-o", ".venv/.wheel", "wheel"]
    own = [f"PY={sys.executable}", f"WHEELS={folder}"]
    subprocess.run([*make, *own], cwd=root(), check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    assert PACKAGE in ("attn", f"_build/{path.name}")
    return path


def readme_commands():
    """Those that need no checkout; the first installs the wheel."""
    text = (root() / "README.md").read_text("utf-8")
    return re.search(r"(?s)```console\n(pip .+?)```", text)[1].splitlines()


def names(wheel):
    return sorted(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_declares_what_it_needs_and_holds_no_more(wheel):
    files = names(wheel)
    [about] = distributions(path=[str(wheel)])
    needs = [Requirement(x) for x in about.requires]
    assert sorted(x.name for x in needs if not x.marker) == ["numpy", "torch"]
    assert about.entry_points["attn"].value == "attn.__main__:command_line"
    tops = {x.partition("/")[0] for x in files}
    assert tops == {"attn", f"attn-{attn.__version__}.dist-info"}
    for path in notebooks.pristine():
        assert f"attn/_book/notebooks/{path.name}" in files


def test_the_installed_wheel_is_the_library_and_the_command(wheel, tmp_path):
    """With this environment's packages, but not with this checkout."""
    place = tmp_path / "place"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    to = {"PIP_TARGET": str(place), "PIP_NO_DEPS": "1"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    pip = ("bash", "-c", readme_commands()[0])
    done = run(wheel.parents[1], *pip, **offline, **to, PATH=path)
    assert done.returncode == 0, done.stderr
    there = {"PYTHONPATH": str(place)}
    done = run(tmp_path, sys.executable, "-P", "-c", USE, **there)
    version, file = done.stdout.splitlines()
    assert version == f"{attn.__version__} True"
    assert Path(file).is_relative_to(place)
    words = ("solve", "out", "03_masks")
    done = run(tmp_path, str(place / "bin" / "attn"), *words, **there)
    assert (done.returncode, done.stderr) == (0, "")
    written = notebooks.read(tmp_path / done.stdout.strip())
    last = sources.solution("mask-causal").splitlines()[-1]
    [own] = [x for x in written.cells if exercise_id(x) == "mask-causal"]
    assert last in own.source


@pytest.mark.exhaustive
def test_a_wheel_built_of_the_archive_has_the_same_files(wheel, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t"]
    to = ["sdist", "-d", str(tmp_path)]
    subprocess.run([*build, *to], cwd=root(), check=True, capture_output=True)
    [archive] = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    unpacked = archive.with_name(archive.name.removesuffix(".tar.gz"))
    build.append("wheel")
    subprocess.run(build, cwd=unpacked, check=True, capture_output=True)
    [again] = unpacked.glob("dist/*.whl")
    assert names(again) == names(wheel)


@pytest.mark.exhaustive
def test_in_an_empty_environment_a_wheel_brings_all_it_needs(wheel, tmp_path):
    """Only pip's index is used; PIP_ARGS reaches pip, as in the Makefile."""
    subprocess.run([sys.executable, "-m", "venv", "env"], cwd=tmp_path)
    scripts = tmp_path / "env" / "bin"
    python, command = str(scripts / "python"), str(scripts / "attn")
    pins = str(root() / "constraints.txt")

    def call(*words, status=0):
        done = run(tmp_path, *words)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def install(*what):
        more = shlex.split(os.environ.get("PIP_ARGS", ""))
        words = ("install", "-q", "--no-compile", "-c", pins, *more, *what)
        call(python, "-m", "pip", *words)

    # First and by its version: else it may bring gigabytes.
    [torch] = re.findall(r"(?m)^torch==\S+", Path(pins).read_text("utf-8"))
    install(torch)
    install(str(wheel))
    done = call(python, "-c", USE)
    assert done.stdout.startswith(f"{attn.__version__} True\n")
    call(python, "-c", EVERY)
    assert "check" in call(command).stdout
    assert "0 of " in call(command, "progress", ".").stdout
    for words in (("lab", "own"), ("grade", "own"), ("check", "mine.py")):
        [line] = call(command, *words, status=2).stderr.splitlines()
        named = shlex.split(line.split("`")[1])
        assert named[:2] == ["pip", "install"] and wheel.as_uri() in named[2]
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # none from above
    old = ("-m", "pip", "install", "-q", "pytest==7.3.2", "pluggy==1.0.0")
    call(python, *old)
    assert "1 passed" in call(python, "-m", "pytest", "test_it.py").stdout

    install(*named[2:])
    assert call(python, "-m", "pip", "check")
    call(command, "lab", "own", "--copy-only")
    assert (tmp_path / "own" / start_page.NAME).exists()
    text = sources.solution("why-causal_average")
    (tmp_path / "mine.py").write_text(f"import torch\n\n\n{text}\n")
    assert call(command, "check", "mine.py", "why-causal_average").stdout
    assert "1/7 points" in call(command, "grade", "mine.py").stdout
    assert "accepted" in call(command, "teeth", "why-soft_lookup").stdout
    call(python, "-c", CHAPTER)


@pytest.mark.exhaustive
def test_every_command_that_installs_attn_works_as_written(wheel, tmp_path):
    """Offline, in an environment that finds the packages of this one."""
    own = ["-m", "venv", "--without-pip", str(tmp_path / "env")]
    subprocess.run([sys.executable, *own], check=True)
    [site] = tmp_path.glob("env/lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
    environment = {
        "PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_NO_BUILD_ISOLATION": "0",  # hatchling is there
        "GIT_CONFIG_COUNT": "1",  # the address is this repository
        "GIT_CONFIG_KEY_0": f"url.{root().as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
    }

    def call(command, folder=tmp_path):
        pip = 'pip() { python -m pip "$@"; }; '
        words = ("bash", "-c", pip + command)
        done = run(folder, *words, **environment)
        stubs = "attn check" in command  # 1: not all is right
        assert done.returncode == stubs, done.stdout + done.stderr
        return done.stdout

    for command in readme_commands():
        call(command.replace("lab ", "lab --copy-only "), wheel.parents[1])
    printed = "from attn.data.book import install; print(install('learn'))"
    again = call(f'python -c "{printed}"')
    [cell] = first_cells()
    cell = "pip install -q " + cell.format(repository=ADDRESS)
    for command in (again, "pip install .", install("learn,grade"), cell):
        call(command, root())


def first_cells():
    """What the first cells install: all the same."""
    lines = set()
    for path in notebooks.pristine():
        cells = notebooks.read(path).cells
        first = next(x for x in cells if x.cell_type == "code")
        lines.update(re.findall(r"%pip install -q (.+)", first.source))
    return lines


def test_the_first_cell_of_a_chapter_names_what_the_wheel_offers(wheel):
    [line] = first_cells()  # each chapter has it, and all the same
    wanted = Requirement(*shlex.split(line.format(repository=ADDRESS)))
    assert wanted.url == f"git+{ADDRESS}"
    [about] = distributions(path=[str(wheel)])
    assert wanted.name == about.name
    assert wanted.extras == {"learn"}
    assert "learn" in about.metadata.get_all("Provides-Extra")


@pytest.mark.exhaustive
def test_a_workspace_made_of_a_wheel_is_that_of_a_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    for name, place in (("wheel", tmp_path / "unpacked"), ("here", root())):
        subprocess.run(
            [sys.executable, "-P", "-m", "attn", "lab", name, "--copy-only"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
        )
    made = sorted(path.name for path in (tmp_path / "wheel").iterdir())
    assert start_page.NAME in made and len(made) > len(notebooks.pristine())
    for name in made:
        ours = (tmp_path / "here" / name).read_bytes()
        assert (tmp_path / "wheel" / name).read_bytes() == ours, name
