"""Commands of the book: ``attn``, and ``python -m attn`` in the Makefile.

``lab [FOLDER]`` fills a learner's workspace and opens JupyterLab there, at the
start notebook (``--copy-only`` does not open it), ``check FILE [ID…]`` judges
the answers in a notebook or a Python file, ``progress [FOLDER]`` prints a
learner's progress, ``grade PATH…`` grades a notebook or a class. ``solve
FOLDER [CHAPTER…]`` writes the teacher's version of chapters, as nbgrader's
``source/`` has it, ``teeth [ID…]`` prints how many wrong answers the checks
catch; of an exercise that is named, also the kind of input that exposes each;
``refresh [NOTEBOOK…]`` runs chapters again and stores their outputs.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` looks in the current folder first: a submission may be there.
    del sys.path[0]

import argparse
import contextlib
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from attn.data.book import install, root, state_package
from attn.grading.classroom import command

#: JupyterLab fetches no news, and looks for no newer version of itself or of
#: extensions: a chapter needs nothing from outside.
_STAY_INSIDE = [
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
]
#: Nor is there a question about them: settings, overridden by a learner's own.
_SETTINGS = Path(__file__).parent / "grading" / "learner" / "jupyter"


def main(words: list[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    parser = argparse.ArgumentParser(prog="attn")
    parser.set_defaults(run=lambda args: parser.print_help())
    commands = parser.add_subparsers(dest="command")
    lab = commands.add_parser("lab", help="copy chapters into a workspace")
    lab.add_argument("folder", type=Path, nargs="?", default=Path("workspace"))
    lab.add_argument("--port", type=int, default=8888)
    lab.add_argument("--copy-only", action="store_true")
    lab.set_defaults(run=_lab)
    check = commands.add_parser("check", help="judge the answers in a file")
    check.add_argument("file", type=Path, help="a notebook or a .py")
    check.add_argument("ids", nargs="*", help="exercises; all by default")
    check.set_defaults(run=_check)
    progress = commands.add_parser("progress", help="print your progress")
    progress.add_argument(
        "folder", type=Path, nargs="?", default=Path("workspace")
    )
    progress.set_defaults(run=_progress)
    again = commands.add_parser("refresh", help="run again, store outputs")
    again.add_argument("notebooks", type=Path, nargs="*")
    again.set_defaults(run=_refresh)
    solve = commands.add_parser("solve", help="write nbgrader's source")
    solve.add_argument("folder", type=Path)
    solve.add_argument("chapters", nargs="*", help="05_gqa …; all by default")
    solve.set_defaults(run=_solve)
    teeth = commands.add_parser("teeth", help="mutation-test the checks")
    teeth.add_argument("ids", nargs="*", help="exercises; all by default")
    teeth.set_defaults(run=_teeth)
    command.add_arguments(commands)
    args = parser.parse_args(words)
    try:
        return args.run(args) or 0
    except ModuleNotFoundError as error:
        if (error.name or "attn").partition(".")[0] == "attn":
            raise
        print(
            f"attn {args.command}: {error.name} is not installed; what the "
            f"commands need comes with `{install('learn,grade')}`",
            file=sys.stderr,
        )
        return 2
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def _lab(args: argparse.Namespace) -> int:
    from attn.grading.learner import start_page, workspace

    print("\n".join(workspace.fill(args.folder)), flush=True)
    if args.copy_only:
        return 0
    if find_spec("jupyterlab") is None:
        print(
            "JupyterLab is not installed. Run `pip install jupyterlab` (with "
            "uv: `uv pip install jupyterlab`), and this command again; or "
            f"open {args.folder} in another editor of notebooks.",
            file=sys.stderr,
        )
        return 1
    command = [sys.executable, "-m", "jupyterlab", f"--port={args.port}"]
    command += _STAY_INSIDE
    ours = _SETTINGS / "labextensions"
    command.append(f"--LabApp.extra_labextensions_path={ours}")
    command.append(f"--LabApp.default_url=/lab/tree/{start_page.NAME}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container
        command.append("--allow-root")
    paths = [str(_SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH")]
    known = os.pathsep.join(path for path in paths if path)
    return subprocess.run(
        command,
        cwd=args.folder,
        env={
            "ATTN_PYTHONSTARTUP": os.environ.get("PYTHONSTARTUP", ""),
            **os.environ,
            "JUPYTER_CONFIG_PATH": known,
            "PYTHONSTARTUP": str(_SETTINGS / "startup.py"),
        },
        check=False,
    ).returncode


def _check(args: argparse.Namespace) -> int:
    from attn.grading.classroom.check_file import check

    return check(args.file, args.ids)


def _progress(args: argparse.Namespace) -> int:
    from attn.grading.learner import progress

    if not args.folder.is_dir():
        raise ValueError(
            f"folder must be a workspace, as `attn lab` makes it; got "
            f"{args.folder}"
        )
    with contextlib.chdir(args.folder):  # where progress is kept
        print(progress.Progress(progress.load()))
    return 0


def _refresh(args: argparse.Namespace) -> int:
    from attn.exercises.kill_rate import state_kill_rate
    from attn.publishing import notebooks

    status = 0
    for path in args.notebooks or notebooks.pristine():
        try:
            notebooks.refresh(path)
            print(f"{path.name}: refreshed")
        except notebooks.Edited as error:
            print(error, file=sys.stderr)
            status = 1
    readme = root() / "README.md"
    if readme.exists():  # not in a wheel
        state_kill_rate(readme)
        state_package(readme)
    return status


def _solve(args: argparse.Namespace) -> int:
    from attn.grading.classroom import assignment

    for path in assignment.write(args.folder, args.chapters):
        print(path)
    return 0


def _teeth(args: argparse.Namespace) -> int:
    from attn.exercises.spec import every_exercise, find
    from attn.grading.diagnosis.judge import exposures, mutation_score, table

    exercises = map(find, args.ids) if args.ids else every_exercise()
    scores = [mutation_score(x) for x in exercises]
    print(table(scores))
    if args.ids:
        print(*map(exposures, scores), sep="\n")
    return 0


def command_line() -> None:
    """Run one command, and exit with its status."""
    status = main()
    if sys.argv[1:2] == ["check"]:  # to free PyTorch's objects takes 0.4 s
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command_line()
