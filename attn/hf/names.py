"""Module names of ``attn.nn.Transformer``, the targets of weight tables."""

Q, K, V, OUT = (f"blocks.*.attention.{x}_proj" for x in ("q", "k", "v", "out"))
QKV = Q, K, V
Q_NORM, K_NORM = (f"blocks.*.attention.{x}_norm" for x in "qk")
UP, DOWN, GATE = (
    f"blocks.*.feed_forward.{x}_proj" for x in ("up", "down", "gate")
)
NORM_1, POST_1 = "blocks.*.attention_norm", "blocks.*.attention_post_norm"
NORM_2 = "blocks.*.feed_forward_norm"
POST_2 = "blocks.*.feed_forward_post_norm"
EMBED, POSITIONS = "token_embedding", "positions"
EMBED_NORM, FINAL_NORM, HEAD = "embed_norm", "final_norm", "head"
