"""Exercise ``rope-apply_rope_interleaved``: neighbours turn together."""

from __future__ import annotations

import torch

from attn.exercises import ch07_turn as steps
from attn.exercises.ch07_turn import turn
from attn.exercises.ch07_turn_mistakes import register
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope_interleaved",
    points=2,
    reference=steps.reference(interleaved=True),
    cases=steps.cases,
    hints=(
        "Only two lines differ from apply_rope: how the pairs are taken "
        "out of x, and how they are put back.",
        "x[..., 0:R:2] are the a's and x[..., 1:R:2] the b's of all pairs, "
        "(..., L, R / 2) each. The two lines that turn them stay.",
        "torch.stack([new_a, new_b], -1) has shape (..., R / 2, 2): the two "
        "numbers of a pair are neighbours again, and flatten(-2) makes the "
        "features of it.",
    ),
    properties=steps.PROPERTIES,
)


@exercise.misconception(
    "features R / 2 apart are a pair", exposed_by="a golden vector"
)
def half(x, positions, inv_freq):
    """That is the layout of Llama in transformers, and your last exercise.
    It is a rotation too: lengths, position 0 and distances are all right,
    and no property can tell the two apart. Which feature is the partner of
    feature 0 here?"""
    return turn(False)(x, positions, inv_freq)


@exercise.misconception(
    "the pairs come back as two halves", exposed_by="two pairs"
)
def halves(x, positions, inv_freq):
    """Neighbours are turned, and then all first numbers are put before all
    second ones. Scores are right, as long as queries and keys are treated
    alike; and features have moved. Which of cat and stack-and-flatten puts
    numbers back to where they came from?"""
    return turn(True, glue=lambda a, b, _: torch.cat([a, b], -1))(
        x, positions, inv_freq
    )


@exercise.misconception(
    "the tables are put one half after the other", exposed_by="two pairs"
)
def mixed_tables(x, positions, inv_freq):
    """cos and sin stand in the order t0 t1 t0 t1, while neighbours are
    paired and need t0 t0 t1 t1. The two numbers of a pair then turn by
    different angles. Which of cat and repeat_interleave fits this
    layout?"""
    angle = steps.with_heads(steps.angles_of(positions, inv_freq, x), x)
    cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
    size = 2 * len(inv_freq)
    part = x[..., :size].float()
    quarter = torch.stack([-part[..., 1::2], part[..., 0::2]], -1).flatten(-2)
    turned = part * cos + quarter * sin
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


@exercise.misconception(
    "a quarter turn of halves, with tables of neighbours",
    exposed_by="two pairs",
)
def old_rotate_half(x, positions, inv_freq):
    """rotate_half from the other layout, (-b, a) of two halves, meets
    tables for neighbours: each feature is mixed with the wrong partner.
    Which feature is the partner of feature 0?"""
    angle = steps.with_heads(steps.angles_of(positions, inv_freq, x), x)
    angle = angle.repeat_interleave(2, -1)
    cos, sin = angle.cos(), angle.sin()
    size = 2 * len(inv_freq)
    part = x[..., :size].float()
    a, b = part.chunk(2, -1)
    turned = part * cos + torch.cat([-b, a], -1) * sin
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


@exercise.misconception(
    "the neighbours are exchanged", exposed_by="position 0"
)
def exchanged(x, positions, inv_freq):
    """The second number of each pair stands first. At position 0 nothing
    should move. In which order do you stack?"""

    def glue(a, b, interleaved):
        return torch.stack([b, a], -1).flatten(-2)

    return turn(True, glue=glue)(x, positions, inv_freq)


register(exercise, interleaved=True)


@exercise.equivalent("complex numbers, as in Meta's code")
def _complex(x, positions, inv_freq):
    angle = positions[..., None].float() * inv_freq.float()
    if positions.dim() == 2:
        angle = angle[:, None]
    unit = torch.polar(torch.ones_like(angle), angle)
    size = 2 * len(inv_freq)
    pairs = x[..., :size].float().unflatten(-1, (-1, 2)).contiguous()
    turned = torch.view_as_real(torch.view_as_complex(pairs) * unit)
    return torch.cat([turned.flatten(-2).to(x.dtype), x[..., size:]], -1)


@exercise.equivalent("tables for every feature")
def _tables(x, positions, inv_freq):
    angle = positions[..., None] * inv_freq.float()
    angle = angle.repeat_interleave(2, dim=-1)
    angle = angle.unsqueeze(1) if angle.dim() == 3 else angle
    size = angle.shape[-1]
    part = x[..., :size].float()
    quarter = torch.empty_like(part)
    quarter[..., 0::2] = -part[..., 1::2]
    quarter[..., 1::2] = part[..., 0::2]
    turned = part * angle.cos() + quarter * angle.sin()
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


@exercise.equivalent("pair by pair, in a loop")
def _loop(x, positions, inv_freq):
    columns = list(x.float().unbind(-1))
    where = positions[:, None] if positions.dim() == 2 else positions
    for i in range(len(inv_freq)):
        t = where * inv_freq[i].float()
        a, b = columns[2 * i], columns[2 * i + 1]
        columns[2 * i] = a * t.cos() - b * t.sin()
        columns[2 * i + 1] = a * t.sin() + b * t.cos()
    return torch.stack(columns, -1).to(x.dtype)


@exercise.equivalent("to the other layout and back")
def _reordered(x, positions, inv_freq):
    size = 2 * len(inv_freq)
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
    turned = turn(False)(x[..., order], positions, inv_freq)
    back = turned[..., order.argsort()]
    return torch.cat([back, x[..., size:]], -1)


@exercise.equivalent("written to the even and the odd places")
def _places(x, positions, inv_freq):
    t = positions.double().unsqueeze(-1) * inv_freq.double()
    t = t[:, None] if positions.dim() == 2 else t
    size = 2 * len(inv_freq)
    out = x.clone()
    a, b = x[..., 0:size:2].double(), x[..., 1:size:2].double()
    out[..., 0:size:2] = (a * t.cos() - b * t.sin()).to(x.dtype)
    out[..., 1:size:2] = (a * t.sin() + b * t.cos()).to(x.dtype)
    return out
