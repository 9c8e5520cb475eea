"""Variants of the kernels: tensor descriptors, a persistent grid.

A descriptor is a tensor's address, shape and strides, and the shape of a
tile. Hopper and newer GPUs copy a tile with one instruction (TMA), and no
thread computes an address. The descriptors are made here, before the launch:
one that is made in the kernel needs scratch memory, from an allocator.
"""

from __future__ import annotations

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from attn import tracing

__all__ = ["TILES", "descriptor_reasons", "descriptors", "programs_at_a_time"]

#: The constants that hold the rows and the columns of a tensor's tile.
TILES = {
    "query": ("BLOCK_L", "BLOCK_D"),
    "key": ("BLOCK_S", "BLOCK_D"),
    "value": ("BLOCK_S", "BLOCK_DV"),
    "grad": ("BLOCK_L", "BLOCK_DV"),
}


def descriptor_reasons(**tensors: Tensor) -> list[str]:
    """Return why tensors have no descriptors; empty when they have."""
    reasons = []
    for name, x in tensors.items():
        *outer, last = x.stride()
        apart = [n * x.element_size() for n in outer]
        if last != 1 or any(n <= 0 or n % 16 for n in apart):
            reasons.append(
                f"{name} has the strides {x.stride()}: a tensor descriptor "
                "needs 1 in the end, and multiples of 16 bytes"
            )
        # Without values there is no address either.
        elif tracing.has_values(x) and x.data_ptr() % 16:
            reasons.append(
                f"{name} begins at an address that is no multiple of 16, "
                "which a tensor descriptor needs"
            )
    return reasons


def descriptors(
    tensors: dict[str, Tensor], sizes: dict[str, int]
) -> list[TensorDescriptor]:
    """Return the descriptors of tensors, with tiles of these sizes.

    Args:
        tensors: by their names in ``TILES``.
        sizes: of the blocks, by the names of the constants.
    """
    return [
        TensorDescriptor.from_tensor(
            x, [1, 1, *(sizes[block] for block in TILES[name])]
        )
        for name, x in tensors.items()
    ]


def programs_at_a_time(device: torch.device, num_warps: int) -> int:
    """Return how many programs of a persistent grid a GPU runs at a time."""
    processors = 2  # of the interpreter: so few that each has several turns
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        processors = properties.multi_processor_count
    # Two programs of 8 warps would need more registers than there are.
    return processors * max(1, 8 // num_warps)
