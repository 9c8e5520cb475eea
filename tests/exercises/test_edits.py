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


def test_a_part_of_a_line_is_replaced():
    assert result("- x * times\n+ x + times")(5) == 7


def test_an_edit_may_span_lines_and_another_may_follow():
    code = "- if y:\n-     y = y + 0\n+ y += 1\n- return y\n+ return -y"
    assert result(code)(5) == -11


def test_lines_are_removed_where_nothing_replaces_them():
    assert result("- x * times\n+ x\n-  + 0")(5) == 5


def test_the_signature_can_be_edited():
    assert result("- int = 2\n+ int = 3")(5) == 15


def test_plain_lines_replace_the_body_or_the_definition():
    assert result("return x + times")(5) == 7
    assert result("def double(x):\n    return x")(5) == 5


def test_methods_replace_methods_of_the_same_name():
    wrong = result("def forward(self, x):\n    return x", CLASS)
    assert wrong().factor == 2 and wrong().forward(7) == 7
    assert result("- factor = 2\n+ factor = 3", CLASS)().forward(7) == 21


@pytest.mark.parametrize(
    "code, times",
    [
        ("- nowhere\n+ x", 0),
        ("- y\n+ x", 5),
        ("+ x", 0),
        ("- x * 2\n+ x", 0),  # a docstring is not code
    ],
)
def test_an_edit_that_does_not_match_once_is_refused(code, times):
    with pytest.raises(EditError, match=rf"a\.md: a: .* occurs {times} times"):
        result(code)


def test_one_line_may_become_several_at_any_depth():
    assert result("- y = x * times\n+ z = x\n+ y = z + times")(5) == 7
    deep = "-     y = y + 0\n+     y = y + 1\n+     y = y + 1"
    assert result(deep)(5) == 12 and result(deep)(0) == 0


@pytest.mark.parametrize(
    "code",
    [
        "- y = y + 0\n+ y = y + 1\n+ y = y + 1",
        "-  y + 0\n+  y + 1\n+     y = y + 1",
        "- factor = 2\n+ factor = 3\n+ self.other = 4",
    ],
)
def test_several_lines_in_the_middle_of_an_indented_one_are_refused(code):
    """Those after the first would leave the block, and still be Python."""
    solution = CLASS if "factor" in code else FUNCTION
    with pytest.raises(EditError, match="a.md: a: .* with the indentation"):
        result(code, solution)


@pytest.mark.parametrize("code", ["- return y\n+ return (", "return (", "if"])
def test_an_edit_that_breaks_the_syntax_is_refused(code):
    with pytest.raises(EditError, match="a.md: a: "):
        result(code)


@pytest.mark.parametrize(
    "code", ["- y = x * times\n  if y:\n+ y = x", "- y = x * times\n\n+ y"]
)
def test_a_context_line_in_an_edit_is_refused(code):
    with pytest.raises(EditError, match="a.md: a: .* must begin with - or"):
        result(code)


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_every_edit_fits_and_changes_its_solution(exercise):
    right = sources.solution(exercise.id)
    for variant in (*exercise.mistakes, *exercise.equivalents):
        assert variant.source != right, variant.place


def test_an_edit_that_only_the_compiler_refuses_is_an_error():
    code = "- x * times\n+ int(x=x, x=times)"
    with pytest.raises(EditError, match="keyword argument repeated"):
        result(code)
