"""Correct variants of ``rope-apply_rope``: pairs R / 2 apart."""

import torch

from attn.exercises.rope import rotation
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope",
    points=3,
    reference=rotation.reference(interleaved=False),
    cases=rotation.cases,
    also=rotation.ALSO,
    properties=rotation.PROPERTIES,
    breaks=rotation.BREAKS,
)


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
