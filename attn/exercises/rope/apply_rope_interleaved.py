"""Correct variants of ``rope-apply_rope_interleaved``: pairs of neighbours."""

import torch

from attn.exercises.rope import rotation
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope_interleaved",
    points=2,
    reference=rotation.reference(interleaved=True),
    cases=rotation.cases,
    also=rotation.ALSO,
    properties=rotation.PROPERTIES,
    breaks=rotation.BREAKS,
)


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
    turned = rotation.reference(False)(x[..., order], positions, inv_freq)
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
