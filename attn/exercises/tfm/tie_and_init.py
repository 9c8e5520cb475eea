"""Cases and properties of ``tfm-tie_and_init``."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from attn.exercises.conditions import gradients
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument

ADDED = ("out_proj.weight", "down_proj.weight")


def _reference(
    noise: Mapping[str, Tensor], num_layers: int, std: float = 0.02
) -> dict[str, Tensor]:
    """Compute the size of each weight, in the words of the task."""

    def size(name: str) -> float:
        return std / (2 * num_layers) ** (name.endswith(ADDED) / 2)

    weights = {
        name: x * size(name) if x.dim() > 1 else torch.ones_like(x)
        for name, x in noise.items()
    }
    return weights | {"head.weight": weights["embedding.weight"]}


PARAMETERS = {  # the number of layers, and what embedding and head come with
    "there are the embedding and the head alone": [(1,)],
    "there is a norm": [(1, "norm")],
    "a matrix writes to no stream": [
        (2, "blocks.0.q_proj.weight"),
        (3, "blocks.0.feed_forward.up_proj.weight"),
    ],
    "a matrix writes to the residual stream": [
        (1, "blocks.0.out_proj.weight"),
        (2, "blocks.1.out_proj.weight"),
        (6, "blocks.5.feed_forward.down_proj.weight"),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def noise(V: int, E: int, layers: int, hidden: int) -> dict[str, Tensor]:
        """Draw noise for the model of the chapter, one key head."""
        shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (V, E)}
        for i in range(layers):
            block = {
                "attention_norm": (E,),
                "q_proj.weight": (E, E),
                "k_proj.weight": (2, E),
                "v_proj.weight": (2, E),
                "out_proj.weight": (E, E),
                "feed_forward_norm": (E,),
                "feed_forward.gate_proj.weight": (hidden, E),
                "feed_forward.up_proj.weight": (hidden, E),
                "feed_forward.down_proj.weight": (E, hidden),
            }
            shapes |= {f"blocks.{i}.{name}": s for name, s in block.items()}
        shapes |= {"norm": (E,), "head.weight": (V, E)}
        return {name: g.randn(*shape) for name, shape in shapes.items()}

    def some(*names: str, rows: int = 3) -> dict[str, Tensor]:
        """Draw a model of these parameters, embedding and head."""
        found = {
            name: g.randn(5) if name.endswith("norm") else g.randn(rows, 5)
            for name in names
        }
        tied = "embedding.weight", "head.weight"
        return found | {name: g.randn(7, 5) for name in tied}

    for when, (layers, *names) in entries(PARAMETERS):
        yield Case(when, (some(*names), layers))

    when = "a matrix has one row"
    yield Case(when, (some("blocks.0.k_proj.weight", rows=1), 2))

    when = "std is given"
    yield Case(when, (noise(5, 4, 1, 3), 1), {"std": 0.5})
    yield Case(when, (noise(5, 4, 2, 3), 2, 0.1))
    yield Case(when, (some("blocks.0.out_proj.weight"), 3, 0.3))

    when = "it is a whole model"
    tied = "head.weight", "embedding.weight"
    yield Case(when, (noise(9, 4, 1, 6), 1), one_tensor=tied)
    yield Case(when, (noise(6, 4, 3, 5), 3))
    yield Case(when, (noise(4, 4, 2, 4), 2))
    yield Case("there are eleven layers", (noise(3, 2, 11, 3), 11))


def _all_there(case: Case, out: Mapping[str, Tensor]) -> bool:
    return set(out) == set(case.args[0])


def _tied(case: Case, out: Mapping[str, Tensor]) -> bool:
    if not _all_there(case, out):
        return True
    return torch.equal(out["head.weight"], out["embedding.weight"])


exercise = Exercise(
    id="tfm-tie_and_init",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(
        gradients(
            when="gradients flow back, to the embedding from the head as well"
        ),
    ),
    properties=(
        Property(
            "The result should have the names of noise, every one of them.",
            _all_there,
        ),
        Property(
            "head.weight and embedding.weight should be one tensor, and they "
            "differ.",
            _tied,
        ),
        Property(
            "A norm should start as ones, so that it changes nothing.",
            lambda case, out: all(
                bool((x == 1).all()) for x in out.values() if x.dim() == 1
            ),
        ),
    ),
    breaks={
        "weight = 1": lambda c: argument(c, 2, "std") not in (None, 0.02),
        "H = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: (
            len(c.args[0]["head.weight"]) != c.args[0]["head.weight"].shape[1]
        ),
    },
)
