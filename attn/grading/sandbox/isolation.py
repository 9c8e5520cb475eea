"""Close processes off from the machine with bubblewrap.

It gives them no network, no other process, and of the files only what they
need, read-only: none of those holds a right answer. It works as an ordinary
user, where the system allows it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

KINDS = {
    "bubblewrap": (
        "bubblewrap: no network, no other process, and of the files only "
        "what a notebook needs, read-only"
    ),
    "none": (
        "none: limits on time, memory, processes and files; nothing keeps a "
        "notebook from this account's files"
    ),
}
"""The ways, and how a report names them."""


def require(kind: str) -> None:
    """Raise unless processes can be isolated in this way, one of ``KINDS``.

    Raises:
        ValueError: bubblewrap does not work here.
    """
    if kind != "none" and (said := complaint()):
        raise ValueError(said)


@cache
def complaint() -> str:
    """Return why bubblewrap does not work, and what to do; "" if it does."""
    instead = (
        "or grade in a container (book/classroom/Dockerfile says how), or "
        "with --isolation none on a machine that is thrown away"
    )
    if sys.platform != "linux":
        return f"bubblewrap needs Linux: use WSL 2, {instead}"
    if shutil.which("bwrap") is None:
        return (
            "bubblewrap isolates what learners wrote, and is not installed: "
            f"apt install bubblewrap (or dnf, pacman, apk), {instead}"
        )
    try:
        words = command([sys.executable, "-I", "-S", "-c", _NESTED])
        subprocess.run(words, capture_output=True, check=True, timeout=20)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"no word").decode(errors="replace").strip()
        return (
            "bubblewrap must be allowed to make namespaces; it says "
            f"{said!r}: let your system's administrator allow it, {instead}"
        )
    return ""


def command(argv: Sequence[str], folder: Path | None = None) -> list[str]:
    """Return the command that runs ``argv`` in bubblewrap.

    Args:
        argv: the command.
        folder: of ``populate``, seen beside the system's libraries and
            Python; what is written in its home is in memory.
    """
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all"]
    words += ["--hostname", "sandbox", "--die-with-parent", "--new-session"]
    words += ["--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    seen, hidden = [*map(Path, _SYSTEM)], answers()
    for x in pythons():  # of a prefix not all: it may be a course's folder
        is_prefix = (x / "bin" / "python3").exists()
        seen += [x / y for y in _OF_A_PREFIX] if is_prefix else [x]
    if folder:
        seen, hidden = [*seen, folder], [*hidden, folder / HOME]
    for path in map(str, seen):
        words += ["--ro-bind-try", path, path]
    for path in sorted({str(y) for x in hidden for y in (x, x.resolve())}):
        words += ["--tmpfs", path]
    for path in ("/tmp", "/dev", "/"):
        words += ["--remount-ro", path]
    return [*words, "--", *argv]


_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/sbin"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/alternatives", "/etc/localtime", "/etc/mime.types"),
)
_OF_A_PREFIX = ("bin", "lib", "lib64", "pyvenv.cfg")
#: A notebook gets namespaces of its own, inside those of bubblewrap.
_NESTED = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x7C020000))"


def pythons() -> list[Path]:
    """Return the folders that this Python and its packages lie in."""
    stdlib = sysconfig.get_path("stdlib")
    found = {*map(Path, (sys.prefix, sys.base_prefix, stdlib)), *packages()}
    return sorted(found | {x.resolve() for x in found})


def packages() -> list[Path]:
    """Return the folders of installed packages."""
    names = ("purelib", "platlib")
    return sorted({Path(sysconfig.get_path(x)) for x in names})


PREFIX, HOME = "attn-sandbox-", "home"
"""Of a sandbox's folder; and where in it a notebook may write."""

_ATTN = Path(__file__).resolve().parents[2]

FILES = str.split(
    """
    arguments.py exercises/__init__.py exercises/case.py exercises/form.py
    exercises/generators.py exercises/guard.py exercises/kernel.py
    exercises/kernel_errors.py exercises/launches.py exercises/out_of_bounds.py
    exercises/outcome.py exercises/triton_compat.py grading/__init__.py
    grading/checks/__init__.py grading/checks/clock.py
    grading/checks/forbidden.py grading/checks/inputs.py
    grading/checks/objects.py grading/checks/result.py grading/checks/run.py
    grading/sandbox/__init__.py grading/sandbox/limits.py
    grading/sandbox/missing.py grading/sandbox/notebook.py
    grading/sandbox/requests.py grading/sandbox/server.py
    grading/sandbox/wire.py profiling/__init__.py profiling/calls.py
    profiling/compat.py profiling/kernel_traffic.py profiling/live_memory.py
    tracing.py
    """
)


def populate(folder: Path) -> Path:
    """Copy the sandbox's files into a folder; return that for notebooks'."""
    for name in FILES:
        target = folder / "attn" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ATTN / name, target)
    (folder / "attn" / "__init__.py").touch()
    (folder / HOME).mkdir()
    return folder / HOME


def answers() -> list[Path]:
    """Return the folders that hold right answers, or what checks them."""
    names = ("attn", "solutions", "notebooks", "tests", "book", "_build")
    places = [_ATTN.parent / name for name in (*names, ".git")]
    places += [x / name for x in packages() for name in ("attn", "solutions")]
    return [x for x in places if x.is_dir()]


def neutral(text: str) -> str:
    """Replace the machine's folders in a text.

    An error of PyTorch's may name the file that raised it. That keeps
    messages plain, and alike in two runs; it is no boundary.
    """
    pattern, names = _places()
    return pattern.sub(lambda found: names.get(found[0], "<sandbox>"), text)


@cache
def _places() -> tuple[re.Pattern[str], dict[str, str]]:
    names = {Path(os.path.expanduser("~")): "<home>", _ATTN.parent: "<book>"}
    names |= dict.fromkeys([*packages(), *pythons()], "<python>")
    texts = {str(x): name for x, name in names.items() if x not in EVERYWHERE}
    longest_first = sorted(texts, key=len, reverse=True)
    own = re.escape(str(Path(tempfile.gettempdir(), PREFIX))) + r"\w+"
    return re.compile("|".join([own, *map(re.escape, longest_first)])), texts


#: Folders whose names tell nothing.
EVERYWHERE = {*map(Path, ("/", "/usr", "/usr/local", "/tmp", "/home"))}
