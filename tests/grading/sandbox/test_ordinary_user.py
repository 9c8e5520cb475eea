"""What is promised holds for an ordinary user, whatever the umask.

The tests of the sandbox run again, as a user who is not root: in a user
namespace, where this user has another number and no rights. Where that is
nested no further, bubblewrap does not work, and the grader refuses.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.marks import exhaustive_but

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


def run(place, *words, umask, folder):
    own = dict.fromkeys(("HOME", "TMPDIR"), str(folder))
    own = os.environ | own | {"PYTHONPATH": str(Path.cwd())}
    how = {"umask": umask, "env": own, "timeout": 300}
    return processes.run(*PLACES[place], *words, **how)


def needs(place, folder):
    tools = [x for x in ("unshare", "setpriv") if x in PLACES[place]]
    is_here = all(map(shutil.which, tools))
    if not is_here or run(place, "true", umask=0, folder=folder).returncode:
        pytest.skip(f"{place}: cannot be made on this machine")


@pytest.mark.parametrize("umask", exhaustive_but([0o077], [0o077, 0]))
@pytest.mark.parametrize("place", exhaustive_but([*PLACES][:1], PLACES))
def test_the_sandbox_keeps_its_promises(place, umask, tmp_path):
    needs(place, tmp_path)
    file = Path(__file__).with_name("test_sandbox.py")
    words = [sys.executable, "-m", "pytest", "-q", "-rA", str(file)]
    words += ["-p", "no:cacheprovider", "--basetemp", str(tmp_path / "t")]
    done = run(place, *words, umask=umask, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    found = r"^PASSED \S+::test_the_sandbox_runs_an_answer\[(\w+)\]"
    ran = re.findall(found, done.stdout, re.MULTILINE)
    assert "none" in ran
    assert place == "an ordinary user" or ran == ["none"]


def test_where_there_are_no_namespaces_the_grader_refuses(tmp_path):
    needs("a container", tmp_path)
    asks = "from attn.grading.sandbox.isolation import require\n"
    words = [sys.executable, "-c", f"{asks}require('bubblewrap')"]
    done = run("a container", *words, umask=0o022, folder=tmp_path)
    assert "bubblewrap must be allowed to make namespaces" in done.stderr
