"""Find the web address of the repository that this checkout is from.

It comes from GitHub's environment variables, or from the remote ``origin``
when that is a web address.
"""

import os
import re
import shlex
from subprocess import getoutput

PUBLIC = re.compile(
    r"""(https?://) (?:[^/@]*@)?             # user and password
        ((?!localhost | [\d.:]+/ | \[)       # a host with a name
        [^/@]+ /[^/]+ /.+?) (?:\.git)? /*    # owner and name
    """,
    re.VERBOSE,
)


def address(folder: str | os.PathLike[str]) -> str:
    """Return the repository's web address, or an empty string."""
    server = os.environ.get("GITHUB_SERVER_URL", "")
    name = os.environ.get("GITHUB_REPOSITORY", "")
    if server and name:
        return web_address(f"{server}/{name}")
    git = ["git", "-C", os.fspath(folder), "remote", "get-url", "origin"]
    return web_address(getoutput(shlex.join(git)))  # also of what went wrong


def source(folder: str | os.PathLike[str]) -> str:
    """Return what a notebook installs attn from: the tag that is published.

    Without a tag it is the newest commit; without an address an empty string.
    """
    url = address(folder)
    if url and os.environ.get("GITHUB_REF_TYPE") == "tag":
        url += f"@{os.environ['GITHUB_REF_NAME']}"
    return url


def web_address(url: str) -> str:
    """Return a public ``url`` without user, password and ``.git``."""
    public = PUBLIC.fullmatch(url)
    return public[1] + public[2] if public else ""
