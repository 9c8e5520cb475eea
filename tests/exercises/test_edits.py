"""An edit of the solution that does not fit it fails loudly."""

import pytest

from attn.exercises import sources
from attn.exercises.edits import EditError, Variant
from attn.exercises.spec import every_exercise

FUNCTION = '''\
def double(x: int, times: int = 2) -> int:
    """Return twice x: x * 2."""
    y = x * times
    if y:
        y = y + 0
    return y
'''
CLASS = '''\
class Scale:
    """Multiply."""

    def __init__(self):
        """Set up: factor = 2."""
        self.factor = 2

    def forward(self, x):
        """Return x * factor."""
        return x * self.factor
'''


def result(code, solution=FUNCTION):
    return Variant("a", code, "a.md: a", solution, dict).answer


DEEP = "-     y = y + 0\n+     y = y + 1\n+     y = y + 1"


@pytest.mark.parametrize(
    ("code", "x", "expected"),
    [
        # A part of a line is replaced; of the signature, too.
        ("- x * times\n+ x + times", 5, 7),
        ("- int = 2\n+ int = 3", 5, 15),
        # An edit may span lines, and another may follow.
        (
            "- if y:\n-     y = y + 0\n+ y += 1\n- return y\n+ return -y",
            5,
            -11,
        ),
        # Lines are removed where nothing replaces them.
        ("- x * times\n+ x\n-  + 0", 5, 5),
        # One line may become several, at any depth.
        ("- y = x * times\n+ z = x\n+ y = z + times", 5, 7),
        (DEEP, 5, 12),
        (DEEP, 0, 0),
        # Plain lines replace the body, or the definition.
        ("return x + times", 5, 7),
        ("def double(x):\n    return x", 5, 5),
    ],
)
def test_an_edit_changes_what_it_names(code, x, expected):
    assert result(code)(x) == expected


def test_methods_replace_methods_of_the_same_name():
    wrong = result("def forward(self, x):\n    return x", CLASS)
    assert wrong().factor == 2 and wrong().forward(7) == 7
    assert result("- factor = 2\n+ factor = 3", CLASS)().forward(7) == 21


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("- nowhere\n+ x", "occurs 0 times"),
        ("- y\n+ x", "occurs 5 times"),
        ("+ x", "occurs 0 times"),
        ("- x * 2\n+ x", "occurs 0 times"),  # a docstring is not code
        # Of several lines in the middle of one, those after the first would
        # leave the block, and still be Python.
        ("- y = y + 0\n+ y = y + 1\n+ y = y + 1", "with the indentation"),
        ("-  y + 0\n+  y + 1\n+     y = y + 1", "with the indentation"),
        ("- factor = 2\n+ factor = 3\n+ self.b = 4", "with the indentation"),
        # The syntax breaks, for the parser or for the compiler.
        ("- return y\n+ return (", ""),
        ("return (", ""),
        ("if", ""),
        ("- x * times\n+ int(x=x, x=times)", "keyword argument repeated"),
        # A line of context.
        ("- y = x * times\n  if y:\n+ y = x", "must begin with - or"),
        ("- y = x * times\n\n+ y", "must begin with - or"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(code, message):
    solution = CLASS if "factor" in code else FUNCTION
    with pytest.raises(EditError, match=rf"a\.md: a: .*{message}"):
        result(code, solution)


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_every_edit_fits_and_changes_its_solution(exercise):
    right = sources.solution(exercise.id)
    seen = {right: "the solution"}
    for variant in (*exercise.mistakes, *exercise.equivalents):
        other = seen.setdefault(variant.source, variant.place)
        assert other == variant.place
