"""Writes into fuzz/corpus/model.tar.gz: configurations and maps that fuzz_model.c starts from (first byte: which
checkpoint, 128 and more: a map)."""

import json

import corpus

LLAMA = {"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SEEDS = {
    "llama": (0, {**LLAMA, "head_dim": None, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}),
    "gemma3": (0, {"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text", "head_dim": 4,
                                                           "query_pre_attn_scalar": 4, "attn_logit_softcapping": 50.0}}),
    "guess": (0, {**LLAMA, "model_type": "novel", "rope_theta": 10000.0}),
    "qwen3": (0, {**LLAMA, "model_type": "qwen3", "head_dim": 4, "num_key_value_heads": [2, 2]}),
    "bert": (1, {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "bert_guess": (1, {"n_embd": 16, "n_layer": 2, "n_head": 4}),
    "mamba2": (2, {"model_type": "mamba2", "hidden_size": 8, "num_hidden_layers": 2, "state_size": 5, "num_heads": 4,
                   "head_dim": 4, "n_groups": 2, "time_step_limit": [0, {"__float__": "Infinity"}]}),
    "mamba2_original": (2, {"d_model": 8, "n_layer": 2, "ssm_cfg": {"layer": "Mamba2", "d_state": 5, "headdim": 4, "expand": 2}}),
    "nemotron": (2, {"model_type": "nemotron_h", "hidden_size": 8, "hybrid_override_pattern": "MM", "num_hidden_layers": 2,
                     "ssm_state_size": 5, "mamba_num_heads": 4, "mamba_head_dim": 4, "n_groups": 2}),
    "map": (129, {"heads": 4, "q": "model.layers.{i}.self_attn.q_proj.weight", "k": "model.layers.{i}.self_attn.k_proj.weight",
                  "rope": "half", "stack": "decoder", "norm": "model.layers.{i}.input_layernorm.weight", "norm_kind": "rmsnorm"}),
    "map_fused": (131, {"heads": 2, "kv_heads": 1, "qkv": "backbone.layers.{i}.mixer.in_proj.weight", "qkv_layout": "grouped",
                        "o": "backbone.layers.{i}.mixer.out_proj.weight"}),
}
with corpus.opened("model") as seeds:
    for name, (kind, value) in SEEDS.items():
        (seeds / name).write_bytes(bytes([kind]) + json.dumps(value).encode())
