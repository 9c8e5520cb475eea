"""Run a model of transformers on a few tokens, to compare two attentions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: Models of more parameters are not run.
LARGEST = 2_000_000_000
_ROWS, _LENGTH = 2, 6


class Unsuitable(Exception):
    """A model computes something else than eager, or is not run.

    It may be too large, or need more than tokens.
    """


class Probe:
    """Outputs of a model with eager attention, to compare others with.

    Three inputs: random tokens, the same with another last token, and a row
    that is padded. Without gradients, in eval mode; the model is left as it
    was but for its attention.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        parameters = list(model.parameters())
        devices = {x.device.type for x in parameters}
        size = sum(x.numel() for x in parameters)
        is_here = "meta" not in devices and len(devices) == 1
        vocabulary = getattr(
            model.config.get_text_config(), "vocab_size", None
        )
        takes_tokens = "input_ids" in signature(model.forward).parameters
        if not (takes_tokens and vocabulary and is_here):
            raise Unsuitable("it does not run on tokens alone")
        if size > LARGEST:
            raise Unsuitable(f"its {size:,} parameters are too many")
        model.set_attn_implementation("eager")
        self.inputs = _inputs(model, vocabulary)
        self.ran: set[type[nn.Module]] = set()
        with _quiet(model), register_module_forward_pre_hook(self._note):
            self.outputs = {
                name: out
                for name, kwargs in self.inputs.items()
                if (out := self._eager(kwargs)) is not None
            }
        if "tokens" not in self.outputs:
            raise Unsuitable("it does not run on tokens alone")

    def _note(self, module: nn.Module, args: Any) -> None:
        self.ran.add(type(module))

    def _eager(self, kwargs: dict[str, Any]) -> Tensor | None:
        try:
            out = _output(self.model, kwargs)
        except Exception:  # of transformers: not an input of this model
            return None
        is_real = isinstance(out, Tensor) and out.is_floating_point()
        return out if is_real else None

    def has_run(self, classes: Collection[type[nn.Module]]) -> bool:
        """Return whether the run reached modules of all these classes."""
        return self.ran.issuperset(classes)

    def check(self, name: str) -> None:
        """Raise ``Unsuitable`` unless a name's outputs are those of eager."""
        self.model.set_attn_implementation(name)
        got = {}
        for case in self.outputs:
            try:
                with _quiet(self.model):
                    got[case] = _output(self.model, self.inputs[case])
            except Exception as error:
                message = f"it raises {type(error).__name__}: {error}"
                raise Unsuitable(message) from error
        self._compare_future(got)
        for case, expected in self.outputs.items():
            # What eager attention computes from padding means nothing.
            real = self.inputs[case].get("attention_mask")
            ours = got[case]
            if real is not None and real.shape == expected.shape[:2]:
                ours, expected = ours[real.bool()], expected[real.bool()]
            moved = _distance(ours, expected)
            if not moved <= _tolerance(expected):
                raise Unsuitable(
                    f"its output for {case} differs from that of eager "
                    f"attention by {moved:.2g}"
                )

    def _compare_future(self, got: dict[str, Tensor]) -> None:
        """Require that the last token changes no more than it does in eager.

        A sharp comparison where that is nothing, whatever the dtype.
        """
        pair = ("tokens", "another last token")
        if not got.keys() >= {*pair}:
            return
        ours, expected = (
            _distance(*(x[name][:, :-1] for name in pair))
            for x in (got, self.outputs)
        )
        if ours > expected + _tolerance(self.outputs["tokens"]) / 4:
            raise Unsuitable(
                "its last token changes the outputs of earlier ones by "
                f"{ours:.2g}, and by {expected:.2g} with eager attention"
            )


def _distance(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        return float("inf")
    is_same = (a == b) | (a.isnan() & b.isnan())
    return (a - b).abs().masked_fill(is_same, 0).max().item()


def _tolerance(x: Tensor) -> float:
    """Return what rounding may change: 1e-4 in float32, 0.06 in bfloat16."""
    size = x[x.isfinite()].abs().max().item()
    return max(1e-3, size) * max(1e-4, 8 * torch.finfo(x.dtype).eps)


def _inputs(
    model: PreTrainedModel, vocabulary: int
) -> dict[str, dict[str, Tensor]]:
    """Return the inputs by a name for each; no token has a meaning."""
    special = set(_tokens_with_meaning(model.config))
    plain = [x for x in range(min(vocabulary, 1000)) if x not in special]
    g = torch.Generator().manual_seed(0)
    at = torch.randint(len(plain), (_ROWS, _LENGTH), generator=g)
    ids = torch.tensor(plain)[at].to(model.device)
    at[:, -1] = (at[:, -1] + 1) % len(plain)
    other = torch.tensor(plain)[at].to(model.device)
    real = torch.ones_like(ids)
    real[0, :2] = 0
    cases = {
        "tokens": {"input_ids": ids},
        "another last token": {"input_ids": other},
        "a padded row": {"input_ids": ids, "attention_mask": real},
    }
    if model.config.is_encoder_decoder:
        for kwargs in cases.values():
            kwargs["decoder_input_ids"] = kwargs["input_ids"].flip(0)
    return cases


def _tokens_with_meaning(config: Any) -> Iterator[int]:
    for name, x in vars(config).items():
        if hasattr(x, "to_dict"):
            yield from _tokens_with_meaning(x)
        elif name.endswith(("token_id", "token_index")):
            yield from x if isinstance(x, list) else [x]


@contextmanager
def _quiet(model: nn.Module) -> Iterator[None]:
    """Compute without gradients, dropout, or another state afterwards."""
    training = [x for x in model.modules() if x.training]
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices):
            model.eval()
            yield
    finally:
        for part in training:
            part.training = True


def _output(model: nn.Module, kwargs: dict[str, Any]) -> Tensor:
    """Return logits, or what a model without a head returns first."""
    result = model(**kwargs)
    named = getattr(result, "logits", None)
    return result[0] if named is None else named
