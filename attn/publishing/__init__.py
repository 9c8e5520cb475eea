"""Refresh the chapters, and translate, draw and test them.

Nothing here grades: ``notebooks`` runs the solved chapters and stores their
outputs, ``myst_to_markdown`` makes the learner's copies, ``nbval_plugin``
prints the points of ``pytest --nbval``.
"""
