"""Cases and properties of ``serve-acceptance``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

Law = tuple[Tensor, Tensor]


def acceptance(target: Tensor, draft: Tensor, tokens: Tensor) -> Law:
    """Compute the law token by token, from its sums: the reference."""
    accept, after = [], []
    for p, q, x in zip(target[:-1], draft, tokens.tolist(), strict=True):
        accept.append(torch.minimum(p[x] / q[x], p.new_ones(())))
        excess = torch.relu(p - q)
        if excess.sum() > 0:
            excess = excess / excess.sum()
        after.append(excess)
    none = target.new_zeros(0)
    return torch.stack(accept) if accept else none, torch.stack(
        [*after, target[-1]]
    )


SIZES = {  # K, V
    "there is one draft": [(1, 4), (1, 3), (1, 7)],
    "there are several drafts": [(3, 5), (4, 7), (2, 6)],
    "as many places as tokens": [(4, 4), (3, 4)],
    "there is no draft": [(0, 5)],
    "there is no draft, and V is 1": [(0, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def law(rows: int, V: int) -> Tensor:
        return (1.5 * g.randn(rows, V)).softmax(-1)

    def draws(draft: Tensor) -> Tensor:
        if not len(draft):
            return torch.zeros(0, dtype=torch.long)
        return torch.multinomial(draft, 1, generator=g)[:, 0]

    when = "the probabilities are quarters and halves"
    p = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.0, 0.25, 0.25, 0.5]])
    q = torch.tensor([[0.25, 0.5, 0.0, 0.25]])
    for x in (0, 1, 3):
        yield Case(when, (p, q, torch.tensor([x])))

    for when, (K, V) in entries(SIZES):
        draft = law(K, V)
        yield Case(when, (law(K + 1, V), draft, draws(draft)))

    when = "every token is drafted once"
    draft = law(5, 5)
    yield Case(when, (law(6, 5), draft, torch.randperm(5, generator=g)))

    when = "target and draft agree at some place"
    target, draft = law(4, 6), law(3, 6)
    draft[1] = target[1]
    yield Case(when, (target, draft, draws(draft)))
    draft = target[:3].clone()
    yield Case(when, (target, draft, draws(draft)))

    when = "target and draft nearly agree"
    target, draft = law(3, 4), torch.full((2, 4), 0.25)
    target[0] = torch.tensor([129.0, 127.0, 128.0, 128.0]) / 512
    tokens = torch.tensor([1, g.between(0, 3)])
    yield Case(when, (target, draft, tokens))

    when = "the target excludes the draft: it has probability 0"
    target, draft = law(3, 5), law(2, 5)
    tokens = draws(draft)
    target[:2].scatter_(1, tokens[:, None], 0.0)
    target[:2] /= target[:2].sum(-1, keepdim=True)
    yield Case(when, (target, draft, tokens))

    when = "the draft is certain, as one found by look-up is"
    tokens = torch.randint(0, 6, (3,), generator=g)
    draft = torch.nn.functional.one_hot(tokens, 6).float()
    yield Case(when, (law(4, 6), draft, tokens))

    when = "probabilities are far apart"
    target, draft = (6 * law(4, 7).log()).softmax(-1), law(3, 7)
    draft = (4 * draft.log()).softmax(-1)
    yield Case(when, (target, draft, draft.argmax(-1)))

    when = "the vocabulary is large"
    draft = law(2, 1003)
    yield Case(when, (law(3, 1003), draft, draws(draft)))


def _shaped(case: Case, out: Any) -> bool:
    return out[0].shape == case.args[2].shape and (
        out[1].shape == case.args[0].shape
    )


def _probability(case: Case, out: Any) -> bool:
    return bool(((out[0] >= 0) & (out[0] <= 1 + 1e-6)).all())


def _sums(case: Case, out: Any) -> bool:
    if not _shaped(case, out):
        return True
    total = out[1].sum(-1)
    right = acceptance(*case.args)[1].sum(-1)
    return bool(((total - right).abs() < 1e-4).all())


def _law(case: Case, out: Any) -> bool:
    """Return whether the first token comes out with the target's law."""
    if not _shaped(case, out) or not len(case.args[2]):
        return True
    p, q = case.args[0][0], case.args[1][0]
    ratio = torch.where(q > 0, p / q, 1.0).clamp(max=1)
    kept = q * ratio
    law = kept + (1 - kept.sum()) * out[1][0]
    return bool(((law - p).abs() < 1e-4).all())


exercise = Exercise(
    id="serve-acceptance",
    points=3,
    reference=acceptance,
    cases=_cases,
    returns=("the law of acceptance", "what comes after"),
    also=(views(),),
    properties=(
        Property(
            "There is a probability for each draft, (K,), and a row for "
            "each number of accepted drafts, 0 to K, (K + 1, V).",
            _shaped,
        ),
        Property(
            "A probability to accept is between 0 and 1.",
            _probability,
        ),
        Property(
            "A row from which a token is drawn sums to 1; to 0 where target "
            "and draft agree.",
            _sums,
        ),
        Property(
            "The first token does not come out with the target's law: draft "
            "times acceptance, plus the rejected share times the first row, "
            "must be the target's first row.",
            _law,
        ),
    ),
    breaks={
        "p = 0.5": lambda c: not (c.args[0] == 0.5).any(),
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
)
