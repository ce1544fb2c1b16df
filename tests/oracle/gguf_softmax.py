"""Models with softmax attention alone as GGUF files: names, order and metadata as the converter writes them; gguf_states.py has the
others. Used by forward_cases.py."""
import gguf
import numpy as np
import torch


def permute(w, heads):
    """llama: rows of a head from half-split to interleaved pairs."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


DECODER_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                 "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
                 "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
                 "input_layernorm": "attn_norm"}
GPT2_NAMES = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
              "ln_1": "attn_norm", "ln_2": "ffn_norm"}
PHI3_NAMES = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
PLAIN = {"post_attention_layernorm": "ffn_norm"}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
BERT_NAMES = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
       "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
       "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
       "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}


def gguf_name(name, arch):
    module, part = name.rsplit(".", 1)
    if module in TOP:
        return f"{TOP[module]}.{part}"
    layers = {"bert": "encoder.layer.", "gpt2": "transformer.h."}.get(arch, "model.layers.")
    number, rest = module.removeprefix(layers).split(".", 1)
    names = {"bert": BERT_NAMES, "gpt2": GPT2_NAMES}.get(arch)
    if not names:
        names = {**DECODER_NAMES, **PHI3_NAMES, **(SANDWICH if arch in ("gemma2", "gemma3") else PLAIN)}
    return f"blk.{number}.{names[rest]}.{part}"


def write_gguf(folder, arch, config, state, quantise, extra=()):
    """Writes model.gguf; returns the state dict that it holds, dequantised."""
    w = gguf.GGUFWriter(folder / "model.gguf", arch)
    w.add_block_count(config.num_hidden_layers)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(4 * config.n_embd if arch == "gpt2" else config.intermediate_size)
    w.add_context_length(config.max_position_embeddings)
    w.add_head_count(config.num_attention_heads)
    if arch == "bert":
        w.add_layer_norm_eps(config.layer_norm_eps)
        w.add_causal_attention(False)
    elif arch == "gpt2":
        w.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
        w.add_head_count_kv(config.num_key_value_heads)
        if arch == "phi3":
            w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        else:
            w.add_key_length(config.head_dim)
            w.add_value_length(config.head_dim)
        rope = config.rope_parameters
        w.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if arch in ("gemma2", "gemma3", "phi3"):
        w.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        w.add_attn_logit_softcapping(config.attn_logit_softcapping)
        w.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == "llama":
        w.add_rope_dimension_count(config.head_dim)
        w.add_vocab_size(config.vocab_size)
    held = {}
    for name, tensor in state.items():
        if name.startswith(("pooler.", "cls.")) or (name == "lm_head.weight" and config.tie_word_embeddings):
            held[name] = tensor
            continue
        a = tensor.numpy().astype(np.float32)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            a = a + np.float32(1)
            held[name] = torch.from_numpy(a - np.float32(1))
        else:
            held[name] = tensor
        if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            a = a.T
        if arch == "llama" and "q_proj" in name:
            a = permute(a, config.num_attention_heads)
        if arch == "llama" and "k_proj" in name:
            a = permute(a, config.num_key_value_heads)
        kind = gguf.GGMLQuantizationType.F32
        if quantise and a.ndim == 2 and "position" not in name and "token_type" not in name:
            kind = gguf.GGMLQuantizationType.Q8_0
            data = gguf.quants.quantize(a, kind)
            back = gguf.quants.dequantize(data, kind).reshape(a.shape)
            if arch == "llama" and ("q_proj" in name or "k_proj" in name):
                heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
                back = back.reshape(heads, back.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(back.shape)
            held[name] = torch.from_numpy(np.ascontiguousarray(back))
            a = data
        w.add_tensor(gguf_name(name, arch), np.ascontiguousarray(a), raw_dtype=kind)
    for name, value in extra:
        w.add_tensor(name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if config.tie_word_embeddings and "lm_head.weight" in held:
        held["lm_head.weight"] = held["transformer.wte.weight" if arch == "gpt2" else "model.embed_tokens.weight"]
    return held
