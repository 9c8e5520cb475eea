"""Reading the classes of a model says what they do with attention's mask."""

import pytest
import torch
from torch import Tensor, nn

from attn.hf.reading import read


class Attention(nn.Module):
    """As in the models of transformers, but for one line."""

    is_causal = True


class ReadsShape(Attention):
    def forward(self, x, attention_mask):
        return x[: attention_mask.shape[-1]]


class Indexes(Attention):
    def forward(self, x, attention_mask):
        return x, attention_mask[:, 0]


class Adds(Attention):
    def forward(self, x, attention_mask):
        return x + attention_mask


class ChecksType(Attention):
    def forward(self, x, attention_mask):
        return x if isinstance(attention_mask, Tensor) else -x


class Concatenates(Attention):
    def forward(self, x, masks):
        return torch.cat([masks["full"], x])


class AsksAnother(Attention):
    def forward(self, x, attention_mask):
        return x * self.size_of(attention_mask)

    def size_of(self, a_mask):
        return a_mask.numel()


class PassesKeyword(Attention):
    def forward(self, x, attention_mask, attention_interface):
        return attention_interface(self, x, attention_mask, blocks=3)


class ComputesCausality(Attention):
    def forward(self, x, attention_mask, attention_interface):
        is_causal = self.is_causal and attention_mask is None
        return attention_interface(self, x, is_causal=is_causal)


class PassesOn(Attention):
    def forward(self, x, attention_mask, attention_interface):
        if attention_mask is None or isinstance(attention_mask, dict):
            return x
        options = {"scaling": 0.5, "is_causal": self.is_causal}
        return attention_interface(self, x, attention_mask, **options)


class InlineAttention(Attention):
    def forward(self, x):
        return x.softmax(-1)


class Router(Attention):
    def forward(self, x):
        return x.softmax(-1)


@pytest.mark.parametrize(
    ("cls", "use"),
    [
        (ReadsShape, "ReadsShape.forward reads .shape of its mask"),
        (Indexes, "indexes its mask"),
        (Adds, "does arithmetic on its mask"),
        (ChecksType, "checks the type of its mask"),
        (Concatenates, "calls cat with its mask"),
        (AsksAnother, "calls size_of, which reads .numel of its mask"),
        (PassesKeyword, "passes blocks= to the attention function"),
        (ComputesCausality, "passes is_causal= to the attention function"),
        (PassesOn, None),
        (InlineAttention, None),
        (Router, None),
    ],
)
def test_reading_a_class_says_what_it_does_with_its_mask(cls, use):
    got = read(nn.Sequential(cls()))
    assert got.inline == (["InlineAttention"] if "Inline" in str(cls) else [])
    doubts = got.doubts.get(cls, [])
    assert bool(doubts) == bool(use)
    assert not use or use in doubts[0]


def test_a_class_without_a_source_is_in_doubt():
    cls = type("Made", (nn.Module,), {"__module__": "nowhere"})
    assert read(cls()).doubts == {cls: ["Made has no source"]}
