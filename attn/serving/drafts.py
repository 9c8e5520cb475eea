"""Guesses of the next tokens, from the text itself.

Source: Saxena 2023, "Prompt Lookup Decoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from attn import arguments
from attn.serving.request import as_ids
from attn.serving.trees import check_parents, tree_positions


class Draft(NamedTuple):
    """Guesses of the next tokens, as a tree below the last token.

    Example:
        >>> attn.serving.Draft(tokens=[7, 8, 9], parents=[-1, 0, -1])
        Draft(tokens=[7, 8, 9], parents=[-1, 0, -1])
    """

    tokens: list[int]
    parents: list[int]  # -1 is the last token of the text


def prompt_lookup(
    ids: Sequence[int] | Tensor, ngram: int, k: int, branches: int = 1
) -> Draft:
    """Guess that the text goes on as it did before.

    The last ``ngram`` tokens are searched for in the text, then fewer of
    them. What followed is the draft. Several finds become branches of one
    tree, which has their common beginning once.

    Args:
        ids: the text, ``(L,)``.
        ngram: most tokens to search for, at least 1.
        k: most tokens of a branch, at least 1.
        branches: most finds to follow, the earliest first.

    Returns:
        A tree below the last token; empty when nothing is found.

    Raises:
        ValueError: a size is wrong.

    Example:
        >>> text = [1, 2, 3, 4, 1, 2, 5, 6, 1, 2]
        >>> attn.serving.prompt_lookup(text, ngram=2, k=2, branches=2)
        Draft(tokens=[3, 4, 5, 6], parents=[-1, 0, -1, 2])

    Source: transformers ``PromptLookupCandidateGenerator``, which has one
    branch.
    """
    text = as_ids("ids", ids)
    arguments.counts(ngram=ngram, k=k, branches=branches)
    draft, found = Draft([], []), 0
    for n in range(min(ngram, len(text) - 1), 0, -1):
        for end in range(n, len(text)):
            if text[end - n : end] == text[-n:] and found < branches:
                found += _graft(draft, text[end : end + k])
        if found == branches:
            break
    return draft


def trim(draft: Draft, depth: int, vocab_size: int) -> Draft:
    """Return the nodes of at most this depth, where 1 is a first guess."""
    if not isinstance(draft, Draft):
        raise TypeError(
            "draft must return an attn.serving.Draft, tokens and parents; got "
            f"{type(draft).__name__}"
        )
    tokens = as_ids("tokens of a draft", draft.tokens)
    if not tokens:
        return draft
    if len(tokens) != len(draft.parents):
        raise ValueError(
            "draft must have a parent for each token; got "
            f"{len(tokens)} tokens and {len(draft.parents)} parents"
        )
    if max(tokens) >= vocab_size:
        raise ValueError(
            f"tokens of a draft must be below the vocab_size, {vocab_size}; "
            f"got {max(tokens)}"
        )
    parents = check_parents(draft.parents).tolist()
    levels = tree_positions(parents, 1).tolist()
    kept = [i for i, level in enumerate(levels) if level <= depth]
    new = {-1: -1} | {old: i for i, old in enumerate(kept)}
    return Draft([tokens[i] for i in kept], [new[parents[i]] for i in kept])


def first_branch(draft: Draft) -> list[int]:
    """Return the tokens of the branch that comes first."""
    tokens, node = [], -1
    for i, (token, parent) in enumerate(zip(*draft, strict=True)):
        if parent == node:
            tokens.append(token)
            node = i
    return tokens


def _graft(draft: Draft, branch: list[int]) -> bool:
    """Add a branch below the last token; return whether a node is new."""
    node, before = -1, len(draft.tokens)
    for token in branch:
        known = list(zip(draft.parents, draft.tokens, strict=True))
        if (node, token) in known:
            node = known.index((node, token))
            continue
        draft.tokens.append(token)
        draft.parents.append(node)
        node = len(known)
    return len(draft.tokens) > before
