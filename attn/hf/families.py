"""Families of transformers' models: what they are, in our words.

Each is a function that reads its configuration into the arguments of
``attn.nn.Transformer``, and a table of its modules and ours. The tables only
rename and cut; the sources are ``modeling_<family>.py`` of transformers 5.
"""

from __future__ import annotations

from attn.hf import encoders, gpts, llamas

FAMILIES = {**gpts.FAMILIES, **llamas.FAMILIES, **encoders.FAMILIES}
