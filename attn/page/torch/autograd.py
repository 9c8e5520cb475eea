"""PyTorch's ``torch.autograd``: gradients, where a check records them."""

from .errors import not_here
from .gradients import grad, recording

__all__ = ["grad", "recording"]


def __getattr__(name: str) -> None:
    raise not_here(f"torch.autograd.{name}")
