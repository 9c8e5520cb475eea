"""A sentence of one's own: the page's MiniLM is attn's, and polite."""

import copy
import json
import re

import pytest
import torch

from attn.data import minilm
from attn.data.minilm import MiniLM
from attn.functional import attention_weights
from book.figures import attention_heads, sentence
from tests.book.conftest import Visit
from tests.book.pages import FIGURES
from tests.book.test_browser import serious_violations, sideways_overflow
from tests.marks import exhaustive_but

pytestmark = pytest.mark.skipif(
    not minilm.available(), reason=minilm.HOW_TO_INSTALL
)
SCRIPT = sentence.TARGET.with_name("sentence.js")
FRONT = "book/intro"
LAST = sentence.DEPTH - 1
BEGINNINGS = (
    "The animal didn't cross the street",
    "My dog ATE the pizza",
    "The zebra saw a lion",
    "Anna gave her book to Peter",
    "I love this book",
    "Our teacher lost 17 keys",
    "The robots sold coffee in a café",
    "“Nobody” read the news-paper",
    "The king wept; the queen laughed",
    "Two old friends met on the bridge",
)
ENDS = (
    "because it was too tired.",
    "because they were young!",
    "when he had no time",
    "(but she didn't know that).",
    "while it rained…",
    "and so did I.",
    "before the doctor could ask him why",
    "– at least, that is what you said.",
    "because they feared him.",
    "until the music stopped?",
)
SENTENCES = [f"{begin} {end}" for begin in BEGINNINGS for end in ENDS]


def test_the_stored_model_is_that_of_the_installed_weights():
    stored = sentence.TARGET.read_bytes()
    written = sentence.text(minilm.load().weights).encode()
    assert stored == written, "run make refresh"
    # What the button and the bar say.
    assert f"SIZE = {len(stored)}," in SCRIPT.read_text("utf-8")


@pytest.fixture(scope="module")
def restored():
    """MiniLM with the weights of the page's file."""
    text = sentence.TARGET.read_bytes().decode()
    tensors = json.loads(text[text.index("{") : -2], strict=False)
    pieces, ids = sentence.kept()
    assert tensors.pop("pieces").split(" ") == pieces
    own = {}
    for name, (row, *coded) in tensors.items():
        codes, scales = (torch.tensor([ord(x) for x in y]) for y in coded)
        weight = sentence.restore(codes.view(-1, sentence.GROUP), scales)
        shape = (-1, row) if len(weight) > row else (row,)
        own[name] = weight.float().view(shape)
    table = "embeddings.{}_embeddings.weight".format
    words = torch.zeros_like(minilm.load().weights[table("word")])
    words[ids] = own["words"]
    for part in ("weight", "bias"):  # the page has no values of its last layer
        start = f"layer.{LAST}.attention.self"
        own[f"{start}.value.{part}"] = own[f"{start}.key.{part}"]
    model = copy.copy(minilm.load())
    model.weights = {f"encoder.{name}": x for name, x in own.items()} | {
        **own,
        table("word"): words,
        table("position"): own["positions"],
        table("token_type"): torch.zeros(1, words.shape[1]),
    }
    return model


def maps(model: MiniLM, text: str) -> torch.Tensor:
    """Return the weights of the page's heads, (layers * H, L, L)."""
    x, found = model.embed(text), []
    for layer in range(LAST):
        x, weights = model.layer(x, layer)
        found.append(weights)
    q, k, _ = model.qkv(x, LAST)
    return torch.cat([*found, attention_weights(q, k).weights])


@pytest.fixture(scope="module")
def reads(browser, tmp_path_factory):
    """The page's own model, on a page that is a file: it needs no server."""
    page = tmp_path_factory.mktemp("page") / "empty.html"
    page.write_text('<!doctype html><meta charset="utf-8">')
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.add_script_tag(url=SCRIPT.as_uri())
    tab.evaluate("Sentence.load()")
    yield tab
    tab.close()


READ = """texts => texts.map(text => {
    const { tokens } = Sentence.tokenize(text);
    return [tokens, Sentence.attend(tokens).map(
        head => head.map(row => [...row]))];
})"""


@pytest.mark.browser
@pytest.mark.parametrize("several", exhaustive_but([20], [20, 1]))
def test_typed_sentences_get_the_weights_of_attn(reads, restored, several):
    """On the page's weights; and near the model's own, which 8 bits change.

    `make test` reads one in twenty of a hundred sentences.
    """
    whole = minilm.load()
    jobs = [*attention_heads.numbers()["near"].values()]
    # Of many beginnings and ends.
    texts = SENTENCES[:: several + (several > 1)]
    found = reads.evaluate(READ, texts)
    for text, (tokens, shown) in zip(texts, found, strict=True):
        assert tokens == whole.tokens(text), text
        shown = torch.tensor(shown)  # (layers * H, L, L)
        own = maps(restored, text)
        torch.testing.assert_close(shown, own, atol=1e-4, rtol=0)
        lost = (shown - maps(whole, text))[jobs].abs().max()
        assert lost < 0.06, text  # 0.047 in the hundred


@pytest.mark.browser
def test_a_word_that_is_not_kept_is_cut_or_refused(reads):
    tokenize = "text => Sentence.tokenize(text)"
    seen = reads.evaluate(tokenize, "The hippopotamus\tslept")
    (word,) = seen["cut"]
    assert word["word"] == "hippopotamus" and len(word["pieces"]) > 1
    joined = "".join(word["pieces"]).replace("##", "")
    assert joined == "hippopotamus"
    assert seen["tokens"][:2] == ["[CLS]", "the"] and not seen["unknown"]
    assert reads.evaluate(tokenize, "my 猫 \0 Κ")["unknown"] == ["猫", "κ"]
    seen = reads.evaluate(tokenize, "one two " * 20)
    assert len(seen["tokens"]) == sentence.LONGEST
    assert seen["left"] == 40 + 2 - sentence.LONGEST
    assert reads.evaluate(tokenize, " ")["tokens"] == ["[CLS]", "[SEP]"]


def press(tab):
    tab.get_by_role("button", name="Type your own sentence (9 MB)").click()


def status(figure, words):
    figure.locator("[role=status]", has_text=words).wait_for()


def hears(figure, words):
    figure.locator("[aria-live]", has_text=re.compile(f"^{words}")).wait_for()


@pytest.mark.browser
@pytest.mark.parametrize(
    "page", exhaustive_but([FRONT], [FRONT, FIGURES["attention_heads"]])
)
def test_a_typed_sentence_takes_the_place_of_the_tokens(visit, page):
    with visit(page, width=390, theme="dark") as seen:
        figure = seen.tab.locator("[data-touch=attention_heads]")
        asked = []
        seen.tab.on("request", lambda x: asked.append(x.url))
        loaded = seen.tab.evaluate(
            "performance.getEntriesByType('resource').map(x => x.name)"
        )
        assert not any(sentence.TARGET.name in x for x in loaded)
        without_its_file_the_baked_sentences_stay(seen.tab, figure)
        press(seen.tab)  # again, and now it comes
        field = figure.get_by_label("Your sentence")
        field.wait_for()
        assert [sentence.TARGET.name in x for x in asked][0]
        assert field.evaluate("e => e === document.activeElement")
        field.fill("The students lost the game because they were young.")
        hears(figure, heard(page, "they", "students", "9."))
        figure.get_by_role("button", name="the word before").click()
        hears(figure, heard(page, "they", "because", 100))
        field.fill("Okapi love it")
        status(figure, "read in parts: “")
        hears(figure, heard(page, "it", "love", 100))
        if page != FRONT:
            hears(figure, ".+ in layer 0, head 2.$")
        field.fill("My 猫 sleeps")
        status(figure, "no piece of a word for “猫”")
        hears(figure, heard(page, "it", "love", 100))  # nothing has changed
        field.fill("A word " + "and one more " * 20)
        status(figure, "24 tokens at most")
        assert figure.locator(".touch-token").count() == sentence.LONGEST
        assert sideways_overflow(seen) <= 0
        assert serious_violations(seen, "dark") == []
        field.fill("  ")
        status(figure, "one of the book’s")
        assert figure.get_by_label("Last word").is_visible()
        assert figure.locator(".touch-token").count() == 16
        assert seen.outside == []
        (complaint,) = seen.complaints  # of the file that did not come
        assert "ERR_FAILED" in complaint


def heard(page, query, key, share):
    """The beginning of what a page says; the front page says a sentence."""
    if page == FRONT:
        return f"{share}\xa0% of “{query}”’s attention is on “{key}”"
    return f"{query} → {key} {share}\xa0%, "


def without_its_file_the_baked_sentences_stay(tab, figure):
    tab.route("**/minilm.data.js", lambda route: route.abort())
    press(tab)
    status(figure, "could not be loaded")
    figure.get_by_text("wide", exact=True).click()
    figure.locator(".touch-token", has_text="wide").wait_for()
    figure.get_by_text("tired", exact=True).click()
    tab.unroute("**/minilm.data.js")


@pytest.mark.browser
def test_a_page_that_is_opened_as_a_file_reads_a_sentence(browser, book):
    with Visit(browser, book.as_uri(), FRONT) as seen:
        press(seen.tab)
        seen.tab.get_by_label("Your sentence").fill("I love it")
        seen.tab.locator(".touch-token", has_text="love").wait_for()
        tokens = seen.tab.locator(".touch-token span").all_inner_texts()
        assert tokens == ["start", "i", "love", "it", "end"]
