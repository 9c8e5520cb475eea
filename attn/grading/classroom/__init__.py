"""Grade notebooks for a teacher: one submission, or a class.

``attn grade`` reads submissions, judges each answer in a room of its own
(``attn.grading.sandbox``), runs the chapter with the answers in it, and writes
reports. The mark is the judge's alone.
"""
