"""attn.linear against transformers' own functions and modules."""

import pytest
import torch
import torch.nn.functional as F

from attn.linear import gated_delta_rule, linear_attention, short_convolution
from attn.nn import GatedDeltaNet
from tests.attn.cases import distance, randn

pytest.importorskip("transformers")

import transformers as T
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.mamba2 import modeling_mamba2 as mamba2
from transformers.models.minimax import modeling_minimax as minimax
from transformers.models.olmo_hybrid import modeling_olmo_hybrid as olmo
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

B, L, E, HK, H, D, DV = 2, 70, 32, 2, 4, 8, 12
#: All of them compute in float32; ours is exact beside it.
TOLERANCE = 2e-5
DELTA = {
    "hidden_size": E,
    "linear_num_key_heads": HK,
    "linear_num_value_heads": H,
    "linear_key_head_dim": D,
    "linear_value_head_dim": DV,
    "num_hidden_layers": 4,
}


def randomised(module):
    """Draw every parameter: as initialised, a wrong mapping can look right."""
    for i, (name, x) in enumerate(sorted(module.named_parameters())):
        size = 0.1 if name.startswith(("in_proj", "qkv")) else 0.4
        x.data = size * randn(*x.shape, seed=i, dtype=torch.float32)
    return module.eval()


def close(got, want):
    size = max(1.0, float(want.detach().abs().max()))
    assert distance(got.detach(), want.detach().double()) <= TOLERANCE * size


def test_decays_by_channel_are_kimi_delta_attention():
    q, k = (randn(B, H, L, D, seed=i).float() for i in (1, 2))
    v = randn(B, H, L, DV, seed=3).float()
    g = -F.softplus(randn(B, H, L, D, seed=4)).float()
    x = (q, k, v, g, randn(B, H, L, seed=5).sigmoid().float())
    start = randn(B, H, D, DV, seed=6).float()
    options = {"initial_state": start, "output_final_state": True}
    theirs = [y.transpose(1, 2) for y in x]
    for function in (
        kimi.recurrent_kimi_delta_attention,
        kimi.chunk_kimi_delta_attention,
    ):
        out, state = function(*theirs, use_qk_l2norm_in_kernel=True, **options)
        got, end = gated_delta_rule(*x, **options)
        close(got, out.transpose(1, 2))
        close(end, state)


@pytest.mark.parametrize("negative", (None, False, True))
def test_a_gated_delta_net_loads_theirs_and_gives_its_output(negative):
    """Qwen3-Next's, and OLMo's, with negative eigenvalues or without."""
    if negative is None:
        config, options = T.Qwen3NextConfig(**DELTA), {}
        theirs = qwen.Qwen3NextGatedDeltaNet(config, 0)
    else:
        config = T.OlmoHybridConfig(**DELTA, linear_allow_neg_eigval=negative)
        options = {"allow_neg_eigval": negative, "norm_eps": 1e-5}
        theirs = olmo.OlmoHybridGatedDeltaNet(config, 0)
    randomised(theirs)
    ours = GatedDeltaNet(E, HK, D, H, DV, **options)
    ours.load_state_dict(theirs.state_dict())
    x = randn(B, L, E, seed=7).float()
    real = torch.ones(B, L, dtype=torch.bool)
    real[1, :9] = False  # they need padding on the left
    with torch.no_grad():
        close(ours(x), theirs(x))
        want = theirs(x, attention_mask=real.long())
        got = ours(x, key_padding_mask=~real)
    close(got[real], want[real])
    again = GatedDeltaNet(E, HK, D, H, DV, **options)
    again.load_state_dict(ours.state_dict())  # its own names too


def test_a_decay_by_head_is_minimaxs_lightning_attention():
    config = T.MiniMaxConfig(
        hidden_size=E, num_attention_heads=H, head_dim=D, block_size=16,
        num_hidden_layers=4,
    )  # fmt: skip
    theirs = randomised(minimax.MiniMaxLightningAttention(config, 1))
    x = randn(B, L, E, seed=7).float()
    want, state = theirs(x, None, None)
    weights = theirs.state_dict()
    # The slopes of ALiBi, lowered layer by layer, are minus the log decay.
    q, k, v = (
        F.silu(x @ weights["qkv_proj.weight"].T)
        .unflatten(-1, (H, 3, D))
        .permute(3, 0, 2, 1, 4)
    )
    g = -weights["slope_rate"].flatten()
    out, end = linear_attention(q, k, v, g, scale=1.0, output_final_state=True)
    out = theirs.norm(out.transpose(1, 2).flatten(-2))
    gate = (x @ weights["output_gate.weight"].T).sigmoid()
    close((gate * out) @ weights["out_proj.weight"].T, want)
    close(end, state)


@pytest.mark.parametrize("groups", (1, 2))
def test_a_decay_by_token_is_mamba_2(groups):
    N, P = 12, 16  # their state size is our D, their head_dim our Dv
    config = T.Mamba2Config(
        hidden_size=E, num_heads=H, head_dim=P, state_size=N, expand=2,
        n_groups=groups, chunk_size=16, num_hidden_layers=1,
    )  # fmt: skip
    theirs = randomised(mamba2.Mamba2Mixer(config, 0))
    x = randn(B, L, E, seed=7).float()
    w = theirs.state_dict()
    inner, shared = H * P, groups * N
    gate, mixed, dt = (x @ w["in_proj.weight"].T).split(
        [inner, inner + 2 * shared, H], -1
    )
    mixed, _ = short_convolution(
        mixed, w["conv1d.weight"][:, 0], w["conv1d.bias"]
    )
    value, key, query = (
        y.unflatten(-1, (heads, -1)).transpose(1, 2)
        for y, heads in zip(
            mixed.split([inner, shared, shared], -1),
            (H, groups, groups),
            strict=True,
        )
    )
    dt = F.softplus(dt + w["dt_bias"]).mT  # (B, H, L)
    g = -w["A_log"].exp()[:, None] * dt
    out, _ = linear_attention(query, key, value * dt[..., None], g, scale=1.0)
    out = out + w["D"][:, None, None] * value  # around the state
    out = theirs.norm(out.transpose(1, 2).flatten(-2), gate)
    close(out @ w["out_proj.weight"].T, theirs(x))
