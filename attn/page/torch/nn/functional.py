"""Functions of ``torch.nn.functional``."""

from .. import network
from ..errors import looking
from ..names import FUNCTIONAL, public
from ..tensor import Tensor

globals().update({x: public(x, f, "F", Tensor) for x, f in FUNCTIONAL.items()})
__all__ = [*FUNCTIONAL]
del network

__getattr__ = looking("F", "torch.nn.functional")
