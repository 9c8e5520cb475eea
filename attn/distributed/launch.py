"""Start processes that work together, from a notebook or a script.

Each rank is a process of its own. They meet through a file, not a port, and
talk over the loopback interface. A rank that fails, dies or lags is named.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from attn import arguments
from attn.distributed.serve import serve
from attn.distributed.watch import Rank, collect


def launch(
    fn: Callable[..., Any],
    world_size: int,
    *args: Any,
    timeout: float = 30.0,
    start_method: str = "fork",
) -> list[Any]:
    """Call ``fn(rank, *args)`` in ``world_size`` processes that can talk.

    Inside it, ``torch.distributed`` is initialised (gloo) and PyTorch has
    one thread. With ``"fork"`` a rank starts in a hundredth of a second with
    all that the caller has imported and defined, the function of a
    notebook's cell included, and with the caller's random state. What ranks
    print appears when all have ended, in the order of their numbers.

    Args:
        fn: the work of one rank.
        world_size: number of ranks, at least 1.
        args: further arguments of ``fn``, the same for every rank.
        timeout: seconds after their start in which all ranks must return;
            then those that lag are named, and all are ended.
        start_method: ``"fork"``; or ``"spawn"``, which takes seconds, and
            sends each rank ``fn`` and what it uses, by cloudpickle; without
            that package, ``fn`` must be a function of a module. Elsewhere
            than on Linux, where a fork is unsafe, it is always ``"spawn"``.
            So it must be where PyTorch has a GPU and the caller has computed
            a gradient: autograd refuses to run in its forks.

    Returns:
        The results of ``fn``, in the order of the ranks.

    Raises:
        RankError: a rank raised, died or did not return in time. The message
            names it; no process is left.
        TypeError, ValueError, RuntimeError: an argument is wrong, or the
            caller is itself in a process group.

    Example:
        >>> import torch.distributed as dist
        >>> def work(rank, start):
        ...     total = torch.tensor(start + rank)
        ...     dist.all_reduce(total)  # the sum over all ranks
        ...     return total.item()
        >>> attn.distributed.launch(work, 3, 10)
        [33, 33, 33]

    Source: ``torch.multiprocessing.start_processes``, which neither returns
    results nor ends ranks that wait for each other.
    """
    start_method = _check(fn, world_size, timeout, start_method)
    work = (fn, args) if start_method == "fork" else _pickled(fn, args)
    context: Any = multiprocessing.get_context(start_method)
    with tempfile.TemporaryDirectory(prefix="attn-ranks-") as folder:
        store, ranks = os.path.join(folder, "store"), []
        try:
            for rank in range(world_size):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=serve,
                    args=(theirs, work, rank, world_size, store, timeout),
                    name=f"rank {rank}",
                    daemon=True,
                )
                with warnings.catch_warnings():
                    # Python 3.12 warns of a fork beside threads; a child
                    # here takes one thread before it does anything else.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                ranks.append(Rank(rank, process, ours))
            return collect(ranks, timeout)
        finally:
            for one in ranks:
                one.process.kill()
            for one in ranks:
                one.process.join()
                one.pipe.close()
                one.process.close()


def _check(
    fn: Callable[..., Any], world_size: int, timeout: float, start_method: str
) -> str:
    """Validate the arguments of ``launch``; return the way to start."""
    arguments.function("fn", fn, " fn(rank, *args)")
    arguments.count("world_size", world_size)
    arguments.positive("timeout", timeout)
    arguments.choice("start_method", start_method, ("fork", "spawn"))
    if not dist.is_available():
        raise RuntimeError("this PyTorch is built without torch.distributed")
    if dist.is_initialized():
        raise RuntimeError(
            "launch must be called outside a process group; this process is "
            f"rank {dist.get_rank()} of one: call fn itself, or "
            "torch.distributed.destroy_process_group() first"
        )
    if sys.platform != "linux":
        start_method = "spawn"
    return start_method


def _pickled(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """Pickle the work for a new process, what a cell defines by value."""
    try:
        import cloudpickle
    except ImportError:
        if _is_importable(fn):
            return pickle.dumps((fn, args))
        raise ValueError(
            "fn must be a function of a module where ranks start by spawn; "
            f"got {getattr(fn, '__qualname__', fn)!r}, defined in a cell or "
            "in another function: pip install cloudpickle, which sends it, "
            "or write it to a file beside the notebook and import it"
        ) from None
    return cloudpickle.dumps((fn, args))


def _is_importable(fn: Callable[..., Any]) -> bool:
    """Return whether a new process can find a function by its name."""
    name = getattr(fn, "__qualname__", "<locals>")
    module = sys.modules.get(getattr(fn, "__module__", ""))
    if module is None or "<" in name:
        return False
    return module.__name__ != "__main__" or hasattr(module, "__file__")
