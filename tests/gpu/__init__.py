"""The kernels on a GPU, in one go: ``make gpu``.

``correctness`` compares every kernel with float64, ``sweep`` tries the
neighbours of each shipped configuration, and ``attn.bench`` times the
benchmark. ``session`` runs the three in processes of ``workers``. A machine
with a GPU may lack pytest and matplotlib: what runs there imports neither,
and ``report`` is loaded last.
"""
