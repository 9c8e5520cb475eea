"""What chapter 12 says about Triton's language, asked of the compiler.

The interpreter accepts nearly everything, so each kernel is compiled, for
sm_90, in another process: one process either interprets or compiles.
"""

import json
import os
from textwrap import indent

import pytest
import torch

from tests.processes import run_python

triton = pytest.importorskip("triton")
tl = triton.language

START = "lane = tl.arange(0, BLOCK)\nx = tl.load(X + lane)\n"
LOOP = "for start in range(0, n, BLOCK):\n    "
ACCEPTED = {
    "a branch on a constexpr leaves the other out": """
if FLAG:
    x = nonsense(x)
tl.store(OUT + lane, x)""",
    "a name of one branch on a constexpr": """
if not FLAG:
    y = x
tl.store(OUT + lane, y)""",
    "a branch on a number": """
if n > 2:
    y = x
else:
    y = x + 1
tl.store(OUT + lane, y)""",
    "computed bounds": """
for start in range(0, tl.minimum(n, 100), BLOCK):
    x += 1
tl.store(OUT + lane, x)""",
    "a tile of 4 by 4 that sums over 16": """
r, c = tl.arange(0, 4), tl.arange(0, 16)
a = tl.load(X + r[:, None] * 16 + c[None, :])
tl.store(OUT + r[:, None] * 4 + r[None, :], tl.dot(a, tl.trans(a)))""",
    "a sum over 8 in float32": """
r, c = tl.arange(0, 16), tl.arange(0, 8)
a = tl.load(X + r[:, None] * 8 + c[None, :])
tl.store(OUT + r[:, None] * 16 + r[None, :], tl.dot(a, tl.trans(a)))""",
}
REFUSED = {
    "break": (LOOP + "if start > 8:\n        break", "Break"),
    "continue": (LOOP + "if start > 8:\n        continue", "Continue"),
    "return in a loop": (LOOP + "if start > 8:\n        return", "return"),
    "another dtype from turn to turn": (
        "s = 0\n" + LOOP + "s = s + 0.5",
        "initial type",
    ),
    "another shape from turn to turn": (
        "s = 0.0\n" + LOOP + "s = s + x",
        "initial type",
    ),
    "another shape in one branch": (
        "y = 0.0\nif n > 2:\n    y = x\ntl.store(OUT + lane, y)",
        "redefines",
    ),
    "a name of one branch": (
        "if n > 2:\n    y = x\ntl.store(OUT + lane, y)",
        "not defined",
    ),
    "a condition on a tile": ("if x > 0:\n    x += 1", "ambiguous"),
    "a dictionary": ("y = {'x': x}", "Dict"),
    "appending to a list": ("y = []\ny.append(x)", "append"),
    "try": ("try:\n    x += 1\nexcept ValueError:\n    pass", "Try"),
    "lambda": ("f = lambda y: y + 1\nx = f(x)", "Lambda"),
    "one element": ("tl.store(OUT, x[0])", "index"),
    "torch": ("x = torch.exp(x)", "Unsupported function"),
    "exp of half precision": ("x = tl.exp(x.to(tl.bfloat16))", "fp32"),
    "a block that is no power of two": ("x = tl.arange(0, 12)", "power of 2"),
    "a block of a number's length": ("x = tl.arange(0, n)", "constexpr"),
    "two dtypes in a product": (
        "a = tl.zeros([16, 16], tl.bfloat16)\nx = tl.dot(a, a.to(tl.float32))",
        "same dtype",
    ),
    "a sum over 4 in float32": (
        "a = tl.zeros([16, 4], tl.float32)\nx = tl.dot(a, tl.trans(a))",
        "K >= 8",
    ),
    "a sum over 8 in half precision": (
        "a = tl.zeros([16, 8], tl.bfloat16)\nx = tl.dot(a, tl.trans(a))",
        "K >= 16",
    ),
}
COMPILE = """
import json

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import kernels

errors = {}
for name, kernel in kernels.ALL.items():
    known = {"FLAG": False, "BLOCK": 16}
    types = {"X": "*fp32", "OUT": "*fp32", "n": "i32"}
    types |= dict.fromkeys(known, "constexpr")
    try:
        source = ASTSource(kernel, types, constexprs=known)
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
        errors[name] = ""
    except Exception as error:
        errors[name] = f"{error} {error.__cause__}"
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The compiler's complaint about each kernel, "" if it has none."""
    folder = tmp_path_factory.mktemp("language")
    text = "import torch\nimport triton\nimport triton.language as tl\n"
    text += "\nALL = {}\n"
    bodies = ACCEPTED | {name: body for name, (body, _) in REFUSED.items()}
    for i, (name, body) in enumerate(bodies.items()):
        text += (
            "\n\n@triton.jit\n"
            f"def k{i}(X, OUT, n, FLAG: tl.constexpr, BLOCK: tl.constexpr):\n"
            f"{indent(START + body.strip(), '    ')}\n"
            f"\n\nALL[{name!r}] = k{i}\n"
        )
    (folder / "kernels.py").write_text(text)
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env |= {"TRITON_DEFAULT_FP_FUSION": "1", "PYTHONPATH": str(folder)}
    done = run_python(COMPILE, env=env)
    assert not done.returncode, done.stderr[-800:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ACCEPTED)
def test_triton_compiles_the_accepted_constructs(errors, name):
    assert errors[name] == ""


@pytest.mark.parametrize("name", REFUSED)
def test_triton_refuses_the_unsupported_constructs(errors, name):
    assert REFUSED[name][1] in errors[name]


@triton.jit
def both_kernel(OUT, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    both = (lane < n) and (lane > 2)
    tl.store(OUT + lane, both.to(tl.float32))


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled")
def test_the_interpreter_ignores_one_side_of_an_and():
    out = torch.zeros(16)
    both_kernel[(1,)](out, 8, BLOCK=16)
    assert out.sum() == 13  # lanes 3 to 15, where 3 to 7 are meant
