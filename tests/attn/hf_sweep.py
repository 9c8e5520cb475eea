"""Attach every family of transformers, and write the table of the book.

``python -m tests.attn.hf_sweep`` writes ``book/api/attached/families.md``:
one row a family, checked again by ``make test-all``.
"""

import datetime
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as T
from torch import Tensor, nn

from attn import hf
from tests.attn.hf_families import FAMILIES, build, inputs, output

TABLE = Path(__file__).parents[2] / "book/api/attached/families.md"
ATTACHED, TENSORS = "attached", "attached, masks as tensors"
REFUSED, NOTHING = "refused", "no attention to replace"


class Row(NamedTuple):
    """What ``attach`` does with one family."""

    family: str
    model: str
    outcome: str
    reason: str = ""

    def __str__(self) -> str:
        cells = (f"`{self.family}`", f"`{self.model}`", *self[2:])
        return f"| {' | '.join(cells)} |"


def sweep(family: str) -> Row | None:
    """Attach a tiny model of a family, and compare it with eager attention.

    Returned is None for a family of which no tiny model runs. Raises
    AssertionError where the attached model computes something else.
    """
    for kv_heads in (2, 4):
        try:
            with dispatching() as seen, torch.no_grad():
                model = build(family, kv_heads)
                cases = inputs(model)
                output(model, cases["none"])
            break
        except Exception:  # any of transformers'
            continue
    else:
        return None
    name = type(model).__name__
    want = results(model, cases)
    try:
        hf.attach(model)
    except ValueError as error:
        assert model.config._attn_implementation == "eager"
        reason = true_reason(str(error), seen)
        check_part(model, str(error), cases, want)
        return Row(family, name, REFUSED, reason)
    got = results(model, cases, want)
    for case, tensor in want.items():
        assert_close(got[case], tensor, f"{family}, {case}")
    how = model.config._attn_implementation
    if not seen:
        return Row(family, name, NOTHING)
    return Row(family, name, TENSORS if "tensors" in how else ATTACHED)


def true_reason(message: str, seen: set[str]) -> str:
    """Return why a model was refused; what dispatches is not inline."""
    found = re.match(
        r"(\w+) of transformers \S+ (.*), so it cannot be replaced", message
    )
    if found:
        assert found[1] not in seen, f"{found[1]} is not inline"
        return f"`{found[1]}` {found[2]}"
    found = re.match(r"\w+ cannot be attached, because (.*?)\. ", message)
    assert found, message
    return re.sub(r"it raises \w+: ", "", found[1])


def check_part(
    model: T.PreTrainedModel,
    message: str,
    cases: dict[str, dict[str, Tensor]],
    want: dict[str, Tensor],
) -> None:
    """Attach the part that a refusal names, and compare."""
    found = re.search(r"attn\.hf\.attach\(model\.(\S+)\) replaces", message)
    if not found:
        return
    hf.attach(model.get_submodule(found[1]))
    got = results(model, cases, want)
    for case, tensor in want.items():
        assert_close(got[case], tensor, f"{found[1]}, {case}")


@contextmanager
def dispatching() -> Iterator[set[str]]:
    """Collect the classes that look up their attention function."""
    seen: set[str] = set()
    real = T.AttentionInterface.get_interface

    def noted(self: Any, *args: Any) -> Any:
        owner = sys._getframe(1).f_locals.get("self")
        seen.add(type(owner).__name__)
        return real(self, *args)

    T.AttentionInterface.get_interface = noted
    try:
        yield seen
    finally:
        T.AttentionInterface.get_interface = real


def results(
    model: nn.Module,
    cases: dict[str, dict[str, Tensor]],
    wanted: dict[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return outputs, gradients and generated tokens, by their names.

    Without ``wanted`` those that the model can compute, otherwise these.
    """
    found: dict[str, Tensor] = {}
    for case, compute in computations(model, cases).items():
        if wanted is None:
            try:
                found[case] = compute()
            except Exception:  # of transformers: not for this model
                continue
        elif case in wanted:
            found[case] = compute()
    return found


def computations(
    model: nn.Module, cases: dict[str, dict[str, Tensor]]
) -> dict[str, Any]:
    def forward(kwargs: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return output(model, kwargs)

    def gradients() -> Tensor:
        model.zero_grad()
        out = output(model, cases.get("right", cases["none"]))
        weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
        (out.float() * weights).sum().backward()
        grads = (x.grad for x in model.parameters() if x.grad is not None)
        return torch.cat([x.flatten() for x in grads])

    def generated() -> Tensor:
        side = "right" if model.config.is_encoder_decoder else "left"
        kwargs = dict(cases[side])
        kwargs.pop("decoder_input_ids", None)
        tokens = {"max_new_tokens": 3, "min_new_tokens": 3}
        return model.generate(**kwargs, **tokens, do_sample=False)

    found: dict[str, Any] = {
        f"{side} padded": (lambda kwargs=kwargs: forward(kwargs))
        for side, kwargs in cases.items()
    }
    found["gradients"] = gradients
    if model.can_generate() and "left" in cases:
        found["generated"] = generated
    return found


def assert_close(got: Tensor, want: Tensor, case: str) -> None:
    if not want.is_floating_point():
        assert torch.equal(got, want), f"{case}: {got} != {want}"
        return
    size = max(1.0, want[want.isfinite()].abs().max().item())
    torch.testing.assert_close(
        got,
        want,
        atol=2e-5 * size,
        rtol=0,
        equal_nan=True,
        msg=lambda text: f"{case}: {text}",
    )


def table(rows: list[Row], date: str) -> str:
    """Return the text of the table."""
    counts = Counter(row.outcome for row in rows)
    return f"""\
With transformers {T.__version__}, {date}: of {len(FAMILIES)} configurations, \
{len(rows)} give a tiny model that runs with eager attention. \
{counts[ATTACHED]} of these are attached, {counts[TENSORS]} more with masks \
as tensors, {counts[NOTHING]} have no attention to replace, and \
{counts[REFUSED]} are refused. An attached model gives the logits of eager \
attention with padding on either side, its gradients, and the tokens that it \
generates with a cache.

| configuration | model | outcome | reason |
|---|---|---|---|
{chr(10).join(map(str, rows))}
"""


def main() -> None:
    """Write the table."""
    torch.set_num_threads(1)
    rows = [row for family in FAMILIES if (row := sweep(family))]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(table(rows, datetime.date.today().isoformat()), "utf-8")


if __name__ == "__main__":
    main()
