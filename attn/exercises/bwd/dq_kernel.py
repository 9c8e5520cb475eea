"""Cases of ``bwd-dq_kernel``."""

from attn.exercises.bwd.gradients import BREAKS, by_formula, cases, launching
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="bwd-dq_kernel",
    points=2,
    reference=by_formula(slice(1)),
    launch=launching("DQ"),
    cases=cases,
    loads_once=("K", "V"),
    skips_hidden=("K", "V"),
    breaks=BREAKS,
)
