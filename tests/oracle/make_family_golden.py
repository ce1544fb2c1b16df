"""Writes tests/golden/families/NAME/{config.json,model.safetensors,expected.json}.

One tiny random model a family, saved by transformers itself; expected.json holds the singular values
(NumPy, float64) of every head product, whose factors are cut out of the *modules* the way the
module's own forward reshapes its projections. Each cut is verified by running the model: a spying
attention function receives the queries, keys and values that the forward pass really made at
position 0 (where rotary embeddings are the identity) and they must equal x W + b of our slices;
likewise the output projection, and Mamba's whole mixer on one token. Re-run with the versions of
requirements.txt:  python tests/oracle/make_family_golden.py
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers as T

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "golden" / "families"
seen = {}


def spy(module, query, key, value, attention_mask=None, **_):
    seen[id(module)] = (query, key, value)
    out = value[:, :, :1].repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    out = out.expand(-1, -1, query.shape[2], -1)  # all attend to the first key only
    return out.transpose(1, 2).contiguous(), None


T.AttentionInterface.register("spy", spy)


def short(x):
    return float(f"{x:.12g}")


def norm(factor):
    """Frobenius norm: tells the factors apart, which the product's singular values cannot."""
    return short(np.linalg.norm(factor))


POST_NORM = ("bert", "roberta", "distilbert", "albert", "xlnet")  # their norms belong to the block before
norms = []  # (input, output, module) of every norm that ran, first token


def watch_norms(model):
    norms.clear()
    for m in model.modules():
        if type(m).__name__.endswith(("Norm", "LayerNorm1P")):
            m.register_forward_hook(lambda m, a, out: norms.append((arr(a[0]).reshape(-1, a[0].shape[-1])[0],
                                                                    arr(out).reshape(-1, out.shape[-1])[0], m)))


def gain_before(x):
    """Kind and Frobenius norm of the effective gain (1 + w where that is what it multiplies by) of the norm
    whose output is x; both None when no norm stands before."""
    for before, after, m in norms:
        if after.shape == x.shape and np.allclose(after, x, atol=1e-6):
            bias = arr(m.bias) if getattr(m, "bias", None) is not None else 0
            if "RMS" in type(m).__name__:
                return "rmsnorm", short(np.linalg.norm(after / before * np.sqrt((before ** 2).mean() + eps(m))))
            return "layernorm", short(np.linalg.norm((after - bias) / (before - before.mean()) * np.sqrt(before.var() + eps(m))))
    return None, None


def eps(m):
    return getattr(m, "eps", getattr(m, "variance_epsilon", 1e-5))


def arr(t):
    return t.detach().double().numpy()


def linear(m):
    """[out, in] and bias of a Linear or a Conv1D."""
    w = arr(m.weight)
    if type(m).__name__ == "Conv1D":
        w = w.T
    return w, (arr(m.bias) if getattr(m, "bias", None) is not None else np.zeros(w.shape[0]))


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        if name.endswith("A_log"):
            continue
        with torch.no_grad():
            p.copy_(torch.randn(p.shape, generator=g) * 0.3 + (1.0 if p.dim() == 1 and "norm" in name.lower() else 0.0))


class Heads:
    """One attention: q, k, v as lists of (c×d matrix, bias), o as list of (d×c), found by `split`."""

    def __init__(self, module, q, k, v, o, heads, kv, fused=None, stack=None, attention="self", layer=0, normed=False):
        self.module, self.o_lin, self.heads, self.kv = module, o, heads, kv
        self.stack, self.attention, self.layer, self.normed = stack, attention, layer, normed
        self.lin = (q, k, v) if fused is None else (fused[0],) * 3
        if fused is None:
            self.q, self.k, self.v = (self.cut(*linear(m), n) for m, n in ((q, heads), (k, kv), (v, kv)))
        else:
            self.q, self.k, self.v = fused[1](*linear(fused[0]))
        ow, self.o_bias = linear(o)
        self.o = np.split(ow, heads, axis=1)

    @staticmethod
    def cut(w, b, n):
        return list(zip(np.split(w, n), np.split(b, n)))

    def products(self):
        share = self.heads // self.kv
        for h in range(self.heads):
            yield "qk", h, self.q[h][0].T, self.k[h // share][0].T
        for h in range(self.heads):
            yield "ov", h, self.v[h // share][0].T, self.o[h]

    def gains(self, kind):
        first, second = ("q", "k") if kind == "qk" else ("v", None)
        return gain_before(self.inputs[first]), gain_before(self.inputs[second]) if second else (None, None)

    def watch(self, calls):
        self.inputs = {}
        for name, m in zip("qkv", self.lin):
            m.register_forward_pre_hook(lambda m, a, name=name: self.inputs.__setitem__(name, arr(a[0])[0, 0]))
        self.o_lin.register_forward_hook(lambda m, a, out: self.inputs.__setitem__("o", arr(out)[0, 0]))

    def verify(self, label):
        if hasattr(self.module, "_split_heads"):  # Falcon: its own cut, with k and v repeated
            made = self.lin[0](torch.tensor(self.inputs["q"])[None, None].float())
            got = [arr(t)[0, 0] for t in self.module._split_heads(made)]
        else:
            got = [arr(t)[0, :, 0] for t in seen[id(self.module)]]
        if label == "whisper":  # its forward scales q at once
            got[0] = got[0] * self.module.head_dim ** 0.5
        want = [[w @ self.inputs[n] + b for w, b in part] for n, part in zip("qkv", (self.q, self.k, self.v))]
        for n, g, w in zip("qkv", got, want):
            if self.normed and n in "qk":
                continue  # QK-norm stands between; W itself was cut the same way as v's
            w = np.array(w)
            g = g[:: g.shape[0] // w.shape[0]] if g.shape != w.shape else g
            assert np.allclose(g, w, atol=2e-5), (label, n, np.abs(g - w).max())
        share = self.heads // self.kv
        out = self.o_bias + sum(self.o[h] @ want[2][h // share] for h in range(self.heads))
        assert np.allclose(out, self.inputs["o"], atol=5e-5), (label, "o")


def grouped(c, heads, kv):
    def f(w, b):
        share = heads // kv
        w, b = w.reshape(kv, share + 2, c, -1), b.reshape(kv, share + 2, c)
        q = [(w[g, j], b[g, j]) for g in range(kv) for j in range(share)]
        return q, [(w[g, -2], b[g, -2]) for g in range(kv)], [(w[g, -1], b[g, -1]) for g in range(kv)]
    return f


def rows(c, heads, kv):
    def f(w, b):
        at = [heads * c, (heads + kv) * c]
        return [Heads.cut(x, y, n) for x, y, n in zip(np.split(w, at), np.split(b, at), (heads, kv, kv))]
    return f


def interleaved(c, heads):
    def f(w, b):
        w, b = w.reshape(heads, 3, c, -1), b.reshape(heads, 3, c)
        return [[(w[h, i], b[h, i]) for h in range(heads)] for i in range(3)]
    return f


class Mamba:
    """S6: forward chunks in_proj in two (x first) and splits x_proj into dt, B, C."""
    stack = attention = None

    def __init__(self, m, layer, exact=True):
        self.m, self.layer, self.exact = m, layer, exact
        self.n, self.r = m.ssm_state_size, m.time_step_rank
        w = arr(m.in_proj.weight)
        self.x, self.z = np.split(w, 2)
        p = arr(m.x_proj.weight)
        self.dt, self.B, self.C = np.split(p, [self.r, self.r + self.n])
        self.out = arr(m.out_proj.weight)

    def products(self):
        yield "cb", 0, self.C.T, self.B.T
        yield "io", 0, self.x.T, self.out

    def gains(self, kind):
        before = gain_before(self.io["in"])
        both = kind == "cb" and isinstance(self, Mamba2)
        return before if kind == "io" or both else (None, None), before if both else (None, None)

    def watch(self, calls):
        self.io = {}
        self.m.in_proj.register_forward_pre_hook(lambda m, a: self.io.__setitem__("in", arr(a[0])[0, 0]))
        self.m.out_proj.register_forward_hook(lambda m, a, out: self.io.__setitem__("out", arr(out)[0, 0]))

    def verify(self, label):
        if not self.exact:
            return
        silu = lambda t: t / (1 + np.exp(-t))
        m, u = self.m, self.io["in"]
        x = silu(self.x @ u * arr(m.conv1d.weight)[:, 0, -1] + arr(m.conv1d.bias))
        dt, B, C = self.dt @ x, self.B @ x, self.C @ x
        if hasattr(m, "dt_layernorm"):
            rms = lambda t, l: t / np.sqrt((t * t).mean() + l.variance_epsilon) * arr(l.weight)
            dt, B, C = rms(dt, m.dt_layernorm), rms(B, m.b_layernorm), rms(C, m.c_layernorm)
        dt = np.log1p(np.exp(arr(m.dt_proj.weight) @ dt + arr(m.dt_proj.bias)))
        y = (C @ B) * dt * x + arr(m.D) * x
        assert np.allclose(self.out @ (y * silu(self.z @ u)), self.io["out"], atol=5e-4), label


class Mamba2(Mamba):
    """SSD: forward splits in_proj into gate, x|B|C, dt; B and C have one vector a group."""

    def __init__(self, m, layer, inner, heads, groups, state, exact=True):
        self.m, self.layer, self.heads, self.groups, self.exact = m, layer, heads, groups, exact
        w = arr(m.in_proj.weight)
        at = np.cumsum([inner, inner, groups * state, groups * state])
        self.z, x, B, C, self.dt = np.split(w, at)
        self.x, self.B, self.C = np.split(x, heads), np.split(B, groups), np.split(C, groups)
        self.out = arr(m.out_proj.weight)

    def products(self):
        for g in range(self.groups):
            yield "cb", g, self.C[g].T, self.B[g].T
        for h, o in enumerate(np.split(self.out, self.heads, axis=1)):
            yield "io", h, self.x[h].T, o

    def verify(self, label):
        if not self.exact:
            return
        silu = lambda t: t / (1 + np.exp(-t))
        m, u = self.m, self.io["in"]
        xbc = np.concatenate([*self.x, *self.B, *self.C]) @ u
        xbc = silu(xbc * arr(m.conv1d.weight)[:, 0, -1] + arr(m.conv1d.bias))
        n, di = self.B[0].shape[0], len(self.x) * self.x[0].shape[0]
        x = xbc[:di].reshape(self.heads, -1)
        B, C = xbc[di:].reshape(2, self.groups, n)
        dt = np.log1p(np.exp(self.dt @ u + arr(m.dt_bias)))
        group = np.arange(self.heads) // (self.heads // self.groups)
        y = x * (dt * (C[group] * B[group]).sum(1) + arr(m.D))[:, None]
        y = (y.reshape(-1) * silu(self.z @ u)).reshape(self.norm_groups(), -1)
        y = y / np.sqrt((y * y).mean(1, keepdims=True) + m.norm.variance_epsilon)
        want = self.out @ (y.reshape(-1) * arr(m.norm.weight))
        assert np.allclose(want, self.io["out"], atol=5e-4), (label, np.abs(want - self.io["out"]).max())

    def norm_groups(self):
        return self.groups if getattr(self.m.norm, "group_size", None) else 1


class XLNet:
    """q, k, v, r, o are [d_model, head, d_head]; forward contracts the first axis ("ibh,hnd->ibnd")."""
    stack = None

    def __init__(self, m, layer, positional):
        self.m, self.layer, self.positional = m, layer, positional
        self.attention = "positional" if positional else "self"

    def products(self):
        q, k, v, r, o = (arr(getattr(self.m, n)) for n in "qkvro")
        for h in range(q.shape[1]):
            yield "qk", h, q[:, h], (r if self.positional else k)[:, h]
        for h in range(q.shape[1]):
            if not self.positional:
                yield "ov", h, v[:, h], o[:, h]

    def watch(self, calls):
        core, self.got = self.m.rel_attn_core, {}

        def wrapped(q, k, v, kr, **kw):
            self.got.update(q=arr(q), k=arr(k), v=arr(v), kr=arr(kr))
            return core(q, k, v, kr, **kw)
        self.m.rel_attn_core = wrapped
        self.m.register_forward_pre_hook(
            lambda m, a, kw: self.got.update(h=arr((list(a) + [kw.get("h")])[0]), pos=arr(kw["r"] if "r" in kw else a[4])), with_kwargs=True)

    def verify(self, label):
        x = self.got["h"][0, 0]
        for n in "qkv":
            w = arr(getattr(self.m, n))
            want = np.stack([w[:, h].T @ x for h in range(w.shape[1])])
            assert np.allclose(self.got[n][0, 0], want, atol=2e-5), (label, n)
        r = arr(self.m.r)
        want = np.stack([r[:, h].T @ self.got["pos"][0, 0] for h in range(r.shape[1])])
        assert np.allclose(self.got["kr"][0, 0], want, atol=2e-5), (label, "r")


# ---- the families ----

D, L = 16, 2
BERT = dict(hidden_size=D, num_hidden_layers=L, num_attention_heads=4, intermediate_size=8, vocab_size=11, max_position_embeddings=8)
LLAMA = dict(hidden_size=D, num_hidden_layers=L, num_attention_heads=4, num_key_value_heads=2, intermediate_size=8,
             vocab_size=11, max_position_embeddings=8, pad_token_id=0, bos_token_id=1, eos_token_id=2)
VIT = dict(hidden_size=D, num_hidden_layers=L, num_attention_heads=2, intermediate_size=8, image_size=4, patch_size=2, num_channels=1)
SSD = dict(mamba_d_state=5, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2)


def bert_heads(layers, H):
    return [Heads(l.attention.self, l.attention.self.query, l.attention.self.key, l.attention.self.value,
                  l.attention.output.dense, H, H, layer=i) for i, l in enumerate(layers)]


def llama_heads(layers, H, G, normed=False, get=lambda l: getattr(l, "self_attn", None)):
    return [Heads(a, a.q_proj, a.k_proj, a.v_proj, a.o_proj, H, G, layer=i, normed=normed)
            for i, a in enumerate(map(get, layers)) if a is not None]


def decoder(cls, cfg, normed=False, find=lambda m: m.layers, heads=4, kv=2):
    return lambda: (cls(cfg), lambda m: llama_heads(find(m), heads, kv, normed))


def families():
    base = lambda m: m.model if hasattr(m, "model") else m
    yield "bert", lambda: (T.BertForMaskedLM(T.BertConfig(**BERT)), lambda m: bert_heads(m.bert.encoder.layer, 4))
    yield "roberta", lambda: (T.RobertaModel(T.RobertaConfig(**BERT)), lambda m: bert_heads(m.encoder.layer, 4))
    yield "distilbert", lambda: (
        T.DistilBertModel(T.DistilBertConfig(dim=D, n_layers=L, n_heads=4, hidden_dim=8, vocab_size=11, max_position_embeddings=8)),
        lambda m: [Heads(a, a.q_lin, a.k_lin, a.v_lin, a.out_lin, 4, 4, layer=i)
                   for i, a in enumerate(l.attention for l in m.transformer.layer)])
    yield "albert", lambda: (
        T.AlbertModel(T.AlbertConfig(**{**BERT, "num_hidden_layers": 6}, embedding_size=4, num_hidden_groups=2, inner_group_num=2)),
        lambda m: [Heads(l.attention, l.attention.query, l.attention.key, l.attention.value, l.attention.dense, 4, 4, layer=2 * g + i)
                   for g, group in enumerate(m.encoder.albert_layer_groups) for i, l in enumerate(group.albert_layers)])
    yield "xlnet", lambda: (
        T.XLNetModel(T.XLNetConfig(d_model=D, n_layer=L, n_head=2, d_inner=8, vocab_size=11)),
        lambda m: [XLNet(l.rel_attn, i, p) for i, l in enumerate(m.layer) for p in (False, True)])
    yield "gpt2", lambda: (
        T.GPT2LMHeadModel(T.GPT2Config(n_embd=D, n_layer=L, n_head=4, n_inner=8, n_positions=8, vocab_size=11, bos_token_id=1, eos_token_id=2)),
        lambda m: [Heads(a, 0, 0, 0, a.c_proj, 4, 4, (a.c_attn, rows(4, 4, 4)), layer=i) for i, a in enumerate(b.attn for b in m.transformer.h)])
    yield "gpt_neox", lambda: (
        T.GPTNeoXForCausalLM(T.GPTNeoXConfig(**BERT, rotary_pct=0.5)),
        lambda m: [Heads(a, 0, 0, 0, a.dense, 4, 4, (a.query_key_value, interleaved(4, 4)), layer=i)
                   for i, a in enumerate(l.attention for l in m.gpt_neox.layers)])
    for name, extra, order, kv in (("falcon_grouped", dict(new_decoder_architecture=True, num_kv_heads=2), grouped(4, 4, 2), 2),
                                   ("falcon_multi_query", dict(new_decoder_architecture=False, multi_query=True), rows(4, 4, 1), 1),
                                   ("falcon_old", dict(new_decoder_architecture=False, multi_query=False), interleaved(4, 4), 4)):
        def falcon(extra=extra, order=order, kv=kv):
            cfg = T.FalconConfig(hidden_size=D, num_hidden_layers=1, num_attention_heads=4, vocab_size=11, bias=True, ffn_hidden_size=8, **extra)
            return T.FalconModel(cfg), lambda m: [Heads(l.self_attention, 0, 0, 0, l.self_attention.dense, 4, kv,
                                                        (l.self_attention.query_key_value, order), layer=i) for i, l in enumerate(m.h)]
        yield name, falcon
    yield "llama", decoder(T.LlamaForCausalLM, T.LlamaConfig(**LLAMA), find=lambda m: m.model.layers)
    yield "mistral", decoder(T.MistralModel, T.MistralConfig(**{**LLAMA, "num_key_value_heads": 1}, head_dim=6), kv=1)
    yield "mixtral", decoder(T.MixtralModel, T.MixtralConfig(**LLAMA, num_local_experts=2))
    yield "qwen2", decoder(T.Qwen2Model, T.Qwen2Config(**LLAMA))
    yield "qwen3", decoder(T.Qwen3Model, T.Qwen3Config(**LLAMA, head_dim=6), True)
    yield "qwen3_moe", decoder(T.Qwen3MoeModel, T.Qwen3MoeConfig(**LLAMA, head_dim=6, num_experts=2, moe_intermediate_size=4, num_experts_per_tok=1), True)
    yield "granite", decoder(T.GraniteModel, T.GraniteConfig(**LLAMA, attention_multiplier=0.25))
    yield "gemma", decoder(T.GemmaModel, T.GemmaConfig(**LLAMA, head_dim=6))
    yield "gemma2", decoder(T.Gemma2Model, T.Gemma2Config(**LLAMA, head_dim=6, query_pre_attn_scalar=12))
    yield "gemma3_text", decoder(T.Gemma3ForCausalLM, T.Gemma3TextConfig(**LLAMA, head_dim=6), True, lambda m: m.model.layers)

    def gemma3():
        vision = dict(hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4, image_size=4, patch_size=2)
        m = T.Gemma3ForConditionalGeneration(T.Gemma3Config(text_config=dict(**LLAMA, head_dim=6), vision_config=vision, mm_tokens_per_image=4))
        return m, lambda m: llama_heads(m.model.language_model.layers, 4, 2, True)
    yield "gemma3", gemma3
    yield "phi3", lambda: (T.Phi3Model(T.Phi3Config(**LLAMA)),
                           lambda m: [Heads(a, 0, 0, 0, a.o_proj, 4, 2, (a.qkv_proj, rows(4, 4, 2)), layer=i)
                                      for i, a in enumerate(l.self_attn for l in m.layers)])
    yield "olmo", decoder(T.OlmoModel, T.OlmoConfig(**LLAMA))
    yield "olmo2", decoder(T.Olmo2Model, T.Olmo2Config(**LLAMA), True)
    vit_heads = lambda layers: llama_heads(layers, 2, 2, get=lambda l: l.attention)
    yield "vit", lambda: (T.ViTForImageClassification(T.ViTConfig(**VIT)), lambda m: vit_heads(m.vit.layers))
    yield "deit", lambda: (T.DeiTModel(T.DeiTConfig(**VIT)), lambda m: vit_heads(m.layers))

    def whisper():
        cfg = T.WhisperConfig(d_model=D, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
                              encoder_ffn_dim=8, decoder_ffn_dim=8, vocab_size=11, max_source_positions=4, max_target_positions=8,
                              pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, num_mel_bins=4,
                              suppress_tokens=None, begin_suppress_tokens=None)

        def heads(m):
            part = lambda a, H, **kw: Heads(a, a.q_proj, a.k_proj, a.v_proj, a.out_proj, H, H, **kw)
            for i, l in enumerate(m.model.encoder.layers):
                yield part(l.self_attn, 2, stack="encoder", layer=i)
            for i, l in enumerate(m.model.decoder.layers):
                yield part(l.self_attn, 4, stack="decoder", layer=i)
                yield part(l.encoder_attn, 4, stack="decoder", attention="cross", layer=i)
        return T.WhisperForConditionalGeneration(cfg), lambda m: list(heads(m))
    yield "whisper", whisper

    s6 = dict(hidden_size=8, num_hidden_layers=L, state_size=5, vocab_size=11, time_step_rank=3)
    yield "mamba", lambda: (T.MambaForCausalLM(T.MambaConfig(**s6)), lambda m: [Mamba(l.mixer, i) for i, l in enumerate(m.backbone.layers)])
    yield "falcon_mamba", lambda: (T.FalconMambaModel(T.FalconMambaConfig(**s6)),
                                   lambda m: [Mamba(l.mixer, i, False) for i, l in enumerate(m.layers)])
    yield "mamba2", lambda: (
        T.Mamba2Model(T.Mamba2Config(hidden_size=8, num_hidden_layers=L, state_size=5, vocab_size=11, num_heads=4, head_dim=4, n_groups=2)),
        lambda m: [Mamba2(l.mixer, i, 16, 4, 2, 5) for i, l in enumerate(m.layers)])
    three = {**LLAMA, "num_hidden_layers": 3}
    ssd = lambda l, i: Mamba2(l.mamba, i, 32, 4, 2, 5)
    mixed = lambda m: llama_heads(m.layers, 4, 2) + [ssd(l, i) for i, l in enumerate(m.layers) if hasattr(l, "mamba")]
    yield "jamba", lambda: (
        T.JambaModel(T.JambaConfig(**three, attn_layer_period=2, attn_layer_offset=1, num_experts=2, expert_layer_period=2,
                                   mamba_d_state=5, mamba_dt_rank=3, use_mamba_kernels=False)),
        lambda m: llama_heads(m.layers, 4, 2) + [Mamba(l.mamba, i) for i, l in enumerate(m.layers) if hasattr(l, "mamba")])
    yield "bamba", lambda: (T.BambaModel(T.BambaConfig(**three, attn_layer_indices=[1], **SSD)), mixed)
    yield "granitemoehybrid", lambda: (
        T.GraniteMoeHybridModel(T.GraniteMoeHybridConfig(**three, layer_types=["mamba", "attention", "mamba"], num_local_experts=2,
                                                         shared_intermediate_size=8, **SSD)),
        lambda m: llama_heads(m.layers, 4, 2, get=lambda l: getattr(l, "self_attn", None)) +
        [ssd(l, i) for i, l in enumerate(m.layers) if getattr(l, "mamba", None) is not None])
    yield "falcon_h1", lambda: (
        T.FalconH1Model(T.FalconH1Config(**LLAMA, mamba_d_ssm=32, **SSD)),
        lambda m: llama_heads(m.layers, 4, 2) + [Mamba2(l.mamba, i, 32, 4, 2, 5, False) for i, l in enumerate(m.layers)])
    yield "zamba2", lambda: (
        T.Zamba2Model(T.Zamba2Config(**{**three, "num_key_value_heads": 4}, mamba_d_state=5, n_mamba_heads=4, mamba_headdim=8, mamba_ngroups=2,
                                     layers_block_type=["mamba", "hybrid", "mamba"], hybrid_layer_ids=[1], num_mem_blocks=1,
                                     adapter_rank=2, use_mamba_kernels=False)),
        lambda m: [Heads(a, a.q_proj, a.k_proj, a.v_proj, a.o_proj, 4, 4, layer=1) for a in [m.layers[1].shared_transformer.self_attn]] +
        [Mamba2(l, i, 32, 4, 2, 5, False) for i, l in ((0, m.layers[0].mamba), (1, m.layers[1].mamba_decoder.mamba), (2, m.layers[2].mamba))])
    yield "nemotron_h", lambda: (
        T.NemotronHModel(T.NemotronHConfig(**three, head_dim=6, hybrid_override_pattern="M*-", ssm_state_size=5, mamba_num_heads=4,
                                           mamba_head_dim=8, n_groups=2, use_mamba_kernels=False)),
        lambda m: [Heads(a, a.q_proj, a.k_proj, a.v_proj, a.o_proj, 4, 2, layer=1) for a in [m.layers[1].mixer]] +
        [Mamba2(m.layers[0].mixer, 0, 32, 4, 2, 5, False)])


def run(model):
    cfg = model.config
    if cfg.model_type in ("vit", "deit"):
        return model(pixel_values=torch.randn(1, 1, 4, 4))
    if cfg.model_type == "whisper":
        return model(input_features=torch.randn(1, 4, 8), decoder_input_ids=torch.tensor([[3]]))
    return model(input_ids=torch.tensor([[3]]))


def main():
    T.logging.set_verbosity_error()
    total = 0
    for seed, (name, make) in enumerate(families()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(seed)
        model, cut = make()
        model.eval()
        randomise(model, seed)
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        for extra in folder.glob("generation_config.json"):
            extra.unlink()
        parts = cut(model)
        for p in parts:
            p.watch(None)
        if name not in ("xlnet", "falcon_grouped", "falcon_multi_query", "falcon_old") and not name.startswith(("mamba", "falcon_mamba")):
            model.set_attn_implementation("spy")
        seen.clear()
        watch_norms(model)
        with torch.no_grad():
            run(model)
        checked = 0
        for p in parts:
            p.verify(name)
            checked += 1
        products = [dict(stack=p.stack, attention=p.attention, kind=kind, layer=p.layer, head=h,
                         rows=a.shape[0], cols=b.shape[0], a=norm(a), b=norm(b),
                         gains=[(None, None)] * 2 if name in POST_NORM else p.gains(kind),
                         sv=[short(s) for s in np.linalg.svd(a @ b.T, compute_uv=False) if s > 1e-9])
                    for p in parts for kind, h, a, b in p.products()]
        (folder / "expected.json").write_text(json.dumps(dict(products=products)))
        size = sum(f.stat().st_size for f in folder.iterdir())
        total += size
        print(name, type(model).__name__, len(products), "products", checked, "of", len(parts), "verified", size, "bytes")
    print(total)


if __name__ == "__main__":
    main()
