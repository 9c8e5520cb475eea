"""Exercise ``gqa-GroupedQueryAttention``: the layer of Llama."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attn import functional
from attn.exercises.draw import some_allowed
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


class GroupedQueryAttention(nn.Module):
    """The reference: four maps, and attention from ``attn``."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int | None = None,
    ):
        super().__init__()
        D = head_dim or embed_dim // num_heads  # noqa: N806
        self.heads, self.kv_heads = (num_heads, D), (num_kv_heads, D)
        q_size, kv_size = num_heads * D, num_kv_heads * D
        self.q_proj = nn.Linear(embed_dim, q_size, bias=False)
        self.k_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.v_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.out_proj = nn.Linear(q_size, embed_dim, bias=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q = self.q_proj(x).unflatten(-1, self.heads).transpose(1, 2)
        k = self.k_proj(x).unflatten(-1, self.kv_heads).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, self.kv_heads).transpose(1, 2)
        out = functional.grouped_attention(q, k, v, attn_mask)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str,
        B: int,  # noqa: N803
        L: int,  # noqa: N803
        E: int,  # noqa: N803
        H: int,  # noqa: N803
        Hkv: int,  # noqa: N803
        D: int | None = None,  # noqa: N803
        mask: Tensor | None = None,
        grad: bool = False,
    ) -> Case:
        init = {"embed_dim": E, "num_heads": H, "num_kv_heads": Hkv}
        if D is not None:
            init["head_dim"] = D
        x = torch.randn(B, L, E, generator=g)
        args = (x,) if mask is None else (x, mask)
        state = _state(g, **init)
        return Case(stage, args, init=init, state=state, grad=grad)

    def mask(*shape: int) -> Tensor:
        return some_allowed(g, *shape)

    # B = Hkv = G, so that axes which meet wrongly fit all the same.
    stage = "there is one token, so only its value counts"
    yield case(stage, 2, 1, 8, 4, 2)
    yield case(stage, 3, 1, 18, 9, 3)

    stage = "q_proj is zero, so that each head is the mean of its values"
    found = case(stage, 2, 3, 12, 4, 2)
    found.state["q_proj.weight"].zero_()
    yield found

    stage = "every query head has its own key head (Hkv = H)"
    yield case(stage, 2, 5, 12, 3, 3)
    yield case(stage, 1, 4, 5, 1, 1)

    stage = "all query heads share one key head (Hkv = 1)"
    yield case(stage, 2, 5, 12, 3, 1)
    yield case(stage, 3, 2, 8, 4, 1)

    stage = "the query heads share key heads in groups"
    yield case(stage, 2, 5, 12, 6, 3)
    yield case(stage, 3, 4, 18, 6, 2)
    yield case(stage, 1, 7, 16, 8, 2)

    stage = "head_dim is given, and is not E // H"
    yield case(stage, 2, 5, 10, 4, 2, D=6)
    yield case(stage, 3, 4, 12, 4, 2, D=2)
    yield case(stage, 1, 3, 7, 3, 1, D=5)

    stage = "axes have the same length"
    yield case(stage, 2, 2, 8, 4, 2)
    yield case(stage, 4, 4, 16, 4, 2)
    yield case(stage, 2, 4, 4, 2, 2, D=4)

    stage = "one mask serves all, (L, L)"
    yield case(stage, 2, 5, 12, 6, 2, mask=torch.ones(5, 5).bool().tril())
    yield case(stage, 3, 4, 12, 4, 2, mask=mask(4, 4))

    stage = "each sequence has its mask, and B = Hkv"
    yield case(stage, 2, 5, 12, 6, 2, mask=mask(2, 1, 1, 5))
    yield case(stage, 2, 4, 12, 6, 2, mask=mask(2, 1, 4, 4))

    stage = "each sequence has its mask"
    yield case(stage, 3, 5, 12, 4, 2, mask=mask(3, 1, 5, 5))
    yield case(stage, 4, 3, 12, 3, 3, mask=mask(4, 1, 1, 3))
    yield case(stage, 3, 4, 8, 4, 1, D=3, mask=mask(3, 1, 1, 4))

    stage = "each query head has its mask"
    yield case(stage, 2, 5, 12, 6, 2, mask=mask(2, 6, 5, 5))
    yield case(stage, 3, 4, 12, 4, 2, mask=mask(1, 4, 4, 4))

    stage = "the scores are large"
    yield _large(stage, g)

    stage = "x is a view of another tensor"
    found = case(stage, 2, 5, 12, 6, 2)
    x = torch.randn(12, 5, 2, generator=g).permute(2, 1, 0)
    yield Case(stage, (x,), init=found.init, state=found.state)

    stage = "gradients flow back, to x and to the four matrices"
    yield case(stage, 2, 4, 8, 4, 2, D=3, grad=True)
    yield case(stage, 2, 4, 12, 6, 2, mask=mask(2, 1, 4, 4), grad=True)
    yield case(stage, 1, 3, 8, 4, 1, grad=True)


def _state(
    g: Generator,
    embed_dim: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int | None = None,
) -> dict[str, Tensor]:
    width = head_dim or embed_dim // num_heads
    q_size, kv_size = num_heads * width, num_kv_heads * width
    shapes = {
        "q_proj": (q_size, embed_dim),
        "k_proj": (kv_size, embed_dim),
        "v_proj": (kv_size, embed_dim),
        "out_proj": (embed_dim, q_size),
    }
    return {
        f"{name}.weight": torch.randn(shape, generator=g) * 0.6
        for name, shape in shapes.items()
    }


def _large(stage: str, g: Generator) -> Case:
    """Whole numbers, and D = 4: scores in the hundreds, exact in float32."""
    init = {
        "embed_dim": 6,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 4,
    }
    state = {
        name: torch.randint(-2, 3, w.shape, generator=g).float()
        for name, w in _state(g, **init).items()
    }
    x = torch.randint(-8, 9, (2, 5, 6), generator=g).float()
    x[..., 0] = 8 * torch.tensor([1, -1, 2, -2, 3])
    state["q_proj.weight"][:, 0] = state["k_proj.weight"][:, 0] = 3
    return Case(stage, (x,), init=init, state=state)


def _shape_of_x(case: Case, out: Tensor) -> bool:
    return out.shape == case.args[0].shape


def _alone(case: Case, out: Tensor) -> bool:
    """For one token the result is linear in x, and the softmax is 1."""
    if case.args[0].shape[1] > 1 or not _shape_of_x(case, out):
        return True
    init, state = case.init or {}, case.state or {}
    H, Hkv = init["num_heads"], init["num_kv_heads"]  # noqa: N806
    value = case.args[0] @ state["v_proj.weight"].T
    heads = value.unflatten(-1, (Hkv, -1)).repeat_interleave(H // Hkv, -2)
    right = heads.flatten(-2) @ state["out_proj.weight"].T
    return torch.allclose(out, right, atol=1e-4)


exercise = Exercise(
    id="gqa-GroupedQueryAttention",
    points=3,
    reference=GroupedQueryAttention,
    cases=_cases,
    hints=(
        "In __init__, find D first: head_dim, or E // H when it is None. "
        "q_proj goes from E to H * D, k_proj and v_proj from E to Hkv * D, "
        "and out_proj from H * D back to E, all without bias.",
        "In forward, each projection (B, L, heads * D) is cut into "
        "(B, L, heads, D) and then transposed to (B, heads, L, D): first "
        "cut, then transpose. Keys and values have fewer heads than "
        "queries, and the same D.",
        "With q, k and v as (B, heads, L, D), call grouped_attention on "
        "them with the mask. Then undo the two steps in the other order, "
        "transpose(1, 2) and flatten(2), and apply out_proj.",
    ),
    properties=(
        Property(
            "Each token must get E numbers back: the result has the shape "
            "of x.",
            _shape_of_x,
        ),
        Property(
            "With one token every weight is 1: each query head hands over "
            "the value of its key head h // G, and out_proj mixes them. Here "
            "it does not: is it v_proj's output that arrives there, in the "
            "order 0, 0, 1, 1?",
            _alone,
        ),
    ),
)

Forward = Callable[[Any, Tensor, Tensor | None], Any]


def _layer(
    forward: Forward,
    maps: Callable[..., tuple[tuple[int, int], ...]] | None = None,
    bias: bool = False,
) -> type[nn.Module]:
    """A layer whose forward is ``forward(layer, x, mask)``."""

    class Layer(nn.Module):
        def __init__(self, embed_dim, num_heads, num_kv_heads, head_dim=None):
            super().__init__()
            self.width = head_dim or embed_dim // num_heads
            self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
            sizes = (maps or _maps)(
                embed_dim, num_heads, num_kv_heads, self.width
            )
            names = ("q_proj", "k_proj", "v_proj", "out_proj")
            for name, (before, after) in zip(names, sizes, strict=False):
                setattr(self, name, nn.Linear(before, after, bias=bias))

        def forward(self, x, attn_mask=None):
            return forward(self, x, attn_mask)

    Layer.__doc__ = forward.__doc__
    return Layer


def _maps(E: int, H: int, Hkv: int, D: int) -> tuple:  # noqa: N803
    return (E, H * D), (E, Hkv * D), (E, Hkv * D), (H * D, E)


def _wrong(name: str, *, exposed_by: str, **make: Any) -> Callable:
    """Record a wrong forward; its docstring is the explanation."""
    return lambda forward: exercise.misconception(name, exposed_by=exposed_by)(
        _layer(forward, **make)
    )


def _heads(layer: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, ``(B, heads, L, D)``."""
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (m(x).unflatten(-1, (-1, layer.width)) for m in maps)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _merge(layer: Any, out: Tensor) -> Tensor:
    return layer.out_proj(out.transpose(1, 2).flatten(2))


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    divisor: float | None = None,
    weigh: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if divisor is None else divisor)
    if mask is not None:
        scores = scores.masked_fill(~mask, -INF)
    return (scores.softmax(-1) if weigh is None else weigh(scores)) @ v


@_wrong(
    "the query heads are dealt out in turn (0, 1, 0, 1)",
    exposed_by="one token, and two key heads with two queries each",
)
def tiled(layer, x, mask):
    """Query head h reads key head h % Hkv: the key heads were repeated as a
    whole. A layer that is trained like this works; with Llama's weights it
    speaks nonsense. Which query heads share key head 0 when H = 6 and
    Hkv = 2?"""
    q, k, v = _heads(layer, x)
    group = layer.num_heads // layer.num_kv_heads
    k, v = torch.cat([k] * group, 1), torch.cat([v] * group, 1)
    return _merge(layer, _attend(q, k, v, mask))


@_wrong("all query heads read key head 0", exposed_by="two key heads")
def head_zero(layer, x, mask):
    """Only the first key head is used, whatever num_kv_heads is: k[:, :1]
    broadcasts without a word. Which key head does query head H - 1
    need?"""
    q, k, v = _heads(layer, x)
    return _merge(layer, _attend(q, k[:, :1], v[:, :1], mask))


@_wrong(
    "the heads of the queries meet the batch of the keys",
    exposed_by="B = Hkv = G",
)
def batch_meets_heads(layer, x, mask):
    """A product of (B, Hkv, G, L, D) with (B, Hkv, D, L) lines up axes from
    the right: G meets Hkv, and Hkv meets B. Mostly that is an error; when
    all three are 2 it runs, and a sequence reads another one's keys. What
    do the keys need between Hkv and L?"""
    q, k, v = _heads(layer, x)
    rows = q.unflatten(1, (layer.num_kv_heads, -1))
    scores = rows @ k.mT / layer.width**0.5
    if mask is not None:
        wide = mask.expand(*q.shape[:3], k.shape[2])
        wide = wide.unflatten(1, (layer.num_kv_heads, -1))
        scores = scores.masked_fill(~wide, -INF)
    return _merge(layer, (scores.softmax(-1) @ v).reshape(q.shape))


@_wrong(
    "the heads are merged in another order (G before Hkv)",
    exposed_by="one token, and two key heads with two queries each",
)
def merged_turned(layer, x, mask):
    """Each query reads the right keys, and then the heads are merged as
    (G, Hkv): out_proj finds the result of head 1 where that of another
    belongs. In which order did you take H apart?"""
    out = _attend(*_heads(layer, x), mask)
    out = out.unflatten(1, (layer.num_kv_heads, -1)).transpose(1, 2)
    return _merge(layer, out.flatten(1, 2))


@_wrong(
    "only Hkv heads reach out_proj",
    exposed_by="Hkv smaller than H: an error in out_proj",
)
def cut_off(layer, x, mask):
    """The query heads of a group were added up, or all but Hkv of them
    dropped: out_proj expects H * D numbers for each token. Keys and values
    are shared, queries are not. How many heads should come out?"""
    q, k, v = _heads(layer, x)
    return _merge(layer, _attend(q[:, : layer.num_kv_heads], k, v, None))


@_wrong(
    "keys and values are cut into H heads",
    exposed_by="Hkv smaller than H: an error in view",
)
def kv_in_all_heads(layer, x, mask):
    """k_proj gives Hkv * D numbers for each token, and they were viewed as
    (B, L, H, D). How many heads do keys and values have?"""
    B, L, _ = x.shape  # noqa: N806
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (
        m(x).view(B, L, layer.num_heads, layer.width).transpose(1, 2)
        for m in maps
    )
    return _merge(layer, _attend(q, k, v, mask))


@_wrong(
    "the heads are viewed as (B, H, L, D) at once",
    exposed_by="q_proj = 0: the mean of something else",
)
def viewed(layer, x, mask):
    """view(B, H, L, D) cuts the numbers of each sequence into H pieces, and
    a piece is a few whole tokens, all their heads included. The numbers
    lie as (B, L, H, D): cut first, then transpose. What is in head 0 of
    yours, if L is H?"""
    B, L, _ = x.shape  # noqa: N806
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (m(x).reshape(B, -1, L, layer.width) for m in maps)
    return _merge(layer, _attend(q, k, v, mask))


@_wrong(
    "viewed as (B, H, L, D) at once, and back",
    exposed_by="q_proj = 0: the mean of something else",
)
def viewed_and_back(layer, x, mask):
    """view(B, H, L, D) cuts the numbers of each sequence into H pieces, and
    a piece is a few whole tokens, all their heads included; the reshape at
    the end undoes it, so that nothing looks wrong. The numbers lie as
    (B, L, H, D): cut first, then transpose. Which tokens does head 0 of
    yours see?"""
    B, L, _ = x.shape  # noqa: N806
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (m(x).reshape(B, -1, L, layer.width) for m in maps)
    return layer.out_proj(_attend(q, k, v, mask).reshape(B, L, -1))


@_wrong(
    "the heads are merged without being transposed back",
    exposed_by="q_proj = 0, more than one token",
)
def not_transposed_back(layer, x, mask):
    """reshape(B, L, H * D) of (B, H, L, D) takes the first tokens of head 0
    for the heads of token 0. The shape is right. Which two axes must
    change places before heads and features are neighbours?"""
    out = _attend(*_heads(layer, x), mask)
    return layer.out_proj(out.reshape(*x.shape[:2], -1))


@_wrong(
    "the features come before the heads", exposed_by="one token, two heads"
)
def features_first(layer, x, mask):
    """The projections are cut as (B, L, D, heads), so that a head is made of
    features that lie D apart. Trained like this it works; loaded weights
    hold all D features of head 0 first. In which order are the sizes in
    unflatten or view?"""
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (
        m(x).unflatten(-1, (layer.width, -1)).permute(0, 3, 1, 2) for m in maps
    )
    return _merge(layer, _attend(q, k, v, mask))


@_wrong("keys and values are swapped", exposed_by="one token")
def swapped(layer, x, mask):
    """v_proj makes the keys, and k_proj the values: as their shapes agree,
    only loaded weights show it. In which order does attention take its
    arguments, and which one did you put there?"""
    q, k, v = _heads(layer, x)
    return _merge(layer, _attend(q, v, k, mask))


@_wrong("the values come from k_proj", exposed_by="one token")
def values_from_keys(layer, x, mask):
    """Keys and values are the same, and v_proj never gets a gradient. Which
    layer makes the values?"""
    q, k, _ = _heads(layer, x)
    return _merge(layer, _attend(q, k, k, mask))


@_wrong("the keys come from v_proj", exposed_by="two tokens or more")
def keys_from_values(layer, x, mask):
    """Keys and values are the same, and k_proj never gets a gradient. Which
    layer makes the keys?"""
    q, _, v = _heads(layer, x)
    return _merge(layer, _attend(q, v, v, mask))


@_wrong("out_proj is not applied", exposed_by="one token")
def no_out(layer, x, mask):
    """The heads stand next to each other and nobody mixes them (and where
    H * D is not E the shape is wrong too). What is out_proj for?"""
    out = _attend(*_heads(layer, x), mask)
    return out.transpose(1, 2).flatten(2)


@_wrong("the input is added to the result", exposed_by="one token")
def residual(layer, x, mask):
    """x + attention is what the block around this layer does (chapter 09).
    What does the task say that forward returns?"""
    return x + _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong("the scores are not scaled", exposed_by="two tokens or more")
def no_scale(layer, x, mask):
    """The scores grow with sqrt(D), and the softmax picks one token where it
    should weigh them all. Do you call grouped_attention, which scales by
    itself, or your own?"""
    out = _attend(*_heads(layer, x), mask, divisor=1.0)
    return _merge(layer, out)


@_wrong("scaled by D, or twice by its root", exposed_by="two tokens or more")
def scaled_twice(layer, x, mask):
    """The scores are divided by D in all: by D where its root was meant, or
    once by you and once more by the attention function. How often does
    1 / sqrt(D) appear on the way?"""
    out = _attend(*_heads(layer, x), mask, divisor=layer.width)
    return _merge(layer, out)


@_wrong("scaled by the root of E", exposed_by="two heads or more")
def by_embedding(layer, x, mask):
    """The scale uses the width of a token, where the width of a head
    belongs: the attention comes out too even. Which vectors meet in the
    dot product, and how long are they?"""
    out = _attend(*_heads(layer, x), mask, divisor=x.shape[-1] ** 0.5)
    return _merge(layer, out)


@_wrong(
    "scaled by the root of E // H, not of head_dim",
    exposed_by="head_dim that is not E // H",
)
def by_default_width(layer, x, mask):
    """E // H is the width of a head only when head_dim is not given. Gemma
    and Qwen 3 give it. How many terms does a dot product add?"""
    divisor = (x.shape[-1] // layer.num_heads) ** 0.5
    out = _attend(*_heads(layer, x), mask, divisor=divisor)
    return _merge(layer, out)


@_wrong("scaled by the number of heads", exposed_by="two heads or more")
def by_heads(layer, x, mask):
    """The root of H is in the scale. A score is one dot product of one head.
    How many terms does it add?"""
    out = _attend(*_heads(layer, x), mask, divisor=layer.num_heads**0.5)
    return _merge(layer, out)


@_wrong("the softmax runs over the queries", exposed_by="two tokens or more")
def over_queries(layer, x, mask):
    """dim=-2: each key hands out a total of 1 among the queries. Add up the
    weights of one query: along which axis do they lie?"""
    out = _attend(
        *_heads(layer, x), mask, weigh=lambda scores: scores.softmax(-2)
    )
    return _merge(layer, out)


@_wrong("the softmax runs over the heads", exposed_by="one token, two heads")
def over_heads(layer, x, mask):
    """dim=1 are the heads: they share out a weight of 1 among them. Counted
    from the end, which axis of the scores are the keys?"""
    out = _attend(
        *_heads(layer, x), mask, weigh=lambda scores: scores.softmax(1)
    )
    return _merge(layer, out)


@_wrong(
    "heads and positions are not transposed",
    exposed_by="two tokens or more",
)
def attends_over_heads(layer, x, mask):
    """The projections stay (B, L, heads, D), so that the heads of one token
    attend to each other, and no token to another. Where B, L and H are
    alike nothing looks wrong. Which axis must stand next to D, when tokens
    are to be weighed?"""
    q, k, v = (y.transpose(1, 2) for y in _heads(layer, x))
    group = layer.num_heads // layer.num_kv_heads
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = q @ k.mT / layer.width**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -INF)
    return layer.out_proj((scores.softmax(-1) @ v).flatten(2))


@_wrong("no softmax", exposed_by="one token")
def no_softmax(layer, x, mask):
    """The raw scores multiply the values, so the result grows with the
    length of the text. What turns scores into weights?"""
    out = _attend(*_heads(layer, x), None, weigh=lambda scores: scores)
    return _merge(layer, out)


@_wrong("no maximum is taken off", exposed_by="scores above 88")
def overflow(layer, x, mask):
    """exp of a large score is inf, and inf / inf is NaN. Which function of
    torch takes the largest score off first?"""
    out = _attend(
        *_heads(layer, x),
        mask,
        weigh=lambda scores: scores.exp() / scores.exp().sum(-1, True),
    )
    return _merge(layer, out)


@_wrong("the mask is ignored", exposed_by="any mask")
def mask_ignored(layer, x, mask):
    """Padding and future are read like everything else. Where does your
    forward hand attn_mask on?"""
    return _merge(layer, _attend(*_heads(layer, x), None))


@_wrong("True is taken to mean drop", exposed_by="any mask")
def polarity(layer, x, mask):
    """The weights lie on exactly the forbidden tokens. masked_fill fills
    where its mask is True, and nn.MultiheadAttention drops where it is;
    this task's mask, as that of torch's function, is True where a query
    may attend. What turns True into False?"""
    drop = None if mask is None else ~mask
    return _merge(layer, _attend(*_heads(layer, x), drop))


@_wrong("masked after the softmax, not renormalised", exposed_by="any mask")
def masked_after(layer, x, mask):
    """The forbidden weights are 0, and the others no longer sum to 1: the
    softmax had already shared some out. Can the mask act on the
    scores?"""

    def weigh(scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return weights if mask is None else weights * mask

    return _merge(layer, _attend(*_heads(layer, x), None, weigh=weigh))


@_wrong("forbidden scores are set to 0, or nearly", exposed_by="any mask")
def zero_score(layer, x, mask):
    """A score of 0, or of -1e-9, is not a small score: exp(0) is 1, and a
    forbidden token keeps an average weight. Which score has exp equal to
    0?"""

    def weigh(scores: Tensor) -> Tensor:
        return scores.nan_to_num(neginf=0.0).softmax(-1)

    return _merge(layer, _attend(*_heads(layer, x), mask, weigh=weigh))


@_wrong("the mask is added as 1 and 0", exposed_by="any mask")
def mask_added(layer, x, mask):
    """A float mask is added to the scores: 1 where allowed multiplies a
    weight by 2.718, and that is a preference, not a mask. What has to be
    added where a token is forbidden? Or can the mask stay bool?"""

    def weigh(scores: Tensor) -> Tensor:
        return (scores if mask is None else scores + mask).softmax(-1)

    return _merge(layer, _attend(*_heads(layer, x), None, weigh=weigh))


@_wrong("the mask is turned around", exposed_by="a mask (L, L) that is causal")
def mask_turned(layer, x, mask):
    """Queries and keys of the mask have changed places: a causal mask now
    shows the future and hides the past. Which of its two axes are the
    keys?"""
    if mask is not None and mask.shape[-1] == mask.shape[-2]:
        mask = mask.mT
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong("the batch of the mask meets the key heads", exposed_by="B = Hkv")
def mask_batch_on_heads(layer, x, mask):
    """A mask (B, 1, L, L) next to scores (B, Hkv, G, L, L): axes line up
    from the right, so B meets Hkv. When both are 2 it runs, and a sequence
    is masked with another one's padding. How many axes do the scores have
    when you mask them?"""
    q, k, v = _heads(layer, x)
    rows = q.unflatten(1, (layer.num_kv_heads, -1))
    scores = rows @ k.unsqueeze(2).mT / layer.width**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -INF)
    out = scores.softmax(-1) @ v.unsqueeze(2)
    return _merge(layer, out.flatten(1, 2))


@_wrong("causal, though nobody asked", exposed_by="two tokens or more")
def causal(layer, x, mask):
    """is_causal=True (or a tril of your own) is always on. Llama's layer is
    handed its mask from outside, like this one; an encoder hands it none.
    Who should decide?"""
    lower = torch.ones(x.shape[1], x.shape[1]).bool().tril()
    mask = lower if mask is None else mask & lower
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong("the weights come back too", exposed_by="any input: a tuple of two")
def weights_too(layer, x, mask):
    """forward returns (output, weights), as many layers do; this one is
    asked for the output alone. What does the Returns line say?"""
    q, k, v = _heads(layer, x)
    eye = torch.eye(x.shape[1]).expand(*k.shape[:3], -1)
    return _merge(layer, _attend(q, k, v, mask)), _attend(q, k, eye, mask)


@_wrong("the heads are merged to E", exposed_by="H * D that is not E")
def merged_to_embedding(layer, x, mask):
    """reshape(B, L, E) after attention works while H * D is E. With a
    head_dim of its own it is not, and the numbers do not fill the shape.
    How many numbers has a token before out_proj?"""
    out = _attend(*_heads(layer, x), mask)
    return layer.out_proj(out.transpose(1, 2).reshape(x.shape))


@_wrong(
    "the result is cut off from the gradient",
    exposed_by="weights that ask for their gradient",
)
def detached(layer, x, mask):
    """The numbers are right and autograd knows nothing of them: .data,
    .detach(), no_grad or torch.tensor(...) cut the thread, and q_proj,
    k_proj and v_proj would never learn. Which line leaves torch?"""
    return _merge(layer, _attend(*_heads(layer, x), mask).detach())


@_wrong(
    "the projections have a bias",
    exposed_by="loading the weights",
    bias=True,
)
def with_bias(layer, x, mask):
    """nn.Linear adds a bias unless you say otherwise, so the layer has four
    parameters more than the weights that the check loads. Llama's maps
    have none. Which argument of nn.Linear turns it off?"""
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong(
    "H * D is taken to be E",
    exposed_by="head_dim that is not E // H",
    maps=lambda E, H, Hkv, D: _maps(E, H, Hkv, E // H),  # noqa: N803
)
def ignores_head_dim(layer, x, mask):
    """A map of the layer is E wide where it should be H * D (or head_dim is
    never read). The two are equal only when head_dim is E // H; Gemma's
    and Qwen 3's are not. Which sizes in __init__ say E, and which of them
    mean heads times width?"""
    layer.width = x.shape[-1] // layer.num_heads
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong(
    "k_proj and v_proj make H heads",
    exposed_by="loading the weights with Hkv smaller than H",
    maps=lambda E, H, Hkv, D: _maps(E, H, H, D),  # noqa: N803
)
def full_kv(layer, x, mask):
    """Keys and values have as many heads as queries: this is multi-head
    attention, its cache is G times as large, and GQA's weights do not fit.
    How many numbers does k_proj make for each token?"""
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_wrong(
    "there is no out_proj",
    exposed_by="loading the weights",
    maps=lambda *sizes: _maps(*sizes)[:3],
)
def three_maps(layer, x, mask):
    """The layer has three maps, and the task four: out_proj takes H * D back
    to E. Who else would mix the heads?"""
    out = _attend(*_heads(layer, x), mask)
    return out.transpose(1, 2).flatten(2)


def _right(style: str) -> Callable[[Forward], Any]:
    return lambda forward: exercise.equivalent(style)(_layer(forward))


@_right("torch's own function, with enable_gqa")
def _sdpa(layer, x, mask):
    q, k, v = _heads(layer, x)
    out = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return _merge(layer, out)


@_right("keys and values repeated")
def _repeated(layer, x, mask):
    return _merge(layer, _attend(*_heads(layer, x), mask))


@_right("einsum on the projections, no head is transposed")
def _einsum(layer, x, mask):
    B, L, _ = x.shape  # noqa: N806
    q = layer.q_proj(x).view(B, L, layer.num_kv_heads, -1, layer.width)
    k = layer.k_proj(x).view(B, L, layer.num_kv_heads, layer.width)
    v = layer.v_proj(x).view(B, L, layer.num_kv_heads, layer.width)
    scores = torch.einsum("blkgd,bskd->bkgls", q, k) / layer.width**0.5
    if mask is not None:
        mask = mask.expand(B, layer.num_heads, L, L)
        scores = scores.masked_fill(~mask.reshape(scores.shape), -1e9)
    out = torch.einsum("bkgls,bskd->blkgd", scores.softmax(-1), v)
    return layer.out_proj(out.reshape(B, L, -1))


@_right("head by head, each with its columns of out_proj")
def _head_by_head(layer, x, mask):
    D, total = layer.width, torch.zeros_like(x)  # noqa: N806
    group = layer.num_heads // layer.num_kv_heads
    if mask is not None:
        shape = (len(x), layer.num_heads, x.shape[1], x.shape[1])
        mask = mask.expand(shape)
    for h in range(layer.num_heads):
        mine = slice(h * D, h * D + D)
        shared = slice(h // group * D, h // group * D + D)
        q = x @ layer.q_proj.weight[mine].T
        k = x @ layer.k_proj.weight[shared].T
        v = x @ layer.v_proj.weight[shared].T
        scores = q @ k.transpose(1, 2) * D**-0.5
        if mask is not None:
            scores = torch.where(mask[:, h], scores, -INF)
        out = F.softmax(scores, dim=2) @ v
        total = total + out @ layer.out_proj.weight[:, mine].T
    return total


@_right("packed rows, softmax by hand")
def _packed(layer, x, mask):
    q, k, v = _heads(layer, x)
    rows = q.reshape(len(x), layer.num_kv_heads, -1, layer.width)
    scores = (rows @ k.mT).view(*q.shape[:3], -1) * layer.width**-0.5
    if mask is not None:
        scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -INF)
    exps = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = (exps / exps.sum(-1, keepdim=True)).view(*rows.shape[:3], -1)
    return _merge(layer, (weights @ v).view(q.shape))


@_right("one product for all three projections")
def _fused(layer, x, mask):
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    weight = torch.cat([m.weight for m in maps])
    heads = F.linear(x, weight).unflatten(-1, (-1, layer.width))
    sizes = [layer.num_heads, layer.num_kv_heads, layer.num_kv_heads]
    q, k, v = heads.transpose(1, 2).split(sizes, dim=1)
    out = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return _merge(layer, out)
