"""The wheel carries what a workspace is made of: no checkout is needed."""

import os
import subprocess
import sys
import zipfile

import pytest

from attn.data.book import root
from attn.grading.learner import start_page
from attn.publishing import notebooks


@pytest.mark.exhaustive
def test_a_workspace_made_of_a_wheel_is_that_of_a_checkout(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run([*build, "-d", str(tmp_path)], cwd=root(), check=True)
    [wheel] = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    for name, place in (("wheel", tmp_path / "unpacked"), ("here", root())):
        subprocess.run(
            [sys.executable, "-P", "-m", "attn", "lab", name, "--copy-only"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
        )
    made = sorted(path.name for path in (tmp_path / "wheel").iterdir())
    assert start_page.NAME in made and len(made) > len(notebooks.pristine())
    for name in made:
        ours = (tmp_path / "here" / name).read_bytes()
        assert (tmp_path / "wheel" / name).read_bytes() == ours, name
