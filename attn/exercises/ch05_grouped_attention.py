"""Exercise ``gqa-grouped_attention``: shared keys that are never copied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.draw import some_allowed
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


def grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.grouped_attention(query, key, value, attn_mask)


def _cases(g: Generator) -> Iterator[Case]:
    def qkv(
        B: int,  # noqa: N803
        Hkv: int,  # noqa: N803
        G: int,  # noqa: N803
        L: int = 3,  # noqa: N803
        S: int = 5,  # noqa: N803
        D: int = 8,  # noqa: N803
        Dv: int | None = None,  # noqa: N803
    ) -> tuple[Tensor, Tensor, Tensor]:
        shapes = (B, Hkv * G, L, D), (B, Hkv, S, D), (B, Hkv, S, Dv or D)
        q, k, v = (torch.randn(*shape, generator=g) for shape in shapes)
        return q, k, v

    def mask(*shape: int) -> Tensor:
        return some_allowed(g, *shape)

    stage = "there is one sequence and one key head"
    yield Case(stage, qkv(1, 1, 1))
    yield Case(stage, qkv(1, 1, 2, L=4, S=7, D=6))

    # Axes that meet wrongly fit all the same where they are as long.
    stage = "B, Hkv and G are the same: who reads whose keys?"
    yield Case(stage, qkv(2, 2, 2, S=1, D=4))
    yield Case(stage, qkv(2, 2, 2))
    yield Case(stage, qkv(3, 3, 3, L=2, S=4))

    stage = "every query head has its own key head (H = Hkv)"
    yield Case(stage, qkv(2, 4, 1))
    yield Case(stage, qkv(3, 3, 1, L=2))
    yield Case(stage, qkv(1, 3, 1, L=1))

    stage = "Hkv is larger than G"
    yield Case(stage, qkv(2, 3, 2, S=1, D=4))
    yield Case(stage, qkv(3, 4, 2, L=5, D=6))
    yield Case(stage, qkv(1, 4, 3, L=1, S=4))

    stage = "all query heads share one key head (Hkv = 1)"
    yield Case(stage, qkv(2, 1, 4))
    yield Case(stage, qkv(3, 1, 2, L=1, D=6))

    stage = "G is larger than Hkv"
    yield Case(stage, qkv(2, 2, 3, S=7))
    yield Case(stage, qkv(1, 2, 5, L=1, S=4))
    yield Case(stage, qkv(2, 4, 6, L=2, S=3, D=4))

    stage = "values are wider or narrower than keys"
    yield Case(stage, qkv(2, 2, 3, S=7, Dv=5))
    yield Case(stage, qkv(2, 3, 2, L=2, S=4, D=4, Dv=9))

    stage = "axes have the same length"
    yield Case(stage, qkv(2, 2, 2, L=2, S=2, D=2))
    yield Case(stage, qkv(3, 3, 3, L=3, S=3, D=3))
    yield Case(stage, qkv(2, 2, 2, L=4, S=4, D=4))

    stage = "one mask serves all, (L, S)"
    yield Case(stage, (*qkv(2, 2, 3), mask(3, 5)))
    yield Case(stage, (*qkv(2, 2, 2, L=4, S=4), _causal(4)))
    yield Case(stage, (*qkv(2, 2, 3), torch.ones(3, 5).bool()))

    stage = "each sequence has its mask, and B = Hkv"
    yield Case(stage, (*qkv(2, 2, 3), mask(2, 1, 1, 5)))
    yield Case(stage, (*qkv(2, 2, 3), mask(2, 1, 3, 5)))
    yield Case(stage, (*qkv(3, 3, 2, L=2, S=4), mask(3, 1, 2, 4)))

    stage = "each sequence has its mask"
    yield Case(stage, (*qkv(3, 2, 2), mask(3, 1, 3, 5)))
    yield Case(stage, (*qkv(4, 1, 3, L=2), mask(4, 1, 1, 5)))
    yield Case(stage, (*qkv(3, 4, 1, L=2), mask(3, 1, 2, 5)))

    stage = "each query head has its mask"
    yield Case(stage, (*qkv(2, 2, 3), mask(2, 6, 3, 5)))
    yield Case(stage, (*qkv(2, 3, 2), mask(1, 6, 1, 5)))
    yield Case(stage, (*qkv(2, 2, 2, L=2, S=4), mask(2, 4, 2, 4)))

    stage = "the scores are large"
    q, k, v = qkv(2, 2, 2)
    yield Case(stage, (16 * _one_of(g, q), _ladder(g, k), v))

    stage = "the inputs are views of other tensors"
    q, k, v = (x.transpose(1, 2).contiguous() for x in qkv(2, 2, 3, S=7))
    heads_last = tuple(x.transpose(1, 2) for x in (q, k, v))
    yield Case(stage, heads_last)
    yield Case(stage, (*heads_last, mask(7, 3).mT))
    q, k, v = qkv(2, 3, 2)
    shared = k[:, :1].expand(-1, 3, -1, -1), v[..., 2:7]
    yield Case(stage, (q, *shared, mask(1, 1, 3, 5).expand(2, 6, -1, -1)))

    stage = "gradients flow back"
    yield Case(stage, qkv(2, 2, 3), grad=True)
    yield Case(stage, (*qkv(2, 3, 2, S=4), mask(2, 1, 3, 4)), grad=True)

    # The largest that is needed are the keys; a copy is G times as large.
    stage = "a token is generated: one query, and a long cache"
    yield Case(stage, qkv(1, 2, 4, L=1, S=64, D=16), max_numel=2 * 64 * 16)
    yield Case(stage, qkv(2, 2, 3, L=1, S=64, D=16), max_numel=4 * 64 * 16)
    padding = (*qkv(2, 3, 2, L=2, S=48, D=16), mask(2, 1, 1, 48))
    yield Case(stage, padding, max_numel=6 * 48 * 16)


def _causal(length: int) -> Tensor:
    return torch.ones(length, length).bool().tril()


def _one_of(g: Generator, q: Tensor) -> Tensor:
    """Queries of small whole numbers, above zero."""
    return torch.randint(1, 5, q.shape, generator=g).float()


def _ladder(g: Generator, k: Tensor) -> Tensor:
    """Keys whose scores never tie: each is above the one below it."""
    order = torch.randperm(k.shape[-2], generator=g)[:, None]
    start = torch.randint(1, 5, (*k.shape[:2], 1, k.shape[-1]), generator=g)
    return 16.0 * (start + order)


def _right_shape(case: Case, out: Tensor) -> bool:
    q, _, v = case.args[:3]
    return out.shape == (*q.shape[:-1], v.shape[-1])


def _in_the_hull(case: Case, out: Tensor) -> bool:
    q, _, v = case.args[:3]
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    low, high = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    return bool((out <= high + 1e-4).all() and (out >= low - 1e-4).all())


exercise = Exercise(
    id="gqa-grouped_attention",
    points=3,
    reference=grouped_attention,
    cases=_cases,
    hints=(
        "Query heads 0 to G - 1 all read key head 0. For that key head "
        "they are G * L queries, and nobody says that they must lie in G "
        "separate heads: a softmax looks at one row at a time.",
        "H = Hkv * G with the heads of a group next to each other, so "
        "query.reshape(B, Hkv, G * L, D) puts the queries of a group below "
        "each other. Its product with key.mT copies nothing: both have B "
        "and Hkv in front.",
        "The mask speaks of (B, H, L, S): give the scores that shape before "
        "you mask them, take the softmax, and go back to (B, Hkv, G * L, S) "
        "for the product with value. The result is (B, H, L, Dv) again, "
        "and Dv need not be D.",
    ),
    properties=(
        Property(
            "It holds as many numbers as there are query heads, queries and "
            "features of value: (B, H, L, Dv).",
            _right_shape,
        ),
        Property(
            "Query head h reads value head h // G, so that no number of its "
            "result can leave the range of that head's values, and here one "
            "does. Either another head is read, or the heads come back in "
            "another order, or the weights of a query do not sum to 1.",
            _in_the_hull,
        ),
        Property(
            "Who copies? repeat_interleave, repeat, and reshape of an "
            "expanded tensor; and a product whose leading axes differ: "
            "next to (B, Hkv, G, L, D), key.unsqueeze(2) is expanded and "
            "then copied inside the product, and so is key[:, h : h + 1] "
            "next to G heads. Let the G heads of a group be G * L rows of "
            "one matrix.",
            lambda case, out: case.max_numel is None,
        ),
    ),
)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scale: float | None = None,
    heads: Tensor | None = None,
    weigh: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Attention with a choice of scale, of key heads and of softmax."""
    if heads is None:
        group = query.shape[1] // key.shape[1]
        heads = torch.arange(query.shape[1]) // group
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key[:, heads].mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -INF)
    weights = scores.softmax(-1) if weigh is None else weigh(scores)
    return weights @ value[:, heads]


def _in_groups(query: Tensor, key: Tensor) -> Tensor:
    """``(B, Hkv, G, L, D)``."""
    return query.unflatten(1, (key.shape[1], -1))


@exercise.misconception(
    "the query heads are dealt out in turn (0, 1, 0, 1)",
    exposed_by="two key heads or more, and as many queries to each",
)
def tiled(query, key, value, attn_mask=None):
    """Query head h reads key head h % Hkv: the heads were repeated as a
    whole, or the query was cut into (B, G, Hkv, ...). Everything fits, and
    a model that is trained like this works; a checkpoint of any published
    model does not. Which query heads share key head 0 when H = 6 and
    Hkv = 2?"""
    heads = torch.arange(query.shape[1]) % key.shape[1]
    return _attend(query, key, value, attn_mask, heads=heads)


@exercise.misconception(
    "the heads of the queries meet the batch of the keys",
    exposed_by="B = Hkv = G",
)
def batch_meets_heads(query, key, value, attn_mask=None):
    """A product of (B, Hkv, G, L, D) with (B, Hkv, D, S) lines up axes from
    the right: G meets Hkv, and Hkv meets B. Mostly that is an error; when
    B = Hkv = G, or with one sequence, it runs, and a sequence reads the
    keys of another. Published notes on this very topic have it. What does
    key need between Hkv and S?"""
    B, H, L, D = query.shape  # noqa: N806
    scores = _in_groups(query, key) @ key.mT / math.sqrt(D)
    if attn_mask is not None:
        mask = attn_mask.expand(B, H, L, key.shape[2])
        scores = scores.masked_fill(~_in_groups(mask, key), -INF)
    return (scores.softmax(-1) @ value).reshape(B, H, L, -1)


@exercise.misconception(
    "the heads come back in another order (G before Hkv)",
    exposed_by="two key heads or more, and as many queries to each",
)
def merged_turned(query, key, value, attn_mask=None):
    """Each query reads the right keys, and then the result is put together
    as (B, G, Hkv, ...): query head 1 finds its answer in another place.
    The output projection of a trained model mixes the wrong heads. In
    which order did you take H apart?"""
    out = _attend(query, key, value, attn_mask)
    return _in_groups(out, key).transpose(1, 2).flatten(1, 2)


@exercise.misconception(
    "the query heads change places on the way in",
    exposed_by="two key heads or more, and as many queries to each",
)
def dealt_and_gathered(query, key, value, attn_mask=None):
    """The query is cut into (B, G, Hkv, ...) and turned, and the result is
    put together as (B, Hkv, G, ...). The order of the values looks right,
    but each head has another head's queries. H = Hkv * G: which of the two
    comes first when heads of a group are neighbours?"""
    turned = query.unflatten(1, (-1, key.shape[1])).transpose(1, 2)
    return _attend(turned.flatten(1, 2), key, value, attn_mask)


@exercise.misconception(
    "head h reads key head h // Hkv", exposed_by="Hkv and G that differ"
)
def divided_by_heads(query, key, value, attn_mask=None):
    """You divide by the number of key heads, where the size of a group
    belongs. With 4 heads and 2 it is the same; with 6 and 3 the last key
    head is never read, and with 6 and 2 there is no key head 2. How many
    query heads share a key head?"""
    heads = torch.arange(query.shape[1]) // key.shape[1]
    return _attend(query, key, value, attn_mask, heads=heads)


@exercise.misconception(
    "all query heads read key head 0", exposed_by="two key heads or more"
)
def head_zero(query, key, value, attn_mask=None):
    """Only the first key head is used: multi-query attention, whatever Hkv
    is. key[:, :1] broadcasts without a word. Which key head does query
    head H - 1 need?"""
    heads = torch.zeros(query.shape[1], dtype=torch.long)
    return _attend(query, key, value, attn_mask, heads=heads)


@exercise.misconception(
    "the query heads of a group are added up", exposed_by="G of 2 or more"
)
def added_up(query, key, value, attn_mask=None):
    """The G queries of a group become one (an einsum whose result does not
    name g sums over it), so that Hkv heads come out in place of H. A well
    known repository had exactly this. The keys are shared, the queries
    are not: which letters must the scores keep?"""
    return _attend(_in_groups(query, key).sum(2), key, value, None)


@exercise.misconception(
    "only Hkv of the query heads are used", exposed_by="G of 2 or more"
)
def cut_off(query, key, value, attn_mask=None):
    """Hkv heads come out, and H went in: the other queries were dropped so
    that the shapes fit. The keys are the ones that are shared. What should
    the shape of the result be?"""
    return _attend(query[:, : key.shape[1]], key, value, None)


@exercise.misconception(
    "the groups of the queries meet the heads of the keys",
    exposed_by="Hkv = G",
)
def groups_meet_heads(query, key, value, attn_mask=None):
    """key.unsqueeze(1) is (B, 1, Hkv, S, D), next to a query
    (B, Hkv, G, L, D): axes line up from the right, so that G meets Hkv.
    That is an error, but where both are as many: then query head h reads
    key head h % Hkv. Where does the axis of length 1 belong, so that every
    member of a group reads the group's head?"""
    B, H, L, D = query.shape  # noqa: N806
    scores = _in_groups(query, key) @ key.unsqueeze(1).mT / math.sqrt(D)
    if attn_mask is not None:
        mask = attn_mask.expand(B, H, L, key.shape[2])
        scores = scores.masked_fill(~_in_groups(mask, key), -INF)
    out = scores.softmax(-1) @ value.unsqueeze(1)
    return out.reshape(B, H, L, -1)


@exercise.misconception(
    "heads and positions change places in the packing",
    exposed_by="L and G of 2 or more",
)
def rows_turned(query, key, value, attn_mask=None):
    """The rows of a group are packed as (L, G) and read back as (G, L), or
    the other way round. With one new token (L = 1) it is the same, so that
    generation works and the prompt does not. In which order do the rows
    lie, and who says so when you unpack them?"""
    out = _in_groups(_attend(query, key, value, attn_mask), key)
    B, _, _, L, Dv = out.shape  # noqa: N806
    return out.transpose(2, 3).reshape(B, -1, L, Dv)


@exercise.misconception(
    "the packing runs across heads and positions",
    exposed_by="L of 2 or more",
)
def packed_across(query, key, value, attn_mask=None):
    """The query was transposed to (B, L, H, D) before it was packed, so that
    the G * L rows of a "group" are the first positions of all heads. The
    shapes agree. Which rows should stand below each other for key head
    0?"""
    B, H, L, D = query.shape  # noqa: N806
    rows = query.transpose(1, 2).reshape(B, key.shape[1], -1, D)
    scores = (rows @ key.mT).view(B, L, H, -1).transpose(1, 2) / D**0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -INF)
    weights = scores.softmax(-1).transpose(1, 2)
    weights = weights.reshape(B, key.shape[1], -1, key.shape[2])
    return (weights @ value).view(B, L, H, -1).transpose(1, 2)


@exercise.misconception(
    "the packing runs across heads and positions, and is not undone",
    exposed_by="L and H of 2 or more",
)
def packed_across_only(query, key, value, attn_mask=None):
    """The query was transposed to (B, L, H, D) before it was packed, and the
    result is read as (B, H, L, Dv): most queries stand in another head, at
    another position. query is (B, H, L, D) already, with the heads of a
    group next to each other. What needs to be transposed?"""
    B, H, L, D = query.shape  # noqa: N806
    turned = query.transpose(1, 2).reshape(B, H, L, D)
    return _attend(turned, key, value, attn_mask)


@exercise.misconception(
    "view, where the query is a view already",
    exposed_by="a query that was transposed",
)
def view_fails(query, key, value, attn_mask=None):
    """query.view(B, Hkv, G * L, D) needs heads and positions to lie behind
    each other in memory, and in every real model the query is a transposed
    (B, L, H, D). Which function does the same, and copies only when it
    must?"""
    query.view(query.shape[0], key.shape[1], -1, query.shape[-1])
    return _attend(query, key, value, attn_mask)


@exercise.misconception("the scores are not scaled", exposed_by="D = 8")
def no_scale(query, key, value, attn_mask=None):
    """The scores grow with sqrt(D), and the softmax picks one key where it
    should weigh them all. What does the task divide by?"""
    return _attend(query, key, value, attn_mask, scale=1.0)


@exercise.misconception("scaled by D, not by its root", exposed_by="D = 8")
def by_width(query, key, value, attn_mask=None):
    """1 / D (or 1 / sqrt(D) twice: on the way in, and once more) makes the
    attention too even. The variance of a score is D: and its standard
    deviation?"""
    return _attend(query, key, value, attn_mask, scale=1 / query.shape[-1])


@exercise.misconception(
    "scaled by the root of G * D", exposed_by="G of 2 or more"
)
def by_group(query, key, value, attn_mask=None):
    """The width of a whole group (the query as wide as the key heads are
    few) is in the scale. Each dot product is still one of D numbers,
    however many heads share the key. Which vectors meet?"""
    width = query.shape[1] // key.shape[1] * query.shape[-1]
    return _attend(query, key, value, attn_mask, scale=width**-0.5)


@exercise.misconception(
    "scaled by the root of E = H * D", exposed_by="two heads or more"
)
def by_embedding(query, key, value, attn_mask=None):
    """The width of a token is in the scale, where the width of a head
    belongs: the attention is too even. How many terms does one dot product
    add?"""
    width = query.shape[1] * query.shape[-1]
    return _attend(query, key, value, attn_mask, scale=width**-0.5)


@exercise.misconception(
    "scaled by the width of value", exposed_by="Dv and D that differ"
)
def by_value(query, key, value, attn_mask=None):
    """The scale uses value's last axis. Nearly every model has Dv = D, so
    this sleeps until one does not. Which tensors are in the dot
    product?"""
    scale = value.shape[-1] ** -0.5
    return _attend(query, key, value, attn_mask, scale=scale)


@exercise.misconception(
    "the result is cut to D, not to Dv", exposed_by="Dv and D that differ"
)
def wrong_width(query, key, value, attn_mask=None):
    """reshape(B, H, L, D) at the end uses the width of the queries, and the
    numbers do not fill it, or overflow it. The result is a mean of values:
    how wide are those?"""
    out = _attend(query, key, value, attn_mask)
    return out.reshape(query.shape)


@exercise.misconception(
    "the softmax runs over the queries", exposed_by="one key, many queries"
)
def over_queries(query, key, value, attn_mask=None):
    """dim=-2: each key hands out a total of 1 among the queries, and a query
    may get next to nothing. Add up the weights of one query: along which
    axis do they lie?"""

    def weigh(scores: Tensor) -> Tensor:
        return scores.softmax(-2)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception(
    "the softmax runs over the packed rows", exposed_by="one key, any group"
)
def over_rows(query, key, value, attn_mask=None):
    """dim=-2 of the packed scores are the G * L queries of a group: they
    compete for each key, and a query may get next to nothing. Add up the
    weights of one query: along which axis do they lie?"""

    def weigh(scores: Tensor) -> Tensor:
        packed = _in_groups(scores, key).flatten(2, 3)
        return packed.softmax(-2).view(scores.shape)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception(
    "the softmax runs over the group", exposed_by="one key, G of 2 or more"
)
def over_group(query, key, value, attn_mask=None):
    """The G heads that share a key share out a weight of 1 among them, and
    where G = 1 every weight is 1. Sharing a key does not mean sharing its
    weight: over which axis does each query choose?"""

    def weigh(scores: Tensor) -> Tensor:
        return _in_groups(scores, key).softmax(2).flatten(1, 2)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception(
    "the softmax runs over the heads", exposed_by="one key, many heads"
)
def over_heads(query, key, value, attn_mask=None):
    """dim=1 are the heads: they share out a weight of 1 among them. Counted
    from the end, which axis of the scores are the keys?"""

    def weigh(scores: Tensor) -> Tensor:
        return scores.softmax(1)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception("no softmax", exposed_by="one key")
def no_softmax(query, key, value, attn_mask=None):
    """The raw scores multiply the values. With one key the result should be
    its value, untouched. What turns scores into weights?"""
    if attn_mask is not None:
        attn_mask = torch.ones_like(attn_mask)
    return _attend(query, key, value, attn_mask, weigh=lambda scores: scores)


@exercise.misconception(
    "no maximum is taken off", exposed_by="scores above 88"
)
def overflow(query, key, value, attn_mask=None):
    """exp of a large score is inf, and inf / inf is NaN. Which function of
    torch takes the largest score off first?"""

    def weigh(scores: Tensor) -> Tensor:
        return scores.exp() / scores.exp().sum(-1, keepdim=True)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception(
    "the keys are mixed, not the values", exposed_by="one key"
)
def keys_mixed(query, key, value, attn_mask=None):
    """The weights multiply the keys, so value is never read. Keys say what
    a token can be found by; which tensor holds what it hands over?"""
    return _attend(query, key, key, attn_mask)


@exercise.misconception("the mask is ignored", exposed_by="any mask")
def mask_ignored(query, key, value, attn_mask=None):
    """Padding and future are read like everything else. Where does your
    code read attn_mask?"""
    return _attend(query, key, value, None)


@exercise.misconception(
    "True is taken to mean drop", exposed_by="any key that is forbidden"
)
def polarity(query, key, value, attn_mask=None):
    """The weights lie on exactly the forbidden keys. masked_fill fills where
    its mask is True, and attn_mask is True where a query may attend. What
    turns True into False?"""
    if attn_mask is not None:
        attn_mask = ~attn_mask
    return _attend(query, key, value, attn_mask)


@exercise.misconception(
    "masked after the softmax, not renormalised", exposed_by="any mask"
)
def masked_after(query, key, value, attn_mask=None):
    """The forbidden weights are 0, and the others no longer sum to 1: the
    softmax had already shared some out. Can the mask act on the
    scores?"""

    def weigh(scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return weights if attn_mask is None else weights * attn_mask

    return _attend(query, key, value, None, weigh=weigh)


@exercise.misconception(
    "forbidden scores are set to 0, or nearly", exposed_by="any mask"
)
def zero_score(query, key, value, attn_mask=None):
    """A score of 0, or of -1e-9, is not a small score: exp(0) is 1, and a
    forbidden key keeps an average weight. Which score has exp equal to
    0?"""

    def weigh(scores: Tensor) -> Tensor:
        return scores.nan_to_num(neginf=0.0).softmax(-1)

    return _attend(query, key, value, attn_mask, weigh=weigh)


@exercise.misconception("the mask is added as 1 and 0", exposed_by="any mask")
def mask_added(query, key, value, attn_mask=None):
    """Adding 1 to the allowed scores multiplies their weights by 2.718 next
    to the forbidden ones: a preference and not a mask. What has to be
    added where a key is forbidden?"""

    def weigh(scores: Tensor) -> Tensor:
        scores = scores if attn_mask is None else scores + attn_mask
        return scores.softmax(-1)

    return _attend(query, key, value, None, weigh=weigh)


@exercise.misconception(
    "the mask meets the packed rows as it is", exposed_by="a mask (L, S)"
)
def mask_on_rows(query, key, value, attn_mask=None):
    """Packed scores have G * L rows and the mask has L: that is an error,
    but for one query, or a mask that is the same for all queries. The mask
    was made for (B, H, L, S). Can the scores have that shape while you
    mask them?"""
    B, H, L, D = query.shape  # noqa: N806
    rows = query.reshape(B, key.shape[1], -1, D)
    scores = rows @ key.mT / D**0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -INF)
    return (scores.softmax(-1) @ value).reshape(B, H, L, -1)


@exercise.misconception(
    "the mask's rows are repeated in the wrong order",
    exposed_by="a mask whose rows differ",
)
def mask_rows_interleaved(query, key, value, attn_mask=None):
    """The packed rows are (G, L): all queries of one head, then those of the
    next. The mask's rows were repeated one by one, as (L, G), so that a
    causal mask lets early queries see the future. Here it is the whole
    mask that must be repeated. What is row L of the packed queries?"""
    if attn_mask is None:
        return _attend(query, key, value, None)
    mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    turned = _in_groups(mask, key).transpose(2, 3).reshape(mask.shape)
    return _attend(query, key, value, turned)


@exercise.misconception(
    "the batch of the mask meets the key heads", exposed_by="B = Hkv"
)
def mask_batch_on_heads(query, key, value, attn_mask=None):
    """A mask (B, 1, L, S) next to scores (B, Hkv, G, L, S): axes line up from
    the right, so B meets Hkv. When both are 2 it runs, and a sequence is
    masked with the padding of another. How many axes do the scores have
    when you mask them, and how many does the mask expect?"""
    q = _in_groups(query, key)
    scores = q @ key.unsqueeze(2).mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -INF)
    return (scores.softmax(-1) @ value.unsqueeze(2)).flatten(1, 2)


@exercise.misconception(
    "the mask of the first head is used for its group",
    exposed_by="a mask for each query head",
)
def mask_of_first(query, key, value, attn_mask=None):
    """The heads of a group share keys and values, but each keeps its own
    mask: every G-th head's was used for the whole group, as if the mask
    belonged to the key heads. How many heads does a mask
    (B, H, L, S) have?"""
    if attn_mask is not None and attn_mask.dim() == 4:
        mask = attn_mask.expand(-1, query.shape[1], -1, -1)
        group = query.shape[1] // key.shape[1]
        attn_mask = mask[:, ::group].repeat_interleave(group, 1)
    return _attend(query, key, value, attn_mask)


@exercise.misconception(
    "the mask's heads are dealt out in turn",
    exposed_by="a mask for each query head",
)
def mask_turned(query, key, value, attn_mask=None):
    """The mask's H was taken apart as (G, Hkv), the query's as (Hkv, G): a
    head is masked with another head's mask. Which of the two comes first
    when the heads of a group are neighbours?"""
    if attn_mask is not None and attn_mask.dim() == 4:
        mask = attn_mask.expand(-1, query.shape[1], -1, -1)
        mask = mask.unflatten(1, (-1, key.shape[1])).transpose(1, 2)
        attn_mask = mask.flatten(1, 2)
    return _attend(query, key, value, attn_mask)


@exercise.misconception(
    "a mask is expected to be the same for all heads",
    exposed_by="a mask for each query head",
)
def mask_without_heads(query, key, value, attn_mask=None):
    """mask.unsqueeze(2) makes five axes of (B, 1, L, S), and of (B, H, L, S)
    too: there H stands where Hkv is. What do you do to the query's H that
    you must do to the mask's?"""
    q = _in_groups(query, key)
    scores = q @ key.unsqueeze(2).mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        wide = attn_mask.dim() == 4
        mask = attn_mask.unsqueeze(2) if wide else attn_mask
        scores = scores.masked_fill(~mask, -INF)
    return (scores.softmax(-1) @ value.unsqueeze(2)).flatten(1, 2)


@exercise.misconception(
    "causal, though nobody asked", exposed_by="more keys than queries"
)
def causal(query, key, value, attn_mask=None):
    """is_causal=True is always on: query i sees keys 0 to i, and one new
    token with a long cache sees key 0 alone. This function masks what
    attn_mask says, and nothing else. Who should decide?"""
    mask = torch.ones(query.shape[2], key.shape[2]).bool().tril()
    mask = mask if attn_mask is None else mask & attn_mask
    return _attend(query, key, value, mask)


@exercise.misconception(
    "the heads come out behind the positions",
    exposed_by="L and H that differ",
)
def heads_last(query, key, value, attn_mask=None):
    """(B, L, H, Dv) is what the output projection wants next; this function
    is asked for (B, H, L, Dv), as torch's own. Which transpose is one too
    many?"""
    return _attend(query, key, value, attn_mask).transpose(1, 2)


@exercise.misconception(
    "the groups are not merged", exposed_by="any input: five axes"
)
def not_merged(query, key, value, attn_mask=None):
    """The result is (B, Hkv, G, L, Dv), with one axis too many. Which two of
    them are neighbours and make H?"""
    return _in_groups(_attend(query, key, value, attn_mask), key)


@exercise.misconception(
    "the weights come back too", exposed_by="any input: a tuple of two"
)
def weights_too(query, key, value, attn_mask=None):
    """Many implementations return (output, weights); this one is asked for
    the output alone. What does the Returns line say?"""
    out = _attend(query, key, value, attn_mask)
    eye = torch.eye(key.shape[2]).expand(*key.shape[:3], -1)
    return out, _attend(query, key, eye, attn_mask)


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="inputs that ask for their gradient",
)
def detached(query, key, value, attn_mask=None):
    """The numbers are right and autograd knows nothing of them: .data,
    .detach(), torch.tensor(...), no_grad or a torch.zeros that is filled
    through .data cut the thread. Which line leaves torch?"""
    out = _attend(query, key, value, attn_mask)
    return out.detach()


@exercise.equivalent("torch's own, with enable_gqa")
def _sdpa(query, key, value, attn_mask=None):
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, enable_gqa=True
    )


@exercise.equivalent("einsum with a letter for the group")
def _einsum(query, key, value, attn_mask=None):
    q = _in_groups(query, key) / math.sqrt(query.shape[-1])
    scores = torch.einsum("bkgld,bksd->bkgls", q, key)
    if attn_mask is not None:
        mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        mask = _in_groups(mask, key)
        scores = scores.masked_fill(mask.logical_not(), -INF)
    out = torch.einsum("bkgls,bksd->bkgld", scores.softmax(-1), value)
    return out.flatten(1, 2)


@exercise.equivalent("a loop over the query heads")
def _loop(query, key, value, attn_mask=None):
    group = query.shape[1] // key.shape[1]
    out = []
    for h in range(query.shape[1]):
        k, v = key[:, h // group], value[:, h // group]
        scores = query[:, h] @ k.mT * query.shape[-1] ** -0.5
        if attn_mask is not None:
            mask = attn_mask.expand(*query.shape[:3], key.shape[2])[:, h]
            scores = scores.masked_fill(~mask, -1e9)
        out.append(scores.softmax(-1) @ v)
    return torch.stack(out, dim=1)


@exercise.equivalent("one member of every group at a time")
def _members(query, key, value, attn_mask=None):
    group = query.shape[1] // key.shape[1]
    out = query.new_empty(*query.shape[:3], value.shape[-1])
    for i in range(group):
        scores = query[:, i::group] @ key.mT / query.shape[-1] ** 0.5
        if attn_mask is not None:
            mask = attn_mask.expand(*query.shape[:3], key.shape[2])
            scores = torch.where(mask[:, i::group], scores, -INF)
        out[:, i::group] = scores.softmax(-1) @ value
    return out


@exercise.equivalent("packed rows given to torch's own")
def _packed_sdpa(query, key, value, attn_mask=None):
    B, H, L, D = query.shape  # noqa: N806
    n, S = key.shape[1:3]  # noqa: N806
    if attn_mask is not None:
        attn_mask = attn_mask.expand(B, H, L, S).reshape(B, n, -1, S)
    rows = query.reshape(B, n, -1, D)
    out = F.scaled_dot_product_attention(rows, key, value, attn_mask)
    return out.reshape(B, H, L, -1)


@exercise.equivalent("packed as (L, G), and read back so")
def _rows_by_position(query, key, value, attn_mask=None):
    B, H, L, D = query.shape  # noqa: N806
    n, S = key.shape[1:3]  # noqa: N806
    rows = _in_groups(query, key).transpose(2, 3).reshape(B, n, -1, D)
    scores = torch.matmul(rows, key.transpose(2, 3)).div(D**0.5)
    if attn_mask is not None:
        mask = _in_groups(attn_mask.expand(B, H, L, S), key)
        mask = mask.transpose(2, 3).reshape(B, n, -1, S)
        scores = scores + torch.zeros(mask.shape).masked_fill_(~mask, -1e30)
    out = (scores.softmax(-1) @ value).view(B, n, L, H // n, -1)
    return out.permute(0, 1, 3, 2, 4).reshape(B, H, L, -1)


@exercise.equivalent("batch and key heads as one axis, bmm, softmax by hand")
def _bmm(query, key, value, attn_mask=None):
    B, H, L, D = query.shape  # noqa: N806
    k, v = key.flatten(0, 1), value.flatten(0, 1)  # (B * Hkv, S, D)
    rows = query.reshape(len(k), -1, D) * D**-0.5
    scores = torch.bmm(rows, k.mT)
    if attn_mask is not None:
        mask = attn_mask.expand(B, H, L, -1).reshape(scores.shape)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    exps = (scores - scores.amax(-1, keepdim=True)).exp()
    out = torch.bmm(exps, v) / exps.sum(-1, keepdim=True)
    return out.reshape(B, H, L, -1)


@exercise.equivalent("vmap over batch, key heads and groups")
def _vmap(query, key, value, attn_mask=None):
    shape = (*query.shape[:3], key.shape[2])
    mask = torch.ones(shape).bool() if attn_mask is None else attn_mask
    mask = _in_groups(mask.expand(shape), key)

    def attend(q, k, v, m):  # (L, D), (S, D), (S, Dv), (L, S)
        scores = (q @ k.mT * k.shape[-1] ** -0.5).masked_fill(~m, -INF)
        return scores.softmax(-1) @ v

    group = torch.vmap(attend, (0, None, None, 0))
    heads = torch.vmap(torch.vmap(group))
    return heads(_in_groups(query, key), key, value, mask).flatten(1, 2)
