"""Grade notebooks for a teacher: one submission, or a class.

``attn grade`` reads submissions, runs each notebook in a sandbox
(``attn.grading.sandbox``), judges its answers outside, and writes reports.
"""
