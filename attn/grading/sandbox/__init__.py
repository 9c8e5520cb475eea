"""The sandbox in which a learner's answer runs, isolated.

Outside sits the judge, which has the right answers and never runs learner's
code. Inside are torch, the answer, and the files that ``files.py`` names:
no reference, no solution, no exercise. Inputs go in as a pickle of the
judge's; results come out as JSON and raw elements, strictly parsed
(``wire.py``). A server inside imports torch once and forks for each answer
(``server.py``); ``isolation.py`` closes it off with what the system offers,
``policy.py`` and ``watch.py`` keep the answer from reaching behind torch.
"""
