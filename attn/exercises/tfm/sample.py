"""Cases and properties of ``tfm-sample``.

Answers that draw in another way draw other tokens. What is compared is how
often each token comes in rows with the same logits; a share of the 1,000 or
2,000 rows differs by chance by less than is forgiven (five standard
deviations of the difference of two answers).
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn import nn
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

_SHARES = (0.34, 0.25, 0.18, 0.12, 0.07, 0.04)
_DRAWS = 2000
_NOISE = 0.28  # forgiven, relative to the largest share


def sample(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Filter as ``attn.generate`` does, in float32, and draw: the reference.

    In float64 it draws the same tokens, so that no noise of its own counts.
    """
    if temperature == 0:
        return logits.argmax(-1)
    kept = nn.filter_logits(
        logits.float(), temperature=temperature, top_k=top_k, top_p=top_p
    )
    p = kept.softmax(-1)
    return torch.multinomial(p, 1, generator=generator)[:, 0]


LIMITS = {  # texts, V, temperature, top_k, top_p: one result is possible
    "the temperature is 0: the most likely token": [
        (4, 7, 0.0, None, None),
        (1, 6, 0.0, None, None),
        (5, 5, 0, None, None),
        (4, 7, 0.0, 3, None),
        (4, 7, 0.0, None, 0.9),
    ],
    "top_k is 1: the most likely token": [
        (4, 7, 1.0, 1, None),
        (4, 7, 5.0, 1, None),
        (1, 6, 1.0, 1, None),
    ],
    "top_p is so small that one token reaches it": [(6, 5, 1.0, None, 0.05)],
    "the temperature is so small that one token is left": [
        (3, 6, 1e-3, None, None),
    ],
}
DRAWS = {  # temperature, top_k, top_p, and factors on the logits
    "no filter is given": [(1.0, None, None), (1.0, None, 1.0)],
    "the temperature is not 1": [(0.5, None, None), (1.5, None, None)],
    "the temperature is low, and several tokens are as likely as before": [
        (0.13, None, None, 0.13),
        (0.03, None, None, 0.03),
        (0.003, None, None, 0.003),
        (0.0002, None, None, 0.0002),
    ],
    "the temperature is high, and the tokens are as likely as before": [
        (5.0, None, None, 5.0),
        (20.0, None, None, 20.0),
        (90.0, None, None, 90.0),
    ],
    "top_k is given": [(1.0, 2, None), (1.0, 4, None), (1.0, 9, None)],
    "top_p is given": [(1.0, None, p) for p in (0.5, 0.7, 0.3)],
    "the texts have different logits": [
        (1.0, 2, None, 1, 1),
        (1.0, None, 0.3, 0.5, 1),  # 2 stay, and 1
    ],
    "a temperature and top_p are given": [(0.4, None, 0.5), (3.0, None, 0.5)],
    "top_k and top_p are given": [(1.0, 2, 0.55), (1.0, 3, 0.4), (1, 2, 0.85)],
}

TAIL = (0.34, 0.25, 0.18, 0.12, 0.07, 0.033, 0.007)
TOP_P = {  # just below and just above sums of the first shares of TAIL
    "top_p is given": [0.585, 0.595, 0.885, 0.895],
    "top_p is nearly 1": [0.955, 0.965, 0.991, 0.995],
    "top_p is 1: no token is left out": [1.0],
}
TOP_K = {
    "top_k is given": [3, 6],
    "top_k is V or more: no token is left out": [7, 9],
}


def _cases(g: Draw) -> Iterator[Case]:
    def coins() -> Generator:
        return Generator().manual_seed(g.between(0, 9**9))

    def ranked(V: int) -> Tensor:
        """Draw logits that are at least 1 apart, in any order, ``(V,)``."""
        order = torch.randperm(V, generator=g)
        return order + torch.rand(V, generator=g) / 9

    def shuffled() -> Tensor:
        """Put the usual shares into a random order, ``(V,)``.

        Logits that were log-probabilities would be one more symmetric point.
        """
        shift = 2 + torch.rand(1, generator=g)
        logits = torch.tensor(_SHARES).log() + 0.02 * g.randn(6) + shift
        return logits[torch.randperm(6, generator=g)]

    def draws(when: str, *how: Any, scales: Any = (1,), own=False) -> Case:
        rows = torch.stack([shuffled() * scale for scale in scales])
        groups = len(scales)
        logits = rows.repeat_interleave(_DRAWS // groups, 0)
        return Case(
            f"{when}: the share of each token in thousands of draws",
            (logits, *how) if own else (logits, *how, coins()),
            rtol=_NOISE * math.sqrt(groups),
            shares=(groups, 6),
            train=own,
        )

    for when, (texts, V, *how) in entries(LIMITS):
        logits = torch.stack([ranked(V) for _ in range(texts)])
        yield Case(when, (logits, *how, coins()))

    when = "the logits are in the hundreds, and one is far above the others"
    logits = 200 * torch.stack([ranked(6) for _ in range(3)])
    yield Case(when, (logits, 1.0, None, None, coins()))

    for when, (temperature, top_k, top_p, *scales) in entries(DRAWS):
        yield draws(when, temperature, top_k, top_p, scales=scales or (1,))

    when = "the temperature is 0, and the logits are close together"
    logits = torch.stack([ranked(7) for _ in range(16)]) / 1000
    yield Case(when, (logits, 0.0, None, None, coins()))

    # The likeliest token is 0, and so on, so one that is rare is seen, too.
    ends = [(when, None, top_p) for when, top_p in entries(TOP_P)]
    ends += [(when, top_k, None) for when, top_k in entries(TOP_K)]
    for when, *kept in ends:
        logits = torch.tensor(TAIL).log() + 2 + torch.rand(1, generator=g)
        yield Case(
            f"{when}: the least likely token in thousands of draws",
            (logits.expand(_DRAWS, -1), 1.0, *kept, coins()),
            largest_over=-1,
        )

    when = "PyTorch's own generator draws"
    yield draws(when, 1.0, None, None, own=True)
    yield draws(when, 1.0, 3, None, own=True)


def _one_id_a_row(case: Case, out: Any) -> bool:
    if case.shares:
        return True
    return out.shape == case.args[0].shape[:1] and out.dtype == torch.int64


exercise = Exercise(
    id="tfm-sample",
    points=2,
    reference=sample,
    cases=_cases,
    properties=(
        Property(
            "One token a text: the result is integers (int64) of shape (B,).",
            _one_id_a_row,
        ),
    ),
    breaks={
        "p = 0.5": lambda c: c.args[3] not in (None, 0.5, 1.0),
        "weight = 1": lambda c: c.args[1] not in (0, 1),
    },
)
