"""Confine the calling process: namespaces of its own, and limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import socket
import sys
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
#: Namespaces of mounts, names, messages, users, processes and networks.
_SPACES = 0x20000 | 0xC000000 | 0x70000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_NO_RIGHTS = 65534  # a user and a group that own no file
_CAPSET_VERSION = 0x20080522
_SET_CHILD_SUBREAPER, _SET_DUMPABLE, _SET_NO_NEW_PRIVS = 36, 4, 38


def apply(memory: int) -> None:
    """Set the limits of this process and its children, for good.

    Args:
        memory: bytes of address space beyond what the process has now.
    """
    own = 0
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        own = int(file.read().split()[0]) * resource.getpagesize()
    wanted = {
        resource.RLIMIT_CPU: 120,  # seconds
        resource.RLIMIT_AS: own + memory,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_NPROC: 64,  # in each namespace
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    for number, most in wanted.items():
        with contextlib.suppress(ValueError):  # a stricter one is set
            resource.setrlimit(number, (most, most))


def protect(is_hidden: bool = True) -> None:
    """Hide this process's memory from others of its user; adopt orphans."""
    if sys.platform == "linux":
        _LIBC.prctl(_SET_DUMPABLE, int(not is_hidden), 0, 0, 0)
        _LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_namespaces() -> bool:
    """Move into namespaces of this process's own; tell whether it worked.

    Nothing can be reached in that of the network, not even this process
    itself. The next child is the first process of a new process namespace:
    when it ends, all of its descendants do.
    """
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    if _LIBC.unshare(_SPACES):
        return False
    protect(False)  # else it may not name its user
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    protect()
    socket.sethostname("sandbox")  # in the namespace of its own
    return True


def own_mounts(home: str) -> None:
    """See its own processes alone, and write to its own memory alone.

    For the first process of namespaces that ``own_namespaces`` made. Then it
    drops every capability: in user namespaces of its own it is as good as
    root.

    Args:
        home: where it may write, beside the folder of shared memory.
    """
    # Nothing that is mounted can be written: mount_setattr, of Linux 5.12.
    read_only = (ctypes.c_uint64 * 4)(1)
    _LIBC.syscall(442, -100, b"/", 0x8000, read_only, 32)
    safe, closed = _NOSUID | _NODEV, _NOEXEC | _RDONLY
    _LIBC.mount(b"proc", b"/proc", b"proc", safe | closed, None)
    for path, size in ((home, 16 << 20), ("/dev/shm", 64 << 20)):
        options = f"size={size},mode=1777".encode()
        _LIBC.mount(b"tmpfs", path.encode(), b"tmpfs", safe, options)
    header = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _LIBC.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capabilities are left")


def drop_root() -> None:
    """Give up root's rights, where a user without rights can read Python."""
    if os.geteuid() != 0:
        return
    os.seteuid(_NO_RIGHTS)
    can_read = os.access(os.__file__, os.R_OK, effective_ids=True)
    os.seteuid(0)
    if can_read:
        os.setgroups([])
        os.setgid(_NO_RIGHTS)
        os.setuid(_NO_RIGHTS)


def end_descendants() -> None:
    """Kill all that this process has adopted, until nothing is left."""
    import psutil

    for _ in range(100):
        left = psutil.Process().children(recursive=True)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not left:
            return
        psutil.wait_procs(left, timeout=1)
