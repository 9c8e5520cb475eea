"""Every combination of a configuration's choices runs, learns, is JSON."""

import itertools
import random

import pytest
import torch

from attn.nn import Transformer, TransformerConfig
from tests.attn.cases import randn

V, E, H, N, L, S = 7, 8, 4, 2, 4, 3
SIZES = {"vocab_size": V, "embed_dim": E, "num_heads": H, "num_layers": N}
ATTENDS = {
    "self": {},
    "both": {"cross_attention": True},
    "both, memory norm": {"cross_attention": True, "memory_norm": True},
    "memory": {"self_attention": False, "cross_attention": True},
}
AXES = {
    "positions": (
        "rope",
        "learned",
        "sinusoidal",
        "alibi",
        "none",
        {"rope": {"base": 100.0, "interleaved": True}},
        {"norope": {}},
    ),
    "norm_order": ("pre", "post", "sandwich", "parallel"),
    "feed_forward": (
        "gelu",
        "gelu_tanh",
        "relu",
        "silu",
        "swiglu",
        "geglu",
        "geglu_tanh",
        "reglu",
        "none",
    ),
    "attends": tuple(ATTENDS),
    "is_causal": (True, False),
    "num_kv_heads": (None, 1, 2),
    "norm": ("layer", "rms"),
    "norm_eps": (None, 0.01),
    "attention": ("auto", "reference", "grouped"),
    "window": (None, (2, 1), [(1, 0), None]),
    "scale": (None, 0.3, (0.3, 0.6)),
    "softcap": (None, 2.0),
    "head_dim": (None, 6),
    "value_dim": (None, 3),
    "hidden_dim": (None, 5),
    "qk_norm": (False, True),
    "packed": (False, True),
    "bias": (True, False),
    "out_bias": (None, True, False),
    "ffn_bias": (None, True, False),
    "segments": (0, 2),
    "embed_scale": (1.0, 2.0),
    "embed_norm": (False, True),
    "head": (True, False),
    "tied": (True, False),
    "final_softcap": (None, 3.0),
}
MAIN = ("positions", "norm_order", "feed_forward", "attends", "is_causal")
STEP = 1e-7
DEFAULT = {name: values[0] for name, values in AXES.items()}


def contradicts(row):
    """Whether ``TransformerConfig`` must refuse the choices."""
    memory = row["attends"] == "memory"
    in_attention = row["positions"] in ("rope", "alibi") or isinstance(
        row["positions"], dict
    )
    no_ffn = row["feed_forward"] == "none"
    return (
        (memory and (in_attention or row["window"] is not None))
        or (no_ffn and row["hidden_dim"] is not None)
        or (no_ffn and row["ffn_bias"] is not None)
        or (
            row["norm_order"] == "parallel"
            and (no_ffn or row["attends"] != "self")
        )
    )


def fields_of(row):
    fields = {**SIZES, **row, "max_positions": L}
    return fields | ATTENDS[fields.pop("attends")]


def pairwise(seed=0):
    """Rows in which every two choices meet that can meet.

    A choice is a number, and so is a pair of them.
    """
    rng = random.Random(seed)
    choices = [(name, x) for name, xs in AXES.items() for x in xs]
    axes, of_axis = iter(range(len(choices))), []
    for xs in AXES.values():
        of_axis.append([next(axes) for _ in xs])

    def row_of(numbers):
        return dict(choices[n] for n in numbers)

    def pairs_of(numbers):
        size = len(choices)
        return {a * size + b for a, b in itertools.combinations(numbers, 2)}

    left = set()
    for first, second in itertools.combinations(of_axis, 2):
        for a, b in itertools.product(first, second):
            if not contradicts(DEFAULT | row_of((a, b))):
                left |= pairs_of((a, b))
    rows = []
    while left:
        wanted = divmod(min(left), len(choices))
        best = None
        for _ in range(6):
            numbers = [rng.choice(xs) for xs in of_axis]
            row = row_of(numbers) | row_of(wanted)
            while contradicts(row):  # fewer choices that are not defaults
                name = rng.choice(list(row))
                if name not in row_of(wanted):
                    row[name] = DEFAULT[name]
            numbers = [choices.index((n, x)) for n, x in row.items()]
            new = pairs_of(numbers) & left
            if best is None or len(new) > len(best[0]):
                best = (new, row)
        left -= best[0]
        rows.append(best[1])
    return rows


def assert_runs_and_learns(row):
    config = TransformerConfig(**fields_of(row))
    assert TransformerConfig.from_json(config.to_json()) == config
    model = Transformer(config).double()
    again = Transformer.from_config(model.to_config()).double()
    again.load_state_dict(model.state_dict())

    kwargs = {"ids": torch.arange(2 * L).view(2, L) % V}
    if row["attends"] != "self":
        kwargs["memory"] = randn(2, S, E)
    if row["segments"]:
        kwargs["segments"] = kwargs["ids"] % row["segments"]
    out = model(**kwargs)
    assert out.shape == (2, L, V if row["head"] else E)
    assert out.isfinite().all()
    assert torch.equal(out, again(**kwargs))

    other = {**kwargs, "ids": kwargs["ids"].clone()}
    other["ids"][:, -1] = (other["ids"][:, -1] + 1) % V
    moved = (model(**other) - out)[:, :-1].abs().amax() > 1e-9
    assert moved == (not row["is_causal"] and row["attends"] != "memory")

    aim = randn(*out.shape)
    before = (out * aim).mean()
    before.backward()
    parameters = dict(model.named_parameters())
    assert not [name for name, x in parameters.items() if x.grad is None]
    steepness = sum(x.grad.square().sum() for x in parameters.values())
    with torch.no_grad():
        for x in parameters.values():
            x -= STEP / steepness * x.grad
        fall = before - (model(**kwargs) * aim).mean()
    assert fall.item() == pytest.approx(STEP, rel=0.01)  # as the gradient says


def assert_all_run_and_learn(rows):
    torch.manual_seed(0)
    for row in rows:
        try:
            assert_runs_and_learns(row)
        except Exception as error:
            error.add_note(f"with {row}")
            raise


def test_every_pair_of_choices_runs_learns_and_serialises():
    assert_all_run_and_learn(pairwise())


@pytest.mark.exhaustive
def test_every_combination_of_the_main_choices_runs_and_learns():
    product = itertools.product(*(AXES[name] for name in MAIN))
    rows = [{**DEFAULT, **dict(zip(MAIN, x, strict=True))} for x in product]
    assert_all_run_and_learn(row for row in rows if not contradicts(row))


def test_every_contradiction_of_two_choices_is_refused():
    refused = 0
    for first, second in itertools.combinations(AXES, 2):
        for x, y in itertools.product(AXES[first], AXES[second]):
            row = {**DEFAULT, first: x, second: y}
            # By themselves they are fine, so the two contradict each other.
            alone = ({**DEFAULT, first: x}, {**DEFAULT, second: y})
            if contradicts(row) and not any(map(contradicts, alone)):
                refused += 1
                with pytest.raises(ValueError, match="must"):
                    TransformerConfig(**fields_of(row))
    assert refused
