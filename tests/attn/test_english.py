"""The package uses the field's English: `make lint` says where it does not."""

import sys
from pathlib import Path

from tests.processes import run

LINT = Path(__file__).resolve().parents[2] / ".ci" / "english.py"
PLANTED = '''"""What a module is for."""

# fine: it stands for a call
TEXT = f"""the mask
stands here"""
'''


def lint(*files):
    done = run(sys.executable, LINT, *files)
    return done.returncode, done.stdout.splitlines()


def test_the_english_of_the_package_and_a_planted_fault(tmp_path):
    status, lines = lint()
    assert status == 0, "\n".join(lines)
    assert int(lines[-1].split()[0]) > 130  # files
    (tmp_path / "x.py").write_text(PLANTED)
    (tmp_path / "x.md").write_text("Who asks?\n\nEach row likewise.\n")
    status, lines = lint(tmp_path / "x.py", tmp_path / "x.md")
    assert status == 1
    assert [x.removeprefix(f"{tmp_path}/") for x in lines] == [
        "x.py:1: 'What': a docstring begins with a verb",
        "x.py:5: 'stands'",
        "x.md:3: 'likewise'",
        "2 files, 3 wordings",
    ]
    assert lint(tmp_path / "x.txt")[0] == 2
