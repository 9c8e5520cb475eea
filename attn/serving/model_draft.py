"""Guesses of the next tokens, from a smaller model."""

from __future__ import annotations

import torch

from attn import arguments
from attn.cache import Cache
from attn.nn import Transformer, generate
from attn.serving.drafts import Draft
from attn.serving.served_models import check_model


class ModelDraft:
    """Guess what a smaller model would write, greedily.

    The caches of the last texts are kept: a call reads only what follows the
    longest of them that its text begins with.

    Args:
        model: a causal ``attn.Transformer``, of the same tokens, and with
            positions for texts as long.
        k: tokens of a draft.
        max_texts: texts whose caches are kept: as many as run at a time.

    Example:
        >>> large, small = [attn.Transformer(attn.llama_style(
        ...     vocab_size=9, embed_dim=16, num_layers=n, num_heads=4,
        ... )) for n in (4, 1)]
        >>> draft = attn.serving.ModelDraft(small, k=3)
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> out = attn.serving.speculative_decode(large, ids, 30, draft)
        >>> torch.equal(out.ids, attn.generate(large, ids, 30))
        True

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via
    Speculative Decoding"; transformers ``AssistedCandidateGenerator``.
    """

    def __init__(self, model: Transformer, k: int, max_texts: int = 16):
        check_model(model)
        arguments.counts(k=k, max_texts=max_texts)
        self.model, self.k, self.max_texts = model, k, max_texts
        # Each with the guesses behind it, the one used last at the end.
        self._known: list[tuple[list[int], list[Cache]]] = []

    def __call__(self, text: list[int]) -> Draft:
        """Return a chain of ``k`` tokens that follow a text."""
        caches = self._recall(text)
        device = self.model.token_embedding.weight.device
        ids = torch.tensor([text], device=device)
        out = generate(self.model, ids, self.k, cache=caches, progress=False)
        for cache in caches:
            cache.crop(len(text))
        self._known = [*self._known, (text, caches)][-self.max_texts :]
        return Draft(out[0, len(text) :].tolist(), list(range(-1, self.k - 1)))

    def _recall(self, text: list[int]) -> list[Cache]:
        """Take the caches of the longest beginning of a text."""
        known = [x for x in self._known if x[0] == text[: len(x[0])]]
        if not known:
            return self.model.new_caches()
        best = max(known, key=lambda x: len(x[0]))
        self._known = [x for x in self._known if x is not best]
        for cache in best[1]:
            cache.crop(min(len(best[0]), len(text) - 1))
        return best[1]
