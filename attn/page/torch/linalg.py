"""Functions of ``torch.linalg``."""

from .errors import looking
from .names import LINALG, public
from .tensor import Tensor

globals().update(
    {x: public(x, f, "torch.linalg", Tensor) for x, f in LINALG.items()}
)
__all__ = [*LINALG]


__getattr__ = looking("torch.linalg", "torch.linalg")
