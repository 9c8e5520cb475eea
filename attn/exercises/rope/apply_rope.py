"""The exercise ``rope-apply_rope``: pairs are R / 2 apart."""

from attn.exercises.rope import rotation
from attn.exercises.spec import Exercise

exercise = Exercise(
    id="rope-apply_rope",
    points=3,
    reference=rotation.reference(interleaved=False),
    cases=rotation.cases,
    also=rotation.ALSO,
    properties=rotation.PROPERTIES,
    breaks=rotation.BREAKS,
)
