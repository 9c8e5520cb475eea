"""Many requests on one model: pages, schedules, shared prefixes and drafts.

One process and no server: what an inference engine does between two forward
passes, over ``attn.cache`` and ``attn.nn``. The names are those of vLLM
(``Request``, ``Scheduler``, ``SchedulerOutput``) and SGLang
(``match_prefix``, ``insert``, ``evict``).
"""

from attn.serving.acceptance import acceptance, rejection_sample, residual
from attn.serving.cascade import cascade_attention
from attn.serving.drafts import Draft, prompt_lookup
from attn.serving.engine import Engine
from attn.serving.model_draft import ModelDraft
from attn.serving.paged import paged_attention
from attn.serving.prefix_cache import Match, PrefixCache
from attn.serving.request import Request
from attn.serving.scheduler import Scheduler, SchedulerOutput
from attn.serving.simulation import Step, Trace, simulate, simulate_static
from attn.serving.speculation import (
    Speculated,
    Verified,
    speculative_decode,
    verify_greedy,
)
from attn.serving.trees import tree_mask, tree_positions

__all__ = [
    "Engine",
    "Request",
    "Scheduler",
    "SchedulerOutput",
    "PrefixCache",
    "Match",
    "paged_attention",
    "cascade_attention",
    "simulate",
    "simulate_static",
    "Trace",
    "Step",
    "tree_mask",
    "tree_positions",
    "prompt_lookup",
    "Draft",
    "ModelDraft",
    "verify_greedy",
    "Verified",
    "speculative_decode",
    "Speculated",
    "acceptance",
    "residual",
    "rejection_sample",
]
