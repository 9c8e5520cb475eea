"""The page and `check` agree, and the page's data are those of today.

`make test` takes the shortest exercise of each chapter, and a quarter of its
answers; `make test-all` takes all.
"""

import json

import pytest

from attn.data.book import root
from attn.exercises import sources
from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.page.encode import equal
from attn.page.judge import ELSEWHERE
from attn.page.offered import FOLDER, given, offered
from attn.page.record import MOST_BYTES, recorded, stored
from tests.marks import exhaustive_but
from tests.page.verdicts import browser_files, cards

IDS = offered()
FILES = root() / FOLDER
INDEX = json.loads((FILES / "index.json").read_text("utf-8"))
LONGEST_FIRST = sorted(IDS, key=lambda x: -INDEX[x]["bytes"])
SHORT = {x.partition("-")[0]: x for x in LONGEST_FIRST}.values()
SHORT = sorted(SHORT, key=IDS.index)
WHOLE = [pytest.param(x, 1, marks=pytest.mark.exhaustive) for x in IDS]


@pytest.fixture(scope="session")
def browser_folder(tmp_path_factory):
    return browser_files(tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize("name", exhaustive_but(SHORT, IDS))
def test_the_data_are_those_of_today(name):
    assert equal(stored(FILES / f"{name}.json.gz"), recorded(name)), (
        f"{name} has changed: run `make refresh`"
    )


@pytest.mark.parametrize(("name", "step"), [*((x, 4) for x in SHORT), *WHOLE])
def test_the_page_says_what_check_says(name, step, browser_folder):
    exercise = find(name)
    right = [sources.solution(name)]
    right += [x.source for x in exercise.equivalents][::step]
    wrong = exercise.mistakes[::step]
    answers = right + [x.source for x in wrong]
    said = cards(browser_folder, FILES / f"{name}.json.gz", answers)
    odd = [
        (x["title"], x["what"], source)
        for x, source in zip(said[: len(right)], right, strict=True)
        if x["state"] != "right" and x["word"] != ELSEWHERE
    ]
    assert not odd and said[0]["state"] == "right"
    pairs = [*zip(wrong, said[len(right) :], strict=True)]
    accepted = [x.label for x, card in pairs if card["state"] == "right"]
    assert not accepted
    # One that a page cannot tell from another is named with it.
    others = [
        (x.label, card)
        for x, card in pairs
        if x.name not in (card["name"] or "")
    ]
    assert len(others) <= max(2, 0.1 * len(wrong)), others


def test_a_mistake_on_no_list_has_the_name_that_check_gives_it(browser_folder):
    exercise = find("mask-apply_mask")
    text = f"{given(exercise)}{sources.solution(exercise.id)}"
    changed = "scores / 2, mask", "F.pad(scores[..., 1:], (1, 0)), mask"
    answers = [
        f"{text}\nown = apply_mask\ndef apply_mask(scores, mask):\n"
        f"    return own({x})"
        for x in changed
    ]
    said = cards(browser_folder, FILES / f"{exercise.id}.json.gz", answers)
    for answer, card in zip(answers, said, strict=True):
        exec(answer, names := {})
        name = judge(exercise, names["apply_mask"]).mistake
        assert name and card["name"] == name, (card, name)


CAUSAL = """def causal(q_len, kv_len, q_offset=0):
    rows = torch.arange(q_len)[:, None] + q_offset
    {}
    return torch.arange(kv_len) <= rows
"""
USED = """torch.linalg.norm(nn.Identity()(torch.ones(2) + math.inf))
    assert torch.ones(2).shape.numel() == 2 and 'init' not in vars(nn)"""


def test_a_page_has_torch_as_it_was_sees_chance_and_takes_what_a_cell_has(
    browser_folder,
):
    plain = CAUSAL.format("pass")
    answers = {
        "\ufeff%%time\n%matplotlib inline\n!pip install x\n"
        f"{plain}\ncheck('mask-causal')\nhint()": "",
        f"torch.arange = Tensor.__le__ = F.relu = torch.x = 0\n{plain}": "x",
        f"torch.linalg.norm = nn.Module.__call__ = torch.Size.numel = 0\n"
        f"nn.Identity.forward = math.inf = nn.init = 0\n{plain}": "x",
        plain: "",
        CAUSAL.format(USED): "",
        CAUSAL.format("F.dropout(rows.float())"): "Random numbers are drawn",
        CAUSAL.format("F.dropout(rows.float(), training=False)"): "",
        CAUSAL.format("torch.rand(2)"): "Random numbers are drawn",
    }
    said = cards(browser_folder, FILES / "mask-causal.json.gz", answers)
    for card, title in zip(said, answers.values(), strict=True):
        if title != "x":  # where only what it leaves behind counts
            assert (card["state"] == "right") == (not title), card
            assert title in card["title"]


def test_the_index_names_what_is_there_and_the_files_are_small():
    """test_page_editor.py proves of which chapters it has an exercise."""
    assert [*INDEX] == IDS
    sizes = [(FILES / f"{x}.json.gz").stat().st_size for x in IDS]
    assert max(sizes) <= MOST_BYTES
    assert sum(sizes) <= 1_500_000


def test_a_change_is_found_and_a_cpus_rounding_is_none():
    data = stored(FILES / f"{SHORT[0]}.json.gz")
    other = stored(FILES / f"{SHORT[0]}.json.gz")
    at = data["cases"][0]["right"]["output"]["tensor"]
    first = data["tensors"][at][2][0]
    other["tensors"][at][2][0] = first * (1 + 1e-6)
    assert equal(data, other)
    other["tensors"][at][2][0] = first * 1.01 + 0.01
    assert not equal(data, other)
    other = stored(FILES / f"{SHORT[0]}.json.gz")
    other["mistakes"][0]["why"] += "?"
    assert not equal(data, other)
