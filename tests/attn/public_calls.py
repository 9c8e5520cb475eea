"""One call, at least, of every public callable that takes tensors.

Generated tests go through ``CALLS``: which outputs carry a gradient, and which
shapes come out where there are no values. ``unknown`` names a callable
that is in no table.
"""

import ast
import importlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import attn
import attn.api
import attn.nn
import attn.serving
from tests.attn.test_examples import MODULES

#: The book's alphabet; K is Hkv and V is Dv.
SIZES = dict(zip("NBKCHLVSDE", (1, 2, 2, 3, 4, 5, 6, 7, 8, 16), strict=True))
QKV = "query:BHLD key:BHSD value:BHSV"
ALL = "query:BHLD key:BKSD value:BKSV attn_mask:BNLS sinks:H enable_gqa=True"
RULE = "query:BKLD key:BKLD value:BHLV g:-BHL initial_state:BHDV"
PACKED = "g:-NHL initial_state:BHDV cu_seqlens:[0,2,5]"
PACKED = f"query:NKLD key:NKLD value:NHLV {PACKED} output_final_state=True"
STATES = "out:BHLV lse:BHL out2:BHLV lse2:BHL"
TWICE = "key:BKSD value:BKSV key2:BKCD value2:BKCV"

#: Name (and what is special), arguments, and the function where it is another.
#: ``x:BL`` is normal, ``+`` above 0, ``-`` below, ``#`` whole, ``?`` all True.
TABLE = f"""
api.attention | {QKV}
api.explain | {QKV}
api.attention: options | {ALL} softcap=3.0 is_causal=True q_offset:[2,1]
functional.softmax | x:CL
functional.attention_loops | query:LD key:SD value:SV
functional.simple_attention | {QKV} attn_mask:LS
functional.scaled_dot_product_attention | {ALL} return_lse=True
functional.attention_weights | {ALL}
functional.grouped_attention | {ALL} softcap=3.0 return_lse=True
functional.tiled_attention | {ALL} return_lse=True block_q=2 block_k=4
functional.online_softmax | scores:LC value:CV scores2:LS value2:SV |
  lambda **x: attn.online_softmax(zip(*[iter(x.values())] * 2))
functional.merge_states | {STATES} | lambda out, lse, out2, lse2: (
  attn.merge_states((out, lse), (out2, lse2)))
functional.split_heads | x:BLD num_heads=2
functional.merge_heads | x:BHLD
functional.repeat_kv | x:BKSD n_rep=3
functional.pool_heads | weight:DL num_heads=4 num_kv_heads=2
functional.index_scores | query:BHLD key:BSD weights:BLH
functional.indexer_loss | scores:BLS weights:+BHLS
functional.inputs.validate | {ALL}
backends.sdpa_backends.explain_torch | {QKV}
cache.DynamicCache | {TWICE} | twice(lambda x: attn.DynamicCache())
cache.DynamicCache: lengths | {TWICE} lengths:[3,1] | twice(
  lambda x: attn.DynamicCache())
cache.SlidingCache | {TWICE} | twice(lambda x: attn.SlidingCache(3, 1))
cache.StaticCache | {TWICE} | twice(
  lambda x: attn.StaticCache(B, K, 12, D, V, **like(x)))
cache.StaticCache: lengths | {TWICE} lengths:[3,1] | twice(
  lambda x: attn.StaticCache(B, K, 12, D, V, **like(x)))
cache.QuantizedCache | {TWICE} | twice(lambda x: attn.QuantizedCache())
cache.PagedCache | {TWICE} | twice(
  lambda x: attn.PagedCache(attn.PagePool(9, 4, K, D, V, **like(x)), B))
cache.LatentCache | latent:BNCD rope_key:BNCV latent2:BNLD rope_key2:BNLV |
  twice(lambda x: attn.LatentCache())
cache.StateCache | state:BHDV conv:BCV | lambda state, conv: (
  x := attn.StateCache(), x.update(state, conv, 3), x.state, x.conv)[2:]
hf.Bert | ids:#BL | attn.hf.Bert(bert(), activation="gelu", eps=1e-5,
  head=False, pooler=False)
kernels.fused_attention | {ALL} softcap=3.0 return_lse=True
kernels.decode_attention | query:BHND key:BKSD value:BKSV sinks:H lengths:[7,3]
  return_lse=True
kernels.varlen_attention | query:LHD key:LKD value:LKV sinks:H
  cu_seqlens_q:[0,2,5] cu_seqlens_k:[0,2,5] max_seqlen_q=3
kernels.linear_attention_chunks | query:BHLD key:BHLD value:BHLV g:-BHL
  initial_state:BHDV
linear.linear_attention | {RULE} output_final_state=True chunk_size=2
linear.linear_attention: recurrent | {RULE} mode='recurrent'
linear.linear_attention: features | query:BHLD key:BHLD value:BHLV
  feature_map='elu' normalize=True mode='parallel' output_final_state=True
linear.linear_attention: packed | {PACKED}
linear.gated_delta_rule | {RULE} beta:+BHL output_final_state=True chunk_size=2
linear.gated_delta_rule: recurrent | {RULE} beta:+BHL mode='recurrent'
linear.gated_delta_rule: no decay | query:BKLD key:BKLD value:BHLV g=None
  beta:+BHL initial_state:BHDV mode='parallel'
linear.gated_delta_rule: packed | {PACKED} beta:+NHL
linear.short_convolution | x:BLV weight:VC bias:V state:BKV
linear.elu_plus_one | x:CL
linear.taylor | x:CL
masks.documents | ids:#BS
masks.padding | valid:?BS
masks.padding: lengths | valid:[7,3]
masks.prefix | length:[2,3]
masks.top_k | scores:BLS k=3 q_offset:[2,1]
masks.top_k_blocks | query:BHLD key:BKSD block_size=2 k=2 q_offset=2
nn.MultiHeadAttention | query:BLE | attn.MultiHeadAttention(E, H)
nn.MultiHeadAttention: options | query:BLE key_padding_mask:BL
  need_weights=True | attn.MultiHeadAttention(E, H, K, value_dim=V, sinks=True,
  rope=attn.Rope(4), qk_norm=True, gate=True, softcap=5.0, is_causal=True)
nn.MultiHeadAttention: alibi | query:BLE attn_mask:LL |
  attn.MultiHeadAttention(E, H, alibi=True)
nn.MultiHeadAttention: one matrix | query:BLE key:BSE |
  attn.MultiHeadAttention(E, H, packed=True)
nn.MultiHeadAttention: a cache | query:BLE | With(
  attn.MultiHeadAttention(E, H, is_causal=True), steps(attn.DynamicCache))
nn.LatentAttention | x:BLE | latent()
nn.LatentAttention: a cache | query:BLE | With(
  latent(), steps(attn.LatentCache))
nn.LightningIndexer | x:BLE | With(
  attn.nn.LightningIndexer(E, H, D, top_k=2),
  attn.nn.LightningIndexer.scores)
nn.KeyCompressor | x:BLE | attn.nn.KeyCompressor(E, D, 2)
nn.TransformerBlock | x:BLE memory:BCE |
  attn.TransformerBlock(E, H, cross_attention=True)
nn.Transformer | ids:#BL | attn.Transformer(llama())
nn.Transformer: padded | inputs_embeds:BSE attention_mask:?BS
  logits_to_keep=1 | attn.Transformer(llama())
nn.Transformer: a hybrid | ids:#BL | attn.Transformer(llama(
  attention=["gated_delta", "auto"]))
nn.generate | ids:#BL max_new_tokens=2 | With(
  attn.Transformer(llama()), attn.generate)
nn.filter_logits | logits:BS top_k=5 top_p=0.9 min_p=0.01
nn.penalize_repetition | logits:BS ids:#BL repetition_penalty=1.2
nn.LayerNorm | x:BLE | attn.LayerNorm(E)
nn.RMSNorm | x:BLE | attn.RMSNorm(E)
nn.BatchNorm | x:BEL | attn.BatchNorm(E)
nn.FeedForward | x:BLE | attn.FeedForward(E)
nn.SwiGLU | x:BLE | attn.SwiGLU(E)
nn.RNN | x:BLE | attn.nn.RNN(E)
nn.LSTM | x:BLE | attn.nn.LSTM(E)
nn.CausalConv1d | x:BLE | attn.nn.CausalConv1d(E)
nn.LinearAttention | query:BLE |
  attn.nn.LinearAttention(E, K, decay=(0.9, 1.0))
nn.LinearAttention: a cache | query:BLE | With(
  attn.nn.LinearAttention(E, K, mode="recurrent"), steps(attn.StateCache))
nn.GatedDeltaNet | query:BLE | attn.nn.GatedDeltaNet(E, K, num_value_heads=H)
nn.GatedDeltaNet: packed | query:NLE cu_seqlens:[0,2,5] |
  attn.nn.GatedDeltaNet(E, K)
nn.GatedDeltaNet: a cache | query:BLE lengths:[3,1] | With(
  attn.nn.GatedDeltaNet(E, K, chunk_size=2), steps(attn.StateCache))
positions.SinusoidalPositions | positions:#BL | attn.SinusoidalPositions(D)
positions.LearnedPositions | positions:#BL | attn.LearnedPositions(S, D)
positions.position_ids | valid:?BS
positions.alibi_bias | num_heads=4 query_positions:#L
positions.rope_tables | positions:#BL frequencies:+H
positions.apply_rope | x:BHLD cos:LD sin:LD
positions.Rope | positions:#BL | attn.Rope(D)
positions.Rope: dynamic | positions:#BL |
  attn.Rope(D, type="dynamic", max_position_embeddings=4, factor=2.0)
positions.NoRope | x:BLE position_ids:#BL | attn.NoRope(D)
positions.convert_pairing | x:BD to='interleaved'
serving.paged_attention | query:BHND key_pages:LKCD value_pages:LKCV
  block_table:[[0,4],[2,1]] seq_len:[5,2]
serving.cascade_attention | {QKV} prefix_key:HCD prefix_value:HCV
serving.tree_mask | parents:[-1,0,0,1,1,2,5]
serving.tree_positions | parents:[-1,0,0,1]
serving.verify_greedy | parents:[-1,0,0] tokens:[4,6,5] logits:CS
serving.rejection_sample | draft_tokens:[1,2] draft_probs:+KS target_probs:+CS
serving.acceptance | target_probs:+CS draft_probs:+CS
serving.residual | target_probs:+CS draft_probs:+CS
"""

#: Public names without a call: they take no tensor, or compute nothing.
OTHERS = """
api: Explanation autotune implementations use_impl register Registry registry
  AttentionOptions
cache: PagePool PageAllocator StateSnapshot Cache CacheView
functional: AttentionWeights
functional.inputs: AttentionInputs AttentionOptions
backends.sdpa_backends: TorchExplanation
hf: attach register unregister load FAMILIES as_mask layer_masks MaskSpec
  GgufFile llama_of tokenizer_of BidirectionalLlama BidirectionalLlamaConfig
  bidirectional_llama
linear: FEATURE_MAPS
masks: Mask causal chunked sliding_window window compressed dependency_mask
  Term
nn: TransformerConfig gpt2_small llama_style gated_hidden_dim StateLayer
positions: sinusoidal alibi_slopes alibi_score rope_frequencies RopeFrequencies
serving: Engine Request Scheduler SchedulerOutput PrefixCache Match simulate
  simulate_static Trace Step prompt_lookup Draft Verified speculative_decode
  Speculated ModelDraft
"""
#: Modules whose functions measure, count, draw, read files or need ranks.
ELSEWHERE = (
    "cost",
    "data",
    "distributed",
    "kernels.report",
    "plot",
    "profiling",
)


class Call(NamedTuple):
    """A function, or a module, and its arguments by name."""

    function: Callable[..., Any]
    given: dict[str, Any]

    def tensors(self) -> list[Tensor]:
        """Compute the call; return all tensors of its result, in order."""
        device = [x.device for x in self.given.values() if torch.is_tensor(x)]
        return [*_tensors(self.function(**self.given), device[0])]


def _tensors(result: Any, device: torch.device) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, attn.Mask):
        yield result.dense(5, 7, batch=2, device=device)
    elif isinstance(result, tuple | list):
        for part in result:
            yield from _tensors(part, device)


class With(nn.Module):
    """A function of a module, whose parameters are inputs too."""

    def __init__(self, module, function):
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *args, **given):
        return self.function(self.module, *args, **given)


def steps(cache):
    """Read a text in two steps, the second from what the first cached."""

    def read(layer, query, **options):
        own = cache()
        first = layer(query[:, :2], cache=own)
        return first, layer(query[:, 2:], cache=own, **options)

    return read


def twice(cache):
    """Write to a cache twice: its view has what the first call wrote."""

    def update(**given):
        lengths = {"lengths": given.pop("lengths", None)}
        first, second, *new = given.values()
        kept = cache(first)
        kept.update(first, second)
        return tuple(kept.update(*new, **lengths))

    return update


def like(x):
    return {"dtype": x.dtype, "device": x.device}


def latent():
    return attn.nn.LatentAttention(16, 4, 8, 8, 4, 4, 4, is_causal=True)


def llama(**options):
    sizes = {"vocab_size": 11, "embed_dim": 16, "num_layers": 2}
    return attn.llama_style(**sizes, num_heads=4, num_kv_heads=2, **options)


def bert():
    return attn.TransformerConfig(
        vocab_size=11, embed_dim=16, num_layers=1, num_heads=4,
        positions="learned", max_positions=9, norm_order="post",
        embed_norm=True, segments=2, is_causal=False,
    )  # fmt: skip


def _argument(text: str) -> tuple[str, Any]:
    """Return a name and a value; ``SIZES`` has the letters of a shape."""
    name, sign, value = re.split("([=:])", text, maxsplit=1)
    if sign == "=":
        return name, ast.literal_eval(value)
    if value.startswith("["):
        return name, torch.tensor(ast.literal_eval(value), dtype=torch.int32)
    kind = value[0] if value[0] in KINDS else ""
    return name, KINDS[kind]([SIZES[x] for x in value.removeprefix(kind)])


KINDS: dict[str, Callable[[list[int]], Tensor]] = {
    "": torch.randn,
    "+": lambda shape: torch.rand(shape).softmax(-1),
    "-": lambda shape: -torch.rand(shape),
    "#": lambda shape: torch.arange(math.prod(shape)).view(shape) % 5,
    "?": lambda shape: torch.ones(shape, dtype=torch.bool),
}


def public_call(name: str) -> Call:
    """Draw the arguments of a call, in the default dtype."""
    given, *other = CALLS[name]
    where = other or [f"attn.{name.split(':')[0]}"]
    function = eval(" ".join(where), {**globals(), **SIZES})
    return Call(function, dict(map(_argument, given.split())))


def _read(table: str) -> dict[str, list[str]]:
    lines = re.sub(r"\n  +", " ", table.strip()).splitlines()
    split = [[part.strip() for part in x.split(" | ", 2)] for x in lines]
    return {name: rest for name, *rest in split}


CALLS = _read(TABLE)


def unknown() -> set[str]:
    """Return the public names of the API pages that no table has."""
    others = re.sub(r"\n  +", " ", OTHERS.strip()).splitlines()
    known = {name.split(":")[0] for name in CALLS}
    for line in others:
        module, names = line.split(": ")
        known |= {f"{module}.{name}" for name in names.split()}
    pages = [path.removeprefix("attn.") for path in MODULES if path != "attn"]
    public = {
        f"{page}.{name}"
        for page in pages
        if not page.startswith(ELSEWHERE)
        for name in importlib.import_module(f"attn.{page}").__all__
    }
    return public ^ known
