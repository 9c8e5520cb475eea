"""SmolLM2 out of its file is SmolLM2 as transformers has it."""

import random
import re

import pytest
import torch

import attn
from attn.data import smollm, smollm2, text

pytestmark = pytest.mark.skipif(
    not smollm.available(), reason=smollm.HOW_TO_INSTALL
)
LETTERS = " \n\tab129,.'é中😀<|>_\xa0"
HARD = [
    "  a  2",
    "in 2024  and 1,234.5",
    "\t\t\tif x:\n\n\n  y\r\n z",
    "don't we'll I'M",
    "你好，世界 日本語 テスト",
    "😀👩\u200d👩\u200d👧\u200d👦",
    "naïve façade Ω ½ Ⅷ ٣ x² é e\u0301",
    "\x00\x01\x7f\u200b\xa0\u3000x \ufeffx",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start<|endoftext|><|im_end|>Ġ",
    "https://x.y/z?q=1&b=%20",
    "a" * 300,
]


def strings():
    """Return hard texts, and many drawn from letters that meet badly."""
    draw = random.Random(0)
    for _ in range(500):
        yield "".join(draw.choices(LETTERS, k=draw.randrange(30)))
    yield from ["", *HARD, text()[:20000]]


def gpt2_tokenizer():
    """Return transformers' byte-level BPE with the split of llama.cpp."""
    from tokenizers import Regex, pre_tokenizers
    from transformers import GPT2Tokenizer

    settings = smollm.gguf_file().metadata
    tokens = settings["tokenizer.ggml.tokens"]
    merges = settings["tokenizer.ggml.merges"]
    theirs = GPT2Tokenizer(
        vocab={token: i for i, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in merges],
    )
    # llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM.
    words = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
    theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(
                pre_tokenizers.Split(Regex(split), "isolated")
                for split in (r"\p{N}", words + r"\s+(?!\S)|\s+")
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    kinds = settings["tokenizer.ggml.token_type"]
    special = [x for x, kind in zip(tokens, kinds, strict=True) if kind == 3]
    theirs.add_special_tokens({"additional_special_tokens": special})
    return theirs


def test_texts_are_split_as_llama_cpp_splits_them():
    ours, theirs = smollm2().tokenizer, gpt2_tokenizer()
    for string in strings():
        assert ours.encode(string).ids == theirs(string).input_ids, string


def test_decoding_the_ids_restores_every_text():
    ours = smollm2().tokenizer
    for string in strings():
        ids = ours.encode(string).ids
        assert ours.decode(ids, skip_special_tokens=False) == string


CONVERSATION = [
    {"role": "system", "content": "Answer in rhyme."},
    {"role": "user", "content": " What is 2 + 2? \n"},
    {"role": "assistant", "content": "Four {{ evermore }}."},
    {"role": "user", "content": "And <b>'3'</b> & 3?"},
]


@pytest.mark.parametrize(
    "messages", [CONVERSATION, CONVERSATION[1:2]], ids=["four", "one"]
)
def test_the_prompt_equals_apply_chat_template(messages):
    from transformers import PreTrainedTokenizerFast

    lm = smollm2()
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=lm.tokenizer, chat_template=lm.chat_template
    )
    expected = theirs.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    assert lm.prompt(messages) == expected
    assert expected.endswith("<|im_start|>assistant\n")


def test_a_question_is_a_conversation_of_one_message():
    lm = smollm2()
    said = lm.prompt("What is a mask?")
    assert said == lm.prompt([{"role": "user", "content": "What is a mask?"}])
    assert "<|im_start|>user\nWhat is a mask?<|im_end|>\n" in said
    ids = lm.encode(said)
    assert ids.shape[0] == 1 and int((ids == lm.eos).sum()) == 2


def test_a_batch_is_padded_on_the_left():
    lm = smollm2()
    texts = ["Paris", "", "The capital of France is"]
    ids, mask = lm.encode_batch(texts)
    assert ids.shape == mask.shape == (3, 5)
    for row, valid, string in zip(ids, mask.bool(), texts, strict=True):
        assert row[valid].tolist() == lm.encode(string)[0].tolist()
        assert (row[~valid] == lm.eos).all()
        assert valid.tolist() == sorted(valid.tolist())
        assert lm.decode(row) == string
    assert lm.encode_batch([]).ids.shape == (0, 0)


def test_smollm2_answers_a_question():
    heard = []
    answer = smollm2().chat(
        "What is the capital of France? Answer in one sentence.",
        streamer=heard.append,
    )
    assert answer == "The capital of France is Paris."
    assert len(heard) == 8  # seven tokens, and the end of the answer


def test_smollm2_continues_a_batch_of_texts():
    lm = smollm2()
    texts = ["The opposite of hot is", "Paris is the capital of"]
    texts = [texts[0], f"London is the capital of England. {texts[1]}"]
    ids, mask = lm.encode_batch(texts)
    out = attn.generate(lm.model, ids, 1, attention_mask=mask)
    assert [lm.decode(row[-1]) for row in out] == [" cold", " France"]


@torch.no_grad()
def test_logits_of_smollm2_equal_those_of_transformers():
    from transformers import LlamaConfig, LlamaForCausalLM

    lm = smollm2()
    weights, config = attn.hf.llama_of(smollm.gguf_file())
    config["num_hidden_layers"] = 3  # of 30, which are alike
    kept = {
        name: x
        for name, x in weights.items()
        if not re.search(r"layers\.(?![012]\.)", name)
    }
    theirs = LlamaForCausalLM(LlamaConfig(**config)).eval()
    missing, unexpected = theirs.load_state_dict(kept, strict=False)
    assert missing == ["lm_head.weight"] and unexpected == []
    ids = lm.encode("All human beings are born free and equal in 1948.")
    got = attn.hf.load(kept, config)(ids)
    torch.testing.assert_close(got, theirs(ids).logits, rtol=1e-5, atol=1e-4)


def test_the_text_is_half_a_megabyte_of_english():
    assert 300_000 < len(text()) < 800_000
    assert text().count(" the ") > 3000
    assert text() == text()
