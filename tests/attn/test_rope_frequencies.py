"""Every type of RoPE has transformers' own frequencies, to the last bit."""

import pytest
import torch
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox import modeling_gpt_neox as neox

import attn
from tests.attn.cases import assert_equal

MAX_LEN = 4096
LONG = {"original_max_position_embeddings": 512}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, **LONG}


def longrope(pairs):
    return {
        "short_factor": [1.0 + i / 10 for i in range(pairs)],
        "long_factor": [1.5 + i for i in range(pairs)],
        **LONG,
    }


# type, parameters, length of the input
TYPES = [
    ("linear", {"factor": 4.0}, None),
    ("linear", {"factor": 1.0}, None),
    ("linear", {"factor": 4.0, "partial_rotary_factor": 0.5}, None),
    ("dynamic", {"factor": 2.0}, None),
    ("dynamic", {"factor": 2.0}, 100),
    ("dynamic", {"factor": 3.0}, 3 * MAX_LEN + 1),
    ("dynamic", {"factor": 3.0, "partial_rotary_factor": 0.25}, 10_000),
    ("yarn", {"factor": 8.0, **LONG}, None),
    ("yarn", {"factor": 0.5, **LONG}, None),
    ("yarn", {"factor": 8.0, "attention_factor": 1.3, **LONG}, None),
    ("yarn", {"factor": 8.0, "beta_fast": 16, "beta_slow": 2, **LONG}, 9),
    ("yarn", {"factor": 8.0, "truncate": False, **LONG}, None),
    ("yarn", {"factor": 8.0, "beta_fast": 1, "truncate": False, **LONG}, 9),
    ("yarn", {"factor": 8.0, "mscale": 0.7, **LONG}, None),
    (
        "yarn",
        {"factor": 40.0, "mscale": 0.7, "mscale_all_dim": 1.1, **LONG},
        None,
    ),
    ("yarn", {"factor": None, **LONG}, None),
    ("yarn", {"factor": 4.0, "partial_rotary_factor": 0.5, **LONG}, None),
    ("yarn", {"factor": 4.0, "original_max_position_embeddings": 6}, None),
    ("longrope", longrope(32), None),
    ("longrope", longrope(32), 512),
    ("longrope", longrope(32), 513),
    ("longrope", {"factor": 16.0, **longrope(32)}, 600),
    ("longrope", {"factor": 1.0, **longrope(32)}, 600),
    ("longrope", {"attention_factor": 1.2, **longrope(32)}, 600),
    ("longrope", {"partial_rotary_factor": 0.5, **longrope(16)}, 600),
    ("llama3", {"factor": 8.0, **LLAMA3}, None),
    ("llama3", {"factor": 32.0, **LLAMA3}, 10**5),
    ("llama3", {"factor": 8.0, "partial_rotary_factor": 0.5, **LLAMA3}, None),
    ("proportional", {}, None),
    ("proportional", {"partial_rotary_factor": 0.25}, None),
    ("proportional", {"partial_rotary_factor": 0.3, "factor": 2.0}, None),
]
# Heads that are no multiple of 64, beside these.
ODD = (
    ("linear", {"factor": 3.0}, None),
    ("dynamic", {"factor": 3.0}, None),
    ("yarn", {"factor": 3.0, **LONG}, None),
    ("llama3", {"factor": 3.0, **LLAMA3}, None),
    ("proportional", {"partial_rotary_factor": 0.4}, None),
)
CASES = [(*x, 64, base) for x in TYPES for base in (5.0, 1e4, 5e5, 1e6)]
CASES += [(*x, head_dim, 1e4) for x in ODD for head_dim in (6, 10, 66, 80)]


def by_transformers(kind, head_dim, base, parameters, seq_len):
    config = LlamaConfig(
        hidden_size=3 * head_dim,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=head_dim,
        max_position_embeddings=MAX_LEN,
        rope_parameters={
            "rope_type": kind,
            "rope_theta": base,
            **parameters,
        },
    )
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)


def test_every_rope_type_of_transformers_is_tested():
    assert {kind for kind, *_ in TYPES} == set(ROPE_INIT_FUNCTIONS)


@pytest.mark.parametrize("kind,given,seq_len,head_dim,base", CASES)
def test_frequencies_equal_transformers(kind, given, seq_len, head_dim, base):
    ours = attn.rope_frequencies(
        head_dim,
        base,
        kind,
        seq_len=seq_len,
        max_position_embeddings=MAX_LEN,
        **given,
    )
    theirs = by_transformers(kind, head_dim, base, given, seq_len)
    assert torch.equal(ours.inv_freq, theirs[0])
    assert ours.attention_factor == theirs[1]
    assert ours.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("part", (1.0, 0.25, 0.35))
def test_default_frequencies_equal_gpt_neoxs(part):
    config = GPTNeoXConfig(
        hidden_size=192,
        num_attention_heads=3,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 12345.0,
            "partial_rotary_factor": part,
        },
    )
    theirs = neox.GPTNeoXRotaryEmbedding(config)
    ours = attn.rope_frequencies(64, 12345.0, partial_rotary_factor=part)
    assert torch.equal(ours.inv_freq, theirs.inv_freq)
    assert ours.attention_factor == theirs.attention_scaling


DYNAMIC = {"type": "dynamic", "factor": 2.0}
WRONG = [
    ({"type": "ntk"}, "type must be one of .*; got 'ntk'"),
    ({"head_dim": 7}, "must be an even number.*; got 7 of 7"),
    ({"head_dim": 0}, "must be an even number.*; got 0 of 0"),
    ({"partial_rotary_factor": 0.3}, "must be an even number.*; got 19 of 64"),
    ({"partial_rotary_factor": 0.0}, "must be above 0 .*; got 0.0"),
    ({"partial_rotary_factor": 1.5}, "and at most 1; got 1.5"),
    ({"type": "linear"}, "^factor must be given with type 'linear'"),
    ({"factor": 2.0}, "^factor must not be given with type 'default'"),
    ({"type": "linear", "factor": 0.0}, "factor must be positive; got 0.0"),
    (
        {"type": "linear", "factor": 2.0, "beta_fast": 3},
        "^beta_fast must not be given .* are factor$",
    ),
    (DYNAMIC, "max_position_embeddings must be given"),
    (DYNAMIC | {"max_position_embeddings": 9, "head_dim": 2}, "got one pair"),
    ({"type": "yarn", "factor": 2.0}, "^original_max.* must be given"),
    ({"type": "yarn", **LONG}, "max_position_embeddings must be given"),
    (
        {"type": "llama3", "factor": 2.0},
        "^low_freq_factor, high_freq_factor, .* must be given",
    ),
    (
        {"type": "longrope", **longrope(16)},
        "short_factor must have .* 32 pairs; got 16",
    ),
]


@pytest.mark.parametrize("arguments,says", WRONG)
def test_errors_of_rope_frequencies_name_the_argument(arguments, says):
    with pytest.raises(ValueError, match=says):
        attn.rope_frequencies(**{"head_dim": 64, **arguments})


@pytest.mark.parametrize(
    "kind,parameters,seq_len",
    [
        ("default", {}, 9),
        ("dynamic", {"factor": 2.0, "max_position_embeddings": 8}, 20),
        (
            "longrope",
            {
                "short_factor": [1.0] * 4,
                "long_factor": [3.0, 4.0, 5.0, 6.0],
                "original_max_position_embeddings": 16,
                "factor": 4.0,
            },
            17,
        ),
    ],
)
def test_the_module_scales_by_each_inputs_length(kind, parameters, seq_len):
    rope = attn.Rope(8, type=kind, **parameters)
    for length in (4, seq_len, 4):  # long inputs leave no trace
        positions = torch.arange(length)
        expected = attn.rope_tables(
            positions,
            attn.rope_frequencies(8, type=kind, seq_len=length, **parameters),
        )
        assert_equal(rope(positions), expected)
    assert not rope.state_dict()
    rope.bfloat16()
    assert rope(positions)[0].dtype == torch.float32
