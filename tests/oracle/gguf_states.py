"""State-space models and hybrids as GGUF files: keys, names and changes are those of llama.cpp's converter
(docs/formats.md, 8), names by the table of the Python package gguf. Used by make_forward_golden.py.

Each file has a twin beside it, a model of transformers with the same numbers: what is quantised is stored there
as the numbers that it stands for, and A_log, of which GGUF keeps -exp(A_log) in float32, as the float64
logarithm of what is kept.
"""

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file

F32, F16, Q8_0 = (gguf.GGMLQuantizationType[k] for k in ("F32", "F16", "Q8_0"))
ARCHITECTURES = {"mamba": "mamba", "falcon_mamba": "mamba", "mamba2": "mamba2", "jamba": "jamba", "bamba": "granitehybrid",
                 "granitemoehybrid": "granitehybrid"}
# What GGUF keeps in float32, where a config.json has a double.
SINGLE = ("rms_norm_eps", "layer_norm_epsilon", "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")


def permuted(w, heads, back=False):
    """Rows of a head from half-split to interleaved pairs."""
    cut = (heads, w.shape[0] // heads // 2, 2) if back else (heads, 2, w.shape[0] // heads // 2)
    return np.ascontiguousarray(w.reshape(*cut, -1).swapaxes(1, 2).reshape(w.shape))


def attention_layers(config):
    return [kind in ("attention", "full_attention") for kind in config.layers_block_type]


def mixer_keys(w, config):
    kind = config.model_type
    get = lambda *names: next(getattr(config, n) for n in names if hasattr(config, n))
    inner = 2 * config.hidden_size  # which the converter insists on
    w.add_ssm_conv_kernel(get("mamba_d_conv", "conv_kernel"))
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(get("mamba_d_state", "state_size"))
    if kind in ("mamba", "falcon_mamba", "jamba"):
        w.add_ssm_time_step_rank(get("mamba_dt_rank", "time_step_rank"))
    else:
        w.add_ssm_time_step_rank(get("mamba_n_heads", "num_heads"))
        w.add_ssm_group_count(get("mamba_n_groups", "n_groups"))
    if kind in ("mamba", "falcon_mamba"):
        w.add_ssm_dt_b_c_rms(kind == "falcon_mamba")


def keys(w, config):
    kind = config.model_type
    w.add_block_count(config.num_hidden_layers)
    w.add_embedding_length(config.hidden_size)
    mixer_keys(w, config)
    if kind in ("mamba", "falcon_mamba", "mamba2"):
        w.add_context_length(2**20)
        w.add_feed_forward_length(0)
        w.add_head_count(0)
        w.add_layer_norm_rms_eps(config.layer_norm_epsilon)
        return
    w.add_context_length(2**20 if kind == "granitemoehybrid" else config.max_position_embeddings)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv([config.num_key_value_heads if a else 0 for a in attention_layers(config)])
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    if kind == "jamba":
        w.add_expert_count(config.num_experts)
        w.add_expert_used_count(config.num_experts_per_tok)
        return
    rope = config.rope_parameters or {}
    head = config.hidden_size // config.num_attention_heads
    w.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    w.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))  # of Bamba: attn_rotary_emb
    w.add_rope_scaling_finetuned(kind == "bamba")
    if kind == "granitemoehybrid":
        w.add_attention_scale(config.attention_multiplier)
        w.add_embedding_scale(config.embedding_multiplier)
        w.add_residual_scale(config.residual_multiplier)
        w.add_logit_scale(config.logits_scaling)
        w.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def stored(a, name, quantise):
    """(data, its kind, the numbers that it stands for): what the converter keeps in float32 it keeps here."""
    plain = a.ndim < 2 or not name.endswith(".weight") or name.endswith("_norm.weight") or "ssm_conv1d" in name
    if not quantise or plain:
        return a, F32, a
    kind = F16 if a.shape[-1] % 32 else Q8_0
    data = gguf.quants.quantize(a, kind)
    return data, kind, gguf.quants.dequantize(data, kind).reshape(a.shape)


def write(folder, config, state, quantise):
    """Writes model.gguf and its twin, model.safetensors; returns the twin's state dict."""
    arch = ARCHITECTURES[config.model_type]
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), config.num_hidden_layers)
    w = gguf.GGUFWriter(folder / "model.gguf", arch)
    keys(w, config)
    ssd = arch in ("mamba2", "granitehybrid")
    groups = getattr(config, "mamba_n_groups", getattr(config, "n_groups", 1)) if ssd else 1
    kv = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads} if arch == "granitehybrid" else {}
    held, tied = {}, config.tie_word_embeddings

    def put(name, a, back=lambda x: x):
        data, kind, numbers = stored(np.ascontiguousarray(a), name, quantise)
        w.add_tensor(name, data, raw_dtype=kind)
        return back(numbers)

    def mapped(name):
        found = names.get_name(name.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        assert found, name
        return found

    for name, tensor in state.items():
        a = tensor.numpy().astype(np.float32)
        part = name.split(".")[-2] if "." in name else name
        if name == "lm_head.weight" and tied:
            continue
        if name.endswith("A_log"):
            kept = put(mapped(name), -np.exp(a)[:, None] if ssd else -np.exp(a), lambda x: x.reshape(a.shape))
            held[name] = np.log(-kept.astype(np.float64))
        elif "conv1d.weight" in name:
            held[name] = put(mapped(name), a.squeeze(), lambda x: x.reshape(a.shape))
        elif ssd and name.endswith(".D"):
            held[name] = put(mapped(name), a[:, None], lambda x: x.reshape(a.shape))
        elif ssd and name.endswith((".mixer.norm.weight", ".mamba.norm.weight")):
            held[name] = put(mapped(name), a.reshape(groups, -1), lambda x: x.reshape(a.shape))
        elif "shared_mlp.input_linear" in name:
            at = f"blk.{name.split('.')[2]}."
            held[name] = np.concatenate([put(at + "ffn_gate.weight", a[:len(a) // 2]), put(at + "ffn_up.weight", a[len(a) // 2:])])
        elif "shared_mlp.output_linear" in name:
            held[name] = put(f"blk.{name.split('.')[2]}.ffn_down.weight", a)
        elif part in kv:
            held[name] = put(mapped(name), permuted(a, kv[part]), lambda x: permuted(x, kv[part], back=True))
        else:
            held[name] = put(mapped(name), a)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save_file({k: np.ascontiguousarray(v) for k, v in held.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    if tied and "lm_head.weight" in state:
        held["lm_head.weight"] = held[next(k for k in held if "embed" in k)]
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in held.items()}
