"""Exercise ``sdp-attention_loops``: one number at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def attention_loops(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.attention_loops(query, key, value)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "there is one key, so only its value counts"
    yield Case(stage, (randn(3, 4), randn(1, 4), randn(1, 5)))
    yield Case(stage, (randn(1, 2), randn(1, 2), randn(1, 2)))

    stage = "the query is zero, so the result is the mean of the values"
    yield Case(stage, (torch.zeros(2, 4), randn(5, 4), randn(5, 3)))

    stage = "L, S, D and Dv all differ"
    yield Case(stage, (randn(3, 8), randn(5, 8), randn(5, 6)))
    yield Case(stage, (randn(6, 12), randn(4, 12), randn(4, 5)))

    stage = "there is one query"
    yield Case(stage, (randn(1, 9), randn(4, 9), randn(4, 6)))

    stage = "there are as many queries as keys"
    yield Case(stage, (randn(4, 3), randn(4, 3), randn(4, 2)))
    yield Case(stage, (randn(4, 4), randn(4, 4), randn(4, 4)))

    stage = "D is 1"
    yield Case(stage, (randn(2, 1), randn(3, 1), randn(3, 4)))

    stage = "the scores are large"
    q, k = _far_apart(g, 3, 5)
    yield Case(stage, (q, k, randn(5, 2)))
    yield Case(stage, (-q, k, randn(5, 2)))

    stage = "the inputs are views of other tensors"
    views = randn(8, 2).mT, randn(8, 5).mT, randn(1, 3).expand(5, 3)
    yield Case(stage, views)


def _far_apart(g: Generator, queries: int, keys: int) -> tuple[Tensor, Tensor]:
    """Scores above 1000 that are exact in float32 and never tie."""
    q = torch.randint(1, 5, (queries, 4), generator=g) * 32
    k = torch.randint(1, 5, (1, 4), generator=g) * 32
    k = k + 32 * torch.randperm(keys, generator=g)[:, None]
    return q.float(), k.float()


def _in_the_hull(case: Case, out: Tensor) -> bool:
    value = case.args[2]
    return bool(
        (out <= value.amax(0) + 1e-4).all()
        and (out >= value.amin(0) - 1e-4).all()
    )


exercise = Exercise(
    id="sdp-attention_loops",
    points=2,
    reference=attention_loops,
    cases=_cases,
    hints=(
        "Take one query and forget the others. You need S scores, then S "
        "weights, then one row of Dv numbers. When that works, put a loop "
        "over the queries around it.",
        "score[j] = sum over d of query[i, d] * key[j, d], divided by "
        "math.sqrt(D). softmax(score) gives the weights of query i: S "
        "numbers that sum to 1.",
        "out = torch.zeros(L, Dv); for each i: scores of shape (S,), "
        "weights = softmax(scores / math.sqrt(D)), and then for each j "
        "out[i] += weights[j] * value[j]. The index j belongs to key and "
        "value, i to the query and the result.",
    ),
    properties=(
        Property(
            "Every number of the result is a mean of one column of value, "
            "so it cannot leave the range of that column, and here it "
            "does: do the weights of a query sum to 1?",
            _in_the_hull,
        ),
    ),
)


def _attend(q: Tensor, k: Tensor, v: Tensor, divisor: float) -> Tensor:
    return torch.softmax(q @ k.mT / divisor, -1) @ v


@exercise.misconception("the scores are not scaled", exposed_by="D above 1")
def no_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """A dot product of D terms grows with sqrt(D): without the division,
    wide heads get scores so far apart that one key takes nearly all the
    weight, and the gradient dies. At D = 1 you would not notice. Which
    factor brings the spread back to 1?"""
    return _attend(query, key, value, 1.0)


@exercise.misconception(
    "divided by D, not by its root", exposed_by="D above 1"
)
def divided_by_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Dividing by D makes the scores too small, and the attention too even.
    A sum of D independent terms has variance D: what is its standard
    deviation?"""
    return _attend(query, key, value, query.shape[1])


@exercise.misconception(
    "multiplied by the root of D, not divided", exposed_by="D above 1"
)
def multiplied(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The factor goes the wrong way: scores that were too far apart are now
    D times further apart than they should be. Should wide heads get
    larger scores, or the same as narrow ones?"""
    return _attend(query, key, value, 1 / math.sqrt(query.shape[1]))


@exercise.misconception(
    "scaled by the number of keys, not by D", exposed_by="S and D that differ"
)
def scaled_by_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scale uses the length of key, so the answer for the same query
    changes character with the length of the text. A score is a sum over
    the features: how many terms does it have?"""
    return _attend(query, key, value, math.sqrt(key.shape[0]))


@exercise.misconception(
    "scaled by the width of value", exposed_by="Dv and D that differ"
)
def scaled_by_values(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scale uses the width of value. Most models have Dv = D, which
    hides it; value has not even been looked at when scores are made.
    Which tensors are in the dot product?"""
    return _attend(query, key, value, math.sqrt(value.shape[1]))


@exercise.misconception(
    "scaled by the number of queries", exposed_by="L and D that differ"
)
def scaled_by_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scale uses the number of queries, and a query's answer must not
    depend on how many others are asked at the same time. len(query) is L:
    where is D?"""
    return _attend(query, key, value, math.sqrt(query.shape[0]))


@exercise.misconception(
    "the softmax runs over the queries", exposed_by="one key, many queries"
)
def over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Here the weights that one key hands out sum to 1: queries compete for
    keys, and some query may get next to nothing. Models even train that
    way. It is the other way round: for one query, over what do the
    weights sum to 1?"""
    scores = query @ key.mT / math.sqrt(query.shape[1])
    return torch.softmax(scores, 0) @ value


@exercise.misconception(
    "value[i] instead of value[j]", exposed_by="more keys than queries"
)
def own_value(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The values are read at the query's position. The weights of a query
    sum to 1, so all the work cancels and value comes back as it was; with
    more queries than keys the index runs out. Whose value should weight j
    multiply?"""
    if len(query) > len(value):
        raise IndexError("index out of range")
    return value[: len(query)].clone()


@exercise.misconception(
    "queries are compared with queries", exposed_by="keys of another length"
)
def queries_with_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The score is query[i] with query[j], and key is never read. In
    self-attention with one matrix this looks fine; the keys would get no
    gradient at all. What should query[i] be compared with?"""
    if len(key) > len(query):
        raise IndexError("index out of range")
    scores = query @ query[: len(key)].mT / math.sqrt(query.shape[1])
    return torch.softmax(scores, -1) @ value


@exercise.misconception(
    "keys are compared with keys", exposed_by="queries of another length"
)
def keys_with_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The score is key[i] with key[j], so what the query asks makes no
    difference. Change query in your test: does the result move?"""
    if len(query) > len(key):
        raise IndexError("index out of range")
    scores = key[: len(query)] @ key.mT / math.sqrt(query.shape[1])
    return torch.softmax(scores, -1) @ value


@exercise.misconception(
    "no maximum is taken off", exposed_by="scores above 88"
)
def overflow(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """exp of a large score is inf, and inf / inf is NaN. You have solved
    this once already: can your softmax be used here?"""
    exps = (query @ key.mT / math.sqrt(query.shape[1])).exp()
    return exps / exps.sum(-1, keepdim=True) @ value


@exercise.misconception(
    "no maximum is taken off (math.exp)", exposed_by="scores above 709"
)
def overflow_in_floats(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Python's floats reach further than float32, and math.exp(710) is too
    large for them too. You have solved this once already: can your
    softmax be used here?"""
    q, k = query.double(), key.double()
    scores = q @ k.mT / math.sqrt(query.shape[1])
    rows = [[math.exp(score) for score in row] for row in scores.tolist()]
    weights = [[exp / sum(row) for exp in row] for row in rows]
    return torch.tensor(weights) @ value


@exercise.misconception(
    "no softmax: the scores are the weights", exposed_by="one key"
)
def no_softmax(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The values are multiplied by raw scores, which may be negative and
    sum to anything; with one key the result should be that key's value,
    untouched. What turns scores into weights that sum to 1?"""
    return query @ key.mT / math.sqrt(query.shape[1]) @ value


@exercise.misconception(
    "the weights are not divided by their sum", exposed_by="one key"
)
def unnormalised(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """exp makes the scores positive, and nothing makes them sum to 1, so
    the result grows with every key that is added. What is missing from
    exp(score) / …?"""
    return (query @ key.mT / math.sqrt(query.shape[1])).exp() @ value


@exercise.misconception(
    "all keys count the same: the mean of the values",
    exposed_by="keys that differ",
)
def plain_mean(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Every query gets the same answer, the plain mean: the scores never
    reach the weights. Print the weights of two queries: do they differ?"""
    return value.mean(0).expand(len(query), -1).clone()


@exercise.misconception(
    "each score has a softmax of its own", exposed_by="more than one key"
)
def one_at_a_time(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The softmax of a single number is 1, so every weight is 1 and the
    result is the sum of the values, the same for every query. A key's
    weight depends on the other keys: how many scores must the softmax see
    at once?"""
    return value.sum(0).expand(len(query), -1).clone()


@exercise.misconception(
    "the dot product keeps its last term only (= instead of +=)",
    exposed_by="D above 1",
)
def last_term(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """In the loop over the features the score is set anew each time, so
    only the last feature is compared. How do you add to what is already
    there?"""
    return _attend(query[:, -1:], key[:, -1:], value, query.shape[1] ** 0.5)


@exercise.misconception(
    "only the best key counts", exposed_by="two keys with similar scores"
)
def hard_choice(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Picking the key with the highest score is a look-up, not attention:
    it has no gradient, so nothing would ever learn which key to prefer.
    What does softmax give the second best key?"""
    return value[(query @ key.mT).argmax(-1)]


@exercise.misconception(
    "the keys are mixed, not the values", exposed_by="one key"
)
def keys_mixed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The weights multiply the keys, so value is never read. Keys say what
    a token offers to be found by; which tensor holds what it hands
    over?"""
    scores = query @ key.mT / math.sqrt(query.shape[1])
    return torch.softmax(scores, -1) @ key


@exercise.misconception(
    "each key overwrites the one before (= instead of +=)",
    exposed_by="more than one key",
)
def overwritten(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """In the loop over the keys the row of the result is set anew each
    time, so only the last key's share is left. How do you add to what is
    already there?"""
    scores = query @ key.mT / math.sqrt(query.shape[1])
    return torch.softmax(scores, -1)[:, -1:] * value[-1]


@exercise.misconception(
    "only the first query is answered", exposed_by="more than one query"
)
def first_query(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Row 0 is right and all others are 0: the return stands inside the
    loop over the queries. How far must it be indented?"""
    out = torch.zeros(len(query), value.shape[1])
    out[:1] = attention_loops(query[:1], key, value)
    return out


@exercise.misconception(
    "the list of scores is not emptied", exposed_by="more than one query"
)
def never_emptied(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Query 0 is right, and every later one carries the scores of those
    before it: the list grows and grows. On which line, inside which loop,
    should it be made?"""
    scores: list[Tensor] = []
    rows = []
    for q in query:
        scores += [q @ k / math.sqrt(len(q)) for k in key]
        weights = torch.softmax(torch.stack(scores), -1)
        rows.append(weights[: len(key)] @ value)
    return torch.stack(rows)


@exercise.equivalent("Python floats")
def _floats(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    q, k, v = query.tolist(), key.tolist(), value.tolist()
    result = []
    for a in q:
        dots = [sum(x * y for x, y in zip(a, b, strict=True)) for b in k]
        top = max(dots)
        exps = [math.exp((s - top) / len(a) ** 0.5) for s in dots]
        weights = [e / sum(exps) for e in exps]
        columns = zip(*v, strict=True)
        result.append(
            [
                sum(w * x for w, x in zip(weights, c, strict=True))
                for c in columns
            ]
        )
    return torch.tensor(result)


@exercise.equivalent("a loop over queries only, the query scaled")
def _rows(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    rows = []
    for q in query * query.shape[1] ** -0.5:
        weights = F.softmax(key @ q, dim=0)
        rows.append((weights[:, None] * value).sum(0))
    return torch.stack(rows)


@exercise.equivalent("einsum")
def _einsum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("ld,sd->ls", query, key) / query.size(-1) ** 0.5
    return torch.einsum("ls,sv->lv", scores.softmax(-1), value)


@exercise.equivalent("torch's own")
def _sdpa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value)


@exercise.equivalent("one pass over the keys, rescaling as it goes")
def _online(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    out = torch.zeros(len(query), value.shape[1])
    for i, q in enumerate(query):
        top, total = -math.inf, 0.0
        for k, v in zip(key, value, strict=True):
            score = (q.dot(k) / math.sqrt(len(q))).item()
            new = max(top, score)
            shrink, weight = math.exp(top - new), math.exp(score - new)
            total = total * shrink + weight
            out[i] = out[i] * shrink + weight * v
            top = new
        out[i] /= total
    return out
