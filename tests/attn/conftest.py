"""Transformers logs errors only, from its first import on."""

import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
