"""Submissions that are broken, and what is to become of each."""

from tests.grading.classroom.damage import odd_parts, whole_files  # noqa: F401
from tests.grading.classroom.damage.kinds import DAMAGE

__all__ = ["DAMAGE"]
