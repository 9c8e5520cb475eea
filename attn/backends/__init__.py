"""Ways to compute one contract: torch's, and where they are faster, ours.

``attn.api`` chooses among them.
"""
