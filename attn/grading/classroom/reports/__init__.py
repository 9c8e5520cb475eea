"""Report what became of a class: to a teacher, its learners, and machines.

``write`` fills a folder: ``index.html`` for the next lecture, a page for each
learner, ``class.csv``, ``report.json``, ``junit.xml``, Gradescope's files.
``table`` is what a terminal shows. Both depend on the results alone.
"""

from attn.grading.classroom.reports.files import write
from attn.grading.classroom.reports.terminal import table

__all__ = ["table", "write"]
