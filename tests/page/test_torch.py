"""The stand-in for PyTorch computes, and says, what PyTorch does."""

import contextlib
import math
import re
import time
from pathlib import Path

import pytest
import torch as real

from attn.page import torch as stand_in
from tests.marks import exhaustive_but
from tests.page import torch_names
from tests.page.torch_draws import double, draw, outcome, unequal
from tests.processes import run_python

TEXT = Path(__file__).with_name("torch_expressions.txt").read_text().strip()
SECTIONS = {
    name: rows.splitlines()
    for name, _, rows in (x.partition("\n") for x in TEXT[2:].split("\n# "))
}


def difference(expression: str, seed: int) -> str:
    """Return how the two differ for an expression, or nothing."""
    given = draw(seed)
    both = [outcome(x, expression, given) for x in (stand_in, real)]
    ours, theirs = both
    if theirs.error or ours.error:
        one, other = (f"{type(x.error).__name__}: {x.error}" for x in both)
        return "" if one == other else f"{one}, not {other} {theirs.value!r}"
    exact = outcome(real, expression, double(given)).value
    if text := unequal(ours.value, theirs.value, exact):
        return text
    for one, other in zip(ours.inputs, theirs.inputs, strict=True):
        if one != other:
            return f"an input is afterwards {one}, not {other}"
    return ""


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("seed", exhaustive_but(range(2), range(12)))
def test_the_stand_in_agrees_with_pytorch(section, seed):
    """Value, shape, dtype, what a write changes, and the words of errors."""
    found = {x: difference(x, seed) for x in SECTIONS[section]}
    differing = [f"{x}: {text}" for x, text in found.items() if text]
    assert not differing, "\n".join(differing)


INF = math.inf
#: Where a slope is a convention: ties, bounds, infinities.
GRADIENTS = {
    (0.0, -1.0, 2.0): """F.relu(x)|x.relu()|x.clamp(min=0)|x.clamp(0, 2)
x * torch.polar(x.detach(), x.detach()).imag
x.abs()|torch.maximum(x, torch.zeros(3))|x.sign() * x|F.silu(x)
F.softplus(x)""",
    (0.0, 1.0, 4.0): """x.sqrt()|x**0.5|x / x|x.prod()|x.cumprod(0)|x.log1p()
torch.full((3,), 2.0).xlogy(x)|F.hardtanh(x)|F.hardtanh(x, 2, 3)
F.relu6(x)|F.leaky_relu(x)|F.hardsigmoid(x - 3)|F.logsigmoid(x)""",
    (1.0, 1.0, 0.0): """x.amax()|x.max()|x.max(0).values|x.sort().values
torch.minimum(x, torch.ones(3))|x.var(correction=0)|x.masked_fill(x > 0, 0)""",
    (1.0, 1.0, 1.0): "x.std()|x.amin()|torch.where(x > 0, x.log(), 0.0)",
    (0.0, 0.0, 0.0): "x.norm()|F.normalize(x, dim=0)|x.logsumexp(0)",
    (-INF, -INF, -INF): "x.logsumexp(0)|x.softmax(0)|x.log_softmax(0)|x.exp()",
    (-INF, 0.0, 1.0): "x.logsumexp(0)|x.log_softmax(0)|x.softmax(0)|x.amax()",
    (INF, 0.0, 1.0): "x.logsumexp(0)|x.amax()|x.softmax(0)",
}


def slopes(library, expression, values):
    autograd = library.autograd
    with getattr(autograd, "recording", contextlib.nullcontext)():
        x = library.tensor(values).requires_grad_()
        names = {"torch": library, "F": library.nn.functional, "x": x}
        y = eval(expression, names)
        return autograd.grad(y.sum(), x)[0].tolist()


@pytest.mark.parametrize("values", GRADIENTS, ids=str)
def test_gradients_agree_where_a_slope_is_a_convention(values):
    for expression in GRADIENTS[values].replace("\n", "|").split("|"):
        both = (slopes(x, expression, values) for x in (stand_in, real))
        ours, theirs = both
        assert ours == pytest.approx(theirs, nan_ok=True), expression


def test_every_public_name_of_the_stand_in_is_in_an_expression():
    written = set(re.findall(r"\w+", TEXT))
    own = "Generator Module NotOnThisPage Size Tensor autograd called device"
    more = "contiguous_format dtype enable_grad filling inference_mode math"
    rest = "functional no_grad numpy preserve_format set_grad_enabled strided"
    known = {*f"{own} {more} {rest}".split(), *written}
    for owner, (theirs, ours) in torch_names.OWNERS.items():
        both = torch_names.public(ours) & torch_names.public(theirs)
        assert both, owner
        assert sorted(both - known) == [], owner


def test_the_names_that_the_stand_in_lacks_are_those_in_its_file():
    said = "python -m tests.page.torch_names"
    # Those of a new process: PyTorch has more when more is imported.
    code = "from tests.page.torch_names import text; print(text(), end='')"
    assert torch_names.FILE.read_text() == run_python(code).stdout, said


def test_what_is_missing_says_so_by_its_full_name():
    complex_ = "The gradient of a complex number"
    for expression, name in {
        "torch.fft": "torch.fft",
        "torch.bernoulli(x)": "torch.bernoulli",
        "torch.quint8": "torch.quint8",
        "x.backward()": "Tensor.backward",
        "torch.nn.functional.ctc_loss": "F.ctc_loss",
        "torch.nn.LSTM(1, 2)": "nn.LSTM",
        "torch.linalg.svd(x)": "torch.linalg.svd",
        "torch.zeros(2, device='cuda')": "torch.zeros(device='cuda')",
        "x.to('cuda')": "torch.device('cuda')",
        "torch.add(x, x, out=x)": "torch.add(out=…)",
        "x * 1j": complex_,
        "torch.zeros(2, dtype=torch.cfloat).copy_(x)": complex_,
        "torch.polar(x, x)": complex_,
        "torch.nn.Parameter(torch.tensor([1j]))": complex_,
    }.items():
        refused = pytest.raises(stand_in.NotOnThisPage)
        with refused as error, stand_in.autograd.recording():
            x = stand_in.zeros(2).requires_grad_()
            eval(expression, {"torch": stand_in, "x": x})
        said = f"{name} is not on this page; in Jupyter it is"
        assert str(error.value) == said


def test_what_pytorch_lacks_too_is_an_attribute_error():
    assert not hasattr(stand_in, "sofmax")
    with pytest.raises(AttributeError, match="has no attribute 'sofmax'"):
        stand_in.zeros(2).sofmax()


@pytest.mark.parametrize(
    "expression",
    [
        "torch.zeros(1000, 1000)",
        "torch.arange(10**6)",
        "torch.ones(1000, 1).expand(1000, 1000) + 1",
        "torch.ones(1000, 1) * torch.ones(1000)",
        "torch.ones(1000, 1) @ torch.ones(1, 1000)",
        "torch.zeros(10).repeat(10**5)",
        "torch.rand(10**6)",
        "torch.eye(1000)",
        "torch.zeros(1000)[torch.zeros(1000, 1000, dtype=torch.int64)]",
    ],
)
def test_a_million_elements_are_refused_in_a_second(expression):
    start = time.monotonic()
    with pytest.raises(stand_in.NotOnThisPage, match="1,000,000 elements"):
        eval(expression, {"torch": stand_in})
    assert time.monotonic() - start < 1


def test_names_that_were_called_are_noted_and_not_what_they_call():
    F, called = stand_in.nn.functional, stand_in.called
    x = stand_in.arange(6.0).view(2, 3)
    for call, names in {
        lambda: F.scaled_dot_product_attention(x, x, x): {
            "scaled_dot_product_attention"
        },
        lambda: stand_in.softmax(x, -1): {"softmax"},
        lambda: x.softmax(-1).sum().item(): {"softmax", "sum", "item"},
        lambda: float(x[0, 0]): {"item"},
        lambda: x[x > 2]: {"nonzero"},
        lambda: x.mT @ x + 1: set(),
    }.items():
        called.clear()
        call()
        assert called() == names


def test_memory_that_is_only_allocated_shows():
    assert stand_in.empty(2).isnan().all()
    with stand_in.filling(3):
        assert stand_in.empty(2).tolist() == [3.0, 3.0]


def test_a_product_takes_milliseconds():
    a, b = stand_in.rand(10, 20), stand_in.rand(20, 10)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    assert min(times) < 2e-3
