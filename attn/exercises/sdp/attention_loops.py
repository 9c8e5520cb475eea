"""Cases, properties and correct variants of ``sdp-attention_loops``."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION

SIZES = {  # L, S, D, Dv
    "there is one key, so only its value counts": [(3, 1, 4, 5), (1, 1, 2, 2)],
    "L, S, D and Dv all differ": [(3, 5, 8, 6), (6, 4, 12, 5)],
    "there is one query": [(1, 4, 9, 6)],
    "axes have the same length": [(4, 4, 3, 2), (4, 4, 4, 4)],
    "D is 1": [(2, 3, 1, 4)],
    "the values are single numbers": [(3, 7, 6, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (L, S, D, Dv) in entries(SIZES):
        yield Case(when, (g.randn(L, D), g.randn(S, D), g.randn(S, Dv)))

    when = "the query is zero, so the result is the mean of the values"
    yield Case(when, (torch.zeros(2, 4), g.randn(5, 4), g.randn(5, 3)))

    when = "the scores are large"
    q, k = far_apart(g)
    yield Case(when, (q, k, g.randn(5, 2)))
    yield Case(when, (-q, k, g.randn(5, 2)))
    q, k = g.randn(3, 4) + 10, g.randn(5, 4) / 10 + 10
    yield Case(when, (q, k, g.randn(5, 2)))  # about 200, and close together


exercise = Exercise(
    id="sdp-attention_loops",
    points=2,
    reference=functional.attention_loops,
    cases=_cases,
    also=(views(),),
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks=OF_ATTENTION,
)


def _dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


@exercise.equivalent("Python floats")
def _floats(query, key, value):
    q, k, v = query.tolist(), key.tolist(), value.tolist()
    result = []
    for a in q:
        dots = [_dot(a, b) for b in k]
        exps = [math.exp((s - max(dots)) / len(a) ** 0.5) for s in dots]
        result.append(
            [_dot(exps, c) / sum(exps) for c in zip(*v, strict=True)]
        )
    return torch.tensor(result)


@exercise.equivalent("a loop over queries only, the query scaled")
def _rows(query, key, value):
    rows = []
    for q in query * query.shape[1] ** -0.5:
        weights = F.softmax(key @ q, dim=0)
        rows.append((weights[:, None] * value).sum(0))
    return torch.stack(rows)


@exercise.equivalent("einsum")
def _einsum(query, key, value):
    scores = torch.einsum("ld,sd->ls", query, key) / query.size(-1) ** 0.5
    return torch.einsum("ls,sv->lv", scores.softmax(-1), value)


@exercise.equivalent("one pass over the keys, rescaling as it goes")
def _online(query, key, value):
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


@exercise.equivalent("features outermost, keys down")
def _features(query, key, value):
    scores = torch.zeros(len(key), len(query))
    for q, k in zip(query.unbind(1), key.unbind(1), strict=True):
        scores += torch.outer(k, q)
    scores -= scores.amax(0)  # one for each query
    exps = scores.div(query.shape[1] ** 0.5).exp()
    return (exps / exps.sum(0)).T.mm(value)


@exercise.equivalent("a dict of exps, NumPy's arrays")
def _dict(query, key, value):
    q, k, v = query.numpy(), key.numpy(), value.numpy()
    rows = []
    for a in q:
        scores = {j: (a * b).sum() / a.size**0.5 for j, b in enumerate(k)}
        top = max(scores.values())
        exps = {j: math.exp(score - top) for j, score in scores.items()}
        total = sum(exps.values())
        mixed = sum(exps[j] / total * v[j] for j in exps)
        rows.append(torch.as_tensor(mixed, dtype=torch.float32))
    return torch.stack(rows)
