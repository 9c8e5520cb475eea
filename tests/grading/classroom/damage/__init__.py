"""Submissions that are broken, and what is to become of each."""

from tests.grading.classroom.damage import (  # noqa: F401, each adds to DAMAGE
    notebooks,
    python_files,
    whole_files,
)
from tests.grading.classroom.damage.kinds import DAMAGE

__all__ = ["DAMAGE"]
