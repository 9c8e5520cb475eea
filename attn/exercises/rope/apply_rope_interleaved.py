"""The exercise ``rope-apply_rope_interleaved``: pairs of neighbours."""

from attn.exercises.rope import rotation
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope_interleaved",
    points=2,
    reference=rotation.reference(interleaved=True),
    cases=rotation.cases,
    also=rotation.ALSO,
    properties=rotation.PROPERTIES,
    breaks=rotation.BREAKS,
)
