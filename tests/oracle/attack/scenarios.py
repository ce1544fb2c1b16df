"""Instances built for one weakness each: what a random draw meets too seldom."""

import numpy as np

from . import draw, files
from .draw import power
from .families import Instance


def key_bias(rng):
    """Tiny keys under a large key bias: the logits are rounding."""
    inst = draw.draw(rng, str(rng.choice(["bert", "albert", "gpt2", "vit", "qwen2"])), samples=12)
    inst.edits = {k: v for k, v in inst.edits.items() if k in ("no-norm", "lambda")}
    small, sharp = power(rng, -17, -12), power(rng, -2, 1.5)
    for name, w in inst.tensors.items():
        if name.endswith(("query.weight", "q_proj.weight")):
            inst.tensors[name] = w * (sharp / small / max(np.abs(w).max(), 1e-9))
        if name.endswith(("key.weight", "k_proj.weight")):
            inst.tensors[name] = w * (small / max(np.abs(w).max(), 1e-9))
        if name.endswith(("key.bias", "k_proj.bias")):
            inst.tensors[name] = power(rng, 6, 14) * rng.standard_normal(w.shape)
        if name.endswith("c_attn.bias"):
            d = w.size // 3
            inst.tensors[name] = np.concatenate([w[:d], power(rng, 6, 14) * rng.standard_normal(d), w[2 * d:]])
        if name.endswith("c_attn.weight"):
            d = w.shape[1] // 3
            inst.tensors[name] = np.concatenate([w[:, :d] * sharp / small, small * w[:, d:2 * d], w[:, 2 * d:]], axis=1)
    if inst.family in ("bert", "albert") and rng.random() < 0.7:
        d = inst.config["hidden_size"]
        for name, w in inst.tensors.items():
            if name.endswith("query.bias") or name.endswith("LayerNorm.bias"):
                inst.tensors[name] = np.zeros_like(w)
            if name.endswith("LayerNorm.weight"):
                inst.tensors[name] = np.ones_like(w)
            if name.endswith("word_embeddings.weight"):
                inst.tensors[name] = rng.standard_normal(w.shape)
            if name.endswith(("value.weight", "attention.output.dense.weight", "attention.dense.weight")):
                inst.tensors[name] = np.linalg.qr(rng.standard_normal((d, d)))[0]
        inst.edits = {"lambda": "mixer:" + repr(float(rng.choice([0.0, 1e-9, 1e-3, 0.1])))}
    inst.dtype = "F64"
    return inst.settle()


def near_floor(rng):
    """Post-norm, no or a weak skip, many tokens, which differ by a few units of rounding."""
    n = int(rng.choice([24, 36, 40, 64]))
    inst = draw.draw(rng, str(rng.choice(["bert", "bert", "albert", "xlnet"])), samples=3, n=n, depth=int(rng.choice([1, 2, 3])))
    d = inst.config.get("hidden_size") or inst.config["d_model"]
    inst.edits = {"lambda": float(rng.choice([0.0, 0.0, 1e-6, 1.0, 1e3])), **({"no-mlp": True} if rng.random() < 0.6 else {})}
    small = power(rng, -8, 0)
    for name, w in inst.tensors.items():
        if name.endswith("LayerNorm.weight") or name.endswith("layer_norm.weight"):
            inst.tensors[name] = small * (1 + 0.1 * rng.standard_normal(d))
        if name.endswith("LayerNorm.bias") or name.endswith("layer_norm.bias"):
            inst.tensors[name] = rng.standard_normal(d) * rng.choice([1.0, small, 0.0])
    for key in ("layer_norm_eps",):
        inst.config[key] = float(rng.choice([0.0, small**2, 1e-12]))
    low, high = -16, -12
    if rng.random() < 0.5:  # rows of one common number and a deviation of 1e-6, which the norm's gain takes up again
        small, inst.edits["lambda"], low, high = 1e-6, 1.0, -10, -7.5
        for name, w in inst.tensors.items():
            if name.endswith(("LayerNorm.weight", "layer_norm.weight")):
                inst.tensors[name] = small * (1 + 0.1 * rng.standard_normal(d))
            if name.endswith(("LayerNorm.bias", "layer_norm.bias")):
                inst.tensors[name] = np.full(d, float(rng.choice([1.0, 0.7, 3.0])))
            if name.endswith("output.dense.weight") and rng.random() < 0.5:
                inst.tensors[name] = w * 0
        inst.config["layer_norm_eps"] = float(rng.choice([0.0, 1e-14]))
    name = [k for k in inst.tensors if "word_embedding" in k][0]
    x = rng.standard_normal((3, 1, d)) + 10.0 ** rng.uniform(low, high, (3, 1, 1)) * rng.standard_normal((3, n, d))
    inst.tensors[name] = x.reshape(3 * n, d)
    inst.dtype = "F64"
    return inst.settle()


def wild_rope(rng):
    family = str(rng.choice(["llama", "mistral", "qwen2", "gemma", "gemma2", "granite", "gpt_neox"]))
    while True:
        n = int(rng.choice([2, 4, 8, 48]))
        inst = draw.draw(rng, family, samples=12 if n < 48 else 2, n=n)
        if inst.config["rope_parameters"].get("rope_type") in ("yarn", "linear", "dynamic", "llama3"):
            break
    if rng.random() < 0.7:
        inst.edits = {}
    p = inst.config["rope_parameters"]
    if p["rope_type"] == "yarn":
        p["attention_factor"] = float(rng.choice([1e3, 1e4, power(rng, 0, 6)]))
        size = p["attention_factor"]
        for name, w in inst.tensors.items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                inst.tensors[name] = w / max(np.abs(w).max(), 1e-9) / size * power(rng, -0.5, 1)
        inst.dtype = "F64"
    return inst.settle()


def two_tokens(rng):
    """QK-norm and two tokens whose attention merges them."""
    inst = draw.draw(rng, str(rng.choice(["qwen3", "gemma3_text", "olmo2"])), samples=6, n=2)
    inst.edits = {"no-mlp": True, "lambda": float(rng.choice([0.0, 1.0]))}
    return inst


def bare(rng):
    """No norms: what the published theorem and the recursion speak of."""
    inst = draw.draw(rng, str(rng.choice(["bert", "vit", "albert"])), samples=12)
    inst.edits = {"no-norm": True}
    if rng.random() < 0.7:
        inst.edits["no-mlp"] = True
    if rng.random() < 0.6:
        inst.edits["lambda"] = 0.0
    size = power(rng, -3, 0.3)
    for name, w in inst.tensors.items():
        if "query" in name or "key" in name:
            inst.tensors[name] = w * size
    return inst.settle()


def published(rng):
    """Attention alone under small logits: the hypotheses of the published theorem."""
    inst = draw.draw(rng, str(rng.choice(["bert", "vit", "albert"])), samples=12, depth=int(rng.choice([1, 2, 3, 4])))
    inst.edits = {"no-norm": True, "no-mlp": True, "lambda": 0.0}
    size = power(rng, -9, 0)
    for name, w in inst.tensors.items():
        if "query" in name or "key" in name:
            inst.tensors[name] = w * size
        if name.endswith(".bias") and rng.random() < 0.8:
            inst.tensors[name] = w * 0
    return inst.settle()


def deep(rng):
    """A stack run again and again, as a looped model is."""
    inst = draw.draw(rng, str(rng.choice(["llama", "bert", "gpt2", "vit", "gemma2", "xlnet"])), samples=2, n=2)
    inst.edits = {k: v for k, v in inst.edits.items() if k in ("no-norm", "no-mlp", "residual-scale", "lambda")}
    inst.edits["depth"] = int(rng.choice([20, 50, 200], p=[0.6, 0.3, 0.1]))
    if rng.random() < 0.5:
        inst.edits["residual-scale"] = inst.edits["depth"]**-float(rng.choice([0.5, 1.0]))
    return inst


def clean_post_norm(rng):
    """Gain 1, no bias, no epsilon: the hypotheses of theorems A and B."""
    inst = draw.draw(rng, str(rng.choice(["bert", "bert", "albert"])), samples=12)
    for name, w in inst.tensors.items():
        if "LayerNorm" in name or "layer_norm" in name:
            inst.tensors[name] = np.ones_like(w) if name.endswith("weight") else np.zeros_like(w)
    inst.config["layer_norm_eps"] = 0.0
    if rng.random() < 0.7:
        inst.edits = {"no-mlp": True, "lambda": power(rng, -1, 3)}
    return inst.settle()


def pre_norm(rng):
    """Norms before the branches and none behind the sum: what theorem D speaks of."""
    inst = draw.draw(rng, str(rng.choice(["llama", "gpt2", "vit", "mistral", "gpt_neox"])), samples=12)
    inst.edits = {"no-mlp": True, "lambda": power(rng, -1, 3)} if rng.random() < 0.7 else {}
    return inst.settle()


def tight_gelu(rng):
    """Post-norm blocks with GELU for the over-smoothing factor."""
    inst = draw.draw(rng, str(rng.choice(["bert", "albert"])), samples=12)
    inst.edits = {}
    return inst


def dynamic_rope(rng):
    """The dynamic law at and around the trained length, where its stretch is a difference of large numbers."""
    n = int(rng.choice([2, 4, 5, 8, 17]))
    while True:
        inst = draw.draw(rng, str(rng.choice(["llama", "gemma2", "qwen2", "mistral", "granite"])), samples=12 if n < 9 else 3, n=n)
        if inst.config["head_dim"] > 2:
            break
    inst.config["rope_parameters"] = {"rope_type": "dynamic", "rope_theta": float(rng.choice([1e4, 1.5, power(rng, 0.1, 12)])), "factor": power(rng, 0, 15)}
    inst.config["max_position_embeddings"] = max(1, n + int(rng.choice([0, 0, 0, -1, -2, 3])))
    size = power(rng, 0, 4)
    for name, w in inst.tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            inst.tensors[name] = w / max(np.abs(w).max(), 1e-9) * size
    inst.dtype = "F64"
    return inst.settle()


def quantised(rng):
    """A LLaMA in GGUF whose matrices are blocks of 32 quantised numbers."""
    samples, n, depth, d, width = 3, int(rng.choice([2, 3])), int(rng.choice([1, 2])), 32, 32
    config = {"model_type": "llama", "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": width,
              "intermediate_size": 32, "vocab_size": samples * n, "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": True,
              "rms_norm_eps": float(np.float32(draw.epsilon(rng))), "rope_parameters": {"rope_type": "default", "rope_theta": float(np.float32(rng.choice([1e4, 5e5, 2.0])))}}
    made = draw.Drawer(rng)
    made.tensors["model.embed_tokens.weight"] = draw.states(rng, samples, n, d)
    made.norm("model.norm", d, False, False)
    for i in range(depth):
        at = f"model.layers.{i}."
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
            made.weight(at + name + ".weight", d, d)
        for name in ("input_layernorm", "post_attention_layernorm"):
            made.norm(at + name, d, False, False)
    inst = Instance("llama", config, made.tensors, str(rng.choice(files.QUANTISED)), samples, n)
    inst.edits = draw.edits(rng, n)
    return inst.settle()


def underflow(rng):
    """Factors whose product is mild and whose partial products leave the doubles, or lose digits below 1e-308."""
    inst = draw.draw(rng, str(rng.choice(["llama", "gpt2", "vit", "granite", "bert", "qwen3"])), samples=8)
    if inst.family == "llama":
        inst.config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4} if inst.config["model_type"] != "gemma3_text" else inst.config["rope_parameters"]
    inst.dtype, kind = "F64", rng.integers(5)
    small = power(rng, -160, -145)
    pairs = [(("v_proj.weight", "value.weight"), ("o_proj.weight", "attention.output.dense.weight")), (("up_proj.weight", "c_fc.weight", "intermediate.dense.weight"), ("down_proj.weight", "mlp.c_proj.weight", "output.dense.weight")),
             (("q_proj.weight", "query.weight"), ("k_proj.weight", "key.weight"))]
    for name, w in inst.tensors.items():
        if kind < 3:
            first, second = pairs[kind]
            if name.endswith(first) or name.endswith(second):
                inst.tensors[name] = w * (small if name.endswith(first) or kind == 2 else 1 / small)
            if name.endswith(tuple(f.replace("weight", "bias") for f in first)):
                inst.tensors[name] = w * 0
        if kind == 3 and ("embed" in name or "wte" in name or "wpe" in name):
            inst.tensors[name] = w * power(rng, -175, -150)
        if kind == 3 and name.endswith(("v_proj.bias", "o_proj.bias", "value.bias", "dense.bias", "c_proj.bias", "projection.bias")):
            inst.tensors[name] = w * 0
    if kind == 3:
        for key in ("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"):
            if key in inst.config:
                inst.config[key] = float(rng.choice([0.0, 1e-320, 1e-310, 1e-300]))
    inst.edits = {}
    if kind == 2:
        inst.edits["temperature"] = small**2 if small**2 > 0 else 1e-310
    if kind == 3 and rng.random() < 0.4:
        inst.edits["no-norm"] = True
    if kind == 4:
        inst.edits = {"residual-scale": power(rng, -310, -280), "lambda": float(rng.choice([0.0, 1e-300, 1e-310]))}
    return inst.settle()


def tails(rng):
    """Activations far out, where what is left of 1 + erf or 1 + tanh is rounding, times large outer weights."""
    inst = draw.draw(rng, str(rng.choice(["gpt2", "vit", "bert", "gemma", "gemma2", "llama"])), samples=12)
    inst.edits = {k: v for k, v in inst.edits.items() if k in ("lambda", "no-norm")}
    far = -float(rng.uniform(3, 40))
    for name, w in inst.tensors.items():
        if name.endswith(("c_fc.weight", "intermediate.dense.weight", "gate_proj.weight")):
            inst.tensors[name] = w / max(np.abs(w).max(), 1e-9) * power(rng, -6, 1.5)
        if name.endswith(("c_fc.bias", "intermediate.dense.bias")):
            inst.tensors[name] = far + 0.3 * rng.standard_normal(w.shape)
        if name.endswith(("mlp.c_proj.weight", "down_proj.weight")) or "attention" not in name and name.endswith("output.dense.weight"):
            inst.tensors[name] = w * power(rng, 0, 12)
    inst.dtype = "F64"
    return inst.settle()


def offsets(rng):
    """Rows far from zero along one vector, which norms take away again, and common parts 1e6 to 1e14 times what differs."""
    inst = draw.draw(rng, str(rng.choice(draw.FAMILIES)), samples=12)
    if inst.family == "vit":
        inst.tensors["embeddings.patch_embeddings.projection.bias"] += power(rng, 0, 12)
    for name, w in inst.tensors.items():
        if name.endswith(("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "word_embedding.weight")):
            x = w.reshape(inst.samples, inst.n, -1)
            along = np.ones(w.shape[1]) if rng.random() < 0.6 else rng.standard_normal(w.shape[1])
            inst.tensors[name] = (x + 10.0 ** rng.uniform(0, 14, (inst.samples, 1, 1)) * along).reshape(w.shape)
        if name.endswith(("v_proj.bias", "value.bias", "o_proj.bias", "dense.bias")) and rng.random() < 0.3:
            inst.tensors[name] = power(rng, 4, 13) * rng.standard_normal(w.shape)
    inst.dtype = str(rng.choice(["F64", "F32"]))
    return inst.settle()


def windows(rng):
    """Sliding windows under the edits that mix uniformly, with states of very different sizes along the text."""
    n = int(rng.choice([8, 24]))
    inst = draw.draw(rng, str(rng.choice(["mistral", "gemma2", "gemma3_text"])), samples=4, n=n)
    inst.config["sliding_window"] = int(rng.choice([1, 2, 3, 7]))
    inst.edits = {k: v for k, v in inst.edits.items() if k in ("lambda", "no-norm", "no-mlp")}
    inst.edits.update([{"uniform-attention": True}, {"center-attention": True}, {"shaped": [0.5, 1.0, 1.0]}, {"attention-rescale": 2.5}, {}][rng.integers(5)])
    name = "model.embed_tokens.weight"
    x = inst.tensors[name].reshape(4, n, -1) * 10.0 ** rng.uniform(-8, 8, (4, n, 1))
    inst.tensors[name] = x.reshape(4 * n, -1)
    inst.dtype = "F64"
    return inst.settle()


def sharp(rng):
    """Logits of every size up to 1e14, capped or not, behind QK-norm or not."""
    inst = draw.draw(rng, str(rng.choice(["gemma2", "qwen3", "gemma3_text", "olmo2", "llama", "vit", "gpt2", "bert"])), samples=12)
    size = power(rng, 0, 7)
    for name, w in inst.tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "query.weight", "key.weight", "q_norm.weight", "k_norm.weight")):
            inst.tensors[name] = w * size
    if rng.random() < 0.5:
        for name, w in inst.tensors.items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                inst.tensors[name] = w * power(rng, -12, 0)
    inst.dtype = "F64"
    return inst.settle()


SCENARIOS = {f.__name__: f for f in (key_bias, near_floor, wild_rope, two_tokens, bare, published, deep, clean_post_norm, pre_norm, tight_gelu, dynamic_rope, quantised,
                                        underflow, tails, offsets, windows, sharp)}
