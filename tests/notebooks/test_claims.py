"""The claims of the chapters hold over seeds, and their record is today's."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from attn.exercises import CHAPTERS, sources
from attn.publishing.claims import record, run
from attn.publishing.claims.__main__ import failures

OTHER_SEEDS = (4, 5)
EXPERIMENTS = [
    pytest.param(sources.notebook_path(key), name, id=f"{key}-{name}")
    for key in CHAPTERS
    for name in record.chapter(sources.notebook_path(key).stem)
]


def test_experiments_have_unique_names_and_records():
    paths = map(sources.notebook_path, CHAPTERS)
    names = Counter(name for path in paths for name in run.experiments(path))
    assert len(names) > 10, "no experiment was found"
    assert set(names.values()) == {1}, names.most_common(1)
    kept = [x for entries in record.chapters().values() for x in entries]
    assert sorted(kept) == sorted(names), "make claims"


@pytest.mark.parametrize("path, name", EXPERIMENTS)
def test_a_record_belongs_to_the_current_claims_and_code(path, name):
    entry = record.chapter(path.stem)[name]
    assert entry["digest"] == run.digest(path, name), "make claims"


@pytest.mark.parametrize("path, name", EXPERIMENTS)
def test_every_recorded_claim_holds_with_a_margin(path, name):
    entry = record.chapter(path.stem)[name]
    ran = [(x["seed"], x["steps"]) for x in entry["runs"]]
    page = ran[0][1]
    assert ran[:4] == [(seed, page) for seed in range(4)]
    if page is not None:
        assert ran[4] == (0, 2 * page) and ran[5][1] >= 10 * page
    assert all(x["claims"] for x in entry["runs"][:4])
    assert failures(entry) == []


def repeated(path, name):
    import torch

    torch.set_num_threads(1)
    return failures({"runs": list(run.repeat(path, name, OTHER_SEEDS))})


@pytest.mark.exhaustive
@pytest.mark.parametrize("path, name", EXPERIMENTS)
def test_every_claim_holds_with_two_other_seeds(path, name):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        assert process.submit(repeated, path, name).result() == []
