"""Judge answers as a browser does: its files alone, `torch` the stand-in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import attn
from attn.page import FILES

ATTN = Path(attn.__file__).parent
#: Reads answers, a line of JSON each, and writes a card for each.
JUDGE = """
import gzip, json, sys

sys.path.insert(0, sys.argv[1])
from attn.page.judge import check

heavy = {"numpy", "IPython", "attn.functional"} & {*sys.modules}
assert not heavy, heavy
assert sys.modules["torch"].__file__.startswith(sys.argv[1]), "the stand-in"
data = json.loads(gzip.decompress(open(sys.argv[2], "rb").read()))
for line in sys.stdin:
    print(json.dumps(check(data, json.loads(line))), file=sys.__stdout__)
"""


def browser_files(folder):
    """Copy what a browser gets into a folder, and return it."""
    for name in FILES:
        target = folder / "attn" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ATTN / name, target)
    (folder / "attn" / "__init__.py").touch()
    shutil.copytree(ATTN / "page" / "torch", folder / "torch")
    return folder


def cards(folder, file, sources):
    """Return the cards of answers, in a process with a browser's files."""
    run = subprocess.run(
        [sys.executable, "-I", "-c", JUDGE, folder, file],
        input="".join(json.dumps(x) + "\n" for x in sources),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]
