"""Close processes off from the machine with bubblewrap.

It gives them no network, no other process, and of the files only what they
need, read-only. It works as an ordinary user, where the system allows it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
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
    """Raise unless processes can be isolated in this way.

    Args:
        kind: a key of ``KINDS``.

    Raises:
        ValueError: there is no such way, or bubblewrap does not work here.
    """
    if kind not in KINDS:
        raise ValueError(
            f"isolation must be one of {', '.join(KINDS)}; got {kind!r}"
        )
    if kind == "bubblewrap" and (complaint := _complaint()):
        raise ValueError(complaint)


def best() -> str:
    """Return a way for code of one's own: bubblewrap, where it works."""
    return "none" if _complaint() else "bubblewrap"


@cache
def _complaint() -> str:
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
        ran = subprocess.run(
            command([_program("true")]), capture_output=True, timeout=20
        )
    except subprocess.SubprocessError as error:
        said = str(error)
    else:
        if ran.returncode == 0:
            return ""
        said = ran.stderr.decode(errors="replace").strip()
    return (
        "bubblewrap must be allowed to make namespaces; it says "
        f"{said!r}: let your system's administrator allow it, {instead}"
    )


def command(
    argv: Sequence[str],
    *,
    shown: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
) -> list[str]:
    """Return the command that runs ``argv`` in bubblewrap.

    Args:
        argv: the command.
        shown: all that is seen, beside the system's libraries and Python.
        hidden: folders that are empty inside, and in memory.
    """
    words = [_program("bwrap"), "--unshare-all", "--hostname", "sandbox"]
    words += ["--die-with-parent", "--new-session"]
    words += ["--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    for path in [*map(Path, _SYSTEM), *pythons(), *shown]:
        words += ["--ro-bind-try", str(path), str(path)]
    folders = [path for path in hidden if path.is_dir()]
    for path in sorted({*folders, *map(_real, folders)}):
        words += ["--tmpfs", str(path)]
    return [*words, "--", *argv]


def _program(name: str) -> str:
    """Return the path of a program: inside there is no PATH of the user's."""
    return shutil.which(name) or name


_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/sbin"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/alternatives", "/etc/localtime", "/etc/mime.types"),
)


def pythons() -> list[Path]:
    """Return the folders that this Python and its packages lie in."""
    paths = sysconfig.get_paths()
    found = {Path(sys.prefix), Path(sys.base_prefix)}
    found |= {Path(paths[x]) for x in ("stdlib", "purelib", "platlib")}
    found |= {_real(x) for x in found}
    return sorted(found)


def packages() -> list[Path]:
    """Return the folders of installed packages."""
    paths = sysconfig.get_paths()
    return sorted({Path(paths[x]) for x in ("purelib", "platlib")})


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
