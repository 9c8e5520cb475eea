"""Modules of attention with random weights, and torch's beside ours."""

import torch
from torch import nn

from attn.nn import MultiHeadAttention
from tests.attn.cases import randn

B, L, S, E, H = 3, 5, 7, 12, 3


def make(cls, *args, seed=0, **kwargs):
    """A module in float64 whose every parameter is random, biases too."""
    module = cls(*args, **kwargs).double()
    with torch.no_grad():
        for i, x in enumerate(module.parameters()):
            noise = randn(*x.shape, seed=seed + i)
            x.copy_(noise / x.shape[-1] ** 0.5)
    return module.eval()


def pair(packed=True, bias=True, kdim=None, vdim=None, **ours):
    """torch's module, and ours with its weights."""
    sizes = {"kdim": kdim, "vdim": vdim, "bias": bias}
    theirs = make(nn.MultiheadAttention, E, H, batch_first=True, **sizes)
    mine = MultiHeadAttention(E, H, packed=packed, **sizes, **ours).double()
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine.eval()
