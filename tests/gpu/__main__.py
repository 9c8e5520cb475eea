"""``python -m tests.gpu``: check, tune and time the kernels on a GPU.

``run`` writes a JSON file and prints its tables; ``show FILE`` prints the
tables of a file. The exit code is 1 when a kernel is wrong, 0 otherwise, also
without a GPU.
"""

import argparse
import os
from pathlib import Path

import torch

from attn.bench import results


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.gpu", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run all stages, write JSON")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--budget", type=float, help="seconds until it stops")
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="small sizes, on any machine: the times mean nothing",
    )
    show = commands.add_parser("show", help="print a file's tables")
    show.add_argument("file", type=Path)
    args = parser.parse_args(arguments)
    if args.command == "show":
        _show(args.file)
        return 0
    return _run(args.out, args.budget, args.dry_run)


def _run(path: Path, budget: float | None, dry: bool) -> int:
    if not torch.cuda.is_available():
        if not dry:
            print(f"torch {torch.__version__} finds no GPU: nothing measured")
            return 0
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before its import
    from tests.gpu import session

    code = session.measure(path, budget or session.BUDGET, dry)
    _show(path)
    print(f"written: {path}")
    return code


def _show(path: Path) -> None:
    try:
        from tests.gpu import report
    except ImportError as error:  # a wrong kernel is what exit code 1 means
        print(f"no tables here: {error}")
    else:
        report.show(results.load(path))


if __name__ == "__main__":
    raise SystemExit(main())
