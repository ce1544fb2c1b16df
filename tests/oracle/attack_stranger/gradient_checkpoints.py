"""Random small checkpoints for attack_gradients_stranger.py, in Hugging Face layouts. A module: it has no command line."""
import json
import math
import os

import torch
from safetensors.torch import save_file


def draw(rng, family, small=False):
    """A configuration and float32 weights by the program's names, (layer, name) -> tensor, of decoded float32 numbers."""
    g = torch.Generator().manual_seed(rng.randrange(2**31))
    kv, rep, c = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]), rng.choice([2, 4, 6])
    if family in ("gpt2", "bert", "albert"):
        rep = 1
        c = rng.choice([1, 2, 3, 5])
    if small:
        kv, rep, c = rng.choice([1, 2]), (rng.choice([1, 2]) if family == "jamba" else 1), rng.choice([2, 3])
        c = max(c, 4 // (kv * rep))
    h = kv * rep
    d = h * c if family in ("gpt2", "bert", "albert", "jamba") else rng.choice([3, 4, 5, 8])
    m = dict(family=family, h=h, kv=kv, c=c, d=d, layers=rng.choice([1, 2, 3]), vocab=rng.choice([5, 7, 19]),
             ff=rng.choice([3, 7, 10]), eps=rng.choice([1e-5, 1e-6, 1e-12]), tied=rng.random() < .6, scale=None)
    if family in ("gpt2", "jamba", "bert") and small:
        m["layers"] = rng.choice([2, 3, 4])
    s = rng.choice([.3, 1., 2.])
    w = {}

    def new(layer, name, *shape, mean=0., std=None):
        std = s / math.sqrt(shape[-1]) if std is None else std
        w[layer, name] = (mean + std * torch.randn(*shape, generator=g)).float().double()

    if family == "mamba2":
        m["groups"], m["state"], m["P"] = rng.choice([1, 2]), rng.choice([1, 2, 5]), rng.choice([1, 3])
        m["H"] = m["groups"] * rng.choice([1, 2])
        m["inner"] = m["H"] * m["P"]
        m["d"] = m["inner"] // 2 if m["inner"] % 2 == 0 and m["inner"] > 3 else m["inner"]
    if family == "gemma2":
        m["cap"], m["fcap"] = rng.choice([2., 50.]), rng.choice([1.5, 30.])
    d, v = m["d"], m["vocab"]
    e = rng.choice([2, 3, d]) if family == "albert" else d
    new(None, "embedding.tokens", v, e, std=1.)
    learned = family in ("gpt2", "bert", "albert")
    bias = learned or family == "qwen2"
    if learned:
        new(None, "embedding.positions", 12, e, std=.5)
    if family in ("bert", "albert"):
        new(None, "embedding.types", 2, e, std=.5)
        new(None, "embedding.norm.gain", e, mean=1., std=.3)
        new(None, "embedding.norm.bias", e, std=.3)
    if family == "albert":
        new(None, "embedding.projection.weight", d, e)
        new(None, "embedding.projection.bias", d, std=.2)

    def norm(layer, name):
        new(layer, name + ".gain", d, mean=0. if family == "gemma2" else 1., std=.3)
        if learned:
            new(layer, name + ".bias", d, std=.3)

    for l in range(1 if family == "albert" else m["layers"]):
        if family in ("mamba", "mamba2"):
            norm(l, "mixer.before")
            inner = m["inner"] = m.get("inner", 0) or rng.choice([2, 4]) * d
            n = m["state"] = m.setdefault("state", rng.choice([1, 2, 5]))
            k = m["conv"] = m.setdefault("conv", rng.choice([2, 4]))
            if family == "mamba":
                r = m["rank"] = m.setdefault("rank", rng.choice([1, 2]))
                new(l, "mixer.in.weight", 2 * inner, d)
                new(l, "mixer.x.weight", r + 2 * n, inner)
                new(l, "mixer.dt.weight", inner, r)
                new(l, "mixer.dt.bias", inner, std=1.)
                new(l, "mixer.A_log", inner, n, std=.5)
                new(l, "mixer.D", inner, mean=1., std=.5)
                width = inner
            else:
                groups, H, inner = m["groups"], m["H"], m["inner"]
                width = inner + 2 * groups * n
                new(l, "mixer.in.weight", inner + width + H, d)
                new(l, "mixer.dt_bias", H, std=1.)
                new(l, "mixer.A_log", H, std=.5)
                new(l, "mixer.D", H, mean=1., std=.5)
                new(l, "mixer.norm.gain", inner, mean=1., std=.3)
            new(l, "mixer.conv.weight", width, k)
            new(l, "mixer.conv.bias", width, std=.3)
            new(l, "mixer.out.weight", d, inner)
            continue
        post = family in ("bert", "albert")
        norm(l, "mixer.after" if post else "mixer.before")
        norm(l, "mlp.after" if post else "mlp.before")
        if family == "gemma2":
            norm(l, "mixer.inside")
            norm(l, "mlp.inside")
        for x, rows, cols in (("q", h * c, d), ("k", kv * c, d), ("v", kv * c, d), ("o", d, h * c)):
            new(l, f"mixer.{x}.weight", rows, cols)
            if bias and not (x == "o" and family == "qwen2"):
                new(l, f"mixer.{x}.bias", rows, std=.5)
        names = [("up", m["ff"], d), ("down", d, m["ff"])] + ([] if learned else [("gate", m["ff"], d)])
        for x, rows, cols in names:
            new(l, f"mlp.{x}.weight", rows, cols)
            if learned:
                new(l, f"mlp.{x}.bias", rows, std=.3)
    if family not in ("bert", "albert"):
        norm(None, "final")
        if not m["tied"]:
            new(None, "head.decoder.weight", v, d)
    return m, w


def write(path, m, w):
    """The checkpoint in its Hugging Face layout."""
    os.makedirs(path, exist_ok=True)
    f, out = m["family"], {}
    cfg = dict(model_type=f, vocab_size=m["vocab"], hidden_size=m["d"], num_hidden_layers=m["layers"], intermediate_size=m["ff"],
               num_attention_heads=m["h"], num_key_value_heads=m["kv"], head_dim=m["c"], max_position_embeddings=12,
               rms_norm_eps=m["eps"], layer_norm_eps=m["eps"], tie_word_embeddings=m["tied"], pad_token_id=0, dtype="float32")

    def put(name, t):
        out[name] = t.float().contiguous().clone()

    def ends(tokens, final=None):
        put(tokens, w[None, "embedding.tokens"])
        if final:
            put(final + ".weight", w[None, "final.gain"])
            if (None, "final.bias") in w:
                put(final + ".bias", w[None, "final.bias"])
            if not m["tied"]:
                put("lm_head.weight", w[None, "head.decoder.weight"])

    def plain(prefix, l, table):
        for theirs, ours in table:
            for a, b in ((".weight", ".weight"), (".bias", ".bias"), (".weight", ".gain")):
                if (l, ours + b) in w:
                    put(prefix + theirs + a, w[l, ours + b])

    if f == "gpt2":
        cfg = dict(model_type=f, vocab_size=m["vocab"], n_positions=12, n_embd=m["d"], n_layer=m["layers"], n_head=m["h"], n_inner=m["ff"],
                   layer_norm_epsilon=m["eps"], activation_function="gelu_new", tie_word_embeddings=m["tied"], architectures=["GPT2LMHeadModel"])
        ends("transformer.wte.weight", "transformer.ln_f")
        put("transformer.wpe.weight", w[None, "embedding.positions"])
        for l in range(m["layers"]):
            p = f"transformer.h.{l}."
            plain(p, l, (("ln_1", "mixer.before"), ("ln_2", "mlp.before")))
            for kind in ("weight", "bias"):
                put(p + "attn.c_attn." + kind, torch.cat([w[l, f"mixer.{x}.{kind}"] for x in "qkv"]).t())
                put(p + "attn.c_proj." + kind, w[l, "mixer.o." + kind].t())
                put(p + "mlp.c_fc." + kind, w[l, "mlp.up." + kind].t())
                put(p + "mlp.c_proj." + kind, w[l, "mlp.down." + kind].t())
    elif f in ("llama", "qwen2", "gemma2", "jamba"):
        cfg["architectures"] = [{"llama": "Llama", "qwen2": "Qwen2", "gemma2": "Gemma2", "jamba": "Jamba"}[f] + "ForCausalLM"]
        cfg["rope_parameters"] = {"rope_theta": 10000.0, "rope_type": "default"}
        cfg["hidden_act"] = "silu"
        if f == "gemma2":
            cfg.update(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=7, sliding_window=3, attn_logit_softcapping=m["cap"],
                       final_logit_softcapping=m["fcap"], layer_types=["sliding_attention" if l % 2 == 0 else "full_attention"
                                                                       for l in range(m["layers"])])
        if f == "jamba":
            cfg.update(attn_layer_period=1, attn_layer_offset=0, expert_layer_period=2, expert_layer_offset=1, num_experts=1,
                       num_experts_per_tok=1, mamba_d_state=2, mamba_d_conv=2, mamba_expand=2, mamba_dt_rank=1)
            del cfg["rope_parameters"], cfg["head_dim"]
        ends("model.embed_tokens.weight", "model.final_layernorm" if f == "jamba" else "model.norm")
        norms = {"gemma2": (("input_layernorm", "mixer.before"), ("post_attention_layernorm", "mixer.inside"),
                            ("pre_feedforward_layernorm", "mlp.before"), ("post_feedforward_layernorm", "mlp.inside")),
                 "jamba": (("input_layernorm", "mixer.before"), ("pre_ff_layernorm", "mlp.before"))}.get(
                     f, (("input_layernorm", "mixer.before"), ("post_attention_layernorm", "mlp.before")))
        ffn = "feed_forward." if f == "jamba" else "mlp."
        for l in range(m["layers"]):
            plain(f"model.layers.{l}.", l, norms + tuple((f"self_attn.{x}_proj", f"mixer.{x}") for x in "qkvo")
                  + tuple((f"{ffn}{x}_proj", f"mlp.{x}") for x in ("gate", "up", "down")))
    elif f in ("bert", "albert"):
        cfg.update(hidden_act="gelu" if f == "bert" else "gelu_new", type_vocab_size=2,
                   architectures=["BertModel" if f == "bert" else "AlbertModel"])
        ends("embeddings.word_embeddings.weight")
        put("embeddings.position_embeddings.weight", w[None, "embedding.positions"])
        put("embeddings.token_type_embeddings.weight", w[None, "embedding.types"])
        plain("", None, (("embeddings.LayerNorm", "embedding.norm"),))
        if f == "albert":
            cfg.update(embedding_size=w[None, "embedding.tokens"].shape[1], num_hidden_groups=1, inner_group_num=1)
            plain("", None, (("encoder.embedding_hidden_mapping_in", "embedding.projection"),))
            plain("encoder.albert_layer_groups.0.albert_layers.0.", 0, (
                ("full_layer_layer_norm", "mlp.after"), ("attention.query", "mixer.q"), ("attention.key", "mixer.k"),
                ("attention.value", "mixer.v"), ("attention.dense", "mixer.o"), ("attention.LayerNorm", "mixer.after"),
                ("ffn", "mlp.up"), ("ffn_output", "mlp.down")))
        else:
            for l in range(m["layers"]):
                plain(f"encoder.layer.{l}.", l, (
                    ("attention.self.query", "mixer.q"), ("attention.self.key", "mixer.k"), ("attention.self.value", "mixer.v"),
                    ("attention.output.dense", "mixer.o"), ("attention.output.LayerNorm", "mixer.after"),
                    ("intermediate.dense", "mlp.up"), ("output.dense", "mlp.down"), ("output.LayerNorm", "mlp.after")))
    else:
        cfg.update(layer_norm_epsilon=m["eps"], state_size=m["state"], conv_kernel=m["conv"], use_bias=False, use_conv_bias=True, hidden_act="silu",
                   architectures=["MambaForCausalLM" if f == "mamba" else "Mamba2ForCausalLM"], expand=m["inner"] // m["d"])
        del cfg["intermediate_size"], cfg["head_dim"]
        if f == "mamba":
            cfg.update(intermediate_size=m["inner"], time_step_rank=m["rank"])
        else:
            cfg.update(num_heads=m["H"], head_dim=m["P"], n_groups=m["groups"], time_step_limit=[0.0, 1e30])
        ends("backbone.embeddings.weight", "backbone.norm_f")
        for l in range(m["layers"]):
            p = f"backbone.layers.{l}."
            plain(p, l, (("norm", "mixer.before"), ("mixer.in_proj", "mixer.in"), ("mixer.x_proj", "mixer.x"), ("mixer.dt_proj", "mixer.dt"),
                         ("mixer.out_proj", "mixer.out"), ("mixer.norm", "mixer.norm")))
            put(p + "mixer.conv1d.weight", w[l, "mixer.conv.weight"][:, None, :])
            put(p + "mixer.conv1d.bias", w[l, "mixer.conv.bias"])
            for x in ("A_log", "D", "dt_bias"):
                if (l, "mixer." + x) in w:
                    put(p + "mixer." + x, w[l, "mixer." + x])
    with open(os.path.join(path, "config.json"), "w") as fp:
        json.dump(cfg, fp)
    save_file(out, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
