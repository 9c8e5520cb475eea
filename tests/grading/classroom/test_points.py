"""A teacher's points replace the book's, and mistakes in them are named."""

import pytest

from attn.grading.classroom.assignment import read_points


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "points"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        '{"gqa-repeat_kv": 5, "sdp-softmax": 0.5}',
        "gqa-repeat_kv,5\nsdp-softmax,0.5\n",
        "exercise,points\r\ngqa-repeat_kv, 5\r\n\r\nsdp-softmax, 0.5\r\n",
        '\ufeff"gqa-repeat_kv","5"\n"sdp-softmax",".5"',
    ],
)
def test_json_and_csv_give_the_same_points(text, written):
    points = read_points(written(text))
    assert points == {"gqa-repeat_kv": 5, "sdp-softmax": 0.5}
    assert repr(points["gqa-repeat_kv"]) == "5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"gqa-repeatkv": 5}', "got 'gqa-repeatkv'"),
        ("gqa-repeat_kv,5\nGQA-softmax,1", "got 'GQA-softmax'"),
        ('{"gqa-repeat_kv": 5, "gqa-repeat_kv": 6}', "gqa-repeat_kv once"),
        ("gqa-repeat_kv,-1", "gqa-repeat_kv in .* got '-1'"),
        ("gqa-repeat_kv,nan", "got 'nan'"),
        ('{"gqa-repeat_kv": Infinity}', "got inf"),
        ('{"gqa-repeat_kv": true}', "got True"),
        ('{"gqa-repeat_kv": null}', "got None"),
        ('{"gqa-repeat_kv": [1]}', r"got \[1\]"),
        ("gqa-repeat_kv,", "got ''"),
        ("gqa-repeat_kv", "on each line; got 'gqa-repeat_kv'"),
        ("gqa-repeat_kv,1,2", "on each line"),
        ('{"gqa-repeat_kv": 5', "must be JSON or CSV"),
        ('{"a":' * 100_000, "must be JSON or CSV"),
        ("", "at least one"),
        ("{}", "at least one"),
        (b"\xff\xfe\x00", "text file"),
    ],
)
def test_a_mistake_in_the_points_is_named(text, message, written):
    with pytest.raises(ValueError, match=message):
        read_points(written(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere.csv"):
        read_points(tmp_path / "nowhere.csv")
