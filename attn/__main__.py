"""``python -m attn``: what the Makefile calls.

Commands: ``lab [FOLDER]`` fills a learner's workspace and opens JupyterLab
there (``--copy-only`` does not open it), ``refresh [NOTEBOOK…]`` re-runs
chapters and stores their outputs, ``solve FOLDER`` writes the solved
chapters, ``teeth [ID…]`` prints how many wrong answers the checks
catch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attn")
    commands = parser.add_subparsers(dest="command", required=True)
    lab = commands.add_parser("lab", help="copy chapters into a workspace")
    lab.add_argument("folder", type=Path, nargs="?", default=Path("workspace"))
    lab.add_argument("--port", type=int, default=8888)
    lab.add_argument("--copy-only", action="store_true")
    again = commands.add_parser("refresh", help="re-run and store outputs")
    again.add_argument("notebooks", type=Path, nargs="*")
    solve = commands.add_parser("solve", help="write the solved chapters")
    solve.add_argument("folder", type=Path)
    teeth = commands.add_parser("teeth", help="mutation-test the checks")
    teeth.add_argument("ids", nargs="*", help="exercises; all by default")
    given = parser.parse_args(words)
    try:
        return {
            "lab": _lab,
            "refresh": _refresh,
            "solve": _solve,
            "teeth": _teeth,
        }[given.command](given)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def _lab(given: argparse.Namespace) -> int:
    from attn.grading import workspace

    print("\n".join(workspace.fill(given.folder)), flush=True)
    if given.copy_only:
        return 0
    command = [sys.executable, "-m", "jupyterlab", f"--port={given.port}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container
        command.append("--allow-root")
    return subprocess.run(command, cwd=given.folder, check=False).returncode


def _refresh(given: argparse.Namespace) -> int:
    from attn.grading import notebooks

    status = 0
    for path in given.notebooks or notebooks.pristine():
        try:
            notebooks.refresh(path)
            print(f"{path.name}: refreshed")
        except notebooks.Edited as error:
            print(error, file=sys.stderr)
            status = 1
    return status


def _solve(given: argparse.Namespace) -> int:
    from attn.grading import notebooks

    given.folder.mkdir(parents=True, exist_ok=True)
    for path in notebooks.pristine():
        target = given.folder / path.name
        if target.exists():
            raise FileExistsError(
                f"{target} is there already: it is not touched"
            )
        notebooks.write(notebooks.solved(notebooks.read(path)), target)
        print(target)
    return 0


def _teeth(given: argparse.Namespace) -> int:
    from attn.exercises.spec import find
    from attn.grading.mutation_testing import mutation_score, table

    scores = [mutation_score(find(x)) for x in given.ids]
    print(table(scores or None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
