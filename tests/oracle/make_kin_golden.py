"""Writes tests/golden/families/NAME for the families of src/recognise/families_kin.c and for CLIP and SigLIP.

Beside what make_family_golden.py writes, expected.json says for each product what the model's own
forward pass shows: `rope`, the pairs of units that turn together (a query of one unit goes in, the
units that come out are the pair) and how many turn; `scale`, by what scores are multiplied; `qk_norm`,
whether a query three times as long gives the same score; and `fold`, the singular values of the
product with the norm before it and the QK-norm's gains, both taken from what the modules put out. `planes` has
the strengths of the pairs that turn. guesses/NAME holds models that have no row.
Re-run with the versions of requirements.txt:  python tests/oracle/make_kin_golden.py [NAME ...]
"""

import json
import shutil
import sys

import numpy as np
import torch
import transformers as T

import make_family_golden as base
from make_family_golden import LLAMA, OUT, Heads, arr, norm, randomise, short

BIG = 100.0  # so that a norm's epsilon does not count
POSITIONS = 4
calls = {}


def spy(module, query, key, value, attention_mask=None, scaling=None, **_):
    calls.setdefault(id(module), (query.detach(), key.detach(), scaling))
    base.seen[id(module)] = (query, key, value)
    out = value[:, :, :1].repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    return out.expand(-1, -1, query.shape[2], -1).transpose(1, 2).contiguous(), None


T.AttentionInterface.register("spy", spy)


class Kin(Heads):
    """gate: half of each head's query rows belong to a gate. unlike: of q, k, v, o, those between which and
    the attention function something else stands, so that W x + b cannot be seen there. centred: QK-norm is a
    LayerNorm, whose gains are not folded."""

    def __init__(self, module, heads, kv, layer, gate=False, unlike="", ov=True, o=None, centred=False, **more):
        self.gate, self.unlike, self.ov, self.centred = gate, unlike, ov, centred
        super().__init__(module, module.q_proj, module.k_proj, module.v_proj, o or module.o_proj, heads, kv, layer=layer, **more)

    def halve(self):
        if self.gate:
            self.q = [(w[: len(w) // 2], b[: len(b) // 2]) for w, b in self.q]
        return self

    def products(self):
        return [p for p in super().products() if self.ov or p[0] == "qk"]

    def verify(self, label):
        share = self.heads // self.kv
        got = [arr(t)[0, :, 0] for t in base.seen[id(self.module)]]
        want = [np.array([w @ self.inputs[n] + b for w, b in part]) for n, part in zip("qkv", (self.q, self.k, self.v))]
        for n, g, w in zip("qkv", got, want):
            assert n in self.unlike or np.allclose(g, w, atol=2e-5), (label, n, np.abs(g - w).max())
        out = self.o_bias + sum(self.o[h] @ want[2][h // share] for h in range(self.heads))
        assert "o" in self.unlike or np.allclose(out, self.inputs["o"], atol=5e-5), (label, "o")

    def ask(self, run, name, made):
        """What the attention function gets for queries (name "q") or keys that were `made` so."""
        lin = self.module.q_proj if name == "q" else self.module.k_proj
        handle = lin.register_forward_hook(lambda m, a, out: made(out))
        calls.clear()
        with torch.no_grad():
            run()
        handle.remove()
        return arr(calls[id(self.module)][name == "k"])[0]  # [heads, position, unit]

    def facts(self, run):
        c, stride = len(self.q[0][0]), len(arr(self.module.q_proj.weight)) // self.heads

        def unit(j, step):
            return lambda out: torch.zeros_like(out).index_fill_(-1, torch.arange(j, out.shape[-1], step), BIG)

        partner = []
        self.gain_q, self.gain_k = np.ones((self.heads, c)), np.ones((self.kv, c))
        long = self.ask(run, "q", lambda out: 3e4 * out[:, :1].expand_as(out))
        plain = self.ask(run, "q", lambda out: 1e4 * out[:, :1].expand_as(out))
        self.scale = float(calls[id(self.module)][2])
        self.normed_qk = bool(np.allclose(long, plain, rtol=1e-3, atol=1e-4))
        if self.centred:  # a LayerNorm inside the head spreads one unit over all: lengths of pairs tell
            return self.pairs_of(plain)
        for j in range(c):
            out = self.ask(run, "q", unit(j, stride))
            moved = [int(u) for u in np.flatnonzero(np.abs(out).max(axis=(0, 1)) > 1e-9) if u != j]
            assert len(moved) <= 1
            partner.append(moved[0] if moved else None)
            if self.normed_qk:
                self.gain_q[:, j] = out[:, 0, j] / np.sqrt(c)
                self.gain_k[:, j] = self.ask(run, "k", unit(j, c))[:, 0, j] / np.sqrt(c)
        dims = sum(p is not None for p in partner)
        self.rope = None
        if dims:
            half = [j + dims // 2 if j < dims // 2 else j - dims // 2 for j in range(dims)]
            near = [j ^ 1 for j in range(dims)]
            assert partner[:dims] in (half, near) and not any(partner[dims:]), partner
            # two units turn the same way in both forms: the module's own function tells
            self.rope = [["half-split", "interleaved"][partner[:dims] == near and dims > 2], dims]

    def pairs_of(self, out):
        """out: the same query at each position."""
        turning = np.abs(out - out[:, :1]).max(axis=(0, 1)) > 1e-5
        dims = int(turning.sum())
        assert turning[:dims].all()
        kinds = []
        for kind, pairs in (("half-split", [(j, j + dims // 2) for j in range(dims // 2)]), ("interleaved", [(2 * j, 2 * j + 1) for j in range(dims // 2)])):
            lengths = np.array([np.hypot(out[..., i], out[..., j]) for i, j in pairs])
            if np.allclose(lengths, lengths[..., :1], rtol=1e-4):
                kinds.append(kind)
        self.rope = [kinds[0], dims] if dims else None

    def planes(self):
        """For each key head the strengths of the pairs that turn together, queries summed over its group."""
        if not self.rope:
            return []
        kind, dims = self.rope
        pairs = [(j, j + dims // 2) if kind == "half-split" else (2 * j, 2 * j + 1) for j in range(dims // 2)]
        share = self.heads // self.kv
        rows = []
        for g in range(self.kv):
            q = np.sum([(w ** 2).sum(axis=1) for w, _ in self.q[g * share:(g + 1) * share]], axis=0)
            k = (self.k[g][0] ** 2).sum(axis=1)
            sigma = [short(np.sqrt((q[a] + q[b]) * (k[a] + k[b]))) for a, b in pairs]
            rows.append(dict(stack=self.stack, layer=self.layer, head=g, pairing=kind, plane_norms=sigma))
        return rows

    def folded(self, kind, h, a, b):
        def through(m, name):
            x = self.inputs[name]
            for before, after, module in base.norms:
                if after.shape != x.shape or not np.allclose(after, x, atol=1e-6):
                    continue
                bias = arr(module.bias) if getattr(module, "bias", None) is not None else 0
                centred = "RMS" not in type(module).__name__
                rest = before - before.mean() if centred else before
                gain = (after - bias) / rest * np.sqrt((rest ** 2).mean() + base.eps(module))
                m = m * gain[:, None]
                return m - m.mean(axis=0) if centred else m
            return m
        if kind == "ov":
            return through(a, "v") @ b.T
        g = h // (self.heads // self.kv)
        return (through(a, "q") * self.gain_q[h]) @ (through(b, "k") * self.gain_k[g]).T


def decoder(cls, cfg, find=lambda m: m.layers, heads=4, kv=2, **kw):
    """kw may be functions of the layer's module."""
    def cut(m):
        for i, l in enumerate(find(m)):
            a = getattr(l, "self_attn", None)
            if a is None or not hasattr(a, "k_proj"):
                continue
            given = {k: v(a) if callable(v) else v for k, v in kw.items()}
            n = kv(a) if callable(kv) else kv
            yield Kin(a, heads, n, i, **given).halve()
    return lambda: (cls(cfg), lambda m: list(cut(m)))


def sized(layers=1, **more):
    return {**LLAMA, "num_hidden_layers": layers, **more}


def families():
    four = sized(4)
    yield "cohere", decoder(T.CohereModel, T.CohereConfig(**sized()))
    yield "cohere_qk_norm", decoder(T.CohereModel, T.CohereConfig(**sized(use_qk_norm=True)), unlike="qk", centred=True)
    yield "cohere2", decoder(T.Cohere2Model, T.Cohere2Config(**sized(3), layer_types=["sliding_attention", "full_attention", "sliding_attention"]))
    yield "glm", decoder(T.GlmModel, T.GlmConfig(**sized(head_dim=8)))
    yield "glm4", decoder(T.Glm4Model, T.Glm4Config(**sized(head_dim=8)))
    yield "glm4_moe", decoder(T.Glm4MoeModel, T.Glm4MoeConfig(**sized(head_dim=8), n_routed_experts=2, moe_intermediate_size=4, num_experts_per_tok=1,
                                                              n_group=1, topk_group=1, use_qk_norm=True), unlike="qk")
    yield "ernie4_5", decoder(T.Ernie4_5Model, T.Ernie4_5Config(**sized(head_dim=6)))
    yield "ernie4_5_moe", decoder(T.Ernie4_5_MoeModel, T.Ernie4_5_MoeConfig(**sized(2), moe_num_experts=2, moe_k=1, moe_intermediate_size=4))
    yield "helium", decoder(T.HeliumModel, T.HeliumConfig(**sized(head_dim=4)))
    moe = dict(num_local_experts=2, num_experts_per_tok=1, intermediate_size_mlp=8)
    yield "llama4_text", decoder(T.Llama4TextModel, T.Llama4TextConfig(**four, head_dim=6, attn_temperature_tuning=False, **moe),
                                 unlike=lambda a: "qk" if hasattr(a, "qk_norm") else "")
    yield "llama4_plain_qk", decoder(T.Llama4TextModel, T.Llama4TextConfig(**sized(head_dim=6), use_qk_norm=False, **moe))
    yield "smollm3", decoder(T.SmolLM3Model, T.SmolLM3Config(**four))
    yield "exaone4", decoder(T.Exaone4Model, T.Exaone4Config(**four), unlike="qk")
    yield "exaone4_no_window", decoder(T.Exaone4Model, T.Exaone4Config(**sized(2), sliding_window=None, layer_types=["full_attention"] * 2), unlike="qk")
    yield "exaone_moe", decoder(T.ExaoneMoeModel, T.ExaoneMoeConfig(**sized(2), layer_types=["full_attention", "sliding_attention"], num_experts=2,
                                                                    moe_intermediate_size=4, num_experts_per_tok=1), unlike="qk")
    yield "nemotron", decoder(T.NemotronModel, T.NemotronConfig(**sized(head_dim=8)))
    yield "vaultgemma", decoder(T.VaultGemmaModel, T.VaultGemmaConfig(**sized(head_dim=6, query_pre_attn_scalar=12)))
    yield "starcoder2", decoder(T.Starcoder2Model, T.Starcoder2Config(**sized()))
    yield "phi", decoder(T.PhiModel, T.PhiConfig(**sized(hidden_size=32)), o=lambda a: a.dense)
    yield "phi_qk_norm", decoder(T.PhiModel, T.PhiConfig(**sized(hidden_size=32), qk_layernorm=True), o=lambda a: a.dense, unlike="qk", centred=True)
    yield "stablelm", decoder(T.StableLmModel, T.StableLmConfig(**sized(hidden_size=32)))
    yield "stablelm_qk_norm", decoder(T.StableLmModel, T.StableLmConfig(**sized(hidden_size=32), qk_layernorm=True), unlike="qk", centred=True)
    yield "hunyuan_v1_dense", decoder(T.HunYuanDenseV1Model, T.HunYuanDenseV1Config(**sized(head_dim=6)), unlike="qk")
    yield "hunyuan_v1_moe", decoder(T.HunYuanMoEV1Model, T.HunYuanMoEV1Config(**sized(head_dim=6), num_experts=2, moe_topk=1), unlike="qk")
    yield "nanochat", decoder(T.NanoChatModel, T.NanoChatConfig(**sized(2)), unlike="qk")
    experts = dict(num_experts=2, num_experts_per_tok=1)
    yield "olmoe", decoder(T.OlmoeModel, T.OlmoeConfig(**sized(), **experts), unlike="qk")
    yield "flex_olmo", decoder(T.FlexOlmoModel, T.FlexOlmoConfig(**sized(), **experts), unlike="qk")
    yield "minimax_m2", decoder(T.MiniMaxM2Model, T.MiniMaxM2Config(**sized(head_dim=8, rotary_dim=4), num_local_experts=2, num_experts_per_tok=1), unlike="qk")
    yield "apertus", decoder(T.ApertusModel, T.ApertusConfig(**sized()), unlike="qk")
    linear_attention = dict(linear_key_head_dim=4, linear_value_head_dim=4, linear_num_key_heads=1, linear_num_value_heads=2, linear_conv_kernel_dim=2)
    yield "qwen3_next", decoder(T.Qwen3NextModel, T.Qwen3NextConfig(**sized(2), head_dim=8, layer_types=["linear_attention", "full_attention"], **linear_attention,
                                                                    **experts, moe_intermediate_size=4, shared_expert_intermediate_size=4, partial_rotary_factor=0.5),
                                gate=True, unlike="qko")
    yield "gemma3n_text", decoder(T.Gemma3nTextModel, T.Gemma3nTextConfig(**sized(4), head_dim=6, num_kv_shared_layers=2, sliding_window=8, laurel_rank=2,
                                                                          layer_types=["sliding_attention", "full_attention"] * 2, vocab_size_per_layer_input=11,
                                                                          hidden_size_per_layer_input=4, activation_sparsity_pattern=[0.0] * 4), unlike="qkvo")
    yield "diffllama", decoder(T.DiffLlamaModel, T.DiffLlamaConfig(**sized()), unlike="vo", ov=False)
    yield "mimo_v2_flash", decoder(T.MiMoV2FlashModel, T.MiMoV2FlashConfig(**sized(2), head_dim=12, v_head_dim=6, n_routed_experts=2, moe_intermediate_size=4,
                                                                           num_experts_per_tok=1, layer_types=["full_attention", "sliding_attention"]),
                                   kv=lambda a: 4 if a.sinks is not None else 2, unlike="vo")
    yield "ministral3", decoder(T.Ministral3Model, T.Ministral3Config(**sized(head_dim=6)))
    yield "seed_oss", decoder(T.SeedOssModel, T.SeedOssConfig(**sized(head_dim=6)))
    yield "arcee", decoder(T.ArceeModel, T.ArceeConfig(**sized()))
    yield "gpt_oss", decoder(T.GptOssModel, T.GptOssConfig(**sized(head_dim=6), num_local_experts=2, num_experts_per_tok=1, rope_parameters=dict(rope_type="default", rope_theta=1e4)))
    yield "granitemoe", decoder(T.GraniteMoeModel, T.GraniteMoeConfig(**sized(), attention_multiplier=0.25, num_local_experts=2, num_experts_per_tok=1))
    yield "qwen3_moe_plain", decoder(T.Qwen3MoeModel, T.Qwen3MoeConfig(**sized(), **experts, moe_intermediate_size=4), unlike="qk")
    yield "phimoe", decoder(T.PhimoeModel, T.PhimoeConfig(**sized(), num_local_experts=2, num_experts_per_tok=1))
    yield "jais2", decoder(T.Jais2Model, T.Jais2Config(**sized()))
    yield "cwm", decoder(T.CwmModel, T.CwmConfig(**sized(head_dim=4)))
    yield "granite_swa", decoder(T.GraniteSWAModel, T.GraniteSWAConfig(**sized(2), attention_multiplier=0.3))
    yield "lfm2", decoder(T.Lfm2Model, T.Lfm2Config(**sized(2), layer_types=["conv", "full_attention"]), unlike="qk", o=lambda a: a.out_proj)

    def two(cls, config, projection):
        text = dict(hidden_size=16, intermediate_size=8, num_hidden_layers=1, num_attention_heads=4, vocab_size=11, max_position_embeddings=8,
                    bos_token_id=1, eos_token_id=2, pad_token_id=0, projection_size=projection, projection_dim=projection)
        vision = dict(projection_dim=projection, hidden_size=12, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2, image_size=4, patch_size=2, num_channels=1)

        def cut(m):
            for stack, tower, heads in (("text", m.text_model, 4), ("vision", m.vision_model, 2)):
                for i, l in enumerate(tower.encoder.layers):
                    yield Kin(l.self_attn, heads, heads, i, o=l.self_attn.out_proj, stack=stack)
        return lambda: (cls(config(text_config=text, vision_config=vision, projection_dim=projection)), lambda m: list(cut(m)))
    yield "clip", two(T.CLIPModel, T.CLIPConfig, 4)
    yield "siglip", two(T.SiglipModel, T.SiglipConfig, 12)
    yield "owlvit", two(T.OwlViTModel, T.OwlViTConfig, 4)
    yield "metaclip_2", two(T.MetaClip2Model, T.MetaClip2Config, 4)

    def one(cls, config, heads, **sizes):
        sizes = dict(hidden_size=8 * heads // 2, intermediate_size=8, num_hidden_layers=1, num_attention_heads=heads, **sizes)

        def layers(m):
            for name in ("text_model", "vision_model"):
                m = getattr(m, name, m)
            return m.encoder.layers
        return lambda: (cls(config(**sizes)), lambda m: [Kin(l.self_attn, heads, heads, i, o=l.self_attn.out_proj) for i, l in enumerate(layers(m))])
    words = dict(projection_dim=4, vocab_size=11, max_position_embeddings=8, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    picture = dict(image_size=4, patch_size=2, num_channels=1)
    yield "clip_text", one(T.CLIPTextModelWithProjection, T.CLIPTextConfig, 4, **words)
    yield "clip_vision", one(T.CLIPVisionModel, T.CLIPVisionConfig, 2, **picture)
    yield "siglip_text", one(T.SiglipTextModel, T.SiglipTextConfig, 4, **words)
    yield "siglip_vision", one(T.SiglipVisionModel, T.SiglipVisionConfig, 2, **picture)


def guesses():
    """Models that stay guesses: only what names and sizes tell is compared, and the layers that do not fit."""
    layers = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    yield "gemma4_text", [1, 3], decoder(T.Gemma4TextModel, T.Gemma4TextConfig(
        **sized(4, head_dim=4), global_head_dim=6, layer_types=layers, vocab_size_per_layer_input=11, hidden_size_per_layer_input=4), unlike="qkvo")
    yield "afmoe", [], decoder(T.AfmoeModel, T.AfmoeConfig(
        **sized(head_dim=4), num_experts=2, moe_intermediate_size=4, num_experts_per_tok=1, num_dense_layers=1), unlike="qko")


def run(model, n):
    given = {}
    kind = model.config.model_type
    if any(word in kind for word in ("clip", "siglip", "owl")):
        if "vision" not in kind:
            given["input_ids"] = torch.tensor([[1, 3, 4, 2][:max(n, 2)]])
        if "text" not in kind:
            given["pixel_values"] = torch.arange(16.0).reshape(1, 1, 4, 4).sin()
        return model(**given)
    return model(input_ids=torch.tensor([[3, 4, 5, 6][:n]]), use_cache=False)


def save(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def product(p, kind, h, a, b):
    return dict(stack=p.stack, attention=p.attention, kind=kind, layer=p.layer, head=h, rows=a.shape[0], cols=b.shape[0],
                a=norm(a), b=norm(b), sv=[short(s) for s in np.linalg.svd(a @ b.T, compute_uv=False) if s > 1e-9])


def write_guess(name, seed, odd, make):
    torch.manual_seed(seed)
    model, cut = make()
    randomise(model.eval(), seed)
    folder = OUT.parent / "guesses" / name
    save(model, folder)
    products = [dict(product(p, *q), gains=[(None, None)] * 2) for p in cut(model) if p.layer not in odd for q in p.products()]
    for e in products:
        e["fold"] = e["sv"]  # nothing is folded
    (folder / "expected.json").write_text(json.dumps(dict(products=products, planes=[], left_out=odd)))
    print(name, len(products), "products,", odd, "left out")


def write_family(name, seed, make):
    torch.manual_seed(seed)
    model, cut = make()
    randomise(model.eval(), seed)
    folder = OUT / name
    save(model, folder)
    parts = cut(model)
    for p in parts:
        p.watch(None)
    model.set_attn_implementation("spy")
    base.seen.clear()
    base.watch_norms(model)
    with torch.no_grad():
        run(model, 1)
    norms, inputs = list(base.norms), [dict(p.inputs) for p in parts]
    for p in parts:
        p.verify(name)
    for p in parts:
        p.facts(lambda: run(model, POSITIONS))
    base.norms[:] = norms
    products = []
    for p, got in zip(parts, inputs):
        p.inputs = got
        for kind, h, a, b in p.products():
            folded = np.linalg.svd(p.folded(kind, h, a, b), compute_uv=False)
            e = dict(product(p, kind, h, a, b), gains=p.gains(kind), fold=[short(s) for s in folded if s > 1e-9])
            if kind == "qk":
                e.update(rope=p.rope, scale=short(p.scale), qk_norm=p.normed_qk)
            products.append(e)
    planes = [row for p in parts for row in p.planes()]
    (folder / "expected.json").write_text(json.dumps(dict(products=products, planes=planes)))
    print(name, len(products), "products", {str(p.rope) for p in parts}, {p.scale for p in parts}, {p.normed_qk for p in parts})


def main():
    T.logging.set_verbosity_error()
    wanted = sys.argv[1:]
    for seed, (name, make) in enumerate(families(), 1000):
        if not wanted or name in wanted:
            write_family(name, seed, make)
    for seed, (name, odd, make) in enumerate(guesses(), 2000):
        if not wanted or name in wanted:
            write_guess(name, seed, odd, make)


if __name__ == "__main__":
    main()
