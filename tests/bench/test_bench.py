"""The benchmark runs everywhere, and says nothing that it has not measured."""

import json
import statistics
from dataclasses import replace

import pytest

pytest.importorskip("triton")

from attn.backends import cpu_window
from attn.bench import report, results
from attn.bench.__main__ import main
from attn.bench.case import Sizes
from attn.bench.cases import CASES, find
from attn.bench.runner import not_runnable_reason
from attn.plot import alt_text
from tests import processes
from tests.marks import exhaustive_but

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called")

NAMES = [x.name for x in CASES]
SOME = NAMES[::6]


@pytest.fixture(scope="module", params=exhaustive_but([SOME], [SOME, NAMES]))
def names(request):
    return request.param


@pytest.fixture(scope="module")
def dry(names, tmp_path_factory):
    """Cases, in small."""
    path = tmp_path_factory.mktemp("bench") / "run.json"
    options = ["--dry-run", "--repeats", "2", "--out", str(path)]
    assert main(["run", *names, *options]) == 0
    return path


def made(**peers):
    """A measured case of made-up times, in seconds."""
    return {
        "case": "cpu-prefill",
        "title": "a prompt",
        "device": "cpu",
        "sizes": {},
        "unit": "FLOP",
        "peers": peers,
    }


def peer(seconds, work=1e9, **more):
    return {"work": work, "seconds": seconds, **more}


def test_a_dry_run_runs_every_case_and_is_marked_as_dry(dry, names):
    run = results.load(dry)
    assert run["dry"] is True and run["pending"] == []
    assert [case["case"] for case in run["cases"]] == names
    for case in run["cases"]:
        ran = [p for p in case["peers"].values() if "seconds" in p]
        assert len(ran) >= 2, case
        assert all(len(p["seconds"]) == 2 for p in ran)
        for goal in find(case["case"]).goals:
            assert all("seconds" in case["peers"][x] for x in goal.ours), goal
            named = {*goal.ours, *goal.against, *filter(None, [goal.limit])}
            assert named <= set(case["peers"])
    assert "the times mean nothing" in report.provenance(run)


def test_a_peer_that_cannot_run_is_listed_with_its_reason(dry):
    run = results.load(dry)
    (forward, *_) = (c for c in run["cases"] if c["case"].startswith("gpu"))
    assert forward["peers"]["cuDNN"] == {"missing": "cuDNN is for GPUs"}
    assert "cuDNN is for GPUs" in str(report.times(run))


def test_a_run_records_versions_machine_date_and_commit(dry):
    about = results.load(dry)["about"]
    assert {"torch", "triton", "numpy", "python"} <= set(about["versions"])
    assert about["cpu"] and about["threads"] >= 1
    assert len(about["date"].split("-")) == 3
    if about["commit"]:
        assert about["commit"] in report.provenance(results.load(dry))


def test_gpu_cases_are_pending_without_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    waiting = [case for case in CASES if not_runnable_reason(case)]
    assert {case.sizes.device for case in waiting} == {"cuda"}


def test_ratios_are_of_medians_and_of_the_best_rival():
    case = made(
        SDPA=peer([1.0, 1.1, 9.0], peak_bytes=10),
        naive=peer([4.0, 4.0, 4.0], peak_bytes=1000),
        auto=peer([0.5, 1.0, 1.0], peak_bytes=40),
    )
    against_sdpa, against_naive, memory = results.ratios(case)
    assert against_sdpa.ratio == pytest.approx(1.1) and against_sdpa.met
    assert against_naive.ratio == pytest.approx(4.0) and against_naive.met
    assert memory.ratio == pytest.approx(0.04) and memory.met


def test_a_goal_that_is_missed_is_shown_as_missed():
    case = made(SDPA=peer([1.0]), naive=peer([2.0]), auto=peer([1.5]))
    about = results.about_this_machine()
    run = {"cases": [case], "about": about, "dry": False, "pending": []}
    for measured in case["peers"].values():
        measured["peak_bytes"] = 1
    table = report.goals(run)
    ends = [line.split("  ")[-1] for line in str(table).splitlines()[2:]]
    assert ends == ["✗ missed"] * 3
    assert table._repr_html_().count('<b class="no">✗ missed</b>') == 3


def test_a_goal_is_shown_beside_its_limit():
    """Three products are what exact scores of 16 bits need."""
    peers = {"two products": peer([1.0]), "three products": peer([1.4])}
    case = made(**peers, auto=peer([2.0]))
    case["case"] = "cpu-latent-128-bfloat16-4096"
    about = results.about_this_machine()
    run = {"cases": [case], "about": about, "dry": False, "pending": []}
    table = str(report.goals(run))
    assert "of its limit" in table and "0.7x three products" in table
    del case["peers"]["three products"]
    assert "limit" not in str(report.goals(run))


def test_ratios_are_normalised_by_the_work_of_each_peer():
    """A copy moves more bytes than a cache has."""
    copy = peer([1.0], work=16e9)
    case = made(auto=peer([1.0], work=8e9), SDPA=copy, naive={"missing": "no"})
    for name in ("auto", "SDPA"):
        case["peers"][name]["peak_bytes"] = 1
    (first,) = results.ratios(case)
    assert first.ratio == pytest.approx(0.5)


def test_the_work_of_a_case_counts_only_unmasked_pairs():
    causal = Sizes(L=4, S=4, H=2, Hkv=2, D=8)
    assert causal.pairs == 2 * (1 + 2 + 3 + 4)
    assert replace(causal, window=2).pairs == 2 * (1 + 2 + 2 + 2)
    assert replace(causal, L=1).pairs == 2 * 4
    assert causal.cache_bytes == 2 * 2 * 4 * 8 * 2


def test_a_benchmark_figure_has_alt_text_with_its_numbers(dry):
    run = results.load(dry)
    words = alt_text(report.plot(run, "cpu"))
    assert "SDPA" in words and "auto 1.00" in words
    with pytest.raises(ValueError, match="must be a measured one; got 'cuda'"):
        report.plot({"cases": []}, "cuda")


def test_a_run_file_can_be_shown_and_plotted(dry, tmp_path, capsys):
    assert main(["show", str(dry)]) == 0
    assert "Medians, interleaved" in capsys.readouterr().out
    image = tmp_path / "run.png"
    assert main(["plot", str(dry), str(image)]) == 0
    assert image.read_bytes().startswith(b"\x89PNG")


def test_an_incomplete_run_file_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"cases": []}))
    with pytest.raises(ValueError, match="it lacks"):
        results.load(path)
    with pytest.raises(ValueError, match="must be one of .*; got 'x'"):
        find("x")


def test_stored_runs_are_complete_unchanged_and_of_a_commit():
    runs = results.stored()
    for device in ("cpu", "cuda"):
        cases = results.latest(device)["cases"]
        assert {case["device"] for case in cases} == {device}
    with pytest.raises(ValueError, match="a measured one; got 'tpu'"):
        results.latest("tpu")
    for run in runs:
        assert not run["dry"] and not run["about"]["changed"]
        for case in run["cases"]:
            assert find(case["case"])
            for measured in case["peers"].values():
                assert "missing" in measured or len(measured["seconds"]) >= 10
    known = processes.run("git", "cat-file", "-t", runs[-1]["about"]["commit"])
    assert known.returncode or known.stdout.strip() == "commit"


def tried(run, kernel, head_dim):
    """Return a row for bfloat16, and seconds by the fields of its trials."""
    at = {"kernel": kernel, "head_dim": head_dim, "dtype": "bfloat16"}
    rows = run["sweep"]["rows"]
    (row,) = (x for x in rows if {name: x[name] for name in at} == at)
    return row, {
        tuple(x["config"].values()): statistics.median(x["seconds"])
        for x in row["tried"]
        if "seconds" in x
    }


def test_the_sentences_of_chapters_12_and_13_hold_for_the_runs_on_an_h100():
    first, last = (x for x in results.stored() if "gpu" in x["about"])
    for run, right in ((first, 135), (last, 111)):
        checks = run["correctness"]["checks"]
        assert len(checks) == right and all(x["right"] for x in checks)

    def faster(run, case, one, other):
        (peers,) = (x["peers"] for x in run["cases"] if x["case"] == case)
        return results.speed(peers[one]) / results.speed(peers[other])

    forward = [x.name for x in CASES if x.name.startswith("gpu-forward")]
    for rival, low, high in (("FA2", 1.5, 1.8), ("Flex", 1.2, 1.35)):
        found = [faster(last, x, "triton", rival) for x in forward]
        assert round(min(found), 1) == low and max(found) < high
    over = [faster(last, x, "cuDNN", "triton") for x in forward]
    assert min(over) > 1.055 and max(over) < 1.215
    (longest,) = (x["peers"] for x in last["cases"] if x["case"] == forward[2])
    rates = (results.speed(longest[x]) for x in ("matmul", "triton", "cuDNN"))
    assert [round(x / 1e12) for x in rates] == [790, 529, 635]
    assert 1.05 < faster(last, "gpu-backward-128", "Flex", "triton") < 1.15
    assert faster(first, "gpu-decode", "SDPA", "copy") > 1
    saved = []
    for head_dim in (64, 128, 256):
        row, times = tried(last, "forward", head_dim)
        *tile, _ = row["shipped"].values()
        found = [times[*tile, x] for x in ("tma", "persistent", "pointers")]
        assert found == sorted(found), "a persistent grid is in between"
        saved.append(round(100 * (1 - found[0] / found[2])))
    assert (min(saved), max(saved)) == (13, 22)
    for kernel, percent in (("dkdv", 3), ("dq", 1)):
        row, times = tried(last, kernel, 128)
        *tile, _ = row["shipped"].values()
        ratio = times[*tile, "tma"] / times[*tile, "pointers"]
        assert round(100 * (1 - ratio)) == percent
    dkdv, times = tried(first, "dkdv", 128)
    assert 1.9 < dkdv["ratio"] < 2.1, "half of the time"
    times = {x[:3]: y for x, y in times.items() if x[3] == 2}
    four, eight = times[32, 64, 4], times[32, 64, 8]
    assert round(eight / four, 1) == 1.7, "warps alone, with the same tile"
    assert times[64, 64, 4] < times[64, 64, 8], "though it spills more"
    for keys, warps in ((64, 4), (128, 8)):
        assert 1.1 < times[32, keys, warps] / times[64, keys, warps] < 1.2


def test_the_sentences_of_chapter_13_hold_for_the_run_on_a_cpu():
    keys = 511 + cpu_window.BLOCK  # of a block: its own, and those before
    read = sum(min(i + cpu_window.BLOCK, keys) for i in range(0, 4096, 64))
    assert (keys, round(4096 * 64 / read, 1)) == (575, 7.6)
    cases = {x["case"]: x["peers"] for x in results.latest("cpu")["cases"]}
    for name, layer, extra in (("", 0.4, 0.1), ("-576", 1.8, 0.01)):
        peers = cases[f"cpu-attached-generation{name}"]
        both = (peers[x]["seconds"] for x in ("auto", "sdpa"))
        ours, theirs = map(statistics.median, both)
        assert round(theirs / 400 * 1e3, 1) == layer, "ms: 4 layers, 100 times"
        assert 0.5 * extra < ours / theirs - 1 < 1.1 * extra
