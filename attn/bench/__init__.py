"""Speed, measured side by side: ``python -m attn.bench``.

``cases`` says what is compared and what is hoped for, ``measuring`` runs
the peers of a case in turns, ``results`` is what was measured, as JSON, and
``shown`` makes a table or a figure of it.
"""
