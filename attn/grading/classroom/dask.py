"""Grade submissions on a Dask cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from attn.grading.classroom.pools import Start


@contextmanager
def cluster(address: str, _jobs: int) -> Iterator[tuple[Start, int]]:
    """Start an executor for each worker of a cluster.

    They and the scheduler need this version of the book, and the workers
    see the same files.

    Raises:
        ValueError: ``distributed`` is not installed, or there is no scheduler
            at the address, or it has no worker.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--dask must have the package distributed, which is not "
            "installed; install it with `pip install distributed`"
        ) from None
    place = address if "://" in address else f"tcp://{address}"
    try:  # a client that fails would hold the process up for minutes
        where = urlsplit(place)
        at = (where.hostname or "", where.port or 8786)
        socket.create_connection(at, 10.0).close()
    except (OSError, ValueError) as error:
        raise ValueError(
            "--dask must be the address of a running scheduler; got "
            f"{address!r} ({error})"
        ) from None

    with Client(place, set_as_default=False) as client:
        if not (workers := len(client.nthreads())):
            raise ValueError(
                f"--dask must name a cluster with workers; {address} has "
                f"none: start one with `dask worker {address}`"
            )
        yield partial(client.get_executor, pure=False), workers
