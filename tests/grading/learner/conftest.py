"""A learner's notebook: its namespace, its folder, its progress."""

import pytest
import torch

from attn.grading.learner import cards, session

RIGHT = """
def softmax(x, dim=-1):
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
"""


@pytest.fixture
def learner(tmp_path, monkeypatch, capsys):
    """Run cells in a namespace and a folder of their own, with progress."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cards, "is_enabled", lambda: True)
    session._last.clear()
    session._hints_shown.clear()
    namespace = {"torch": torch, "__name__": "__main__"}

    def run(source):
        exec(compile(source, "<cell>", "exec"), namespace)

    def check(exercise_id="sdp-softmax"):
        """Return what a check prints, and what it writes on stderr."""
        capsys.readouterr()
        run(f"check({exercise_id!r})")
        return capsys.readouterr()

    run("from attn.grading import check, hint, progress, reset, solution")
    run.namespace, run.check = namespace, check
    return run
