"""Grade notebooks for a teacher: one submission, or a class.

``attn grade`` reads submissions, judges each answer in a sandbox of its own
(``attn.grading.sandbox``), and writes reports.
"""
