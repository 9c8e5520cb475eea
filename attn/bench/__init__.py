"""Benchmark implementations side by side: ``python -m attn.bench``.

``cases`` lists the comparisons and their goals, ``baselines`` builds the
peers of a case, ``runner`` times them, ``results`` reads and writes runs as
JSON, and ``report`` turns them into tables and a figure.
"""
