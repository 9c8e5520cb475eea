"""A folder of results belongs to one batch, and keeps its options."""

import json
from dataclasses import replace

import pytest

from attn.grading.classroom import batch
from attn.grading.classroom.submissions import find
from tests.grading.classroom.damage.kinds import FIRST


def opened(out, paths=("in",), **options):
    with batch.opened(out, [out.parent / x for x in paths], **options) as kept:
        (out / "results").mkdir(exist_ok=True)
        (out / "results" / "one.json").touch()
        return kept


def test_a_folder_without_results_can_be_used_by_any_batch(tmp_path):
    out = tmp_path / "out"
    with batch.opened(out, [tmp_path], seed=1):
        pass
    assert opened(out, seed=2).seed == 2


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    out = tmp_path / "new" / "out"
    seed = opened(out).seed
    assert opened(out).seed == seed
    assert opened(out, seed=seed).seed == seed
    assert opened(tmp_path / "other").seed != seed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 2}, "--seed"),
        ({"seed": 1, "timeout": 9}, "--timeout"),
        ({"seed": 1, "points": {FIRST: 2}}, "--points"),
        ({"seed": 1, "paths": ("other",)}, "its paths"),
    ],
)
def test_another_batch_is_never_overwritten(options, message, tmp_path):
    out = tmp_path / "out"
    opened(out, seed=1)
    before = (out / "batch.json").read_bytes()
    with pytest.raises(ValueError, match=f"other options: {message}"):
        opened(out, **options)
    assert (out / "batch.json").read_bytes() == before


def test_paths_can_be_added_to_a_batch(tmp_path):
    out = tmp_path / "out"
    seed = opened(out).seed
    assert opened(out, paths=("in", "late")).seed == seed
    with pytest.raises(ValueError, match="its paths"):
        opened(out)


@pytest.mark.parametrize("name", ["batch.json", "thesis.tex"])
def test_a_folder_of_other_files_is_refused_and_left_unchanged(name, tmp_path):
    (tmp_path / name).write_text("[1]")
    with pytest.raises(ValueError, match="name another"):
        opened(tmp_path)
    assert (tmp_path / name).read_text() == "[1]"
    with pytest.raises(ValueError, match="new folder"):
        opened(tmp_path / name)


def test_two_batches_do_not_share_a_folder(tmp_path):
    with (
        batch.opened(tmp_path / "out", []),
        pytest.raises(ValueError, match="another attn grade"),
    ):
        opened(tmp_path / "out", ())


def test_each_submission_has_a_file_of_its_own(tmp_path):
    names = ["a/b.py", "a_b.py", "A/b.py", "../b.py", "é/b.py", "x" * 300]
    files = {
        batch.file_name(find_named(tmp_path, name)).lower() for name in names
    }
    assert len(files) == len(names)
    for name in files:
        assert name.isascii() and len(name) < 120
        assert "/" not in name and not name.startswith(".")


def find_named(folder, name):
    (folder / "x.py").touch()
    return replace(find([folder / "x.py"])[0], name=name)


def test_partial_points_are_an_option_of_the_batch(tmp_path):
    out = tmp_path / "out"
    assert opened(out).partial is False
    (out / "results").mkdir(exist_ok=True)
    (out / "results" / "x.json").write_text("{}")
    with pytest.raises(ValueError, match="--partial"):
        opened(out, partial=True)
    assert opened(tmp_path / "b", partial=True).partial
    written = json.loads((out / "batch.json").read_text())
    del written["partial"]  # as an older book wrote it
    (out / "batch.json").write_text(json.dumps(written))
    assert opened(out).partial is False
