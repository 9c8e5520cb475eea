"""Mount folders in memory, and give up the right to mount.

In user namespaces of its own a process is as good as root, and could undo
what was made read-only. It gives that up before it runs a learner's code.
"""

from __future__ import annotations

import ctypes
import os

_NOSUID_NODEV = 0x2 | 0x4
_BOUND_DROP = 24  # prctl
_VERSION = 0x20080522  # of capset's header, for 64 bits


def own_folder(path: str, size: int) -> None:
    """Mount an empty file system in memory over a folder.

    Args:
        path: of the folder.
        size: bytes that its files may take, all together.

    Raises:
        OSError: the system does not let this process mount.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size},nr_inodes=10k,mode=700".encode()
    place = os.fsencode(path)
    if libc.mount(b"tmpfs", place, b"tmpfs", _NOSUID_NODEV, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def give_up() -> None:
    """Drop every capability, for this process and its children.

    Raises:
        OSError: some are left.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):  # those that do not exist are refused
        libc.prctl(_BOUND_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
