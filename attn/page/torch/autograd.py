"""PyTorch's ``torch.autograd``: gradients, where a check records them."""

from .errors import lookup_error
from .gradients import grad, recording

__all__ = ["grad", "recording"]


def __getattr__(name: str) -> None:
    said = f"module 'torch.autograd' has no attribute '{name}'"
    raise lookup_error("torch.autograd", name, said)
