"""Answers that are copied look alike, and what anybody writes does not."""

import json

import pytest
from bs4 import BeautifulSoup

from attn.exercises import sources
from attn.grading.classroom import lookalikes
from attn.grading.classroom.lookalikes import comparable, find
from attn.grading.classroom.reports import write
from attn.grading.classroom.reports.batch import Batch
from tests.grading.classroom.invented import graded, right, unreadable

NAME = "gqa-grouped_attention"
MINE = '''\
def grouped_attention(query, key, value, is_causal=False):
    """Attend."""
    scale = query.shape[-1] ** -0.5
    groups = query.shape[1] // key.shape[1]
    keys = torch.cat([key[:, i // groups, None] for i in range(9)], dim=1)
    scores = torch.einsum("bhld,bhsd->bhls", query, keys) * scale
    if is_causal:  # what is later is hidden
        hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)
    return torch.einsum("bhls,bhsd->bhld", weights, value)
'''
#: The same, with other names, comments, annotations and lines.
COPY = '''\
def grouped_attention(q: Tensor, k, v, causal: bool = False) -> Tensor:
    s = q.shape[-1] ** -0.5
    g = q.shape[1] // k.shape[1]
    """What follows is mine."""
    kk = torch.cat(
        [k[:, n // g, None] for n in range(9)],
        dim=1,
    )
    a = torch.einsum('bhld,bhsd->bhls', q, kk) * s

    if causal:
        m = torch.ones(a.shape[-2:]).triu(1).bool()
        a = a.masked_fill(m, float("-inf"))
    w = (a.softmax(-1))
    return torch.einsum("bhls,bhsd->bhld", w, v)  # done
'''
OTHER = MINE.replace("triu(1)", "tril(1)")


def answered(learner, code, name=NAME, **more):
    return graded(learner, right(name, code=code), **more)


def found(*results):
    return [
        (x.one.name, x.two.name, x.exercises)
        for x in find(Batch.of(results).learners).pairs
    ]


def test_other_names_comments_and_lines_are_the_same_text():
    results = answered("Ann", MINE), answered("Bo", COPY)
    assert found(*results, answered("Cem", OTHER)) == [("Ann", "Bo", (NAME,))]


@pytest.mark.parametrize("old, new", [("-1", "-2"), ("torch.", "np.")])
def test_a_number_or_a_call_that_differs_is_another_text(old, new):
    assert comparable(NAME, MINE)
    assert comparable(NAME, MINE.replace(old, new)) != comparable(NAME, MINE)


def test_attributes_of_a_class_may_have_other_names():
    text = "class A:\n    def f(self):\n        self.{0} = 1\n        {1}"
    line = "return self.{0} + self.size"
    one, two = (text.format(x, line.format(x)) for x in ("w", "weight"))
    assert lookalikes.plain(one) == lookalikes.plain(two)
    other = one.replace("self.size", "self.shape")
    assert lookalikes.plain(one) != lookalikes.plain(other)


@pytest.mark.parametrize(
    "text",
    [
        sources.stub(NAME),
        sources.solution(NAME),
        sources.solution(NAME).replace("query", "q"),
        "def grouped_attention(q, k, v):\n    return q @ k @ v\n",
        "def grouped_attention(:",
        *("", "(" * 9999, "-" * 99_999 + "1", "x" + ".x" * 40_000),
        MINE + "#" * 100_000,
    ],
)
def test_what_a_task_nearly_dictates_says_nothing(text):
    assert not comparable(NAME, text)
    assert not found(answered("Ann", text), answered("Bo", text))


def test_what_many_share_is_the_usual_way():
    many = [answered(f"L{i}", MINE) for i in range(lookalikes.MANY + 1)]
    assert len(found(*many[:-1])) == 8 * 7 / 2
    assert found(*many) == []
    usual = find(Batch.of(many).learners).usual
    assert usual == {NAME: lookalikes.MANY + 1}


def test_partners_and_two_attempts_of_one_learner_are_no_pair():
    together = {"partners": ("x",), "attempt": (12,), "submission": "s"}
    one, two = (answered(x, MINE, **together) for x in ("Ann", "Bo"))
    assert not found(one, two)
    again = answered("Ann", COPY, submission="later", attempt=(13,))
    assert not found(one, again)
    assert found(one, answered("Cem", MINE)) == [("Ann", "Cem", (NAME,))]


def test_the_page_shows_both_texts_and_says_that_it_is_a_hint(tmp_path):
    copy = COPY + "# </pre><script>alert(1)</script>\n"
    results = [answered("Ann", MINE), answered("Bo", copy), unreadable("Cem")]
    write(results, tmp_path)
    page = (tmp_path / "lookalikes.html").read_text("utf-8")
    page = BeautifulSoup(page, "html.parser")
    assert "a hint and no verdict" in page.get_text()
    assert not page.find("script")
    assert [x.get_text() for x in page.find_all("pre")] == [MINE, copy]
    index = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="lookalikes.html">1 pair of learners' in index
    learner = (tmp_path / "learners/Ann.html").read_text("utf-8")
    assert "alike" not in learner and "Bo" not in learner
    data = json.loads((tmp_path / "report.json").read_text("utf-8"))
    pair = {"learners": ["Ann", "Bo"], "exercises": [NAME]}
    assert data["lookalikes"] == [pair]
    write(results[:1], tmp_path)
    assert not (tmp_path / "lookalikes.html").exists()
