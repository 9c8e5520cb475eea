"""PyTorch's ``torch.autograd``: gradients, where a check records them."""

from .gradients import grad, recording

__all__ = ["grad", "recording"]
