"""What is promised holds for an ordinary user, whatever the umask.

The tests of the sandbox run again, as a user who is not root: in a user
namespace, where this user has another number and no rights. Where that is
nested no further, bubblewrap does not work, and the grader refuses.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="isolation needs Linux"
)
ORDINARY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
NO_RIGHTS = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]
NO_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
PLACES = {
    "an ordinary user": [*ORDINARY, "--"],
    "a container": [
        *[*ORDINARY, "--keep-caps", "--", "sh", "-c", NO_NAMESPACES, "sh"],
        *[*NO_RIGHTS, "--bounding-set=-all", "--"],
    ],
}


def run(place, *words, umask=0o022, folder=None):
    env = os.environ | {"PYTHONPATH": str(Path.cwd())}
    if folder:
        env |= {"HOME": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(
        [*PLACES[place], *words],
        capture_output=True,
        text=True,
        umask=umask,
        env=env,
        timeout=300,
    )


def needs(place):
    tools = [x for x in ("unshare", "setpriv") if x in PLACES[place]]
    if None in map(shutil.which, tools) or run(place, "true").returncode:
        pytest.skip(f"{place}: cannot be made on this machine")


@pytest.mark.parametrize(
    ("place", "umask"),
    [
        ("an ordinary user", 0o077),
        pytest.param("an ordinary user", 0, marks=pytest.mark.exhaustive),
        ("a container", 0o077),
        pytest.param("a container", 0, marks=pytest.mark.exhaustive),
    ],
)
def test_the_sandbox_keeps_its_promises(place, umask, tmp_path):
    needs(place)
    options = ["-p", "no:cacheprovider", "--basetemp", str(tmp_path / "t")]
    file = str(Path(__file__).with_name("test_sandbox.py"))
    done = run(
        place,
        *(sys.executable, "-m", "pytest", "-q", "-rA", *options, file),
        umask=umask,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    ran = {
        kind
        for kind in ("bubblewrap", "none")
        if f"PASSED {file}::test_the_sandbox_runs_an_answer[{kind}]".replace(
            str(Path.cwd()) + "/", ""
        )
        in done.stdout
    }
    assert "none" in ran
    assert place == "an ordinary user" or ran == {"none"}


def test_where_there_are_no_namespaces_the_grader_refuses(tmp_path):
    needs("a container")
    asks = "from attn.grading.sandbox.isolation import require\n"
    done = run(
        "a container",
        *(sys.executable, "-c", f"{asks}require('bubblewrap')"),
        folder=tmp_path,
    )
    assert "bubblewrap must be allowed to make namespaces" in done.stderr
