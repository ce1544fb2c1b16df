"""Writes into fuzz/corpus/network.tar.gz: configurations that fuzz_network.c starts from. The first byte says where weights
come from (0: a LLaMA-like checkpoint, 1: a BERT-like one, 2: draws). Needs tests/golden/forward."""

import json
import pathlib

import corpus

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA = {"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 11, "intermediate_size": 8}
BERT = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 11,
        "intermediate_size": 8, "max_position_embeddings": 8}
SEEDS = {
    "stored_llama": (0, LLAMA),
    "stored_mistral": (0, {**LLAMA, "model_type": "mistral", "sliding_window": 3}),
    "stored_yarn": (0, {**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}}),
    "stored_bert": (1, BERT),
    "stored_decoder": (1, {**BERT, "is_decoder": True, "hidden_act": "gelu_new"}),
}
for folder in sorted((ROOT / "tests" / "golden" / "forward").iterdir()):
    if (folder / "config.json").exists():
        config = json.loads((folder / "config.json").read_text())
        for key in ("architectures", "transformers_version", "dtype", "_name_or_path"):
            config.pop(key, None)
        SEEDS[folder.name] = (2, config)
# what `rankscope train` leaves: a description, of which the shapes follow
ARCH = {"depth": 2, "d_model": 8, "heads": 2, "seq_len": 6, "vocab": 11, "mlp_width": 6}
OWN = {
    "own": {}, "own_mamba": {"mixer": "mamba", "state": 4, "conv": 3}, "own_mamba2": {"mixer": "mamba2", "state": 4, "groups": 1},
    "own_gated": {"mlp": "swiglu", "norm_kind": "rmsnorm", "positions": "rope", "kv_heads": 1, "mask": "causal"},
    "own_points": {"rows": {"width": 3, "map": "mlp", "map_width": 5}, "vocab": None, "outputs": 4, "norm": "post"},
    "own_skips": {"skip_mixer": [0.5, 1], "branch_mlp": "1/sqrt(L)", "init": {"w1": "normal(0, 1/fan_in)"}, "block": "parallel"},
    "own_tokens": {"embed": {"map": "linear", "norm": True}, "fusion": "concat", "outputs": 4},
}
for name, arch in OWN.items():
    SEEDS[name] = (2, {"model_type": "rankscope", "arch": {**ARCH, **arch}})
with corpus.opened("network") as seeds:
    for name, (kind, value) in SEEDS.items():
        (seeds / name).write_bytes(bytes([kind]) + json.dumps(value).encode())
