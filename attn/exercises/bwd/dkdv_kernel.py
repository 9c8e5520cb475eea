"""Cases of ``bwd-dkdv_kernel``."""

from attn.exercises.bwd.gradients import BREAKS, by_formula, cases, launching
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="bwd-dkdv_kernel",
    points=3,
    reference=by_formula(slice(1, 3)),
    launch=launching("DK", "DV"),
    cases=cases,
    returns=("DK", "DV"),
    skips_hidden=("Q", "DO"),
    breaks=BREAKS,
)
