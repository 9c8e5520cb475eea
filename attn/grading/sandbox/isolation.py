"""Close processes off from the machine, with the best that it offers.

Three ways, the best first: bubblewrap; the kernel's namespaces, by util-linux;
limits alone. The first two have no network and no other processes, and show
a read-only file system without what is hidden. Each works as an ordinary
user, where the system allows it.
"""

from __future__ import annotations

import os
import shlex
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
        "what an answer needs, read-only"
    ),
    "namespaces": (
        "namespaces: no network, no other process, the book's answers hidden"
    ),
    "limits": (
        "limits only: on time, memory, processes and files; what else keeps "
        "an answer from the network and from this account's files may be "
        "rules inside Python, which are no boundary"
    ),
}
"""The ways, the best first, and how a report names them."""


@cache
def kind() -> str:
    """Return the best way that works; ``ATTN_ISOLATION`` may name another."""
    wanted = os.environ.get("ATTN_ISOLATION")
    if wanted and wanted not in KINDS:
        raise ValueError(
            f"ATTN_ISOLATION must be one of {', '.join(KINDS)}; got {wanted!r}"
        )
    names = list(KINDS)
    for name in names[names.index(wanted) if wanted else 0 : -1]:
        if _works(name):
            return name
    return names[-1]


def _works(name: str) -> bool:
    if sys.platform != "linux":
        return False
    tool = {"bubblewrap": "bwrap", "namespaces": "unshare"}[name]
    if shutil.which(tool) is None:
        return False
    try:
        argv = command([_program("true")], way=name)
        return (
            subprocess.run(argv, capture_output=True, timeout=20).returncode
            == 0
        )
    except (OSError, subprocess.SubprocessError):
        return False


def command(
    argv: Sequence[str],
    *,
    shown: Iterable[Path] | None = None,
    hidden: Iterable[Path] = (),
    way: str | None = None,
) -> list[str]:
    """Return the command that runs ``argv`` isolated.

    Args:
        argv: the command.
        shown: all that bubblewrap shows, beside the system's libraries and
            Python; None for the whole file system. Namespaces show all.
        hidden: folders that are empty inside.
        way: a key of ``KINDS``; None for the best.
    """
    way = way or kind()
    folders = [path for path in hidden if path.is_dir()]
    gone = sorted({*folders, *map(_real, folders)})
    if way == "bubblewrap":
        return [*_bubblewrap(shown), *_over(gone), "--", *argv]
    if way == "namespaces":
        mount = f"{shlex.quote(_program('mount'))} -t tmpfs tmpfs "
        mounts = [mount + shlex.quote(str(x)) for x in gone]
        script = " && ".join([*mounts, 'exec "$@"'])
        space = ["--user", "--map-root-user", "--net", "--pid", "--ipc"]
        space += ["--mount", "--fork", "--kill-child", "--mount-proc"]
        unshare, shell = _program("unshare"), _program("sh")
        return [unshare, *space, "--", shell, "-c", script, "sh", *argv]
    return [*argv]


def _program(name: str) -> str:
    """Return the path of a program: inside there is no PATH of the user's."""
    return shutil.which(name) or name


def _bubblewrap(shown: Iterable[Path] | None) -> list[str]:
    words = [_program("bwrap"), "--unshare-all", "--hostname", "sandbox"]
    words += ["--die-with-parent", "--new-session"]
    if shown is None:
        words += ["--ro-bind", "/", "/"]
        return [*words, "--proc", "/proc", "--dev", "/dev"]
    words += ["--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    for path in [*map(Path, _SYSTEM), *pythons(), *shown]:
        words += ["--ro-bind-try", str(path), str(path)]
    return words


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


def _over(folders: Iterable[Path]) -> list[str]:
    return [x for path in folders for x in ("--tmpfs", str(path))]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def require(wanted: str | None) -> None:
    """Refuse a machine on which answers cannot be isolated.

    Args:
        wanted: ``none`` where nothing is needed: a machine that is thrown
            away.

    Raises:
        ValueError: bubblewrap does not work.
    """
    if wanted == "none" or _works("bubblewrap"):
        return
    way = "install it (`apt install bubblewrap`)"
    if sys.platform != "linux":
        way = "run the container of book/classroom/Dockerfile"
    raise ValueError(f"answers must be isolated by bubblewrap: {way}")
