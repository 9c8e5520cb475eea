"""The search, asked as a newcomer asks: in words of his own, and misspelt."""

import json
import os
import sys

import pytest

from tests.book.conftest import Visit
from tests.book.pages import ROOT
from tests.processes import run


def table(text):
    """Read what is asked, and how the files begin in which answers are."""
    rows = (row.split(": ") for row in text.strip().splitlines())
    return {asked: tuple(places.split()) for asked, places in rows}


ASKED = table("""
causal mask: 03_masks
paged attention: 16_serving
flash attention: 12_fused_forward
softmax: 02_scaled_dot_product
why do we divide by sqrt: 02_scaled_dot_product.html#why-divide-by-sqrt-d
softmx: 02_scaled_dot_product
kv cache: 10_kv_cache
rope: 07_rope
what is a query: glossary.html#term-query\
 02_scaled_dot_product.html#query-key-value-why-three
multi head attention: 04_multi_head
grouped query attention: 05_gqa
sliding window: 03_masks.html#only-the-last-few
positional encoding: 06_positions
transformer from scratch: 09_transformer
layer norm: 09_transformer
attenion sink: glossary.html#term-attention-sink
cross attention: 04_multi_head.html#cross-attention
speculative decoding: 10_kv_cache
linear attention: 19_linear
quantization: 10_kv_cache
""")
# Written down before their results were looked at.
ASKED_LATER = table("""
dropout: 04_multi_head glossary.html#term-dropout
why is my output nan: 03_masks glossary.html#term-dead-row
padding: 03_masks glossary.html#term-padding
transformer block: 09_transformer
feed forward: 09_transformer
softmax overflow: 02_scaled_dot_product 11_online_softmax
mqa: 05_gqa glossary.html#term-MQA
load llama weights: 09_transformer 15_attention_interface
how much memory does the kv cache need: 10_kv_cache 05_gqa
residual connection: 09_transformer glossary.html#term-residual-stream
generate text: 09_transformer 10_kv_cache
temperature: 09_transformer glossary.html#term-temperature
triton tutorial: 12_fused_forward
gpu memory: 12_fused_forward glossary.html#term-shared-memory
long context: 07_rope 06_positions 17_many_machines
mamba: 19_linear
deepseek: 18_latent_sparse
vllm: 16_serving
roatry embeding: 07_rope
backpropagation: 13_fused_backward_decode
""")
FOUND = """query => Search._performSearch(query).reverse().slice(0, 3)
    .map(([page, , anchor]) => `${page}.html${anchor}`)"""


@pytest.mark.parametrize("changed", [[], ["b"], ["a", "b"]], ids=len)
def test_a_second_build_finds_what_is_on_the_other_pages(tmp_path, changed):
    def index():
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "-C"]
        command += ["-D", "extensions=attn_book.search", "-d", "trees"]
        places = {**os.environ, "PYTHONPATH": str(ROOT / "book" / "ext")}
        done = run(*command, ".", "html", cwd=tmp_path, env=places)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "html" / "searchindex.js").read_text("utf-8")
        return json.loads(text.partition("(")[2].rpartition(")")[0])

    tree = "index\n=====\n\n.. toctree::\n\n   a\n   b\n"
    (tmp_path / "index.rst").write_text(tree)
    for name, word in (("a", "zebra"), ("b", "yak")):
        text = f"{name}\n=\n\nA {word}.\n\nMore\n----\n\nEven a {word}.\n"
        (tmp_path / f"{name}.rst").write_text(text)
    before = index()
    assert len(before["places"]) == 5
    assert len(before["terms"]["zebra"]) == len(before["terms"]["yak"]) == 4
    for name in changed:
        file = tmp_path / f"{name}.rst"
        file.write_text(file.read_text().replace("Even", "Once more"))
    after = index()
    assert after["places"][:1] == before["places"][:1]
    assert len(after["places"]) == 5
    for word in ("zebra", "yak"):
        assert after["terms"][word] == before["terms"][word]
    assert ("onc" in after["terms"]) == bool(changed)


@pytest.fixture(scope="module")
def search(browser, address):
    with Visit(browser, address, "search", asked="?q=softmx") as seen:
        seen.tab.wait_for_selector("ul.search li a")
        yield seen.tab


@pytest.mark.browser
@pytest.mark.parametrize("asked", [ASKED, ASKED_LATER], ids=["first", "later"])
def test_the_first_three_answer_eighteen_of_twenty_questions(search, asked):
    lost = {}
    for query, places in asked.items():
        found = search.evaluate(FOUND, query)
        files = (x.rpartition("/")[2] for x in found)
        if not any(x.startswith(places) for x in files):
            lost[query] = found
    assert len(asked) == 20
    assert len(lost) <= 2, lost


@pytest.mark.browser
def test_a_letter_that_is_wrong_is_forgiven_and_said(search):
    text = search.locator("#search-results").inner_text()
    assert "No page has “softmx”. These have “softmax”." in text
    right = search.evaluate(FOUND, "attention")
    for wrong in ("atention", "attentoin", "attenntion", "attentiom"):
        assert search.evaluate(FOUND, wrong) == right


@pytest.mark.browser
def test_a_result_leads_to_a_section_that_exists(search):
    link = search.locator("ul.search li a", has_text="Exercise: softmax")
    link.first.click()
    search.wait_for_url("**#exercise-softmax")
    assert search.locator(":target").is_visible()
    search.go_back()
