"""Import the solution of an exercise."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise


def solution(exercise: Exercise) -> Any:
    """Return the solution as an object."""
    key, name = sources.split_id(exercise.id)
    return getattr(_solutions(sources.solutions_path(key)), name)


def _solutions(path: Path) -> ModuleType:
    """Import a chapter's solutions from their file: a wheel has no package."""
    name = f"solutions.{path.stem}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        assert spec and spec.loader
        # Triton looks a kernel's module up by its name.
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
