"""Benchmark implementations side by side: ``python -m attn.bench``.

``case`` defines a comparison, ``cases`` lists them with their goals,
``baselines`` and ``modules`` build the peers of a case, ``runner`` times
them, ``results`` reads and writes runs as JSON, and ``report`` turns them
into tables and a figure.
"""
