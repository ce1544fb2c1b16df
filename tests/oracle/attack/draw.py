"""Random instances: shapes and configurations of every family, weights and states of every size."""

import numpy as np

from .families import Instance

KINDS = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo2", "granite"]
FAMILIES = KINDS + ["bert", "albert", "gpt2", "gpt_neox", "falcon", "xlnet", "vit", "arch"]


def power(rng, low, high):
    return float(10.0 ** rng.uniform(low, high))


def law(rng, width):
    """Parameters of rotary positions, mild or wild, and what else the configuration says."""
    theta = float(rng.choice([1e4, 5e5, 1.0000001, 10.0, 1e12, power(rng, -3, 20)])) if rng.random() < 0.5 else 1e4
    kind = rng.choice(["default", "linear", "dynamic", "yarn", "llama3"])
    p = {"rope_type": str(kind), "rope_theta": theta}
    longest = int(rng.choice([2, 4, 64]))
    if kind == "linear":
        p["factor"] = float(rng.choice([2.0, 1e-9, 1e-12, power(rng, -14, 6)]))
    if kind == "dynamic":
        p["factor"] = float(rng.choice([2.0, 8.0, power(rng, 0, 9)]))
    if kind == "yarn":
        p["factor"] = float(rng.choice([4.0, 40.0, power(rng, 0, 9)]))
        p["original_max_position_embeddings"] = int(rng.choice([8, 2048]))
        p["rope_theta"] = max(theta, 1.1)
        if rng.random() < 0.7:
            p["attention_factor"] = float(rng.choice([1.0, 0.1, 1e3, 1e4, power(rng, -4, 6)]))
        if rng.random() < 0.3:
            p["beta_fast"], p["beta_slow"] = float(rng.choice([32, 4])), float(rng.choice([1, 0.5]))
    if kind == "llama3":
        p.update(factor=float(rng.choice([8.0, power(rng, -9, 6)])), low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=int(rng.choice([8, 8192])))
    return p, longest


def matrix(rng, rows, columns, size):
    """[rows, columns] of one of several kinds, of about this size."""
    kind = rng.choice(["gaussian", "identity", "rank one", "sparse", "orthogonal"], p=[0.5, 0.2, 0.1, 0.1, 0.1])
    w = rng.standard_normal((rows, columns))
    if kind == "identity":
        w = np.eye(rows, columns) * rng.choice([-1, 1]) + (0.01 * w if rng.random() < 0.5 else 0)
    if kind == "rank one":
        w = np.outer(w[:, 0], w[0])
    if kind == "sparse":
        w = w * (rng.random(w.shape) < 0.3)
    if kind == "orthogonal":
        w = np.linalg.qr(rng.standard_normal((max(rows, columns),) * 2))[0][:rows, :columns]
    return w * size


def gains(rng, d, plus):
    kind = rng.choice(["one", "drawn", "tiny", "spread"], p=[0.4, 0.3, 0.15, 0.15])
    g = {"one": np.ones(d), "drawn": 1 + 0.3 * rng.standard_normal(d), "tiny": power(rng, -7, -3) * rng.standard_normal(d),
         "spread": 10.0 ** rng.uniform(-3, 3, d)}[str(kind)]
    return g - 1 if plus else g


def states(rng, samples, n, d):
    """[samples * n, d]: every sample a common part and differences of another size, down to bits and to nothing."""
    size = 10.0 ** rng.uniform(-3, 6, (samples, 1, 1)) if rng.random() < 0.5 else 1.0
    apart = 10.0 ** rng.uniform(*rng.choice([(-17, 0), (-2, 1), (-16, -12)]), (samples, 1, 1))
    common = rng.standard_normal((samples, 1, d))
    x = size * (common + apart * rng.standard_normal((samples, n, d)))
    if rng.random() < 0.1:
        x[0] = x[0, :1]
    return x.reshape(samples * n, d)


def bias(rng, size, *shape):
    kind = rng.choice(["none", "like", "huge"], p=[0.4, 0.45, 0.15])
    return {"none": 0.0, "like": size, "huge": power(rng, 3, 14)}[str(kind)] * rng.standard_normal(shape)


class Drawer:
    """Draws tensors of one instance: a size for every role, so that layers are alike."""

    def __init__(self, rng):
        self.rng, self.tensors, self.sizes = rng, {}, {}
        self.spread = rng.choice([0.3, 1.0, 2.0])

    def weight(self, name, rows, columns):
        role = ".".join(x for x in name.split(".") if not x.isdigit())
        if role not in self.sizes:
            self.sizes[role] = 10.0 ** self.rng.normal(-0.3, self.spread)
            if ("q_proj" in role or "k_proj" in role or "query" in role or "key" in role) and self.rng.random() < 0.1:
                self.sizes[role] = power(self.rng, -16, -8)
        self.tensors[name] = matrix(self.rng, rows, columns, self.sizes[role])

    def linear(self, name, out, inner):
        self.weight(name + ".weight", out, inner)
        self.tensors[name + ".bias"] = bias(self.rng, 0.5, out)

    def norm(self, name, d, plus=False, shift=True):
        self.tensors[name + ".weight"] = gains(self.rng, d, plus)
        if shift:
            self.tensors[name + ".bias"] = self.rng.choice([0.0, 0.3, 1e3], p=[0.5, 0.4, 0.1]) * self.rng.standard_normal(d)


def epsilon(rng):
    return float(rng.choice([0.0, 1e-12, 1e-6, 1e-5, power(rng, -14, 0)]))


def draw_llama(rng, kind, shape):
    samples, n, depth = shape
    width = int(rng.choice([2, 4, 6]))
    kv = int(rng.choice([1, 2]))
    heads = kv * int(rng.choice([1, 2]))
    d, f = int(rng.choice([2, 3, 4, 6])), int(rng.choice([2, 4, 6]))
    p, longest = law(rng, width)
    if p["rope_type"] == "dynamic" and width == 2:
        p = {"rope_type": "default", "rope_theta": 1e4}
    config = {"model_type": kind, "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads, "num_key_value_heads": kv,
              "head_dim": width, "intermediate_size": f, "vocab_size": samples * n, "max_position_embeddings": longest,
              "rms_norm_eps": epsilon(rng), "hidden_act": "silu", "tie_word_embeddings": True, "rope_parameters": p}
    gemma = kind.startswith("gemma")
    if gemma:
        config.update(hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh")
    if kind in ("gemma2", "gemma3_text"):
        config.update(query_pre_attn_scalar=float(rng.choice([width, 1.0, 0.01, 256.0])), sliding_window=int(rng.choice([2, 4, 64])),
                      layer_types=[["sliding_attention", "full_attention"][i % 2] for i in range(depth)])
    if kind == "gemma2":
        config.update(attn_logit_softcapping=float(rng.choice([50.0, 1.0, 0.01])), final_logit_softcapping=None)
    if kind == "gemma3_text":
        config["rope_parameters"] = {"full_attention": p, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    if kind == "mistral":
        config["sliding_window"] = [None, 1, 2, 64][rng.integers(4)]
    if kind == "granite":
        config.update(attention_multiplier=float(rng.choice([0.25, 1.0, 10.0])), residual_multiplier=float(rng.choice([1.0, 0.22, 3.0])),
                      embedding_multiplier=1.0, logits_scaling=1.0)
    normed = kind in ("qwen3", "gemma3_text", "olmo2")
    biased = kind == "qwen2" or kind == "llama" and rng.random() < 0.5
    config["attention_bias"] = bool(biased and kind == "llama")
    draw = Drawer(rng)
    draw.tensors["model.embed_tokens.weight"] = states(rng, samples, n, d)
    draw.norm("model.norm", d, gemma, False)
    for i in range(depth):
        at = f"model.layers.{i}."
        for name, out, inner in (("q", heads * width, d), ("k", kv * width, d), ("v", kv * width, d), ("o", d, heads * width)):
            full = f"{at}self_attn.{name}_proj"
            draw.weight(full + ".weight", out, inner)
            if biased and (name != "o" or kind == "llama"):
                draw.tensors[full + ".bias"] = bias(rng, 0.5, out)
        if normed:
            whole = kind == "olmo2"
            draw.norm(at + "self_attn.q_norm", heads * width if whole else width, gemma, False)
            draw.norm(at + "self_attn.k_norm", kv * width if whole else width, gemma, False)
        for name in ("gate", "up"):
            draw.weight(f"{at}mlp.{name}_proj.weight", f, d)
        draw.weight(at + "mlp.down_proj.weight", d, f)
        norms = ["post_attention_layernorm"]
        norms += ["pre_feedforward_layernorm"] if kind in ("gemma2", "gemma3_text") else []
        norms += ["post_feedforward_layernorm"] if kind in ("gemma2", "gemma3_text", "olmo2") else []
        norms += ["input_layernorm"] if kind != "olmo2" else []
        for name in norms:
            draw.norm(at + name, d, gemma, False)
    return Instance("llama", config, draw.tensors, "F64", samples, n)


def head_shape(rng):
    heads, width = int(rng.choice([1, 2])), int(rng.choice([1, 2, 3]))
    return heads, width, heads * width if heads * width > 1 else 2, int(rng.choice([2, 4, 6]))


def draw_bert(rng, kind, shape):
    samples, n, depth = shape
    heads, width, d, f = head_shape(rng)
    draw, vocab = Drawer(rng), samples * n
    config = {"model_type": kind, "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads, "intermediate_size": f,
              "vocab_size": vocab, "max_position_embeddings": n, "type_vocab_size": 2, "layer_norm_eps": epsilon(rng),
              "hidden_act": str(rng.choice(["gelu", "relu", "gelu_new", "silu"]))}
    if kind == "albert":
        config.update(embedding_size=d, num_hidden_groups=1, inner_group_num=1)
    e = kind + ".embeddings."
    draw.tensors[e + "word_embeddings.weight"] = states(rng, samples, n, d)
    draw.tensors[e + "position_embeddings.weight"] = np.zeros((n, d))
    draw.tensors[e + "token_type_embeddings.weight"] = np.zeros((2, d))
    draw.norm(e + "LayerNorm", d)
    if rng.random() < 0.3:
        draw.tensors[e + "LayerNorm.bias"] = power(rng, -2, 10) * rng.standard_normal(d)
    if kind == "albert":
        draw.linear("albert.encoder.embedding_hidden_mapping_in", d, d)
        layers, parts = ["albert.encoder.albert_layer_groups.0.albert_layers.0."], ["query", "key", "value", "dense"]
        rest = ("attention.LayerNorm", "full_layer_layer_norm", "ffn", "ffn_output")
    else:
        layers = [f"bert.encoder.layer.{i}." for i in range(depth)]
        parts = ["self.query", "self.key", "self.value", "output.dense"]
        rest = ("attention.output.LayerNorm", "output.LayerNorm", "intermediate.dense", "output.dense")
    for at in layers:
        for name in parts:
            draw.linear(at + "attention." + name, d, d)
        draw.norm(at + rest[0], d)
        draw.norm(at + rest[1], d)
        draw.linear(at + rest[2], f, d)
        draw.linear(at + rest[3], d, f)
    return Instance(kind, config, draw.tensors, "F64", samples, n)


def draw_gpt2(rng, kind, shape):
    samples, n, depth = shape
    heads, width, d, f = head_shape(rng)
    draw = Drawer(rng)
    config = {"model_type": "gpt2", "n_embd": d, "n_layer": depth, "n_head": heads, "n_inner": f, "n_positions": n, "vocab_size": samples * n,
              "layer_norm_epsilon": epsilon(rng), "activation_function": str(rng.choice(["gelu_new", "relu"])), "tie_word_embeddings": True}
    draw.tensors["transformer.wte.weight"] = states(rng, samples, n, d)
    draw.tensors["transformer.wpe.weight"] = np.zeros((n, d))
    draw.norm("transformer.ln_f", d)
    for i in range(depth):
        at = f"transformer.h.{i}."
        parts = [matrix(rng, d, d, power(rng, -2, 1)) for _ in range(3)]
        draw.tensors[at + "attn.c_attn.weight"] = np.concatenate(parts, axis=1)
        draw.tensors[at + "attn.c_attn.bias"] = np.concatenate([bias(rng, 0.5, d) for _ in range(3)])
        for name, rows, columns in (("attn.c_proj", d, d), ("mlp.c_fc", d, f), ("mlp.c_proj", f, d)):
            draw.weight(at + name + ".weight", rows, columns)
            draw.tensors[at + name + ".bias"] = bias(rng, 0.5, columns)
        draw.norm(at + "ln_1", d)
        draw.norm(at + "ln_2", d)
    return Instance("gpt2", config, draw.tensors, "F64", samples, n)


def draw_gpt_neox(rng, kind, shape):
    samples, n, depth = shape
    heads, width, f = int(rng.choice([1, 2])), int(rng.choice([2, 4])), 4
    d, draw = heads * width, Drawer(rng)
    p, longest = law(rng, width)
    if p["rope_type"] == "dynamic":
        p = {"rope_type": "default", "rope_theta": 1e4}
    p["partial_rotary_factor"] = 1.0
    config = {"model_type": "gpt_neox", "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads, "intermediate_size": f,
              "vocab_size": samples * n, "max_position_embeddings": longest, "layer_norm_eps": epsilon(rng), "hidden_act": "gelu",
              "rope_parameters": p, "use_parallel_residual": bool(rng.random() < 0.7), "tie_word_embeddings": False, "attention_bias": True}
    draw.tensors["gpt_neox.embed_in.weight"] = states(rng, samples, n, d)
    draw.norm("gpt_neox.final_layer_norm", d)
    for i in range(depth):
        at = f"gpt_neox.layers.{i}."
        draw.linear(at + "attention.query_key_value", 3 * d, d)
        draw.linear(at + "attention.dense", d, d)
        draw.linear(at + "mlp.dense_h_to_4h", f, d)
        draw.linear(at + "mlp.dense_4h_to_h", d, f)
        draw.norm(at + "input_layernorm", d)
        draw.norm(at + "post_attention_layernorm", d)
    return Instance("gpt_neox", config, draw.tensors, "F64", samples, n)


def draw_falcon(rng, kind, shape):
    samples, n, depth = shape
    heads, width = int(rng.choice([1, 2, 3, 4])), 2
    d, draw = heads * width, Drawer(rng)
    config = {"model_type": "falcon", "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads, "ffn_hidden_size": 4,
              "vocab_size": samples * n, "max_position_embeddings": 64, "layer_norm_epsilon": epsilon(rng), "activation": "gelu", "bias": False,
              "alibi": False, "multi_query": True, "new_decoder_architecture": False, "parallel_attn": True,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "tie_word_embeddings": True}
    draw.tensors["transformer.word_embeddings.weight"] = states(rng, samples, n, d)
    draw.norm("transformer.ln_f", d)
    for i in range(depth):
        at = f"transformer.h.{i}."
        draw.weight(at + "self_attention.query_key_value.weight", d + 2 * width, d)
        draw.weight(at + "self_attention.dense.weight", d, d)
        draw.weight(at + "mlp.dense_h_to_4h.weight", 4, d)
        draw.weight(at + "mlp.dense_4h_to_h.weight", d, 4)
        draw.norm(at + "input_layernorm", d)
    return Instance("falcon", config, draw.tensors, "F64", samples, n)


def draw_xlnet(rng, kind, shape):
    samples, n, depth = shape
    heads, width, f = int(rng.choice([1, 2])), int(rng.choice([1, 2])), 4
    d, draw = heads * width, Drawer(rng)
    d = max(2, d)
    width = d // heads
    config = {"model_type": "xlnet", "d_model": d, "n_layer": depth, "n_head": heads, "d_head": width, "d_inner": f, "ff_activation": "gelu",
              "vocab_size": samples * n, "layer_norm_eps": epsilon(rng), "attn_type": "bi", "clamp_len": -1, "bi_data": False, "mem_len": None}
    draw.tensors["transformer.word_embedding.weight"] = states(rng, samples, n, d)
    draw.tensors["transformer.mask_emb"] = np.zeros((1, 1, d))
    for i in range(depth):
        at = f"transformer.layer.{i}."
        for name in "qkvor":
            draw.weight(f"{at}rel_attn.{name}", d, d)
            draw.tensors[f"{at}rel_attn.{name}"] = draw.tensors[f"{at}rel_attn.{name}"].reshape(d, heads, width)
        for name in ("r_w_bias", "r_r_bias", "r_s_bias"):
            draw.tensors[f"{at}rel_attn.{name}"] = bias(rng, 0.5, heads, width)
        draw.tensors[at + "rel_attn.seg_embed"] = np.zeros((2, heads, width))
        draw.norm(at + "rel_attn.layer_norm", d)
        draw.norm(at + "ff.layer_norm", d)
        draw.linear(at + "ff.layer_1", f, d)
        draw.linear(at + "ff.layer_2", d, f)
    return Instance("xlnet", config, draw.tensors, "F64", samples, n)


def draw_vit(rng, kind, shape):
    samples, n, depth = shape
    heads, width, d, f = head_shape(rng)
    draw, size = Drawer(rng), 2
    config = {"model_type": "vit", "hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": heads, "intermediate_size": f,
              "image_size": size, "patch_size": 1, "num_channels": 1, "qkv_bias": True, "layer_norm_eps": epsilon(rng), "hidden_act": "gelu",
              "_pixels": int(rng.integers(1 << 30)), "_spread": power(rng, *rng.choice([(-9, 0), (-1, 3)]))}
    draw.tensors["embeddings.cls_token"] = rng.standard_normal((1, 1, d))
    draw.tensors["embeddings.position_embeddings"] = rng.choice([0.0, 1e-6, 1.0]) * rng.standard_normal((1, 5, d))
    draw.tensors["embeddings.patch_embeddings.projection.weight"] = matrix(rng, d, 1, power(rng, -3, 3)).reshape(d, 1, 1, 1)
    draw.tensors["embeddings.patch_embeddings.projection.bias"] = rng.standard_normal(d)
    draw.norm("layernorm", d)
    for i in range(depth):
        at = f"encoder.layer.{i}."
        for name in ("attention.query", "attention.key", "attention.value", "output.dense"):
            draw.linear(at + "attention." + name, d, d)
        draw.linear(at + "intermediate.dense", f, d)
        draw.linear(at + "output.dense", d, f)
        draw.norm(at + "layernorm_before", d)
        draw.norm(at + "layernorm_after", d)
    return Instance("vit", config, draw.tensors, "F64", samples, n)


def draw_arch(rng, kind, shape):
    """Weights that a law gives without chance: identity, zero, one number everywhere."""
    samples, n, depth = shape
    kv = int(rng.choice([1, 2]))
    heads, width = kv * int(rng.choice([1, 2])), int(rng.choice([2, 4]))
    d = heads * width if rng.random() < 0.7 else int(rng.choice([3, 4, 6]))
    depth = int(rng.choice([1, 2, 6, 40, 200], p=[0.3, 0.3, 0.25, 0.1, 0.05]))
    n = int(rng.choice([n, 16, 40], p=[0.8, 0.15, 0.05])) if depth <= 6 else 2
    samples = samples if depth <= 6 and n < 16 else 2

    def one():
        return str(rng.choice(["identity", "zero", f"normal({float(np.round(rng.standard_normal() * power(rng, -1, 1), 3))},0)"], p=[0.6, 0.1, 0.3]))

    def strengths():
        value = lambda: float(rng.choice([0.0, 1.0, 0.5, -0.7, power(rng, -3, 1)]))
        return value() if rng.random() < 0.6 else [value() for _ in range(depth)]
    config = {"depth": depth, "d_model": d, "heads": heads, "kv_heads": kv, "d_head": width, "seq_len": n,
              "attention": str(rng.choice(["softmax", "softmax", "uniform", "centred", "shaped", "rescaled"])), "shaped": [0.5, 1.0, 0.25], "rescale": 0.5,
              "mask": str(rng.choice(["none", "causal", "sliding:2"])), "temperature": float(rng.choice([1.0, power(rng, -3, 2)])),
              "positions": str(rng.choice(["none", "rope", "alibi", "relative"])), "norm": str(rng.choice(["none", "pre", "post", "sandwich"])),
              "norm_kind": str(rng.choice(["layernorm", "rmsnorm"])), "skip_mixer": strengths(), "skip_mlp": strengths(), "branch_mixer": strengths(),
              "branch_mlp": strengths(), "mlp": str(rng.choice(["none", "none", "linear", "relu", "gelu_tanh", "gelu", "swiglu"])), "mlp_width": int(rng.choice([d, 2])),
              "init": {**{k: one() for k in ("wq", "wk", "wv", "wo", "w1", "wg", "w2")}, "relative": "normal(0.5,0)"},
              "input": {"rho": float(rng.choice([0.0, 0.9, 0.999999])), "norm2": str(rng.choice(["d", "1e-6", "1e8"]))}}
    inst = Instance("arch", config, {"seed": np.array([float(rng.integers(1 << 20))])}, "F64", samples, n)
    return inst


DRAWS = {"arch": draw_arch, **{k: draw_llama for k in KINDS}, "bert": draw_bert, "albert": draw_bert, "gpt2": draw_gpt2, "gpt_neox": draw_gpt_neox,
         "falcon": draw_falcon, "xlnet": draw_xlnet, "vit": draw_vit}


def edits(rng, n):
    """Options of the command line that change the model."""
    out = {}
    if rng.random() < 0.5:
        return out
    size = lambda: float(rng.choice([0.0, 0.5, 1.0, -0.7, 3.0, power(rng, -4, 3)]))
    for name, chance in (("no-norm", 0.2), ("no-mlp", 0.3), ("no-mask", 0.15)):
        if rng.random() < chance:
            out[name] = True
    if rng.random() < 0.5:
        out["lambda"] = size()
    if rng.random() < 0.2:
        out["residual-scale"] = size()
    if rng.random() < 0.2:
        out["temperature"] = power(rng, -2, 2)
    pick = rng.integers(10)
    if pick == 0:
        out["center-attention"] = True
    if pick == 1:
        out["uniform-attention"] = True
    if pick == 2:
        out["shaped"] = [float(v) for v in np.round(rng.standard_normal(3), 2)]
    if pick == 3:
        out["attention-rescale"] = float(np.round(rng.standard_normal(), 2))
    return out


more = 1  # times as many samples a run: a long search for rare columns spends its time on arithmetic, not on starting the program


def draw(rng, family, samples=12, n=None, depth=None):
    shape = (samples * more, n or int(rng.choice([2, 2, 3, 4, 5])), depth or int(rng.choice([1, 2, 3])))
    inst = DRAWS[family](rng, family, shape)
    if family == "vit":
        inst.n = 5
    inst.edits = edits(rng, inst.n) if family != "arch" else {}
    inst.dtype = str(rng.choice(["F64", "F64", "F32", "BF16", "F16"])) if family != "arch" else "F64"
    inst.kept = float(rng.choice([0.9, 0.9, 0.5, 0.99, 0.1]))
    return inst.settle()
