"""The sandbox in which a learner's notebook runs, isolated.

Outside sits the judge, which has the right answers and never runs learner's
code. Inside are torch, the notebook, and the files that ``isolation.py``
names: no reference, no solution, no exercise. A server inside imports torch
once and forks for each notebook (``server.py``, ``limits.py``). The cells run
in one shell, and a process is forked at each check (``notebook.py``), which
gets inputs as a pickle of the judge's (``requests.py``) and returns results
as JSON and raw elements, strictly parsed (``wire.py``).
"""
