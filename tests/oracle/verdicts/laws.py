"""The laws of --init: what one token's mixer gives has a length that the law's variances foretell (docs/probe.md).

Norms are the identity and biases 0, so what enters a mixer has length √d whatever the state is, and a sample of one token
has P = 1: the mean square of the length of x W_V W_O is d · (H d_head) var_V · d var_O, exactly so for orthogonal square
matrices. Each matrix counts by its own sizes, also where a file stores several in one tensor.
"""
import json
import math

import numpy as np


PADDED = "llama", "gemma", "qwen2"  # no norm follows the embedding, so its padding row shows: it is 0


def configuration(rng):
    """A configuration and its mixer's sizes: width, heads, key/value heads, width of a head, layers."""
    kind, d_head, heads = rng.choice(["gpt2", "llama", "bert", "gemma", "qwen2", "arch"]), rng.choice([8, 16, 32]), rng.choice([2, 4, 6])
    width, layers, vocab = d_head * heads, rng.choice([4, 8, 12]), 50
    kv_heads = rng.choice([k for k in range(1, heads + 1) if heads % k == 0]) if kind in ("llama", "gemma", "qwen2", "arch") else heads
    if kind in ("llama", "gemma", "arch") and rng.random() < 0.3:
        d_head *= 2
    sigma = rng.choice([0.02, 0.02, 0.1])
    config = {"model_type": kind, "vocab_size": vocab, "initializer_range": sigma}
    if kind == "gpt2":
        config |= {"n_layer": layers, "n_head": heads, "n_embd": width, "n_positions": 32, "layer_norm_epsilon": 1e-12}
    elif kind == "arch":
        config = {"depth": layers, "d_model": width, "heads": heads, "kv_heads": kv_heads, "d_head": d_head, "seq_len": 1,
                  "norm": rng.choice(["pre", "post"]), "norm_kind": rng.choice(["layernorm", "rmsnorm"])}
    else:
        config |= {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width, "intermediate_size": 2 * width,
                   "max_position_embeddings": 32}
        config |= {"layer_norm_eps": 1e-12, "type_vocab_size": 2, "pad_token_id": 0, "hidden_act": "gelu"} if kind == "bert" else {
            "num_key_value_heads": kv_heads, "head_dim": d_head, "rms_norm_eps": 1e-12, "tie_word_embeddings": True,
            "hidden_act": "silu" if kind != "gemma" else "gelu_pytorch_tanh"}
    if kind == "qwen2":
        del config["head_dim"]
    if kind in PADDED and rng.random() < 0.5:
        config["pad_token_id"] = rng.choice([0, 1, 49])
    return kind, config, (width, heads, kv_heads, d_head, layers, sigma)


def variances(kind, law, sizes):
    width, heads, kv_heads, d_head, layers, sigma = sizes
    value, output = (width, kv_heads * d_head), (heads * d_head, width)
    if law == "default" and kind == "arch":
        return 1 / width, 1 / output[0]
    if law == "default":  # GPT-2's library draws what ends in the residual stream smaller
        return sigma**2, sigma**2 / (2 * layers if kind == "gpt2" else 1)
    if law == "xavier":
        return 2 / sum(value), 2 / sum(output)
    if law == "orthogonal":
        return 1 / max(value), 1 / max(output)
    formula = law[law.index(",") + 1:-1]
    return tuple(eval(formula.replace("^", "**"), {"fan_in": a, "fan_out": b, "d": width, "L": layers, "sqrt": math.sqrt})
                 for a, b in (value, output))


def draw(rng, folder):
    kind, config, sizes = configuration(rng)
    folder.joinpath("config.json" if kind != "arch" else "a.json").write_text(json.dumps(config))
    law = rng.choice(["default", "xavier", "orthogonal", "normal(0, 1/fan_in)", "normal(0, 2/(fan_in+fan_out))", "normal(0, 0)",
                      "normal(0, 1/(d*sqrt(L)))", "normal(0, 4/fan_out)", "normal(0, fan_in^2/d^3)"])
    more = rng.choice([[], ["--precision", "f64"]]) + (["--seq-len", "1"] if kind != "arch" else [])
    return ["probe", "config.json" if kind != "arch" else "a.json", "--init", law, "--random", "1", "--seed", str(rng.randrange(1000)),
            "--threads", "1"] + more, (kind, law, sizes)


def check(case, plan, run):
    kind, law, sizes = plan
    width, heads, kv_heads, d_head, layers, sigma = sizes
    case.check(case.result["model"]["weights"] == "random", "weights are not called random")
    tokens = case.result["tables"]["tokens"]
    lengths = [r["norm_fro"] for r in tokens if r["site"] == "mixer_out"]
    entered = [r["norm_fro"] for r in tokens if r["site"] == "block_out" and r["layer"] == 0][0]
    case.check(entered > 0, "--random drew the padding id, whose row is 0")
    if not entered:
        return
    of_value, of_output = variances(kind, law, sizes)
    square = width * heads * d_head * of_value * width * of_output
    case.check(len(lengths) == layers, f"{len(lengths)} rows mixer_out of {layers} layers")
    if square == 0:
        case.check(not any(lengths), f"weights of 0 give {max(lengths)}")
    elif law == "orthogonal" and kv_heads == heads and heads * d_head == width:
        case.check(all(abs(v / math.sqrt(square) - 1) < 1e-4 for v in lengths), f"orthogonal: {lengths}, not {math.sqrt(square)}")
    else:
        # the squares of both maps vary by 2/outputs each; grouped values count once
        deviation = math.sqrt((2 / (kv_heads * d_head) + 2 / width) / layers)
        ratio = np.mean(np.square(lengths)) / square
        case.check(abs(ratio - 1) < 7 * deviation, f"{law}: mean square of mixer_out is {ratio:.3f} of {square:.4g}, ± {deviation:.3f}")
    want = {"bert": math.sqrt(width), "arch": math.sqrt(width), "gpt2": math.sqrt(2 * width) * sigma,
            "llama": math.sqrt(width) * sigma, "qwen2": math.sqrt(width) * sigma, "gemma": width * sigma}[kind]
    slack = 1e-4 if kind in ("bert", "arch") else 5 / math.sqrt(2 * width)
    case.check(abs(entered / want - 1) < slack, f"{kind} under {law}: the embedding has length {entered}, by its library {want}")
