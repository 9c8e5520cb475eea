"""A GPU run goes through everything, and sees a kernel that is wrong."""

import itertools
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from attn.bench import results
from attn.bench.__main__ import main as bench
from attn.bench.cases import CASES, find
from attn.kernels import attention
from attn.kernels.configs import VARIANTS as FORWARD_VARIANTS
from attn.kernels.configs import Config, config_of
from tests import processes
from tests.gpu import correctness, report, session, sweep
from tests.gpu.__main__ import main
from tests.gpu.kernel_calls import VARIANTS, Check
from tests.gpu.workers import Worker, run_all

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called")
ROOT = Path(__file__).parents[2]
SHIPPED = {"attention", "decode", "varlen", "linear"}
KERNELS = SHIPPED | set(correctness.FORWARD_VARIANTS)

#: One of each kernel; test_kernels.py has all that they compute.
FEW = [
    x for x in correctness.checks(dry=True)
    if x.variant == "all" or x.kernel == "linear"
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Everything in small; one case of the benchmark: test_bench has all."""
    path = tmp_path_factory.mktemp("gpu") / "run.json"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(correctness, "checks", lambda dry: FEW)
        session.Session(  # with time enough, however busy the machine is
            path, budget=3600, dry=True, cases=[find("gpu-decode")]
        ).measure()
    return path


def test_a_dry_run_covers_all_three_stages(run):
    saved = results.load(run)
    assert saved["dry"] and not saved["pending"]
    checks = saved["correctness"]["checks"]
    assert len(checks) == saved["correctness"]["planned"] == len(FEW)
    assert all(check["right"] and check["repeatable"] for check in checks)
    assert {check["kernel"] for check in checks} == KERNELS
    rows = saved["sweep"]["rows"]
    kernels = [row["kernel"] for row in rows]
    assert kernels == [row.kernel for row in session.TINY]
    assert all(x["ratio"] >= 1.0 and x["tried"][0]["seconds"] for x in rows)
    tried = [x["config"] for x in rows[0]["tried"] if x["seconds"]]
    assert {x["variant"] for x in tried} == {*FORWARD_VARIANTS}
    assert [case["case"] for case in saved["cases"]] == ["gpu-decode"]
    assert {"torch", "triton"} <= set(saved["about"]["versions"])
    stages = {"correctness", "sweep", "benchmark"}
    assert saved["time"].keys() == stages | {"budget"}


def test_the_file_of_a_gpu_run_can_be_shown_like_any_run(run, capsys):
    assert main(["show", str(run)]) == 0
    shown = capsys.readouterr().out
    count = f"{len(FEW)} of {len(FEW)} checks"
    for text in (count, "Configurations", "Medians", "DRY RUN"):
        assert text in shown
    assert bench(["show", str(run)]) == 0
    assert capsys.readouterr().out in shown


def test_a_gpu_run_needs_neither_pytest_nor_matplotlib(run, tmp_path):
    code = """
import sys
sys.modules["pytest"] = sys.modules["matplotlib"] = None
from tests.gpu import __main__, session
assert "tests.conftest" not in sys.modules
session.run_one("cpu-training-bfloat16", 1, True)  # as in a fresh worker
sys.exit(__main__.main(["show", sys.argv[1]]))
"""
    done = processes.run_python(code, str(run), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no tables here")


def test_a_missing_gpu_is_reported_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "run.json"
    assert main(["run", "--out", str(path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "finds no GPU" in line and not path.exists()


def test_make_gpu_uses_the_given_python_and_installs_nothing(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$@"\n')
    python.chmod(0o755)
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for variables, path in (({}, "_build/gpu"), ({"OUT": "/out"}, "/out")):
        places = {"PATH": os.environ["PATH"], **variables}
        words = ("make", "gpu", f"PYTHON={python}")
        done = processes.run(*words, cwd=tmp_path, env=places)
        output = f"-m tests.gpu run --out {path}/run.json\n"
        assert (done.returncode, done.stdout) == (0, output), done.stderr
    assert sorted(x.name for x in tmp_path.iterdir()) == ["Makefile", "python"]


def test_without_history_the_commit_is_that_of_the_environment(monkeypatch):
    monkeypatch.setattr(results, "_git", lambda *_: "")
    monkeypatch.setenv("COMMIT", "1234abc")
    assert results.about_this_machine()["commit"] == "1234abc"


def test_uncommitted_changes_of_measured_files_are_recorded(monkeypatch):
    if not results._git("rev-parse", "HEAD"):
        pytest.skip("no git history here")
    commands = []
    monkeypatch.setattr(
        results,
        "_git",
        lambda *words: commands.append(words) or " M attn/api.py",
    )
    assert results.about_this_machine("tests/gpu")["changed"] is True
    monkeypatch.undo()
    (paths,) = (words[3:] for words in commands if words[0] == "status")
    listed = results._git("ls-files", "--full-name", "--", *paths)
    for path in ("attn/bench/results.py", "tests/gpu/sweep.py"):
        assert path in listed.splitlines()


def test_a_run_records_the_gpu_and_its_driver(monkeypatch):
    known = {"name": "H200", "major": 9, "minor": 0, "total_memory": 2**37}
    device = SimpleNamespace(**known, multi_processor_count=132)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: device)
    monkeypatch.setattr(results, "_driver", lambda: "580.1")
    about = results.about_this_machine()
    assert about["gpu"] == "H200" and about["capability"] == "9.0"
    assert about["driver"] == "580.1" and about["memory"] == 2**37


def test_without_a_budget_nothing_runs_and_a_failed_case_has_its_reason(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(session, "run_case", lambda *_, **__: 1 / 0)
    path, begin = tmp_path / "run.json", time.monotonic()
    session.Session(path, budget=0.0, dry=True).measure()
    assert time.monotonic() - begin < 30
    saved = results.load(path)
    assert saved["correctness"]["checks"] == [] and saved["cases"] == []
    assert saved["sweep"]["tried"] == 0
    assert [row["ratio"] for row in saved["sweep"]["rows"]] == [None] * 3
    cases = [case.name for case in CASES if case.sizes.device == "cuda"]
    assert [case["case"] for case in saved["pending"]] == cases
    assert "ZeroDivisionError" in saved["pending"][0]["why"]


# --- correctness -------------------------------------------------------------


def small(variant="causal", dtype="float32"):
    return Check("attention", variant, dtype, 16, 8, 1, 2, 1, 9, 12)


def test_the_checks_cover_every_kernel_variant_dtype_and_row_of_the_table():
    checks = correctness.checks()
    dtypes = ("bfloat16", "float16", "float32")
    for at in itertools.product((64, 128, 256), dtypes):
        kernels = {x.kernel for x in checks if (x.D, x.dtype) == at}
        assert kernels == (KERNELS if "bfloat16" in at else SHIPPED), at
    assert {c.variant for c in checks} == set(VARIANTS)
    assert len(checks) == len(set(checks))


@pytest.mark.parametrize("dtype", ("bfloat16", "float16", "float32"))
def test_one_wrong_row_among_thousands_has_a_large_distance(dtype):
    g = torch.Generator().manual_seed(0)
    exact = torch.randn(4, 1000, 64, dtype=torch.float64, generator=g)
    x = exact.to(getattr(torch, dtype))
    limit = 3 * correctness.few_roundings(x.dtype)
    assert correctness.distance(x, exact) < limit
    x[2, 700] = x[2, 701]
    assert correctness.distance(x, exact) > 0.5
    x[2, 700] = torch.nan
    assert correctness.distance(x, exact) == torch.inf


def test_misplaced_infinities_have_an_infinite_distance():
    exact = torch.tensor([[1.0], [-torch.inf]], dtype=torch.float64)
    assert correctness.distance(exact.float(), exact) == 0.0
    assert correctness.distance(exact.float().flip(0), exact) == torch.inf


def test_a_kernel_that_leaves_a_key_out_is_wrong(monkeypatch):
    forward = attention.fused_attention

    def wrong(query, key, value, **options):
        key, value = (x[:, :, :-1] for x in (key, value))
        return forward(query, key, value, **options)

    assert correctness.check(small("plain"))["right"]
    monkeypatch.setattr("attn.kernels.fused_attention", wrong)
    result = correctness.check(small("plain", "bfloat16"))
    assert not result["right"] and result["repeatable"]


def test_an_element_that_is_never_written_is_wrong(monkeypatch):
    def lazy(query, key, value, **_):
        out = value.new_empty(*query.shape[:-1], value.shape[-1])
        out = out + 0 * (query.sum() + key.sum() + value.sum())
        return out, 0 * query.sum(-1)

    monkeypatch.setattr("attn.kernels.fused_attention", lazy)
    result = correctness.check(small())
    assert result["errors"]["out"][0] == 1e9 and not result["right"]


def test_a_wrong_kernel_sets_the_exit_status(tmp_path, monkeypatch):
    def check(check):
        right = check.kernel != "varlen"
        return {**check._asdict(), "errors": {}, "right": right}

    monkeypatch.setattr(correctness, "check", check)
    monkeypatch.setattr(session.Session, "_sweep", lambda self: None)
    monkeypatch.setattr(session.Session, "_benchmark", lambda self: None)
    assert session.measure(tmp_path / "run.json", dry=True) == 1


# --- configurations ----------------------------------------------------------


def test_candidates_are_neighbours_and_the_shipped_row_is_first():
    trials = sweep.trials(90)
    rows = list(sweep.ROWS)
    assert [trial.row for trial in trials[: len(rows)]] == rows
    for trial in trials:
        shipped, config = trial.row.shipped(90), trial.config
        fields = zip(shipped[:4], config[:4], strict=True)
        changed = sum(a != b for a, b in fields)
        assert changed <= 2
        for block in config[:2]:
            assert block in (16, 32, 64, 128, 256)
        assert config.num_warps in (4, 8) and 1 <= config.num_stages <= 5
        variants = sweep.LOADED_BY.get(trial.row.kernel, ("pointers",))
        assert config.variant in variants
    assert len(trials) == len({trial._replace() for trial in trials})


def test_each_variant_is_tried_alone_and_with_every_neighbour():
    """Where the GPU has descriptors."""
    row = sweep.ROWS[0]
    tiles = {}
    for trial in sweep.trials(90, [row]):
        tiles.setdefault(trial.config.variant, set()).add(trial.config[:4])
    assert tiles.keys() == set(FORWARD_VARIANTS)
    shipped = row.shipped(90)
    one_field = {x[:4] for x in sweep.candidates("forward", shipped, 90)[1]}
    for variant in {*FORWARD_VARIANTS} - {shipped.variant}:
        assert tiles[variant] == one_field | {shipped[:4]}
    variants = {trial.config.variant for trial in sweep.trials(80)}
    assert variants == {"pointers"}


@pytest.mark.parametrize("kernel", ("forward", "dkdv", "dq", "decode"))
def test_a_table_row_is_replaced_only_while_it_is_measured(kernel):
    other = Config(16, 16, 4, 1, "for a test")
    row = sweep.Row(kernel, 100, "bfloat16", 1, 1)
    for arch in (0, 90, 120):
        before = config_of(kernel, 128, 2, arch), config_of(kernel, 128, 2, 7)
        with sweep.replaced(row, arch, other):
            assert config_of(kernel, 128, 2, arch) == other
            assert config_of(kernel, 256, 2, arch) != other
            assert config_of(kernel, 128, 4, arch) != other
        after = config_of(kernel, 128, 2, arch), config_of(kernel, 128, 2, 7)
        assert before == after


def test_the_shipped_row_is_compared_with_the_best():
    row = sweep.ROWS[0]
    shipped = sweep.fields(row.shipped(90))
    faster = {**shipped, "num_stages": 5}
    wrong = {**shipped, "num_stages": 1}
    tried = [
        {"config": shipped, "seconds": [1.1, 1.0, 9.0]},
        {"config": faster, "seconds": [1.0, 1.0, 1.0]},
        {"config": wrong, "error": "ValueError: wrong"},
    ]
    summary = sweep.summary(row, 90, tried)
    assert summary["best"] == faster and not summary["good"]
    assert summary["ratio"] == pytest.approx(1.1)
    assert sweep.summary(row, 90, tried[:1])["good"]


@pytest.mark.parametrize("variant", FORWARD_VARIANTS[1:])
def test_a_variant_is_best_only_if_it_wins_by_three_percent(variant):
    row = sweep.ROWS[0]
    shipped = sweep.fields(row.shipped(90))
    other = {**shipped, "variant": variant}
    tried = [{"config": shipped, "seconds": [1.0]}]

    def best(seconds):
        timed = {"config": other, "seconds": [seconds]}
        return sweep.summary(row, 90, [*tried, timed])["best"]

    assert best(0.98) == shipped and best(0.96) == other
    timed = [*tried, {"config": other, "seconds": [0.5]}]
    rows = [sweep.summary(row, 90, timed)]
    stage = {"tried": 2, "planned": 2, "rows": rows}
    shown = report.configurations({"sweep": stage})
    assert f"s{shipped['num_stages']} {variant} " in str(shown)


def test_a_configuration_with_a_wrong_result_is_refused(monkeypatch):
    row = session.TINY[0]
    trial = sweep.Trial(row, row.shipped(0), 0)
    assert sweep.try_config(trial)["error"] < 0.05
    forward = attention.fused_attention
    monkeypatch.setattr(
        "attn.kernels.fused_attention",
        lambda *tensors, **_: forward(*tensors),  # not causal
    )
    with pytest.raises(ValueError, match="wrong: error"):
        sweep.try_config(trial)


# --- processes ---------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_a_job_that_crashes_or_raises_does_not_affect_the_others():
    jobs = {
        "1 + 1": 2,
        "__import__('os').abort()": "SIGABRT",
        "__import__('os').write(2, b'last words') and "
        "__import__('os')._exit(3)": "exit code 3) last words",
        "1 / 0": "ZeroDivisionError",
        "2 + 2": 4,
    }
    until = time.monotonic() + 600
    done = dict(run_all(eval, jobs, processes=2, seconds=600, until=until))
    assert done.keys() == jobs.keys()
    for text, expected in jobs.items():
        if isinstance(expected, int):
            assert done[text].value == expected and done[text].error is None
        else:
            assert expected in done[text].error, done[text]


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_a_job_that_hangs_is_stopped():
    worker = Worker()
    worker.begin(eval, "1 + 1", seconds=600)
    assert worker.outcome().value == 2
    worker.begin(eval, "__import__('time').sleep(600)", seconds=0.1)
    done = worker.outcome()
    assert not done.healthy and "stopped after 0.1 s" in done.error
    worker.begin(eval, "1 + 1", seconds=600)
    assert worker.outcome().error


def test_jobs_that_are_not_done_in_time_are_left_out():
    jobs = ["1 + 1", "__import__('time').sleep(600)", "2 + 2"]
    until = time.monotonic() + 3
    done = list(run_all(eval, jobs, processes=1, seconds=600, until=until))
    assert [argument for argument, _ in done] in ([], jobs[:1])
