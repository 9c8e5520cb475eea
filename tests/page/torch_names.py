"""Write the names that PyTorch has and its stand-in lacks.

``python -m tests.page.torch_names`` writes the file that the stand-in reads.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch as real

from attn.page import torch as stand_in

FILE = Path(stand_in.__file__).with_name("names.txt")

OWNERS: dict[str, tuple[Any, Any]] = {
    "torch": (real, stand_in),
    "torch.linalg": (real.linalg, stand_in.linalg),
    "Tensor": (real.Tensor, stand_in.Tensor),
    "F": (real.nn.functional, stand_in.nn.functional),
    "nn": (real.nn, stand_in.nn),
    "nn.Module": (real.nn.Module, stand_in.nn.Module),
}
"""What has names that a reader writes after a dot: the two of each."""


def public(owner: Any) -> set[str]:
    """Return the names without an underscore in front."""
    return {name for name in dir(owner) if not name.startswith("_")}


def missing(real_one: Any, other: Any) -> list[str]:
    """Return what of PyTorch a reader may miss: functions, modules, dtypes."""
    kinds = real.dtype | ModuleType | property
    return [
        name
        for name in sorted(public(real_one) - public(other))
        if callable(x := getattr(real_one, name, None))
        or isinstance(x, kinds)
        or isinstance(real_one, type)
    ]


def text() -> str:
    """Return the file: a line for each owner of names."""
    found = {owner: missing(*two) for owner, two in OWNERS.items()}
    lines = (f"{owner}: {' '.join(x)}" for owner, x in found.items())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
