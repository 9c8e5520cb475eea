"""A cell binds the names that its statements do, as IPython sees them."""

import pytest

from attn.exercises.bindings import binds, deleted, used

BINDS = r"""def f(): pass|f = g = 1|x, (f, y) = z|f: int = 3|for f in x: pass
if 1:\n  def f(): pass|with x as f: pass|from x import f|import x as f|(f := 3)
%timeit f(3)\nf = 1|x = !ls\nf = 2|%%time\nf = 1|  f = 1
def f(): pass\nreturn ("""
BINDS_NOT = r"""x = d(\n  f=1,\n)|def g():\n  f = 1|s = '''\nf = 1\n'''|f: int
f == 3|f.x = 3|f?|[f for f in x]|%%bash\nf = 1|x = (\n  f=1|lambda f: f"""


@pytest.mark.parametrize(("cells", "is_bound"), [(BINDS, 1), (BINDS_NOT, 0)])
def test_statements_at_the_top_bind_and_nothing_else(cells, is_bound):
    for cell in cells.replace("\n", "|").split("|"):
        assert binds("f", cell.replace(r"\n", "\n")) == is_bound, cell


def test_a_value_uses_names_of_other_statements():
    cell = "old = f\ndef f(q):\n    y = old(q)\n    return y + h(q) * f(2)"
    assert used("f", cell) == {"old", "h"} and used("old", cell) == {"f"}
    assert used("f", "f = cache(f)") == {"cache", "f"}
    assert used("C", "class C(B):\n  def m(self): return g") == {"B", "g"}
    cell = """def f(x):
    from m import d as e
    def g(y): return x + y + p
    try: return g(e) + [z for z in q]
    except E as error: global r; r = error"""
    assert used("f", cell) == {*"pqrE"}
    assert used("f", "def f():\n  x = 1\n  def x(): nonlocal z") == set()
    assert deleted("del x, f") == {"x", "f"}
