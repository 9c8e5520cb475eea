"""Solutions of chapter 16. Each signature and docstring is the task."""

import math

import torch
from torch import Tensor


def paged_attention(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    block_table: Tensor,
    seq_len: Tensor,
) -> Tensor:
    """Attend from one query of each row to the row's pages.

    Token t of row b is in page ``block_table[b, t // P]``, slot
    ``t % P``. The query is the row's last token and sees all of it.
    Query head h reads key head ``h // G``; scores are scaled by
    ``1 / sqrt(D)``. A row without tokens gives 0. Slots that were
    never written hold anything, NaN too. Gather each row's keys into
    one piece; a server's kernel does without that copy.

    Args:
        query: ``(B, H, D)``.
        key_pages: the pool, ``(N, Hkv, P, D)``.
        value_pages: ``(N, Hkv, P, Dv)``.
        block_table: ``(B, M)``, integers; -1 after a row's last page.
        seq_len: tokens of each row, ``(B,)``, at most ``M * P``.

    Returns:
        ``(B, H, Dv)``.
    """
    B, H, D = query.shape
    pages = block_table.clamp(min=0).long()  # (B, M)
    key = key_pages[pages].transpose(1, 2).flatten(2, 3)
    value = value_pages[pages].transpose(1, 2).flatten(2, 3)
    Hkv, S = key.shape[1:3]
    real = torch.arange(S) < seq_len[:, None]  # (B, S)
    # 0 * NaN is NaN: what was never written must go.
    value = value.masked_fill(~real[:, None, :, None], 0)
    query = query.reshape(B, Hkv, H // Hkv, D)
    scores = query @ key.mT / math.sqrt(D)  # (B, Hkv, G, S)
    scores = scores.masked_fill(~real[:, None, None], -math.inf)
    weights = scores.softmax(-1)
    weights = weights.masked_fill(~real[:, None, None], 0)
    return (weights @ value).flatten(1, 2)  # (B, H, Dv)


def match_prefix(
    cached: list[tuple[list[int], list[int]]],
    ids: list[int],
    page_size: int,
) -> tuple[list[int], int]:
    """Find the cached pages that a new prompt can share.

    A token's key and value depend on every token before it, so a page
    fits only where all tokens up to its end are the same. Share full
    pages only: another is still being written. Match as much as
    possible, but leave at least the prompt's last token to be computed:
    its logits are needed.

    Args:
        cached: the token ids of each earlier request, and its pages in
            order. Where prefixes are the same, so are their pages.
        ids: of the new prompt, at least one.
        page_size: tokens in a page.

    Returns:
        The shared pages, in order; how many tokens they hold, an int.
    """
    best: list[int] = []
    for old, pages in cached:
        most = min(len(old), len(ids) - 1) // page_size
        n = 0
        while n < most:
            end = (n + 1) * page_size
            if old[:end] != ids[:end]:
                break
            n += 1
        if n > len(best):
            best = pages[:n]
    return best, len(best) * page_size


def schedule(
    running: dict[str, tuple[int, int]],
    waiting: dict[str, int],
    free_pages: int,
    page_size: int,
    max_num_batched_tokens: int,
) -> tuple[dict[str, int], list[str], list[str]]:
    """Decide which tokens the next step of a server computes.

    Running requests go first, in order: each gets its missing tokens,
    as many as are left of ``max_num_batched_tokens``. If the pages for
    them are not free, the last running request is preempted and gives
    its pages back, then the one before it, and at last the request
    itself. If none was preempted, waiting requests follow in the same
    way, up to the first for which the pages of this step's tokens, not
    of its whole prompt, are not free. A request whose last token is
    computed samples the next. Each request fits into the pool alone.

    Args:
        running: tokens computed, and tokens in all, of each request.
            Its computed tokens are on pages of its own, of which the
            last may not be full.
        waiting: tokens of each request; none is computed.
        free_pages, page_size: pages left, and tokens in a page.
        max_num_batched_tokens: of all requests together.

    Returns:
        How many tokens of each request to compute, without zeros; the
        requests preempted, in the order in which they were; and those
        that sample, running ones first, each kind in its order.
    """
    held = {
        x: -(-done // page_size) for x, (done, _) in running.items()
    }
    counts, preempted, sampled = {}, [], []
    budget, left = max_num_batched_tokens, list(running)
    while left and budget:
        request = left.pop(0)
        done, total = running[request]
        count = min(total - done, budget)
        need = -(-(done + count) // page_size) - held[request]
        while need > free_pages:
            last = left.pop() if left else request
            free_pages += held[last]
            preempted.append(last)
            if last == request:
                return counts, preempted, sampled
        counts[request] = count
        budget, free_pages = budget - count, free_pages - need
        if done + count == total:
            sampled.append(request)
    for request, total in waiting.items():
        count = min(total, budget)
        need = -(-count // page_size)
        if preempted or not count or need > free_pages:
            break
        counts[request] = count
        budget, free_pages = budget - count, free_pages - need
        if count == total:
            sampled.append(request)
    return counts, preempted, sampled


def tree_mask(parents: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:
    """Mask a tree of drafted tokens, so that one forward checks it all.

    A drafted token sees the text, its own ancestors and itself, as if
    its branch were the only one. Its position is that which it would
    have in its branch.

    Args:
        parents: ``(N,)``, int64: the index of the draft before each
            draft, which is smaller than its own; -1 where the text is
            what comes before.
        seq_len: tokens of the text, 0 or more.

    Returns:
        The mask, bool, True = may attend, ``(N, S)``, where S is
        ``seq_len + N``, the text first; and the positions, int64,
        ``(N,)``.
    """
    tree = torch.eye(len(parents), dtype=torch.bool)
    for i, parent in enumerate(parents.tolist()):
        if parent >= 0:
            tree[i] |= tree[parent]
    text = torch.ones(len(parents), seq_len, dtype=torch.bool)
    mask = torch.cat([text, tree], -1)  # (N, S)
    return mask, mask.sum(-1) - 1


def acceptance(
    target: Tensor, draft: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Give the law by which drafted tokens are accepted.

    Draft i was drawn from ``draft[i]`` and is accepted with probability
    ``min(1, target / draft)``, both of that token. The first that is
    rejected is replaced by a draw from what the target has in excess,
    ``max(0, target - draft)``, scaled to sum 1. If all are accepted,
    the target gives one token more.

    Args:
        target: probabilities of V words at each place, ``(K + 1, V)``.
        draft: those that the drafts were drawn from, ``(K, V)``.
        tokens: the drafts, ``(K,)``, int64; ``draft`` is not 0 there.

    Returns:
        The probability to accept each draft if those before it were,
        ``(K,)``; and from what to draw the token that comes after 0, 1,
        … K drafts, ``(K + 1, V)``. Where target and draft agree, a row
        is zeros: nothing is rejected there, and nothing drawn from it.
    """
    place = torch.arange(len(tokens))
    p, q = target[place, tokens], draft[place, tokens]  # (K,)
    accept = (p / q).clamp(max=1)
    excess = (target[:-1] - draft).clamp(min=0)  # (K, V)
    total = excess.sum(-1, keepdim=True)
    excess = excess / total.masked_fill(total == 0, 1)
    return accept, torch.cat([excess, target[-1:]])  # (K + 1, V)
