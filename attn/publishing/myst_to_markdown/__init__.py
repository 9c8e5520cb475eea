"""The learner's copies of the chapters: plain Jupyter Markdown.

The chapters are written in MyST, for the book. Jupyter, Colab, VS Code and
GitHub show MyST as it is written, so that a copy for them is translated.
Nothing here needs torch: the book's build makes copies too.
"""

from attn.publishing.myst_to_markdown.copies import copy_of, glossary

__all__ = ["copy_of", "glossary"]
