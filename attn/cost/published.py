"""The sizes of published models."""

from attn.cost.model import ModelShape

_META = "Llama 3 report, Grattafiori et al. 2024, table 3"
#: Shapes of published models, by name.
PUBLISHED = {
    "GPT-2": ModelShape(
        12, 50257, 768, 3072, 12, 12, 64, "transformers GPT2Config",
        gated=False, bias=True, norm="layer", max_positions=1024, tied=True,
    ),
    "SmolLM2-135M": ModelShape(
        30, 49152, 576, 1536, 9, 3, 64, "its config.json", tied=True,
    ),
    "Llama-2-7B": ModelShape(
        32, 32000, 4096, 11008, 32, 32, 128, "its config.json"
    ),
    # Falcon's config says num_kv_heads 71; multi_query makes that 1.
    "Falcon-7B": ModelShape(
        32, 65024, 4544, 18176, 71, 1, 64, "its config.json, multi_query",
        gated=False, norm="layer", norms=1, tied=True,
    ),
    "Llama-2-70B": ModelShape(
        80, 32000, 8192, 28672, 64, 8, 128, "its config.json"
    ),
    "Mistral-7B-v0.1": ModelShape(
        32, 32000, 4096, 14336, 32, 8, 128,
        "Jiang et al. 2023, table 1", window=4096, windowed_layers=32,
    ),
    "Llama-3-8B": ModelShape(32, 128256, 4096, 14336, 32, 8, 128, _META),
    "Llama-3-70B": ModelShape(80, 128256, 8192, 28672, 64, 8, 128, _META),
    "Gemma-2-9B": ModelShape(
        42, 256000, 3584, 14336, 16, 8, 256, "Gemma 2 report, 2024, table 1",
        norms=4, tied=True, window=4096, windowed_layers=21,
    ),
    "Qwen3-8B": ModelShape(
        36, 151936, 4096, 12288, 32, 8, 128, "its model card and config.json",
        qk_norm=True,
    ),
}  # fmt: skip
