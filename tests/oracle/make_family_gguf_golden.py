"""Writes tests/golden/families_gguf/NAME/{model.gguf,expected.json}: the GGUF twins of some models of
tests/golden/families. Names, keys and changes are those of the llama.cpp converter (docs/formats.md, 8):
llama's q and k rows are permuted inside each head to interleaved rotary pairs, Gemma's norms get
their 1, GPT-2's Conv1D is transposed, NeoX's qkv is sorted into rows q|k|v, Mamba's A_log becomes
-exp(A_log). None of this changes a singular value, so expected.json is the twin's own.

Run make_family_golden.py first; versions: requirements.txt.
"""

import json
import pathlib
import shutil

import gguf
import numpy as np
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


def permute(w, heads):
    """Row t + s·c/2 of a head goes to row 2t + s."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


DECODER = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "self_attn.q_proj": "attn_q",
           "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
           "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
           "input_layernorm": "attn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
           "mlp.down_proj": "ffn_down", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
           "feed_forward.down_proj": "ffn_down", "pre_ff_layernorm": "ffn_norm", "final_layernorm": "output_norm"}
LLAMA = {**DECODER, "post_attention_layernorm": "ffn_norm"}
GEMMA = {**DECODER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
BERT = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
        "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
        "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
GPT2 = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
        "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
NEOX = {"embed_in": "token_embd", "final_layer_norm": "output_norm", "lm_head": "output", "embed_out": "output",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "attention.query_key_value": "attn_qkv",
        "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
MIXER = {"in_proj": "ssm_in", "conv1d": "ssm_conv1d", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "A_log": "ssm_a", "D": "ssm_d",
         "out_proj": "ssm_out", "norm": "ssm_norm", "dt_layernorm": "ssm_dt_norm", "b_layernorm": "ssm_b_norm",
         "c_layernorm": "ssm_c_norm"}
MAMBA = {"embeddings": "token_embd", "norm_f": "output_norm", "norm": "attn_norm",
         **{"mixer." + k: v for k, v in MIXER.items()}}
JAMBA = {**DECODER, "feed_forward.router": "ffn_gate_inp", **{"mamba." + k: v for k, v in MIXER.items()}}

FAMILIES = {"llama": ("llama", LLAMA), "qwen2": ("qwen2", LLAMA), "qwen3": ("qwen3", LLAMA), "phi3": ("phi3", LLAMA),
            "gemma2": ("gemma2", GEMMA), "gemma3_text": ("gemma3", GEMMA), "bert": ("bert", BERT), "gpt2": ("gpt2", GPT2),
            "gpt_neox": ("gptneox", NEOX), "mamba": ("mamba", MAMBA), "mamba2": ("mamba2", MAMBA), "jamba": ("jamba", JAMBA)}
PREFIXES = ("model.", "bert.", "transformer.", "gpt_neox.", "backbone.", "")
STACKS = ("layers.", "encoder.layer.", "h.")


def rename(name, table):
    """(GGUF name, layer, HF module) or None for what the converter drops."""
    for p in PREFIXES:
        if not name.startswith(p):
            continue
        rest, block = name[len(p):], ""
        for s in STACKS:
            if rest.startswith(s):
                number, _, rest = rest[len(s):].partition(".")
                block = f"blk.{number}."
        module, _, end = rest.rpartition(".")
        if end not in ("weight", "bias"):
            module, end = rest, ""
        if rest.endswith("dt_bias"):
            return block + "ssm_dt.bias", rest
        if module in table and (block or module.count(".") < 2):
            return block + table[module] + ("." + end if end else ""), rest
    return None


def change(arch, cfg, name, module, w):
    heads = cfg.get("num_attention_heads", cfg.get("n_head"))
    if arch == "llama" and ("q_proj" in module or "k_proj" in module):
        return permute(w, heads if "q_proj" in module else cfg["num_key_value_heads"])
    if arch.startswith("gemma") and "norm" in module:
        return w + 1
    if arch == "gpt2" and w.ndim == 2 and name.startswith("blk."):
        return w.T
    if arch == "gptneox" and "query_key_value" in module:
        cut = w.reshape(heads, 3, -1, *w.shape[1:])
        return np.concatenate([cut[:, i].reshape(-1, *w.shape[1:]) for i in range(3)])
    if "A_log" in module:
        return (-np.exp(w)) if arch != "mamba2" else -np.exp(w)[:, None]
    if arch == "mamba2" and module.endswith(".D"):
        return w[:, None]
    if arch == "mamba2" and module.endswith("mixer.norm.weight"):
        return w.reshape(cfg["n_groups"], -1)
    if "conv1d.weight" in module:
        return w[:, 0]
    return w


def metadata(writer, arch, cfg):
    get = lambda *keys: next((cfg[k] for k in keys if cfg.get(k) is not None), None)
    writer.add_block_count(get("num_hidden_layers", "n_layer"))
    writer.add_embedding_length(get("hidden_size", "n_embd"))
    writer.add_context_length(8)
    if arch in ("mamba", "mamba2"):
        inner = cfg.get("intermediate_size") if arch == "mamba" else cfg["num_heads"] * cfg["head_dim"]
        writer.add_ssm_inner_size(inner)
        writer.add_ssm_state_size(cfg["state_size"])
        writer.add_ssm_conv_kernel(cfg["conv_kernel"])
        writer.add_ssm_time_step_rank(cfg["time_step_rank"] if arch == "mamba" else cfg["num_heads"])
        if arch == "mamba2":
            writer.add_ssm_group_count(cfg["n_groups"])
        return
    writer.add_head_count(get("num_attention_heads", "n_head"))
    if arch == "jamba":
        writer.add_head_count_kv([cfg["num_key_value_heads"] if i % 2 else 0 for i in range(3)])
        writer.add_ssm_inner_size(cfg["mamba_expand"] * cfg["hidden_size"])
        writer.add_ssm_state_size(cfg["mamba_d_state"])
        writer.add_ssm_conv_kernel(cfg["mamba_d_conv"])
        writer.add_ssm_time_step_rank(cfg["mamba_dt_rank"])
        return
    if get("num_key_value_heads"):
        writer.add_head_count_kv(cfg["num_key_value_heads"])
    if get("head_dim"):
        writer.add_key_length(cfg["head_dim"])
        writer.add_value_length(cfg["head_dim"])
    if get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(cfg["attn_logit_softcapping"])
    if arch == "gptneox":
        writer.add_rope_dimension_count(2)


def main():
    for name, (arch, table) in FAMILIES.items():
        source, target = GOLDEN / "families" / name, GOLDEN / "families_gguf" / name
        cfg = json.loads((source / "config.json").read_text())
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        writer = gguf.GGUFWriter(target / "model.gguf", arch)
        metadata(writer, arch, cfg)
        dropped = []
        for key, w in sorted(load_file(source / "model.safetensors").items()):
            found = rename(key, table)
            if found is None:
                dropped.append(key)
                continue
            writer.add_tensor(found[0], np.ascontiguousarray(change(arch, cfg, found[0], found[1], w).astype(np.float32)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        shutil.copy(source / "expected.json", target / "expected.json")
        print(name, (target / "model.gguf").stat().st_size, "bytes; dropped:", dropped)


if __name__ == "__main__":
    main()
