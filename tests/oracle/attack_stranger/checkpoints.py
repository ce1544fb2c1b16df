"""Checkpoints of families with state-space mixers, drawn wild, and the layers that they mean."""
import numpy as np

from .architectures import some


class Checkpoint:
    """Weights of one family, drawn wild."""

    def __init__(self, r, kind):
        self.r, self.g, self.kind = r, np.random.default_rng(r.randrange(1 << 40)), kind
        self.w, self.layers, self.vocab = {}, [], 11
        self.size, self.tight = r.choice((0.3, 1, 1, 5, 30)), some(r, 0.35)
        self.d = r.randint(1, 12)
        self.eps = r.choice((1e-5, 1e-6, 1e-2, 1.0, 1e-12))
        self.depth = r.randint(1, 3)
        getattr(self, kind)()
        scale = self.size_of(1, 100, 1e-3)
        self.tensor(self.embed, self.g.standard_normal((self.vocab, self.d)) * scale)
        self.tensor(self.last, np.ones(self.d))

    def size_of(self, *choices):
        return self.r.choice(choices)

    def tensor(self, name, x):
        self.w[name] = np.ascontiguousarray(x, dtype=np.float64)
        return self.w[name]

    def map(self, name, out, into, bias=False):
        x = self.g.standard_normal((out, into)) / np.sqrt(into) * self.r.choice((self.size, self.size, 1, 0.1, 20))
        if some(self.r, 0.2):
            x = x * (self.g.random((out, into)) < 0.4)
        if self.tight:  # every map positive, all rows alike: what chains bound step by step is reached all at once
            x = np.abs(x[:1] if "in_proj" in name else x[:1, :1]) * np.ones((out, into))
        self.tensor(name + ".weight", x)
        return x, self.vector(name + ".bias", out, (0.1, 1, 10)) if bias else None

    def vector(self, name, n, sizes):
        x = self.g.standard_normal(n) * self.r.choice(sizes)
        return self.tensor(name, np.abs(x[0]) * np.ones(n) if self.tight else x)

    def gains(self, name, n, less=0):
        x = self.g.standard_normal(n) * self.r.choice((1, 10)) if some(self.r, 0.6) else np.ones(n)
        if some(self.r, 0.3):
            x[self.g.integers(n)] *= 100
        if self.tight:
            x = np.abs(x)
        return self.tensor(name, x - less) + less

    def one_more(self, name):
        """A gain that is 1 + what the file stores, in long double."""
        return lambda: self.w[name].astype(np.longdouble) + 1

    def rates(self, name, shape):
        x = self.g.uniform(-2, 2, shape) if some(self.r, 0.5) else self.g.choice((-60, -40, -20, -3, 0, 2, 5), shape).astype(float)
        if self.tight:
            x = x.reshape(-1)[0] * np.ones(shape)
        return np.exp(self.tensor(name, x))

    def exact_rates(self, name):
        return lambda: np.exp(self.w[name].astype(np.longdouble))

    def kernel(self, name, channels, width, bias):
        x = self.g.standard_normal((channels, 1, width)) * self.r.choice((0.3, 1, 5))
        x = self.tensor(name + ".weight", np.abs(x[:1]) * np.ones(x.shape) if self.tight else x)[:, 0]
        return x, self.vector(name + ".bias", channels, (1,)) if bias else None

    def mamba_core(self, p, inner, n, rank, width, use_bias, conv_bias):
        d, m = self.d, {"gate": "before", "norm": False}
        m["in"], m["in_b"] = self.map(p + "in_proj", 2 * inner, d, use_bias)
        m["conv"], m["conv_b"] = self.kernel(p + "conv1d", inner, width, conv_bias)
        m["x"], _ = self.map(p + "x_proj", rank + 2 * n, inner)
        m["step"], m["step_b"] = self.map(p + "dt_proj", inner, rank, True)
        m["a"] = self.rates(p + "A_log", (inner, n))
        m["exact"], m["o_name"] = {"a": self.exact_rates(p + "A_log")}, p + "out_proj.weight"
        m["d"] = self.vector(p + "D", inner, (0, 1, 10))
        m["o"], m["o_b"] = self.map(p + "out_proj", d, inner, use_bias)
        return m

    def add(self, kind, m, g, **more):
        m = {name: x for name, x in m.items() if x is not None}
        self.layers.append({"kind": kind, "m": m, "norm_kind": "rmsnorm", "eps": self.eps, "g": g, "skip": 1.0, "branch": 1.0, "place": "pre",
                            "post_kind": "rmsnorm", **more})

    def state_space(self, kind):
        r, d = self.r, self.d
        expand = r.choice((1, 2))
        inner, n, rank, width = expand * d, r.choice((1, 2, 4)), r.randint(1, 3), r.randint(1, 4)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        self.config = dict(model_type=kind, vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, state_size=n, conv_kernel=width, expand=expand,
                           intermediate_size=inner, time_step_rank=rank, use_bias=use_bias, use_conv_bias=conv_bias, hidden_act="silu",
                           layer_norm_epsilon=self.eps, tie_word_embeddings=True, residual_in_fp32=True)
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        return inner, n, rank, width, use_bias, conv_bias

    def mamba(self):
        sizes = self.state_space("mamba")
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", self.d)
            self.add("mamba", self.mamba_core(p + "mixer.", *sizes), g)

    def falcon_mamba(self):
        sizes = self.state_space("falcon_mamba")
        self.config["mixer_rms_eps"] = eps = self.r.choice((1e-6, 1e-3, 1.0))
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", self.d)
            self.add("mamba", dict(self.mamba_core(p + "mixer.", *sizes), three_eps=eps), g)

    def mamba2(self):
        r, d = self.r, self.d
        groups = r.choice((1, 1, 2))
        heads = groups * r.choice((1, 2))
        dim, n, width = r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        inner = heads * dim
        limits = r.choice(((0.0, float("inf")), (0.05, 0.5), (1.0, float("inf")), (0.3, 0.3), (0.0, 0.1)))
        self.config = dict(model_type="mamba2", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_heads=heads, head_dim=dim,
                           state_size=n, n_groups=groups, expand=inner / d, conv_kernel=width, use_bias=use_bias, use_conv_bias=conv_bias, hidden_act="silu",
                           layer_norm_epsilon=self.eps, time_step_limit=list(limits), rms_norm=True, tie_word_embeddings=True)
        if inner % d == 0:
            self.config["expand"] = inner // d
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", d)
            self.add("mamba2", self.mamba2_core(p + "mixer.", heads, dim, n, groups, width, use_bias, use_bias, conv_bias, limits, True), g)

    def mamba2_core(self, p, heads, dim, n, groups, width, in_bias, out_bias, conv_bias, limits, norm):
        inner, m = heads * dim, {"gate": "before", "norm": norm, "norm_eps": self.eps, "groups": groups, "state": n, "limits": limits}
        m["in"], m["in_b"] = self.map(p + "in_proj", 2 * inner + 2 * groups * n + heads, self.d, in_bias)
        m["conv"], m["conv_b"] = self.kernel(p + "conv1d", inner + 2 * groups * n, width, conv_bias)
        m["a"] = self.rates(p + "A_log", (heads,))
        m["exact"], m["o_name"] = {"a": self.exact_rates(p + "A_log")}, p + "out_proj.weight"
        m["d"] = self.vector(p + "D", heads, (0, 1, 10))
        m["dt_bias"] = self.vector(p + "dt_bias", heads, (1, 10))
        m["norm_g"] = self.gains(p + "norm.weight", inner) if norm else None
        m["o"], m["o_b"] = self.map(p + "out_proj", self.d, inner, out_bias)
        return m

    def swiglu(self, p, width, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (self.map(p + name, *size)[0] for name, size in zip(names, ((width, self.d), (width, self.d), (self.d, width))))
        return {"form": "swiglu", "gate": gate, "up": up, "down": down}

    def jamba(self):
        r, d = self.r, self.d
        expand, n, rank, width, mlp = r.choice((1, 2)), r.choice((1, 2, 4)), r.randint(1, 3), r.randint(1, 4), r.randint(1, 5)
        use_bias, conv_bias = some(r, 0.5), some(r, 0.5)
        self.config = dict(model_type="jamba", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, mamba_d_state=n, mamba_d_conv=width,
                           mamba_expand=expand, mamba_dt_rank=rank, mamba_proj_bias=use_bias, mamba_conv_bias=conv_bias, hidden_act="silu", num_experts=1,
                           rms_norm_eps=self.eps, attn_layer_period=50, attn_layer_offset=49, num_attention_heads=1, num_key_value_heads=1,
                           intermediate_size=mlp, tie_word_embeddings=True)
        self.embed, self.last = "model.embed_tokens.weight", "model.final_layernorm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d)
            m = dict(self.mamba_core(p + "mamba.", expand * d, n, rank, width, use_bias, conv_bias), three_eps=self.eps,
                     dt_g=self.gains(p + "mamba.dt_layernorm.weight", rank), b_g=self.gains(p + "mamba.b_layernorm.weight", n),
                     c_g=self.gains(p + "mamba.c_layernorm.weight", n))
            self.add("mamba", m, g, mlp_g=self.gains(p + "pre_ff_layernorm.weight", d), mlp=self.swiglu(p + "feed_forward.", mlp))

    def falcon_h1(self):
        """Attention and scan beside each other on one skip."""
        r = self.r
        self.d = d = 2 * r.randint(1, 6)
        groups = r.choice((1, 1, 2))
        heads, dim, n, width, mlp = groups * r.choice((1, 2)), r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4), r.randint(1, 5)
        in_bias, conv_bias, norm, first = some(r, 0.5), some(r, 0.5), some(r, 0.6), some(r, 0.6)
        limits = r.choice(((0.0, float("inf")), (0.05, 0.5), (1.0, float("inf"))))
        self.config = dict(model_type="falcon_h1", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_attention_heads=1,
                           num_key_value_heads=1, head_dim=2, intermediate_size=mlp, mamba_d_ssm=heads * dim, mamba_n_heads=heads, mamba_d_head=dim,
                           mamba_n_groups=groups, mamba_d_state=n, mamba_d_conv=width, mamba_chunk_size=8, mamba_conv_bias=conv_bias,
                           mamba_proj_bias=in_bias, projectors_bias=in_bias, mamba_rms_norm=norm, mamba_norm_before_gate=first, rms_norm_eps=self.eps,
                           hidden_act="silu", time_step_limit=list(limits), tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
                           rope_theta=1e4, max_position_embeddings=64)
        of = (lambda: r.choice((1.0, 0.3, 1.7, -0.6))) if some(r, 0.5) else (lambda: 1.0)
        self.config.update(attention_out_multiplier=of(), key_multiplier=of(), ssm_in_multiplier=of(), ssm_out_multiplier=of(),
                           ssm_multipliers=[of() for _ in range(5)])
        self.embed, self.last = "model.embed_tokens.weight", "model.final_layernorm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d)
            beside = {"heads": 1, "kv_heads": 1, "turn": 2, "theta": 1e4, "times": self.config["attention_out_multiplier"],
                      "key_times": self.config["key_multiplier"], "o_name": p + "self_attn.o_proj.weight"}
            for name in "qkvo":
                beside[name], _ = self.map(p + f"self_attn.{name}_proj", *((d, 2) if name == "o" else (2, d)))
            m = self.mamba2_core(p + "mamba.", heads, dim, n, groups, width, in_bias, in_bias, conv_bias, limits, norm)
            m["gate"] = "after" if norm and first else "before"
            m = self.multiplied(m, heads, dim, groups, n)
            self.add("mamba2", m, g, also=[{"kind": "attention", "m": beside}], mlp_g=self.gains(p + "pre_ff_layernorm.weight", d),
                     mlp=self.swiglu(p + "feed_forward.", mlp))

    def multiplied(self, m, heads, dim, groups, n):
        """Falcon-H1's multipliers, folded into the maps."""
        c, inner = self.config, heads * dim
        parts = np.repeat(c["ssm_multipliers"], [inner, inner, groups * n, groups * n, heads])
        first = np.longdouble(c["ssm_in_multiplier"]) * parts.astype(np.longdouble)[:, None]
        for name, by in (("in", first), ("o", np.longdouble(c["ssm_out_multiplier"])), ("in_b", parts), ("o_b", np.longdouble(c["ssm_out_multiplier"]))):
            if m[name] is not None:
                raw = m[name]
                m["exact"][name] = lambda raw=raw, by=by: raw.astype(np.longdouble) * by
                m[name] = m["exact"][name]().astype(np.float64)
        return m

    def nemotron_h(self):
        r, d = self.r, self.d
        groups = r.choice((1, 1, 2))
        heads, dim, n, width = groups * r.choice((1, 2)), r.randint(1, 3), r.choice((1, 2, 4)), r.randint(1, 4)
        bias, conv_bias, low = some(r, 0.5), some(r, 0.5), r.choice((0.001, 0.3, 2.0))
        self.config = dict(model_type="nemotron_h", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, mamba_num_heads=heads,
                           mamba_head_dim=dim, ssm_state_size=n, n_groups=groups, conv_kernel=width, chunk_size=8, layer_norm_epsilon=self.eps,
                           use_bias=bias, use_conv_bias=conv_bias, time_step_min=low, layers_block_type=["linear_attention"] * self.depth,
                           num_attention_heads=1, num_key_value_heads=1, head_dim=2, intermediate_size=3, tie_word_embeddings=True,
                           time_step_limit=[0.0, {"__float__": "Infinity"}], mlp_hidden_act="relu2", mamba_hidden_act="silu")
        self.embed, self.last = "backbone.embeddings.weight", "backbone.norm_f.weight"
        for l in range(self.depth):
            p = f"backbone.layers.{l}."
            g = self.gains(p + "norm.weight", d)
            self.add("mamba2", self.mamba2_core(p + "mixer.", heads, dim, n, groups, width, bias, bias, conv_bias, (low, np.inf), True), g)

    def qwen3_5(self):
        r, d = self.r, self.d
        keys = r.choice((1, 2))
        heads, dim, vdim, width, mlp = keys * r.choice((1, 2)), r.choice((1, 2, 4)), r.randint(1, 4), r.randint(1, 4), r.randint(1, 5)
        inner = heads * vdim
        self.config = dict(model_type="qwen3_5_text", vocab_size=self.vocab, hidden_size=d, num_hidden_layers=self.depth, num_attention_heads=1,
                           num_key_value_heads=1, head_dim=2, intermediate_size=mlp, linear_conv_kernel_dim=width, linear_key_head_dim=dim,
                           linear_value_head_dim=vdim, linear_num_key_heads=keys, linear_num_value_heads=heads, rms_norm_eps=self.eps, hidden_act="silu",
                           layer_types=["linear_attention"] * self.depth, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=1.0), max_position_embeddings=64)
        self.embed, self.last = "model.embed_tokens.weight", "model.norm.weight"
        for l in range(self.depth):
            p = f"model.layers.{l}."
            g = self.gains(p + "input_layernorm.weight", d, less=1)
            q, m = p + "linear_attn.", {"gate": "after", "norm": True, "norm_eps": self.eps, "state": dim}
            m["qkv"], _ = self.map(q + "in_proj_qkv", 2 * keys * dim + inner, d)
            m["z"], _ = self.map(q + "in_proj_z", inner, d)
            m["wb"], _ = self.map(q + "in_proj_b", heads, d)
            m["wa"], _ = self.map(q + "in_proj_a", heads, d)
            m["conv"], _ = self.kernel(q + "conv1d", 2 * keys * dim + inner, width, False)
            m["a"] = self.rates(q + "A_log", (heads,))
            m["exact"], m["o_name"] = {"a": self.exact_rates(q + "A_log")}, q + "out_proj.weight"
            m["dt_bias"] = self.tensor(q + "dt_bias", self.g.standard_normal(heads))
            m["norm_g"] = np.tile(self.gains(q + "norm.weight", vdim), heads)
            m["o"], _ = self.map(q + "out_proj", d, inner)
            self.add("gated_delta", m, g, mlp_g=self.gains(p + "post_attention_layernorm.weight", d, less=1), mlp=self.swiglu(p + "mlp.", mlp),
                     exact={"g": self.one_more(p + "input_layernorm.weight"), "mlp_g": self.one_more(p + "post_attention_layernorm.weight")})

    def gpt_neox(self):
        """Attention, and beside it on the same skip (or behind it) an MLP that reads through a norm of its own."""
        r, heads = self.r, self.r.choice((1, 2))
        width, beside, mlp = r.choice((2, 4)), some(r, 0.7), r.randint(1, 6)
        self.d = d = heads * width
        self.config = dict(model_type="gpt_neox", hidden_size=d, num_hidden_layers=self.depth, num_attention_heads=heads, intermediate_size=mlp,
                           vocab_size=self.vocab, max_position_embeddings=64, layer_norm_eps=self.eps, hidden_act="gelu", attention_bias=True,
                           rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0), use_parallel_residual=beside,
                           tie_word_embeddings=False)
        self.embed, self.last = "gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm.weight"
        self.tensor("gpt_neox.final_layer_norm.bias", np.zeros(d))
        for l in range(self.depth):
            p = f"gpt_neox.layers.{l}."
            g, mlp_g = self.gains(p + "input_layernorm.weight", d), self.gains(p + "post_attention_layernorm.weight", d)
            b, mlp_b = self.vector(p + "input_layernorm.bias", d, (0.1, 10)), self.vector(p + "post_attention_layernorm.bias", d, (0.1, 10))
            w, bias = self.map(p + "attention.query_key_value", 3 * d, d, True)
            w, bias = w.reshape(heads, 3, width, d), bias.reshape(heads, 3, width)
            m = {"heads": heads, "kv_heads": heads, "turn": width, "theta": 1e4, "o_name": p + "attention.dense.weight"}
            for i, name in enumerate("qkv"):
                m[name], m[name + "_b"] = np.ascontiguousarray(w[:, i]).reshape(d, d), np.ascontiguousarray(bias[:, i]).reshape(d)
            m["o"], m["o_b"] = self.map(p + "attention.dense", d, d, True)
            parts = {"form": "gelu"}
            for name, part, size in (("up", "h_to_4h", (mlp, d)), ("down", "4h_to_h", (d, mlp))):
                parts[name], parts[name + "_b"] = self.map(p + "mlp.dense_" + part, *size, True)
            more = {"also": [{"kind": "mlp", "m": parts, "g": mlp_g, "b": mlp_b}]} if beside else {"mlp": parts, "mlp_g": mlp_g, "mlp_b": mlp_b}
            self.add("attention", m, g, b=b, **{**more, "norm_kind": "layernorm", "post_kind": "layernorm"})
