"""State-space models and hybrids as GGUF files: keys, names and changes are those of llama.cpp's converter
(docs/formats.md, 8), names by the table of the Python package gguf. Used by forward_cases.py.

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
                 "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h", "falcon_h1": "falcon-h1", "lfm2": "lfm2",
                 "qwen3_5_text": "qwen35"}
# What GGUF keeps in float32, where a config.json has a double.
SINGLE = ("rms_norm_eps", "layer_norm_epsilon", "norm_eps", "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")


def permuted(w, heads, back=False):
    """Rows of a head from half-split to interleaved pairs."""
    cut = (heads, w.shape[0] // heads // 2, 2) if back else (heads, 2, w.shape[0] // heads // 2)
    return np.ascontiguousarray(w.reshape(*cut, -1).swapaxes(1, 2).reshape(w.shape))


def attention_layers(config):
    return [kind in ("attention", "full_attention") for kind in config.layers_block_type]


# ---- metadata, a function for each architecture ----

def s6_keys(w, config):
    w.add_ssm_conv_kernel(getattr(config, "mamba_d_conv", None) or config.conv_kernel)
    w.add_ssm_inner_size(2 * config.hidden_size)  # which the converter insists on
    w.add_ssm_state_size(getattr(config, "mamba_d_state", None) or config.state_size)
    w.add_ssm_time_step_rank(getattr(config, "mamba_dt_rank", None) or config.time_step_rank)


def ssd_keys(w, kernel, inner, state, heads, groups):
    w.add_ssm_conv_kernel(kernel)
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(heads)
    w.add_ssm_group_count(groups)


def alone_keys(w, config):
    """Mamba, Falcon-Mamba, Mamba-2."""
    if config.model_type == "mamba2":
        ssd_keys(w, config.conv_kernel, 2 * config.hidden_size, config.state_size, config.num_heads, config.n_groups)
    else:
        s6_keys(w, config)
        w.add_ssm_dt_b_c_rms(config.model_type == "falcon_mamba")
    w.add_context_length(2**20)
    w.add_feed_forward_length(0)
    w.add_head_count(0)
    w.add_layer_norm_rms_eps(config.layer_norm_epsilon)


def attention_keys(w, config, eps, kv=None):
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads if kv is None else [config.num_key_value_heads if a else 0 for a in kv])
    w.add_layer_norm_rms_eps(eps)


def head_keys(w, config):
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    w.add_key_length(head)
    w.add_value_length(head)


def jamba_keys(w, config):
    s6_keys(w, config)
    w.add_context_length(config.max_position_embeddings)
    attention_keys(w, config, config.rms_norm_eps, attention_layers(config))
    w.add_expert_count(config.num_experts)
    w.add_expert_used_count(config.num_experts_per_tok)


def granite_keys(w, config):
    bamba = config.model_type == "bamba"
    ssd_keys(w, config.mamba_d_conv, 2 * config.hidden_size, config.mamba_d_state, config.mamba_n_heads, config.mamba_n_groups)
    w.add_context_length(config.max_position_embeddings if bamba else 2**20)
    attention_keys(w, config, config.rms_norm_eps, attention_layers(config))
    rope = config.rope_parameters or {}
    head = config.hidden_size // config.num_attention_heads
    w.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    w.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))  # of Bamba: attn_rotary_emb
    w.add_rope_scaling_finetuned(bamba)
    if not bamba:
        w.add_attention_scale(config.attention_multiplier)
        w.add_embedding_scale(config.embedding_multiplier)
        w.add_residual_scale(config.residual_multiplier)
        w.add_logit_scale(config.logits_scaling)
        w.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def nemotron_keys(w, config):
    kinds = config.layers_block_type
    inner = config.mamba_num_heads * config.mamba_head_dim
    ssd_keys(w, config.conv_kernel, inner, config.ssm_state_size, config.mamba_num_heads, config.n_groups)
    w.add_context_length(2**20)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv([config.num_key_value_heads if a else 0 for a in attention_layers(config)])
    w.add_feed_forward_length([config.intermediate_size if kind == "mlp" else 0 for kind in kinds])
    head_keys(w, config)
    w.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    w.add_layer_norm_eps(config.layer_norm_epsilon)
    w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    w.add_rope_scaling_finetuned(False)


def falcon_keys(w, config):
    ssd_keys(w, config.mamba_d_conv, config.mamba_d_ssm, config.mamba_d_state, config.mamba_d_ssm // config.mamba_d_head,
             config.mamba_n_groups)
    w.add_context_length(config.max_position_embeddings)
    attention_keys(w, config, config.rms_norm_eps)
    head_keys(w, config)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_vocab_size(config.vocab_size)


def adjusted(config):
    width = config.intermediate_size
    if config.block_auto_adjust_ff_dim:
        width = int(2 * width / 3)
        if config.block_ffn_dim_multiplier is not None:
            width = int(config.block_ffn_dim_multiplier * width)
            width = config.block_multiple_of * -(-width // config.block_multiple_of)
    return width


def lfm2_keys(w, config):
    w.add_context_length(config.max_position_embeddings)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv([config.num_key_value_heads if kind != "conv" else 0 for kind in config.layer_types])
    w.add_feed_forward_length(adjusted(config))
    w.add_layer_norm_rms_eps(config.norm_eps)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_shortconv_l_cache(config.conv_L_cache)
    w.add_vocab_size(config.vocab_size)


def qwen_keys(w, config):
    rope = config.rope_parameters
    w.add_context_length(config.max_position_embeddings)
    attention_keys(w, config, config.rms_norm_eps)
    head_keys(w, config)
    ssd_keys(w, config.linear_conv_kernel_dim, config.linear_value_head_dim * config.linear_num_value_heads,
             config.linear_key_head_dim, config.linear_num_value_heads, config.linear_num_key_heads)
    w.add_full_attention_interval(FULL)
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(int(config.head_dim * rope["partial_rotary_factor"]))
    w.add_rope_dimension_sections([11, 11, 10, 0])


FULL = 2  # the layers of the case below: each second one is attention
KEYS = {"mamba": alone_keys, "mamba2": alone_keys, "jamba": jamba_keys, "granitehybrid": granite_keys, "nemotron_h": nemotron_keys,
        "falcon-h1": falcon_keys, "lfm2": lfm2_keys, "qwen35": qwen_keys}


# ---- what becomes of a tensor: (to what is stored, back from it) ----

def same(a):
    return a


def turned(heads):
    """Rows of a head from half-split to interleaved pairs."""
    return (lambda a: permuted(a, heads), lambda x: permuted(x, heads, back=True))


def times(factor):
    """A factor, or one for each row."""
    return (lambda a: (a * np.float32(factor)).astype(np.float32), lambda x: x.astype(np.float64) / np.float64(factor))


def moved(axis, first, groups, run):
    """Value heads of `run` from entry `first` on, from a group after the other to one of each group after the other."""
    def order(a, back):
        head = a.shape[axis] - first
        numbers = np.arange(head).reshape(groups, -1, run)
        numbers = np.concatenate([np.arange(first), first + numbers.swapaxes(0, 1).reshape(-1)])
        return np.take(a, np.argsort(numbers) if back else numbers, axis)
    return (lambda a: order(a, False), lambda x: order(x, True))


def rates(back_shape, apart):
    return (lambda a: -np.exp(a)[:, None] if apart else -np.exp(a),
            lambda x: np.log(-x.reshape(back_shape).astype(np.float64)))


def both(*changes):
    def to(a):
        for there, _ in changes:
            a = there(a)
        return a

    def back(x):
        for _, again in reversed(changes):
            x = again(x)
        return x
    return to, back


def falcon_factor(name, config):
    """Of the maps that Falcon-H1 multiplies, the converter multiplies the weights."""
    inner, keys = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
    heads = inner // config.mamba_d_head
    rows = np.repeat(np.array(config.ssm_multipliers), [inner, inner, keys, keys, heads])[:, None]
    factors = {"down_proj": config.mlp_multipliers[1], "gate_proj": config.mlp_multipliers[0],
               "k_proj": config.key_multiplier * config.attention_in_multiplier, "q_proj": config.attention_in_multiplier,
               "v_proj": config.attention_in_multiplier, "o_proj": config.attention_out_multiplier,
               "out_proj": config.ssm_out_multiplier, "in_proj": config.ssm_in_multiplier * rows,
               "lm_head": config.lm_head_multiplier, "embed_tokens": config.embedding_multiplier}
    return factors.get(name.split(".")[-2] if "." in name else name)


def qwen_order(name, config):
    keys, run = config.linear_num_key_heads, config.linear_value_head_dim
    first = 2 * keys * config.linear_key_head_dim
    if config.linear_num_value_heads == keys or "linear_attn." not in name:
        return None
    places = {"in_proj_qkv": (0, first, run), "in_proj_z": (0, 0, run), "in_proj_a": (0, 0, 1), "in_proj_b": (0, 0, 1),
              "A_log": (0, 0, 1), "dt_bias": (0, 0, 1), "conv1d": (0, first, run), "out_proj": (1, 0, run)}
    axis, first, run = next((v for k, v in places.items() if k in name), (0, 0, 0))
    return moved(axis, first, keys, run) if run else None


def plain_change(name, shape, config, arch):
    ssd = arch in ("mamba2", "granitehybrid", "nemotron_h", "falcon-h1")
    groups = getattr(config, "mamba_n_groups", getattr(config, "n_groups", 1))
    kv = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads} if arch in ("granitehybrid", "nemotron_h") else {}
    part = name.split(".")[-2] if "." in name else name
    if arch == "qwen35" and name.endswith("norm.weight") and "linear_attn.norm" not in name:
        return (lambda a: a + np.float32(1), lambda x: x.astype(np.float64) - 1)
    if name.endswith("A_log"):
        return rates(shape, ssd)
    if "conv1d.weight" in name or "conv.conv.weight" in name:
        return (lambda a: a.squeeze(), lambda x: x.reshape(shape))
    if ssd and name.endswith(".D"):
        return (lambda a: a[:, None], lambda x: x.reshape(shape))
    if ssd and name.endswith((".mixer.norm.weight", ".mamba.norm.weight")):
        return (lambda a: a.reshape(groups, -1), lambda x: x.reshape(shape))
    if part in kv:
        return turned(kv[part])
    if arch == "falcon-h1" and (factor := falcon_factor(name, config)) is not None:
        return times(factor)
    return same, same


def change_of(name, shape, config, arch):
    order = qwen_order(name, config) if arch == "qwen35" else None
    change = plain_change(name, shape, config, arch)
    return both(order, change) if order else change


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
    w.add_block_count(config.num_hidden_layers)
    w.add_embedding_length(config.hidden_size)
    KEYS[arch](w, config)
    held, tied = {}, config.tie_word_embeddings

    def put(name, a, change=(same, same)):
        data, kind, numbers = stored(np.ascontiguousarray(change[0](a)), name, quantise)
        w.add_tensor(name, data, raw_dtype=kind)
        return change[1](numbers)

    def mapped(name):
        old = name.replace("model.", "backbone.") if arch == "nemotron_h" else name
        found = names.get_name(old.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        assert found, name
        return found

    for name, tensor in state.items():
        a = tensor.numpy().astype(np.float32)
        at = f"blk.{name.split('.')[2]}." if name.startswith("model.layers.") else ""
        if name == "lm_head.weight" and tied:
            continue
        if "shared_mlp.input_linear" in name:
            held[name] = np.concatenate([put(at + "ffn_gate.weight", a[:len(a) // 2]), put(at + "ffn_up.weight", a[len(a) // 2:])])
        elif "shared_mlp.output_linear" in name:
            held[name] = put(at + "ffn_down.weight", a)
        else:
            held[name] = put(mapped(name), a, change_of(name, a.shape, config, arch))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save_file({k: np.ascontiguousarray(v) for k, v in held.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    if tied and "lm_head.weight" in state:
        held["lm_head.weight"] = held[next(k for k in held if "embed" in k)]
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in held.items()}
