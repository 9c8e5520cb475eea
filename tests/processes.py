"""Other processes, and what they print."""

import subprocess
import sys
from pathlib import Path
from typing import Any

#: A process that comes to its end ends at once: to take PyTorch apart would be
#: a third of all the time of one that imports it.
_END = """
import os, sys
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def run(
    *command: str | Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command; return the process and its output."""
    return subprocess.run(command, capture_output=True, text=True, **options)


def run_python(
    code: str, *arguments: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own; return the process and its output.

    What it registers with ``atexit`` runs only if the code raises.
    """
    return run(sys.executable, "-c", code + _END, *arguments, **options)
