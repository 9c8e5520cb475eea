"""Processes that work together, and how each of their failures is told."""

import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from attn.distributed import RankError, exchange, launch, ring_attention
from tests.attn import ranks
from tests.processes import run

pytestmark = pytest.mark.skipif(
    not dist.is_available(), reason="PyTorch without torch.distributed"
)
x = torch.zeros(1, 1, 4, 4)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert multiprocessing.active_children() == []
    assert [*tmp_path.iterdir()] == []


def test_results_and_what_is_printed_come_in_the_order_of_ranks(capsys):
    def work(rank, word):
        time.sleep(0.1 * (2 - rank))  # the last is first to end
        print(word, rank)
        return rank, dist.get_world_size(), torch.full((2,), rank)

    found = launch(work, 3, "rank")
    assert capsys.readouterr().out == "rank 0\nrank 1\nrank 2\n"
    assert [r for r, _, _ in found] == [0, 1, 2]
    assert all(world == 3 and (x == r).all() for r, world, x in found)


def test_a_caller_that_has_used_threads_can_fork():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        wide = torch.randn(512, 512, requires_grad=True)
        (wide @ wide).sum().backward()
        assert launch(matmul, 2) == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def matmul(rank):
    wide = torch.randn(512, 512, requires_grad=True)
    (wide @ wide).sum().backward()
    return torch.get_num_threads()


def test_ranks_start_with_the_random_state_of_the_caller():
    state = torch.get_rng_state()
    assert len({*launch(lambda rank: torch.rand(()).item(), 2)}) == 1
    assert torch.equal(torch.get_rng_state(), state)


def raises(rank):
    if rank == 1:
        raise ValueError("no such key")
    ring_attention(x, x, x)


def is_killed(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ring_attention(x, x, x)


def exits(rank):
    if rank == 1:
        os._exit(3)
    ring_attention(x, x, x)


def returns_a_lambda(rank):
    return (lambda: 0) if rank == 1 else 0


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (raises, "rank 1 of 3 raised ValueError: no such key"),
        (is_killed, "rank 1 of 3 was killed by SIGKILL"),
        (exits, "rank 1 of 3 exited with status 3 before it returned"),
        (returns_a_lambda, "rank 1 of 3 raised TypeError: a rank must re"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_rank_that_fails_is_named_long_before_the_limit(work, text):
    start = time.monotonic()
    with pytest.raises(RankError, match=text) as failure:
        launch(work, 3, timeout=100)
    assert failure.value.rank == 1
    assert time.monotonic() - start < 50


def test_the_traceback_of_the_rank_is_the_cause():
    with pytest.raises(RankError) as failure:
        launch(raises, 2)
    assert "in raises" in str(failure.value.__cause__)


def lags(rank):
    if rank == 1:
        time.sleep(100)
    ring_attention(x, x, x)


def leaves(rank):
    if rank != 2:
        ring_attention(x, x, x)


def both_receive(rank):
    dist.recv(torch.zeros(2), 1 - rank)


@pytest.mark.parametrize(
    ("work", "world", "blamed", "text"),
    [
        (lags, 3, 1, "rank 1 has not returned within 3 s: in lags, line "
         r"\d+; ranks 0 and 2 wait for it"),
        (leaves, 3, 2, "ranks 0 and 1 still wait after 3 s: rank 0 in leaves"
         r", line \d+, rank 1 in leaves, line \d+; rank 2 has returned"),
        (both_receive, 2, 0, "ranks 0 and 1 still wait after 3 s: .*; no "
         "rank sends what is awaited"),
    ],
    ids=["lags", "leaves", "both receive"],
)  # fmt: skip
def test_at_the_limit_the_rank_awaited_is_named(work, world, blamed, text):
    with pytest.raises(RankError, match=f"^{text}$") as failure:
        launch(work, world, timeout=3)
    assert failure.value.rank == blamed


def test_an_error_of_gloo_names_the_rank_that_was_lost(monkeypatch):
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    text = "^rank 0 lost rank 2: Connection"
    with pytest.raises(RuntimeError, match=text), exchange.naming(2):
        raise RuntimeError("Connection closed by peer [127.0.0.1]:5")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((3, 2), TypeError, "fn must be a function"),
        ((print, 0), ValueError, "world_size must be an int, at least 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        launch(*arguments)
    with pytest.raises(ValueError, match="timeout must be positive"):
        launch(print, 1, timeout=0)
    with pytest.raises(
        ValueError, match="must be one of .'fork', 'spawn'.; got"
    ):
        launch(print, 1, start_method="thread")


def test_what_a_cell_defines_needs_cloudpickle_to_be_sent(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    text = "^fn must be a function of a module where ranks start by spawn"
    with pytest.raises(ValueError, match=text):
        launch(lambda rank: rank, 1, start_method="spawn")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match=text):
        launch(lambda rank: rank, 1)


def test_ranks_end_with_a_caller_that_is_killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")

    def work(rank):
        (folder / f"{os.getpid()}").touch()
        time.sleep(100)

    context = multiprocessing.get_context("fork")
    caller = context.Process(target=launch, args=(work, 2))
    caller.start()
    until(lambda: len([*folder.iterdir()]) == 2)
    caller.kill()
    caller.join()
    until(lambda: not any(runs(x.name) for x in folder.iterdir()))


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def runs(process):
    """Return whether a process runs: it may be dead, and not yet reaped."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in "ZX"


def test_a_rank_launches_no_ranks():
    with pytest.raises(RankError, match="launch must be called outside a pr"):
        launch(lambda rank: launch(matmul, 2), 1)


@pytest.mark.exhaustive
def test_a_function_of_a_module_can_be_spawned():
    found = launch(ranks.present, 2, start_method="spawn", timeout=200)
    assert found == [(0, 2, 1), (1, 2, 1)]


@pytest.mark.exhaustive
def test_a_function_of_a_cell_is_sent_with_all_that_it_uses(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    offset = torch.tensor(5)
    found = launch(lambda rank: offset + rank, 2, timeout=200)
    assert [x.item() for x in found] == [5, 6]


@pytest.mark.exhaustive
def test_the_same_work_runs_under_torchrun(tmp_path):
    code = (
        "import torch, torch.distributed as dist\n"
        "torch.set_num_threads(1)\n"
        "dist.init_process_group('gloo', init_method='file://%s',\n"
        "    rank=int(__import__('os').environ['RANK']), world_size=2)\n"
        "from tests.attn import ranks\n"
        "case = ('ring', 4, 2, 'zigzag', 'causal')\n"
        "errors = ranks.errors(dist.get_rank(), [case])\n"
        "assert all(error < 1e-12 for error in errors)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "work.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(code % os.path.join(folder, "store"))
        done = run(
            sys.executable, "-m", "torch.distributed.run",
            "--standalone", "--nproc-per-node=2", script, timeout=200,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
