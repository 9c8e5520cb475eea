"""What every test shares, and the kill rate at the end of a run."""

import atexit
import gc
import os
import zlib

import pytest

from book.browser import chromium, lacking

# Tests run in several processes as it is: none of them needs a pool of its own
# to compile in, of which each process imports torch.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


#: Files whose tests take seconds each.
LONG = (
    "test_score.py",
    "test_museum.py",
    "test_kernel_report.py",
    "test_capabilities.py",
    "test_paper.py",
    "test_nbgrader.py",
    "test_teachers_page.py",
    "test_flex.py",
    "test_speed.py",
    "test_recipe.py",
    "test_gpu.py",
    "test_bench.py",
)


@pytest.fixture(autouse=True)
def quick_interpreter():
    """Patch Triton's language once in a test, not at every launch."""
    from attn.profiling.compat import language_kept_patched

    with language_kept_patched():
        yield


def headless():
    """Headless Chromium of the system; skipped where there is none."""
    if said := lacking():
        pytest.skip(said)
    with chromium() as running:
        yield running


# Not for longer than a file: while it runs, nothing can run an event loop.
browser = pytest.fixture(scope="module", name="browser")(headless)


def pytest_configure(config):
    """Prepare a process that runs tests."""
    is_worker = hasattr(config, "workerinput")
    if not is_worker and config.getoption("tx", None):
        return  # its workers run them: it needs no torch
    # A worker ends at once: to free all its objects, one by one, would take
    # ten seconds. What is registered first runs last.
    if is_worker:
        atexit.register(os._exit, 0)
    import torch

    # Kernels run in Triton's interpreter where there is no GPU. Triton reads
    # this when it is first imported.
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_modifyitems(items):
    """Long tests first: the short ones fill the gaps between workers.

    Those of the book last in `make test`, which builds it meanwhile.
    """
    _thin(items)
    # Taken, not read: a test that runs pytest itself runs all that it names.
    if part := os.environ.pop("PART", None):
        number, parts = map(int, part.split("/"))
        items[:] = [x for x in items if _part(x, parts) == number - 1]
    items.sort(
        key=lambda item: (
            item.path.parent.name == "book"
            and "exhaustive" not in item.keywords,
            item.path.name not in LONG,
        )
    )


def _thin(items):
    """Keep both ends of a grid for `make test`, and leave it the middle.

    A test marked `grid` has cases of one claim, in order: what the first and
    the last hold, `make test-all` repeats with those between them.
    """
    grids = {}
    for item in items:
        if "grid" in item.keywords and "exhaustive" not in item.keywords:
            grids.setdefault((item.path, item.originalname), []).append(item)
    for cases in grids.values():
        for item in cases[1:-1]:
            item.add_marker(pytest.mark.exhaustive)


def _part(item, parts):
    """Return the part of a divided run that a test belongs to.

    What a file does with one page or one chapter stays together.
    """
    call = getattr(item, "callspec", None)
    what = call.id if call else item.name
    return zlib.crc32(f"{item.path.name} {what}".encode()) % parts


def pytest_collection_finish():
    """Let what all tests import be looked through no more, and the rest less.

    Parsed pages are millions of small objects; no test needs them gone early.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_terminal_summary(terminalreporter):
    """Print how many wrong answers the checks caught (tests/exercises)."""
    reports = [
        r
        for kind in ("passed", "failed")
        for r in terminalreporter.stats.get(kind, [])
    ]
    found = [dict(r.user_properties) for r in reports if r.when == "call"]
    found = [about for about in found if "counts" in about]
    if not found:
        return
    terminalreporter.section("kill rate")
    for about in found:
        terminalreporter.write_line(about["teeth"])
    from attn.exercises.kill_rate import kill_rate

    counts = [about["counts"] for about in found]
    terminalreporter.write_line(kill_rate(counts))
