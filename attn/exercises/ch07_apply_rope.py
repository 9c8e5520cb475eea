"""Exercise ``rope-apply_rope``: features R / 2 apart turn together."""

from __future__ import annotations

import torch

from attn.exercises import ch07_turn as steps
from attn.exercises.ch07_turn import turn
from attn.exercises.ch07_turn_mistakes import register
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope",
    points=3,
    reference=steps.reference(interleaved=False),
    cases=steps.cases,
    hints=(
        "Angles first: positions[..., None] * inv_freq, in float32, is "
        "(..., L, R / 2). With positions (B, L) it needs a head axis: "
        "angle[:, None].",
        "x[..., :R].float().chunk(2, -1) gives the a's and the b's of all "
        "pairs at once, (..., L, R / 2) each. Two lines turn them.",
        "torch.cat([a * cos - b * sin, a * sin + b * cos], -1) puts both "
        "back; then .to(x.dtype), and a second cat with x[..., R:], which "
        "does not turn.",
    ),
    properties=steps.PROPERTIES,
)


@exercise.misconception("neighbours are a pair", exposed_by="a golden vector")
def interleaved(x, positions, inv_freq):
    """Features 2i and 2i + 1 turn together: the paper's layout, Meta's and
    GPT-J's, and your next exercise. It is a rotation too; lengths, position
    0 and distances are all right, so no property can tell. With weights of
    the other layout the first token is right and the rest is noise. Which
    feature is the partner of feature 0?"""
    return turn(True)(x, positions, inv_freq)


@exercise.misconception(
    "the tables are repeated side by side", exposed_by="two pairs"
)
def mixed_tables(x, positions, inv_freq):
    """cos and sin stand in the order t0 t0 t1 t1, while the features are
    paired i with i + R / 2, in the order t0 t1 t0 t1. The two numbers of a
    pair then turn by different angles. Which of cat and repeat_interleave
    fits this layout?"""
    angle = steps.with_heads(steps.angles_of(positions, inv_freq, x), x)
    angle = angle.repeat_interleave(2, -1)
    cos, sin = angle.cos(), angle.sin()
    size = 2 * len(inv_freq)
    part = x[..., :size].float()
    a, b = part.chunk(2, -1)
    turned = part * cos + torch.cat([-b, a], -1) * sin
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


@exercise.misconception(
    "the result's pairs are put side by side", exposed_by="two pairs"
)
def wrong_glue(x, positions, inv_freq):
    """The features were paired i with i + R / 2, and come back as
    neighbours: each number in another place than it came from. Where should
    the second number of pair 0 be?"""

    def glue(a, b, interleaved):
        return torch.stack([a, b], -1).flatten(-2)

    return turn(False, glue=glue)(x, positions, inv_freq)


@exercise.misconception(
    "the partner is D / 2 away, also when only R turn", exposed_by="R below D"
)
def wide_pairs(x, positions, inv_freq):
    """With partial rotary the first R features turn among themselves: i
    with i + R / 2. Pairing i with i + D / 2 reaches into what should stay
    still. How many features turn?"""
    angle = steps.with_heads(steps.angles_of(positions, inv_freq, x), x)
    n, half = len(inv_freq), x.shape[-1] // 2
    out = x.float().clone()
    a, b = x[..., :n].float(), x[..., half : half + n].float()
    out[..., :n], out[..., half : half + n] = steps.rotated(
        a, b, angle.cos(), angle.sin()
    )
    return out.to(x.dtype)


@exercise.misconception("the halves are exchanged", exposed_by="position 0")
def exchanged(x, positions, inv_freq):
    """The second half of the result stands first. At position 0 nothing
    should move. In which order do you glue?"""
    return turn(False, glue=lambda a, b, _: torch.cat([b, a], -1))(
        x, positions, inv_freq
    )


register(exercise, interleaved=False)


@exercise.equivalent("rotate_half, as in transformers")
def _rotate_half(x, positions, inv_freq):
    angle = positions.unsqueeze(-1).float() * inv_freq.float()
    if angle.dim() == 3:
        angle = angle.unsqueeze(1)
    angle = torch.cat((angle, angle), dim=-1)
    size = angle.shape[-1]
    part, rest = x[..., :size], x[..., size:]
    x1, x2 = part[..., : size // 2], part[..., size // 2 :]
    turned = part * angle.cos() + torch.cat((-x2, x1), -1) * angle.sin()
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


@exercise.equivalent("complex numbers")
def _complex(x, positions, inv_freq):
    angle = positions[..., None].double() * inv_freq.double()
    if positions.dim() == 2:
        angle = angle[:, None]
    unit = torch.polar(torch.ones_like(angle), angle)
    size = 2 * len(inv_freq)
    a, b = x[..., :size].double().chunk(2, -1)
    turned = torch.complex(a, b) * unit
    out = torch.cat([turned.real, turned.imag], -1).to(x.dtype)
    return torch.cat([out, x[..., size:]], -1)


@exercise.equivalent("pair by pair, in a loop")
def _loop(x, positions, inv_freq):
    columns = list(x.float().unbind(-1))
    n = len(inv_freq)
    where = positions[:, None] if positions.dim() == 2 else positions
    for i in range(n):
        t = where * inv_freq[i].float()
        a, b = columns[i], columns[i + n]
        columns[i] = a * t.cos() - b * t.sin()
        columns[i + n] = a * t.sin() + b * t.cos()
    return torch.stack(columns, -1).to(x.dtype)


@exercise.equivalent("a rotation matrix for each pair")
def _matrices(x, positions, inv_freq):
    t = torch.einsum("...l,f->...lf", positions.float(), inv_freq.float())
    t = t[:, None] if t.dim() == 3 else t
    rows = [torch.stack([t.cos(), -t.sin()], -1)]
    rows.append(torch.stack([t.sin(), t.cos()], -1))
    matrix = torch.stack(rows, -2)  # (..., L, R / 2, 2, 2)
    size = 2 * len(inv_freq)
    pairs = x[..., :size].float().unflatten(-1, (2, -1)).mT
    turned = (matrix @ pairs[..., None])[..., 0].mT.flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


@exercise.equivalent("two halves of a copy, in place")
def _in_place(x, positions, inv_freq):
    out, n = x.clone().float(), len(inv_freq)
    t = positions.to(torch.float64)[..., None] * inv_freq
    t = t.unsqueeze(-3) if positions.ndim > 1 else t
    cos, sin = t.cos().float(), t.sin().float()
    a, b = x[..., :n].float(), x[..., n : 2 * n].float()
    out[..., :n] = a * cos - b * sin
    out[..., n : 2 * n] = b * cos + a * sin
    return out.type_as(x)
