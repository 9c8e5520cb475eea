"""Exercise ``mha-MultiHeadAttention``: the module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attn import functional
from attn.exercises.spec import Case, Exercise, Property
from attn.functional import merge_heads, split_heads


class MultiHeadAttention(nn.Module):
    """The reference: four maps and ``attn``; a step a method."""

    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        kv_input: Tensor | None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        q, k, v = self.project(x, x if kv_input is None else kv_input)
        q, k, v = (self.split(t) for t in (q, k, v))
        return self.finish(self.merge(self.attend(q, k, v, attn_mask)))

    def project(self, x: Tensor, kv: Tensor) -> tuple[Tensor, ...]:
        return self.q_proj(x), self.k_proj(kv), self.v_proj(kv)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.num_heads)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> Tensor:
        if mask is not None and mask.dim() == 3:
            mask = mask[None]  # broadcasting, as the task has it
        return functional.scaled_dot_product_attention(q, k, v, mask)

    def merge(self, x: Tensor) -> Tensor:
        return merge_heads(x)

    def finish(self, x: Tensor) -> Tensor:
        return self.out_proj(x)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def case(stage: str, x: Tensor, heads: int, **given: Any) -> Case:
        state = given.pop("state", None) or _state(g, x.shape[-1])
        grad = given.pop("grad", False)
        init = {"embed_dim": x.shape[-1], "num_heads": heads}
        return Case(stage, (x,), given, init=init, state=state, grad=grad)

    stage = "there is one token, so only its value and the last map count"
    yield case(stage, randn(1, 1, 6), 2)
    yield case(stage, randn(3, 1, 8), 4)

    stage = "q_proj is zero, so each head takes the mean of its values"
    state = _state(g, 6)
    state["q_proj.weight"].zero_()
    state["q_proj.bias"].zero_()
    yield case(stage, randn(2, 5, 6), 3, state=state)

    stage = "there is one head"
    yield case(stage, randn(2, 5, 6), 1)

    stage = "there are several heads"
    yield case(stage, randn(1, 5, 12), 3)
    yield case(stage, randn(1, 4, 8), 2)
    yield case(stage, randn(2, 7, 12), 6)

    stage = "axes have the same length"
    yield case(stage, randn(3, 3, 9), 3)
    yield case(stage, randn(4, 4, 16), 4)

    stage = "keys and values come from another sequence"
    yield case(stage, randn(2, 3, 12), 3, kv_input=randn(2, 7, 12))
    yield case(stage, randn(2, 5, 8), 2, kv_input=randn(2, 5, 8))
    yield case(stage, randn(2, 6, 4), 2, kv_input=randn(2, 1, 4))

    stage = "there is a mask (L, S), the same for all"
    causal = torch.ones(5, 5).tril().bool()
    yield case(stage, randn(2, 5, 12), 3, attn_mask=causal)
    some = _some(g, 3, 6)
    other = {"kv_input": randn(2, 6, 8), "attn_mask": some}
    yield case(stage, randn(2, 3, 8), 2, **other)

    stage = "there is a mask for each sequence"
    yield case(stage, randn(3, 5, 12), 2, attn_mask=_some(g, 3, 1, 1, 5))
    yield case(stage, randn(2, 4, 8), 4, attn_mask=_some(g, 2, 1, 4, 4))

    stage = "there is a mask for each head"
    yield case(stage, randn(2, 5, 12), 3, attn_mask=_some(g, 1, 3, 5, 5))
    yield case(stage, randn(2, 4, 8), 2, attn_mask=_some(g, 2, 2, 4, 4))

    stage = "there are as many sequences as heads, and a mask for each"
    yield case(stage, randn(3, 4, 12), 3, attn_mask=_some(g, 3, 1, 4, 4))

    stage = "the scores are large"
    state = _state(g, 8)
    state["q_proj.weight"] *= 40
    yield case(stage, 3 * randn(2, 5, 8), 2, state=state)

    stage = "gradients flow back"
    yield case(stage, randn(2, 4, 6), 3, grad=True)
    both = {"kv_input": randn(2, 5, 6), "attn_mask": _some(g, 4, 5)}
    yield case(stage, randn(2, 4, 6), 2, grad=True, **both)


def _state(g: Generator, size: int) -> dict[str, Tensor]:
    state = {}
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        weight = torch.randn(size, size, generator=g) * 1.2 / size**0.5
        state[f"{name}.weight"] = weight
        state[f"{name}.bias"] = torch.randn(size, generator=g) * 0.5
    return state


def _some(g: Generator, *shape: int) -> Tensor:
    """About half allowed; every query has a key, and lacks one."""
    allowed = torch.rand(*shape, generator=g) > 0.5
    ends = torch.randint(shape[-1], shape[:-1], generator=g)[..., None]
    other = (ends + 1) % shape[-1]
    return allowed.scatter(-1, ends, True).scatter(-1, other, False)


def _has_the_shape(case: Case, out: object) -> bool:
    want = case.args[0].shape
    return isinstance(out, Tensor) and out.shape == want


exercise = Exercise(
    id="mha-MultiHeadAttention",
    points=3,
    reference=MultiHeadAttention,
    cases=_cases,
    hints=(
        "Project, split, attend, merge, project. The queries come from x; "
        "keys and values both from kv_input when it is given.",
        "After split_heads everything is (B, H, ., D), and chapter 2's "
        "attention works on it as it is: the heads are just another axis. "
        "The scale is that of one head, D = E // H.",
        "scores.masked_fill(~attn_mask, -math.inf), before the softmax: "
        "True means may attend. The mask broadcasts by itself. The merged "
        "heads go through out_proj.",
    ),
    properties=(
        Property(
            "The result should have the shape of x: one row for each token "
            "that asks.",
            _has_the_shape,
        ),
    ),
)


def _by_hand(q, k, v, mask, scale=None, dim=-1):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim) @ v


@exercise.misconception(
    "scaled by the whole embedding, not by one head",
    exposed_by="more than one head",
)
class WholeScale(MultiHeadAttention):
    """The scores are divided by sqrt(E). A dot product within a head has
    D = E / H terms, so its spread is sqrt(D); with eight heads every map is
    nearly three times too flat. How many numbers are multiplied and added
    for one score?"""

    def attend(self, q, k, v, mask):
        scale = (q.shape[-1] * self.num_heads) ** -0.5
        return _by_hand(q, k, v, mask, scale)


@exercise.misconception("no scale", exposed_by="D above 1")
class NoScale(MultiHeadAttention):
    """The scores are used as they are. Divide by the root of D, as in
    chapter 2: what is D, now that there are heads?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, mask, 1.0)


@exercise.misconception(
    "scaled by the number of heads", exposed_by="H and D that differ"
)
class HeadScale(MultiHeadAttention):
    """sqrt(H) is not the spread of anything: a score is a sum over the D
    features of one head. Which axis of q is summed?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, mask, self.num_heads**-0.5)


@exercise.misconception("scaled by D, not by its root", exposed_by="D above 1")
class ByD(MultiHeadAttention):
    """1 / D makes the attention too even. The variance of a sum of D terms
    is D: and its standard deviation?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, mask, 1 / q.shape[-1])


@exercise.misconception("out_proj is not used", exposed_by="any input")
class NoOut(MultiHeadAttention):
    """The heads are side by side and nobody mixes them: what head 0 found
    stays in the first D features for ever. Which map lets the heads talk to
    each other?"""

    def finish(self, x):
        return x


@exercise.misconception(
    "out_proj comes before the merge of the heads",
    exposed_by="a value that is not symmetric",
)
class OutFirst(MultiHeadAttention):
    """The last map belongs after the attention. Applied to the values, its
    bias and its mixing happen before the heads have looked anywhere, and
    each head then reads its slice of the mixture. Which features does a
    head hand over?"""

    def project(self, x, kv):
        q, k, v = super().project(x, kv)
        return q, k, self.out_proj(v)

    def finish(self, x):
        return x


@exercise.misconception("kv_input is ignored", exposed_by="kv_input")
class Selfish(MultiHeadAttention):
    """Keys and values are always made from x: a decoder that never looks at
    the encoder. Translation models trained like this speak fluently, about
    something else. From which tensor should k_proj and v_proj read?"""

    def forward(self, x, kv_input=None, attn_mask=None):
        if kv_input is not None and kv_input.shape != x.shape:
            attn_mask = None
        return super().forward(x, None, attn_mask)


@exercise.misconception(
    "only the keys come from kv_input", exposed_by="kv_input"
)
class HalfCross(MultiHeadAttention):
    """The scores are over the other sequence, and the values that they
    weigh are from x. Key and value describe the same token. From which
    tensor does v_proj read?"""

    def project(self, x, kv):
        return self.q_proj(x), self.k_proj(kv), self.v_proj(x)


@exercise.misconception(
    "only the values come from kv_input", exposed_by="kv_input"
)
class OtherHalf(MultiHeadAttention):
    """The keys are made from x and the values from the other sequence, so
    a weight was computed for one token and is spent on another. From which
    tensor does k_proj read?"""

    def project(self, x, kv):
        return self.q_proj(x), self.k_proj(x), self.v_proj(kv)


@exercise.misconception(
    "the queries come from kv_input, the keys and values from x",
    exposed_by="kv_input",
)
class Turned(MultiHeadAttention):
    """The roles are swapped: the other sequence asks, and x answers. The
    result has a row for each token of kv_input. Who is asking?"""

    def project(self, x, kv):
        return self.q_proj(kv), self.k_proj(x), self.v_proj(x)


@exercise.misconception(
    "split by reshape, without a transpose",
    exposed_by="more than one head and token",
)
class Scrambled(MultiHeadAttention):
    """view(B, H, L, D) on (B, L, E) cuts the tokens instead of the
    features: a head attends among pieces of different tokens. Did your
    split_heads pass its check, and is it the one that is used here?"""

    def split(self, x):
        B, L, E = x.shape  # noqa: N806
        return x.reshape(B, self.num_heads, L, E // self.num_heads)


@exercise.misconception(
    "merged by reshape, without a transpose",
    exposed_by="more than one head and token",
)
class Unmerged(MultiHeadAttention):
    """(B, H, L, D) is reshaped to (B, L, E) without bringing the heads back
    behind the tokens: a row of the result holds several tokens. Did your
    merge_heads pass its check, and is it the one that is used here?"""

    def merge(self, x):
        B, H, L, D = x.shape  # noqa: N806
        return x.reshape(B, L, H * D)


@exercise.misconception(
    "split and merged by reshape, without a transpose",
    exposed_by="more than one head and token",
)
class Both(Scrambled):
    """Both reshapes are wrong in the same way, so each number comes back to
    its place, and the attention in between was among pieces of tokens. A
    test with equal rows, or of the shape, sees nothing. Which step of yours
    moves a number?"""

    def merge(self, x):
        B, H, L, D = x.shape  # noqa: N806
        return x.reshape(B, L, H * D)


@exercise.misconception(
    "the heads of one token attend to each other",
    exposed_by="more than one token",
)
class AmongHeads(MultiHeadAttention):
    """Without the transpose the last two axes are heads and features,
    (B, L, H, D): the scores compare the heads of one token, and tokens
    never meet. Which two axes does the matrix product use?"""

    def forward(self, x, kv_input=None, attn_mask=None):
        q, k, v = self.project(x, x if kv_input is None else kv_input)
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)) for t in (q, k, v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        return self.out_proj((scores.softmax(-1) @ v).flatten(-2))


@exercise.misconception("one head does all", exposed_by="more than one head")
class OneHead(MultiHeadAttention):
    """num_heads is not used: one attention over all E features. It runs and
    learns; it can look at one mixture of places, and not at several. Where
    are the features cut into heads?"""

    def split(self, x):
        return x[:, None]


@exercise.misconception(
    "the softmax runs over the queries", exposed_by="more than one token"
)
class OverQueries(MultiHeadAttention):
    """dim=-2 lets each key share itself out among the queries; a query's
    weights no longer sum to 1. Along which axis do the weights of one query
    lie?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, mask, dim=-2)


@exercise.misconception("the mask is ignored", exposed_by="attn_mask")
class Unmasked(MultiHeadAttention):
    """attn_mask is accepted and never read, as in a well-known tutorial: no
    error, and a model that sees the future. Where does your forward read
    it?"""

    def attend(self, q, k, v, mask):
        return super().attend(q, k, v, None)


@exercise.misconception("the mask is upside down", exposed_by="attn_mask")
class Inverted(MultiHeadAttention):
    """Where the mask says True, may attend, your code forbids. That is
    nn.MultiheadAttention's meaning, and the opposite of this task's. What
    does masked_fill fill: where the mask is True or False?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, None if mask is None else ~mask)


@exercise.misconception(
    "the bool mask is added to the scores", exposed_by="attn_mask"
)
class Added(MultiHeadAttention):
    """scores + mask takes True as 1: allowed keys are favoured a little and
    nothing is forbidden. Which number makes a weight exactly 0?"""

    def attend(self, q, k, v, mask):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores if mask is None else scores + mask
        return scores.softmax(-1) @ v


@exercise.misconception("masked after the softmax", exposed_by="attn_mask")
class Late(MultiHeadAttention):
    """The weights are computed over all keys and then some are set to 0:
    the rest no longer sums to 1, and the hidden keys have had their say in
    the denominator. What has to be hidden, the score or the weight?"""

    def attend(self, q, k, v, mask):
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return (weights if mask is None else weights * mask) @ v


@exercise.misconception(
    "the scores are multiplied by the mask", exposed_by="attn_mask"
)
class Multiplied(MultiHeadAttention):
    """A score of 0 is not forbidden: exp(0) = 1, often more than the
    others. Which number makes a weight exactly 0?"""

    def attend(self, q, k, v, mask):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores if mask is None else scores * mask
        return scores.softmax(-1) @ v


@exercise.misconception(
    "a head axis is put into every mask", exposed_by="a mask with four axes"
)
class Unsqueezed(MultiHeadAttention):
    """mask.unsqueeze(1) is right for a mask (B, L, S). This task's masks
    broadcast to (B, H, L, S) as they are; with one more axis they meet the
    wrong ones. What is the shape of your mask when it meets the scores?"""

    def attend(self, q, k, v, mask):
        return _by_hand(q, k, v, None if mask is None else mask.unsqueeze(1))


@exercise.misconception(
    "the weights come back too", exposed_by="any input: a tuple of two"
)
class WeightsToo(MultiHeadAttention):
    """nn.MultiheadAttention returns (output, weights); this one is asked
    for the output alone. What does the Returns line say?"""

    def forward(self, x, kv_input=None, attn_mask=None):
        kv = x if kv_input is None else kv_input
        q, k, _ = (self.split(t) for t in self.project(x, kv))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return super().forward(x, kv_input, attn_mask), weights


@exercise.misconception(
    "the input is added to the result", exposed_by="any input"
)
class Residual(MultiHeadAttention):
    """The residual belongs to the block around this layer: there it is
    added once, and a norm stands beside it. What does this layer alone
    return for its values?"""

    def forward(self, x, kv_input=None, attn_mask=None):
        return x + super().forward(x, kv_input, attn_mask)


@exercise.equivalent("torch's own attention")
class _Fused(MultiHeadAttention):
    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@exercise.equivalent("a loop over the heads")
class _Loop(MultiHeadAttention):
    def forward(self, x, kv_input=None, attn_mask=None):
        kv = x if kv_input is None else kv_input
        q, k, v = self.q_proj(x), self.k_proj(kv), self.v_proj(kv)
        size = x.shape[-1] // self.num_heads
        mask = attn_mask
        if mask is not None:
            shape = (len(x), self.num_heads, x.shape[1], kv.shape[1])
            mask = mask.expand(shape)
        heads = []
        for h in range(self.num_heads):
            at = slice(h * size, (h + 1) * size)
            scores = q[..., at] @ k[..., at].mT / size**0.5
            if mask is not None:
                scores = torch.where(mask[:, h], scores, -torch.inf)
            heads.append(scores.softmax(-1) @ v[..., at])
        return self.out_proj(torch.cat(heads, -1))


@exercise.equivalent("einsum, heads last, the queries scaled")
class _Einsum(MultiHeadAttention):
    def forward(self, x, kv_input=None, attn_mask=None):
        kv = kv_input if kv_input is not None else x
        cut = (self.num_heads, -1)
        q = self.q_proj(x).unflatten(-1, cut)
        k = self.k_proj(kv).unflatten(-1, cut)
        v = self.v_proj(kv).unflatten(-1, cut)
        q = q * q.shape[-1] ** -0.5
        scores = torch.einsum("blhd,bshd->bhls", q, k)
        if attn_mask is not None:
            bias = torch.zeros(attn_mask.shape)
            scores = scores + bias.masked_fill(~attn_mask, float("-inf"))
        out = torch.einsum("bhls,bshd->blhd", scores.softmax(-1), v)
        return self.out_proj(out.flatten(2))


@exercise.equivalent("heads folded into the batch")
class _Folded(MultiHeadAttention):
    def forward(self, x, kv_input=None, attn_mask=None):
        kv = x if kv_input is None else kv_input
        B, L, S = len(x), x.shape[1], kv.shape[1]  # noqa: N806
        q, k, v = (
            self.split(t).flatten(0, 1)
            for t in (self.q_proj(x), self.k_proj(kv), self.v_proj(kv))
        )
        scores = torch.bmm(q, k.mT) / q.shape[-1] ** 0.5
        if attn_mask is not None:
            whole = attn_mask.expand(B, self.num_heads, L, S)
            scores[~whole.flatten(0, 1)] = -torch.inf
        out = torch.bmm(scores.softmax(-1), v).unflatten(0, (B, -1))
        return self.out_proj(self.merge(out))


@exercise.equivalent("the last map cut by heads, and summed")
class _SumOfHeads(MultiHeadAttention):
    def forward(self, x, kv_input=None, attn_mask=None):
        kv = x if kv_input is None else kv_input
        q, k, v = (self.split(t) for t in self.project(x, kv))
        heads = self.attend(q, k, v, attn_mask)  # (B, H, L, D)
        maps = self.out_proj.weight.unflatten(1, (self.num_heads, -1))
        out = torch.einsum("bhld,ehd->ble", heads, maps)
        return out + self.out_proj.bias
