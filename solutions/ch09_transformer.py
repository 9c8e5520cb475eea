"""Solutions of chapter 09. Each signature and docstring is the task."""

import math

import torch
import torch.nn.functional as F
from attn import apply_rope
from torch import Tensor, nn


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """Give every token mean 0 and variance 1, then scale and shift.

    Mean and variance are those of one token, over its E features; the
    variance divides by E, and ``eps`` is added to it under the root.
    Compute in float32 whatever the dtype of ``x``, and round once, at
    the end. PyTorch's layer and batch norms are not allowed. The check
    uses tokens of large mean, a constant token, half precision, and
    gradients. BERT and GPT-2 have two of these in every block.

    Args:
        x: ``(..., E)``.
        weight: factor of each feature, ``(E,)``.
        bias: added to each feature, ``(E,)``.
        eps: keeps the root away from 0.

    Returns:
        The shape and dtype of ``x``.
    """
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)  # (..., 1)
    normed = centred * torch.rsqrt(variance + eps)
    return (normed * weight + bias).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Give every token a root mean square of 1, then scale.

    Divide by the root of the mean of the squares over E, with ``eps``
    added to that mean. No mean is subtracted and no bias added. Compute
    in float32 and round at the end: in float16, the square of 300 is
    infinite. PyTorch's norms are not allowed. The check uses tokens of
    large mean, a token of zeros, half precision, and gradients. It is
    Gemma's norm; Llama's and Qwen3's round before ``weight``, too.

    Args:
        x: ``(..., E)``.
        weight: factor of each feature, ``(E,)``.
        eps: keeps the root away from 0.

    Returns:
        The shape and dtype of ``x``.
    """
    wide = x.float()
    mean_square = wide.square().mean(-1, keepdim=True)  # (..., 1)
    return (wide * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)


class SwiGLU(nn.Module):
    """The feed-forward half of a Llama block.

    Three ``nn.Linear`` layers without bias: ``gate_proj`` and
    ``up_proj`` from E to the hidden size, ``down_proj`` back to E. The
    SiLU of the gate multiplies the output of ``up_proj``, feature by
    feature. The check loads its own weights under these names, with
    hidden sizes above and below E, and compares gradients. In Llama
    most weights are in these three matrices.
    """

    def __init__(self, embed_dim: int, hidden_dim: int):
        """Create the three layers.

        Args:
            embed_dim: ``E``.
            hidden_dim: features between the layers.
        """
        super().__init__()
        self.gate_proj = nn.Linear(embed_dim, hidden_dim, bias=False)
        self.up_proj = nn.Linear(embed_dim, hidden_dim, bias=False)
        self.down_proj = nn.Linear(hidden_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute each token alone, ``(..., E)`` to ``(..., E)``."""
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(hidden)


class TransformerBlock(nn.Module):
    """A whole Llama block: pre-norm, causal, rotary, grouped heads.

    First ``x + attention(norm(x))``, then ``x + swiglu(norm(x))``. Use
    your ``rms_norm`` and ``SwiGLU``, ``apply_rope(x, cos, sin)`` on the
    heads of queries and keys, and your own attention or PyTorch's
    ``scaled_dot_product_attention`` with ``enable_gqa``. D is E // H.
    The check loads its own weights under the names that ``__init__``
    lists, varies Hkv, and compares gradients.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        hidden_dim: int,
        eps: float = 1e-5,
    ):
        """Create the parameters.

        They are ``attention_norm`` and ``feed_forward_norm``,
        ``nn.Parameter`` of ones, ``(E,)``; ``q_proj``, ``k_proj``,
        ``v_proj`` and ``out_proj``, ``nn.Linear`` without bias; and
        ``feed_forward``, your ``SwiGLU``.

        Args:
            embed_dim: ``E``.
            num_heads: ``H``, of the queries.
            num_kv_heads: ``Hkv``, of keys and values.
            hidden_dim: of the feed-forward.
            eps: of both norms.
        """
        super().__init__()
        self.eps = eps
        self.head_dim = embed_dim // num_heads
        kv_size = num_kv_heads * self.head_dim
        self.attention_norm = nn.Parameter(torch.ones(embed_dim))
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.v_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.feed_forward_norm = nn.Parameter(torch.ones(embed_dim))
        self.feed_forward = SwiGLU(embed_dim, hidden_dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Compute one layer; each token sees itself and the past.

        Args:
            x: the residual stream, ``(B, L, E)``.
            cos: of the angles of the L positions, ``(L, D)``.
            sin: ``(L, D)``.

        Returns:
            ``(B, L, E)``.
        """

        def heads(x: Tensor) -> Tensor:  # (B, L, H * D) to (B, H, L, D)
            return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        h = rms_norm(x, self.attention_norm, self.eps)
        q = apply_rope(heads(self.q_proj(h)), cos, sin)  # (B, H, L, D)
        k = apply_rope(heads(self.k_proj(h)), cos, sin)
        v = heads(self.v_proj(h))  # (B, Hkv, L, D)
        out = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        x = x + self.out_proj(out.transpose(1, 2).flatten(2))
        h = rms_norm(x, self.feed_forward_norm, self.eps)
        return x + self.feed_forward(h)


def tie_and_init(
    noise: dict[str, Tensor], num_layers: int, std: float = 0.02
) -> dict[str, Tensor]:
    """Turn noise into the initial weights of a language model.

    ``noise`` has a standard normal tensor for every parameter. Return
    weights under the same names. Matrices are multiplied by ``std``.
    Those that write to the residual stream, named ``…out_proj.weight``
    and ``…down_proj.weight``, are also divided by the root of
    ``2 * num_layers``, the number of additions. Vectors belong to norms
    and are ones. ``head.weight`` is the tensor of ``embedding.weight``,
    not a copy. The check also compares gradients, and tests the tie.

    Args:
        noise: by name, ``(n, m)`` or ``(n,)``; not to be changed.
        num_layers: blocks of the model.
        std: of a matrix, 0.02 in GPT-2.

    Returns:
        Weights by name, with the shapes of ``noise``.
    """
    added = ("out_proj.weight", "down_proj.weight")
    weights = {}
    for name, x in noise.items():
        if x.dim() == 1:
            weights[name] = torch.ones_like(x)
        elif name.endswith(added):
            weights[name] = x * std / math.sqrt(2 * num_layers)
        else:
            weights[name] = x * std
    weights["head.weight"] = weights["embedding.weight"]
    return weights


def sample(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw the next token of each text.

    Divide the logits by ``temperature``. Then keep the ``top_k`` most
    likely tokens. Of these, whose probabilities now add up to 1, keep
    the fewest whose sum reaches ``top_p``, likeliest first, and draw
    one. The check compares how often each token is drawn, and tries the
    limits; no two logits of a text are equal. These three numbers make
    a chat bold or boring.

    Args:
        logits: ``(B, V)``, not to be changed.
        temperature: 0 returns the most likely token.
        top_k: at least 1, possibly more than V; None for no limit.
        top_p: above 0, at most 1; None for no limit.
        generator: to draw with; PyTorch's own if None.

    Returns:
        Token ids, int64, ``(B,)``.
    """
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits / temperature
    if top_k is not None:
        k = min(top_k, logits.shape[-1])
        least = logits.topk(k).values[:, -1:]  # (B, 1)
        logits = logits.masked_fill(logits < least, -math.inf)
    if top_p is not None:
        ranked, order = logits.sort(-1, descending=True)
        p = ranked.softmax(-1)
        drop = p.cumsum(-1) - p >= top_p  # reached by those before
        drop = drop.scatter(-1, order, drop)  # back to token ids
        logits = logits.masked_fill(drop, -math.inf)
    p = logits.softmax(-1)
    return torch.multinomial(p, 1, generator=generator)[:, 0]


def map_llama_weights(
    state: dict[str, Tensor],
    num_heads: int,
    num_kv_heads: int,
    interleaved: bool = False,
) -> dict[str, Tensor]:
    """Rename the weights of a Llama in transformers to your own names.

    Yours are ``embedding.weight``, those of ``TransformerBlock`` after
    ``blocks.0.`` and so on, ``norm`` and ``head.weight``. Without
    ``lm_head.weight`` the head is tied: it is the embedding. Leave out
    other buffers, such as ``…inv_freq``. In an ``interleaved`` file,
    move the rows of queries and keys to where ``apply_rope`` expects
    them, head by head. The check compares each tensor, of up to twelve
    layers. With this your code runs a published model.

    Args:
        state: by transformers' name, as printed above.
        num_heads: ``H``, of the queries.
        num_kv_heads: ``Hkv``, of the keys.
        interleaved: rows of queries and keys are pairs (0, 1), (2, 3).

    Returns:
        The same tensors by your names.
    """
    inside = {
        "attention_norm": "input_layernorm.weight",
        "q_proj.weight": "self_attn.q_proj.weight",
        "k_proj.weight": "self_attn.k_proj.weight",
        "v_proj.weight": "self_attn.v_proj.weight",
        "out_proj.weight": "self_attn.o_proj.weight",
        "feed_forward_norm": "post_attention_layernorm.weight",
        "feed_forward.gate_proj.weight": "mlp.gate_proj.weight",
        "feed_forward.up_proj.weight": "mlp.up_proj.weight",
        "feed_forward.down_proj.weight": "mlp.down_proj.weight",
    }
    weights = {
        "embedding.weight": state["model.embed_tokens.weight"],
        "norm": state["model.norm.weight"],
    }
    for i in range(sum("input_layernorm" in x for x in state)):
        for mine, theirs in inside.items():
            x = state[f"model.layers.{i}.{theirs}"]
            weights[f"blocks.{i}.{mine}"] = x
        for part, count in (("q", num_heads), ("k", num_kv_heads)):
            if interleaved:
                name = f"blocks.{i}.{part}_proj.weight"
                pairs = weights[name].unflatten(0, (count, -1, 2))
                half = pairs.transpose(1, 2)  # (H, 2, D / 2, E)
                weights[name] = half.flatten(0, 2)  # (H * D, E)
    head = state.get("lm_head.weight", weights["embedding.weight"])
    weights["head.weight"] = head
    return weights
