"""Give up the right to mount.

In user namespaces of its own a process is as good as root, and could undo
what was made read-only. It gives that up before it runs a learner's code.
"""

from __future__ import annotations

import ctypes
import os

_BOUND_DROP = 24  # prctl
_VERSION = 0x20080522  # of capset's header, for 64 bits


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
