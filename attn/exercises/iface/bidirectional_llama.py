"""Cases and properties of ``iface-bidirectional_llama``."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.positions import NoRope

SIZES = {
    "vocab_size": 5,
    "hidden_size": 12,
    "intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
}


def _use(
    answer: Any,
    inputs_embeds: Tensor,
    attention_mask: Tensor | None,
    implementation: str,
    head_dim: int,
    seed: int,
) -> dict[str, Any]:
    """Make a Llama, change it, and run it."""
    model = copy.deepcopy(LLAMAS[head_dim, seed]).to(inputs_embeds.dtype)
    model.config._attn_implementation = implementation
    with _classes_of(model) as have_changed:
        made = answer(model)
        alone = not have_changed()
        out = made(inputs_embeds=inputs_embeds, attention_mask=attention_mask)
    frozen = [n for n, x in made.named_parameters() if not x.requires_grad]
    return {
        "states": out.last_hidden_state,
        "embed_tokens": made.embed_tokens.weight,
        "frozen parameters": ", ".join(frozen),
        "keeps a cache": out.past_key_values is not None,
        "is the model that was given": made is model,
        "runs under": made.config._attn_implementation,
        "leaves every other Llama as it is": alone,
    }


@contextmanager
def _classes_of(model: Any) -> Iterator[Callable[[], bool]]:
    """Tell whether a class of the model has changed; undo it at the end."""
    parts = model, model.config, model.rotary_emb, model.layers[0].self_attn
    before = [(type(x), dict(vars(type(x)))) for x in parts]
    missing = object()

    def changes() -> list[tuple[type, str, Any]]:
        return [
            (cls, name, names.get(name, missing))
            for cls, names in before
            for name in {**names, **vars(cls)}
            if vars(cls).get(name, missing) is not names.get(name, missing)
        ]

    try:
        yield lambda: bool(changes())
    finally:
        for cls, name, value in changes():
            if value is missing:
                delattr(cls, name)
            else:
                setattr(cls, name, value)


class _Llamas(dict):
    """Llamas by head_dim and seed; a pickle of them is empty."""

    def __missing__(self, key: tuple[int, int]) -> Any:
        self[key] = _llama(*key)
        return self[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Llamas, ()


LLAMAS = _Llamas()


def _llama(head_dim: int, seed: int) -> Any:
    """Build a Llama with weights drawn from a seed; use copies of it."""
    from transformers import LlamaConfig, LlamaModel

    with torch.device("meta"):  # PyTorch's own weights are not drawn
        model = LlamaModel(LlamaConfig(**SIZES, head_dim=head_dim))
    model.rotary_emb = type(model.rotary_emb)(model.config)  # has buffers
    g = torch.Generator().manual_seed(seed)
    weights = {
        name: torch.randn(x.shape, generator=g) * 0.6
        for name, x in model.state_dict().items()
    }
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(True)


def bidirectional_llama(model: Any) -> Any:
    """Change all that has a say in the direction: the reference."""
    model.config.is_causal = model.config.use_cache = False
    for layer in model.layers:
        layer.self_attn.is_causal = False
    model.rotary_emb = NoRope(model.layers[0].self_attn.head_dim)
    zeros = torch.zeros_like(model.embed_tokens.weight)
    model.embed_tokens.weight = nn.Parameter(zeros, requires_grad=False)
    return model


def _cases(g: Draw) -> Iterator[Case]:
    right = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    left = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]])
    full = torch.ones(2, 5, dtype=torch.long)
    table = {  # B, L, the implementation, the mask, head_dim
        "there is one token, which sees itself": [
            (2, 1, "eager", None, 4),
            (1, 1, "eager", None, 4),
        ],
        "there are two tokens, under eager": [(1, 2, "eager", None, 4)],
        "there are several tokens, under eager": [(2, 5, "eager", None, 4)],
        "there are several tokens, under SDPA": [
            (2, 5, "sdpa", None, 4),
            (1, 7, "sdpa", None, 4),
        ],
        "no token is padding, says attention_mask": [
            (2, 5, "sdpa", full, 4),
            (2, 5, "eager", full, 4),
        ],
        "some tokens are padding, under eager": [
            (2, 5, "eager", right, 4),
            (3, 4, "eager", left, 4),
        ],
        "some tokens are padding, under SDPA": [
            (2, 5, "sdpa", right, 4),
            (3, 4, "sdpa", left, 4),
        ],
        "head_dim is not E // H": [
            (2, 4, "sdpa", None, 6),
            (2, 5, "eager", right, 2),
        ],
    }
    # A module that is made draws its weights, whatever becomes of them.
    for when, (B, L, kind, mask, head_dim) in entries(table):
        x, seed = g.randn(B, L, SIZES["hidden_size"]), g.between(0, 99)
        yield Case(when, (x, mask, kind, head_dim, seed), train=True)

    when = "gradients flow back, to the embeddings"
    inputs = g.randn(1, 3, SIZES["hidden_size"]), None, "sdpa", 4, 7
    yield Case(when, inputs, train=True, grad=("args.0",))


exercise = Exercise(
    id="iface-bidirectional_llama",
    points=3,
    reference=bidirectional_llama,
    cases=_cases,
    use=_use,
    properties=(
        Property(
            "The rows of embed_tokens are 0.",
            lambda case, out: (
                isinstance(out, dict) and not out["embed_tokens"].any()
            ),
        ),
        Property(
            "embed_tokens.weight, and no other weight, is frozen.",
            lambda case, out: (
                out["frozen parameters"] == "embed_tokens.weight"
            ),
        ),
        Property(
            "Nothing is cached: a new token would change all keys before it.",
            lambda case, out: out["keeps a cache"] is False,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[1] is not None,
    },
)
