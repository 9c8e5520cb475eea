"""Refresh the chapters, and translate, draw and test them.

Nothing here grades: ``notebooks`` runs the solved chapters and stores their
outputs, ``myst_to_markdown`` makes the learner's copies, ``touch_figures``
puts interactive figures in them, ``nbval_plugin`` adds up nbval's points.
"""

from attn.publishing.touch_figures import touch

__all__ = ["touch"]
