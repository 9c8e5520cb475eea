"""Other processes of Python, and what they print."""

import subprocess
import sys
from typing import Any


def run_python(
    code: str, *arguments: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own; return the process and its output."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)
