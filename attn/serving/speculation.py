"""Several tokens a forward pass: read a draft, keep what is right.

Source: Leviathan et al. 2023, "Fast Inference from Transformers via
Speculative Decoding".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.nn import Transformer
from attn.nn.decoding import check_length
from attn.nn.generation import evaluating
from attn.serving.drafts import Draft, trim
from attn.serving.request import Request, as_ids
from attn.serving.served_models import check_model
from attn.serving.trees import check_parents, tree_mask, tree_positions


class Verified(NamedTuple):
    """The accepted part of a draft.

    Example:
        >>> attn.serving.Verified(nodes=[0, 1], tokens=[7, 9])
        Verified(nodes=[0, 1], tokens=[7, 9])
    """

    nodes: list[int]  # the path, from the root
    tokens: list[int]  # those accepted, and one more that the model adds


class Speculated(NamedTuple):
    """A text, and what it took.

    Example:
        >>> out = attn.serving.Speculated(torch.tensor([[1, 2, 3]]), 1)
        >>> out.num_forwards
        1
    """

    ids: Tensor  # (1, L + N)
    num_forwards: int


def verify_greedy(
    parents: Sequence[int] | Tensor,
    tokens: Sequence[int] | Tensor,
    logits: Tensor,
) -> Verified:
    """Accept the longest path that greedy decoding would have taken.

    Args:
        parents: of each node, ``(T,)``. Node 0 is the only root: the last
            token of the text, which is no guess.
        tokens: of each node, ``(T,)``.
        logits: after each node, ``(T, V)``, of one forward pass with
            ``tree_mask`` and ``tree_positions``.

    Returns:
        ``nodes``, the accepted path, root included, and ``tokens``: those
        of the path behind the root, and the model's own next one. There is
        always at least one.

    Raises:
        ValueError: shapes differ, or there is not one root.

    Example:
        >>> logits = torch.eye(10)[[5, 6, 7]]  # the best after each node
        >>> attn.serving.verify_greedy([-1, 0, 0], [4, 9, 5], logits)
        Verified(nodes=[0, 2], tokens=[5, 7])
    """
    tree = check_parents(parents)
    drafted = as_ids("tokens", tokens)
    shape = (len(tree), len(drafted))
    arguments.tensor("logits", logits, floating=True)
    reason = "which decide on the tokens"
    tracing.require_values(reason, parents=tree, logits=logits)
    fits = logits.dim() == 2 and (len(logits), len(logits)) == shape
    if not fits or not logits.shape[1]:
        raise ValueError(
            f"tokens and logits must have an entry for each of {len(tree)} "
            f"parents; got {len(drafted)} tokens and logits of shape "
            f"{tuple(logits.shape)}"
        )
    roots = int((tree == -1).sum())
    if roots != 1:
        raise ValueError(
            "parents must have one root, the last token of the text; got "
            f"{roots}"
        )
    best = logits.argmax(-1).tolist()
    path = {0: [0]}  # accepted nodes, each with the path to it
    for node, parent in enumerate(tree.tolist()):
        if parent in path and drafted[node] == best[parent]:
            path[node] = [*path[parent], node]
    nodes = max(path.values(), key=len)  # the first of equal ones
    return Verified(nodes, [best[x] for x in nodes])


@torch.no_grad()
def speculative_decode(
    model: Transformer,
    ids: Tensor,
    max_new_tokens: int,
    draft: Callable[[list[int]], Draft],
    *,
    eos: int | Sequence[int] | None = None,
) -> Speculated:
    """Continue a text greedily, several tokens a forward pass.

    Each pass reads the tokens that are not in the cache, the draft behind
    them, and checks all guesses at once. The text is that of
    ``attn.generate``, up to near-ties. Keys of rejected guesses are
    forgotten; those of a branch other than the first are read again, as they
    are not in one piece.

    Args:
        model: a causal ``attn.Transformer``. For drafts with branches, one
            without windows and ALiBi, which count keys by their place.
        ids: the prompt, ``(1, L)``.
        max_new_tokens: most tokens to append.
        draft: from the text so far to guesses of what follows, such as
            ``lambda text: prompt_lookup(text, 3, 8)``; may be empty.
        eos: the token that ends the text, or several.

    Returns:
        ``ids``, ``(1, L + N)``, and ``num_forwards``, of the model.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> model = attn.Transformer(attn.llama_style(
        ...     vocab_size=9, embed_dim=16, num_layers=2, num_heads=4,
        ... ))
        >>> prompt = torch.tensor([[1, 2, 3, 1, 2]])
        >>> lookup = lambda text: attn.serving.prompt_lookup(text, 2, 4)
        >>> out = attn.serving.speculative_decode(model, prompt, 30, lookup)
        >>> exact = attn.generate(model, prompt, 30)
        >>> torch.equal(out.ids, exact), out.num_forwards < 30
        (True, True)

    Source: transformers ``assisted_decoding`` with
    ``prompt_lookup_num_tokens``; Miao et al. 2024, "SpecInfer" (trees).
    """
    check_model(model)
    arguments.tensor("ids", ids)
    arguments.function("draft", draft, " from tokens to a Draft")
    if ids.dim() != 2 or len(ids) != 1:
        raise ValueError(
            f"ids must be one prompt, (1, L); got {tuple(ids.shape)}"
        )
    request = Request("text", ids[0], max_new_tokens, eos)
    check_length(model, request.max_tokens)
    caches = model.new_caches()
    read = num_forwards = 0
    with evaluating(model):
        while not request.is_finished:
            text = request.token_ids
            room = max_new_tokens - len(request.output_ids) - 1
            guess = trim(draft(list(text)), room, model.config.vocab_size)
            pending = text[read:]
            last = len(pending) - 1
            parents = [
                *range(-1, last),
                *(last + 1 + x if x >= 0 else last for x in guess.parents),
            ]
            is_chain = parents == list(range(-1, len(parents) - 1))
            tree = ids.new_tensor(parents)
            if not is_chain:
                _check_branches(model)
            logits = model(
                ids.new_tensor([[*pending, *guess.tokens]]),
                None if is_chain else tree_mask(tree, read),
                positions=tree_positions(tree, read),
                caches=caches,
                logits_to_keep=len(guess.tokens) + 1,
            )[0]
            num_forwards += 1
            verified = verify_greedy(
                [-1, *(x + 1 for x in guess.parents)],
                [text[-1], *guess.tokens],
                logits,
            )
            # Nodes that follow the root without a gap are stored in place.
            kept = sum(i == x for i, x in enumerate(verified.nodes))
            read += last + kept
            for cache in caches:
                cache.crop(read)
            for token in verified.tokens:
                if request.append(token):
                    break
    return Speculated(ids.new_tensor([request.token_ids]), num_forwards)


def _check_branches(model: Transformer) -> None:
    """Refuse layers that count the keys of other branches."""
    c = model.config
    windows = [c.of_layer("window", i) for i in range(c.num_layers)]
    if c.positions == "alibi" or any(x is not None for x in windows):
        raise ValueError(
            "draft must have no branches for a model with windows or ALiBi, "
            "which count the keys between two tokens: those of other "
            "branches, too; use branches=1"
        )
