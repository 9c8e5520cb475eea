"""Speed, measured side by side: ``python -m attn.bench``.

``cases`` lists the comparisons and their goals, ``baselines`` builds the
peers of a case, ``runner`` runs them in turns, ``results`` reads and writes
the measurements as JSON, and ``report`` makes a table or a figure of them.
"""
