"""Confine the calling process: namespaces of its own, and limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from dataclasses import dataclass

_NEWNS, _NEWUTS, _NEWIPC = 0x20000, 0x4000000, 0x8000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_NO_RIGHTS = 65534  # a user and a group that own no file
_BOUND_DROP, _CAPSET_VERSION = 24, 0x20080522
_SET_CHILD_SUBREAPER, _SET_DUMPABLE, _SET_NO_NEW_PRIVS = 36, 4, 38


@dataclass(frozen=True)
class Limits:
    """Bound what one notebook may use.

    Args:
        seconds: of processor time; the clock on the wall is the caller's.
        memory: bytes of address space beyond what the process has now.
        file_size: bytes of a file.
        processes: of this user, where the system counts them for each
            namespace.
        files: that are open at a time.
    """

    seconds: int = 120
    memory: int = 4 << 30
    file_size: int = 64 << 20
    processes: int = 64
    files: int = 256

    def apply(self) -> None:
        """Set the limits of this process and its children, for good."""
        import resource

        own = _address_space() + self.memory
        wanted = {
            "CPU": (self.seconds, self.seconds + 5),
            "AS": (own, own),
            "FSIZE": (self.file_size, self.file_size),
            "NPROC": (self.processes, self.processes),
            "NOFILE": (self.files, self.files),
            "CORE": (0, 0),
        }
        for name, (soft, hard) in wanted.items():
            number = getattr(resource, f"RLIMIT_{name}", None)
            if number is None:
                continue
            _, most = resource.getrlimit(number)
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(number, (soft, hard))


def own_namespaces() -> bool:
    """Move into namespaces of this process's own; tell whether it worked.

    Nothing can be reached in that of the network, not even this process
    itself. The next child is the first process of a new process namespace:
    when it ends, all of its descendants do.
    """
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = _NEWUSER | _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    if libc.unshare(spaces):
        return False
    try:
        with contextlib.suppress(FileNotFoundError):
            _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        socket.sethostname("sandbox")  # in the namespace of its own
    except OSError:
        return False
    return True


def read_only() -> None:
    """Make all that is mounted read-only, and see its own processes alone.

    For the first process of namespaces that ``own_namespaces`` made.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    private, remount, unsafe = 0x44000, 0x1020 | 0x1, 0x2 | 0x4 | 0x8
    libc.mount(None, b"/", None, private, None)
    libc.mount(b"proc", b"/proc", b"proc", unsafe, None)
    with open("/proc/self/mounts", "rb") as file:
        places = [line.split()[1] for line in file]
    for place in places:
        for flags in (0, 0x2, unsafe & ~0x8, unsafe):  # those it must keep
            if not libc.mount(None, place, None, remount | flags, None):
                break


def own_folder(path: str, size: int) -> None:
    """Lay an empty folder, in memory and of a limited size, over another."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size},mode=1777".encode()
    libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0x2 | 0x4, options)


def drop_capabilities() -> None:
    """Drop every capability, for this process and its children.

    In user namespaces of its own a process is as good as root, and could undo
    what was made read-only.

    Raises:
        OSError: some are left.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):  # those that do not exist are refused
        libc.prctl(_BOUND_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def drop_root() -> None:
    """Give up root's rights, where a user without rights can read Python."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    os.seteuid(_NO_RIGHTS)
    can_read = os.access(os.__file__, os.R_OK, effective_ids=True)
    os.seteuid(0)
    if can_read:
        os.setgroups([])
        os.setgid(_NO_RIGHTS)
        os.setuid(_NO_RIGHTS)


def hide_memory() -> None:
    """Keep other processes of this user from reading this one's memory."""
    _prctl(_SET_DUMPABLE, 0)
    _prctl(_SET_NO_NEW_PRIVS, 1)


def show_memory() -> None:
    """Undo ``hide_memory``: only then may a process name its user."""
    _prctl(_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def end_descendants() -> None:
    """Kill all that this process has adopted, until nothing is left."""
    import psutil

    for _ in range(100):
        left = psutil.Process().children(recursive=True)
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                group = os.getpgid(process.pid)
                if group != os.getpgrp():
                    os.killpg(group, signal.SIGKILL)  # all that it forks too
                process.kill()
        psutil.wait_procs(left, timeout=1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError):
        return 0
