"""Solutions of chapter 15. Each signature and docstring is the task."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaModel


class Registry:
    """Keep attention functions under names, each with its masks.

    A registry with a parent also has the parent's pairs, those that the
    parent gets later, too. Where both have a name, its own pair counts,
    and the parent never changes: so one model can have its own "sdpa".
    The check uses two registries side by side, a parent of a parent,
    pairs that are replaced, unknown names, and half a pair, which is
    what makes a model read its padding.
    """

    def __init__(self, parent: "Registry | None" = None) -> None:
        """Start without pairs of its own."""
        super().__init__()
        self.parent = parent
        self.pairs: dict[str, tuple[Callable, Callable]] = {}

    def register(
        self, name: str, attention: Callable, mask: Callable
    ) -> None:
        """Add a pair, or replace the one of this name, in its place.

        Raises:
            TypeError: one of the two cannot be called; then the
                registry stays as it was.
        """
        if not callable(attention) or not callable(mask):
            raise TypeError(f"{name!r} must have both; got {mask!r}")
        self.pairs[name] = attention, mask

    def names(self) -> list[str]:
        """Return each name once: the parent's, then new ones."""
        above = self.parent.names() if self.parent else []
        return list(dict.fromkeys([*above, *self.pairs]))

    def __getitem__(self, name: str) -> tuple[Callable, Callable]:
        """Return the attention and the mask function of a name.

        Raises:
            KeyError: there is no such name; the text lists ``names()``.
        """
        if name in self.pairs:
            return self.pairs[name]
        if self.parent and name in self.parent.names():
            return self.parent[name]
        raise KeyError(f"{name!r} is not one of {self.names()}")


def mask_function(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int,
    kv_offset: int,
    mask_function: Callable,
    attention_mask: Tensor | None = None,
    **kwargs,
) -> Tensor:
    """Make the mask of a forward pass, as transformers asks for it.

    Row i is token ``q_offset + i`` of the text, column j is token
    ``kv_offset + j``. True where the predicate allows it *and* the key
    is a real token: ``attention_mask[b, t]`` is true for a real token
    t, and a token behind its end is not real yet (a static cache). The
    check uses prompts, decoding, caches that have dropped tokens,
    padding on either side, and predicates that look at the batch.

    Args:
        batch_size: ``B``.
        q_length: ``L``.
        kv_length: ``S``.
        q_offset: token of the first query.
        kv_offset: token of the first key.
        mask_function: ``(b, h, q, kv) -> bool`` of tensors of indices,
            which broadcast; here no head differs.
        attention_mask: bool or 0/1, ``(B, N)``; None: all are real.

    Returns:
        bool ``(B, 1, L, S)``, True = may attend. Never None.
    """
    b = torch.arange(batch_size).view(-1, 1, 1, 1)
    q = torch.arange(q_length)[:, None] + q_offset  # (L, 1)
    kv = torch.arange(kv_length) + kv_offset  # (S,)
    allowed = mask_function(b, torch.tensor(0), q, kv)
    if attention_mask is not None:
        end = kv_offset + kv_length
        missing = end - attention_mask.shape[1]
        real = F.pad(attention_mask.bool(), (0, missing))
        allowed = allowed & real[:, None, None, kv_offset:]
    return allowed.expand(batch_size, 1, q_length, kv_length)


class NoRope(nn.Module):
    """Rotate by nothing: a rotary module without positions.

    It takes the place of ``model.rotary_emb``, which a Llama calls once
    a forward pass; each layer rotates its queries and keys with what it
    returns. Angle 0, whatever the positions are. The check looks at
    values, shapes and dtype, in half precision too: with a float32
    table a bfloat16 model ends in an error.
    """

    def __init__(self, head_dim: int) -> None:
        """Remember ``D``."""
        super().__init__()
        self.head_dim = head_dim

    def forward(
        self, x: Tensor, position_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the two tables.

        Args:
            x: the hidden states, ``(B, L, E)``; dtype and device are
                theirs.
            position_ids: int64 ``(B, L)``, or ``(1, L)`` for all.

        Returns:
            ``cos`` and ``sin``, each with a row of ``D`` elements for
            each entry of ``position_ids``.
        """
        shape = (*position_ids.shape, self.head_dim)
        cos = torch.ones(shape, dtype=x.dtype, device=x.device)
        return cos, torch.zeros_like(cos)


def bidirectional_llama(model: "LlamaModel") -> "LlamaModel":
    """Turn a Llama into a model of sets, and leave its code alone.

    Every token attends to every real one, in both directions; order
    has no effect (use your ``NoRope``); ``embed_tokens`` is zero and
    frozen, since the input comes as ``inputs_embeds``; nothing is
    cached. All other weights keep their values and can be trained.
    ``model.config`` has ``is_causal`` and ``use_cache``. The check
    compares states with and without padding, under eager and SDPA: half
    an answer passes some of them.

    Args:
        model: changed in place.

    Returns:
        The model.
    """
    model.config.is_causal = False
    model.config.use_cache = False
    model.rotary_emb = NoRope(model.config.head_dim)
    model.embed_tokens.requires_grad_(False)
    model.embed_tokens.weight.zero_()
    return model
