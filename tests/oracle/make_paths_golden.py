"""Writes tests/golden/paths/CASE.json: what `rankscope paths` should find, by enumeration of every path.

Small models of tests/golden/forward run in transformers in float64; the attention matrices are those that it returns,
everything else is done here in long double from the formulas: each of the (H+1)^L paths is multiplied out by itself,
P_path X W_path, and so is every path above each source (MLP outputs, biases). Nothing is summed layer by layer.

Norms enter as the linear maps that they were: rows times 1/s_i, LayerNorm's centring and the gain on the right.

Re-run with the versions of requirements.txt:  python tests/oracle/make_paths_golden.py
"""

import itertools
import json
import math
import pathlib

import numpy as np
import torch
import transformers as T

from double_models import all_double

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
OUT = GOLDEN / "paths"
LD = np.longdouble


def arr(t):
    return t.detach().numpy().astype(LD)


class Norm:
    def __init__(self, kind=None, gain=None, bias=None, eps=0.0):
        self.kind, self.gain, self.bias, self.eps = kind, gain, bias, LD(eps)

    def frozen(self, x):
        """left vector 1/s_i, right matrix, bias of this norm on the state x"""
        n, d = x.shape
        if self.kind is None:
            return np.ones(n, LD), np.eye(d, dtype=LD), np.zeros(d, LD)
        centre = np.eye(d, dtype=LD) - (np.ones((d, d), LD) / d if self.kind == "layer" else 0)
        y = x @ centre
        s = np.sqrt((y * y).mean(1) + self.eps)
        bias = np.zeros(d, LD) if self.bias is None else self.bias
        return 1 / s, centre * self.gain, bias


NONE = Norm()


def layer_norm(m):
    return Norm("layer", arr(m.weight), arr(m.bias), m.eps)


def rms_norm(m, plus=0):
    return Norm("rms", arr(m.weight) + plus, None, m.variance_epsilon if hasattr(m, "variance_epsilon") else m.eps)


def linear(m):
    """W [in, out], b"""
    w = arr(m.weight).T
    return w, (arr(m.bias) if m.bias is not None else np.zeros(w.shape[1], LD))


def heads_of(v, o, heads, kv_heads):
    """Per head W_V,h, b_V,h, W_O,h, and b_O from linear maps ([in, out], bias)"""
    (wv, bv), (wo, bo) = v, o
    dim, share = wv.shape[1] // kv_heads, heads // kv_heads
    cut = [slice(h // share * dim, (h // share + 1) * dim) for h in range(heads)]
    return [(wv[:, c], bv[c], wo[h * dim:(h + 1) * dim]) for h, c in enumerate(cut)], bo


# ---- families: for each layer its branches: attention (heads, b_O) or a torch module, norms, parallel ----

def bert(model):
    for b in model.bert.encoder.layer:
        h = model.config.num_attention_heads
        yield [dict(op=heads_of(linear(b.attention.self.value), linear(b.attention.output.dense), h, h),
                    after=layer_norm(b.attention.output.LayerNorm)),
               dict(op=lambda x, b=b: b.output.dense(b.intermediate(x)), after=layer_norm(b.output.LayerNorm))]


def gpt2(model):
    d = model.config.n_embd
    for b in model.transformer.h:
        h = model.config.n_head
        w, bias = arr(b.attn.c_attn.weight), arr(b.attn.c_attn.bias)  # Conv1D: [in, out]
        o = arr(b.attn.c_proj.weight), arr(b.attn.c_proj.bias)
        yield [dict(op=heads_of((w[:, 2 * d:], bias[2 * d:]), o, h, h), before=layer_norm(b.ln_1)),
               dict(op=b.mlp, before=layer_norm(b.ln_2))]


def llama(model):
    c = model.config
    for b in model.model.layers:
        yield [dict(op=heads_of(linear(b.self_attn.v_proj), linear(b.self_attn.o_proj), c.num_attention_heads,
                                c.num_key_value_heads), before=rms_norm(b.input_layernorm)),
               dict(op=b.mlp, before=rms_norm(b.post_attention_layernorm))]


def gemma2(model):
    c = model.config
    for b in model.model.layers:
        yield [dict(op=heads_of(linear(b.self_attn.v_proj), linear(b.self_attn.o_proj), c.num_attention_heads,
                                c.num_key_value_heads), before=rms_norm(b.input_layernorm, 1),
                    inside=rms_norm(b.post_attention_layernorm, 1)),
               dict(op=b.mlp, before=rms_norm(b.pre_feedforward_layernorm, 1),
                    inside=rms_norm(b.post_feedforward_layernorm, 1))]


def gpt_neox(model):
    h, d = model.config.num_attention_heads, model.config.hidden_size
    for b in model.gpt_neox.layers:
        w, bias = linear(b.attention.query_key_value)
        w, bias = w.reshape(d, h, 3, d // h)[:, :, 2].reshape(d, d), bias.reshape(h, 3, d // h)[:, 2].reshape(d)
        yield [dict(op=heads_of((w, bias), linear(b.attention.dense), h, h), before=layer_norm(b.input_layernorm)),
               dict(op=b.mlp, before=layer_norm(b.post_attention_layernorm), joins=True)]


BLOCKS = {"bert": lambda m: m.bert.encoder.layer, "gpt2": lambda m: m.transformer.h,
          "llama": lambda m: m.model.layers, "gemma2": lambda m: m.model.layers,
          "gpt_neox": lambda m: m.gpt_neox.layers}
FAMILY = {"bert": bert, "gpt2": gpt2, "llama": llama, "gemma2": gemma2, "gpt_neox": gpt_neox}


def finals(model, name):
    """final norm, head"""
    if name == "bert":
        return (lambda x: x), (lambda x: model.cls(x))
    if name == "gpt2":
        return model.transformer.ln_f, model.lm_head
    if name == "gpt_neox":
        return model.gpt_neox.final_layer_norm, model.get_output_embeddings()
    cap = getattr(model.config, "final_logit_softcapping", None)
    head = (lambda x: torch.tanh(model.lm_head(x) / cap) * cap) if cap else model.lm_head
    return model.model.norm, head


# ---- one sample: branches as factors ----

def factors(model, name, x, attentions):
    """For each branch of the network: options [(is_head, left, right)], source matrix; and the last state."""
    n, d = x.shape
    out = []
    for l, branches in enumerate(FAMILY[name](model)):
        entered = x
        for branch in branches:
            read = entered if branch.get("joins") else x
            sb, cb, bb = branch.get("before", NONE).frozen(read)
            normed = sb[:, None] * (read @ cb) + bb
            options = [(0, np.eye(n, dtype=LD), np.eye(d, dtype=LD))]
            if isinstance(branch["op"], tuple):
                heads, bo = branch["op"]
                p = [attentions[l][0, h].numpy().astype(LD) for h in range(len(heads))]
                y = sum(ph @ (normed @ wv + bv) @ wo for ph, (wv, bv, wo) in zip(p, heads)) + bo
                alone = sum(np.outer(ph.sum(1), (bb @ wv + bv) @ wo) for ph, (wv, bv, wo) in zip(p, heads)) + bo
            else:
                y = arr(branch["op"](torch.tensor(normed.astype(float))[None])[0])
                heads, alone = [], y
            si, ci, bi = branch.get("inside", NONE).frozen(y)
            source = si[:, None] * (alone @ ci) + bi
            before_after = x + si[:, None] * (y @ ci) + bi
            sa, ca, ba = branch.get("after", NONE).frozen(before_after)
            for h, (wv, _, wo) in enumerate(heads):
                options.append((1, si[:, None] * p[h] * sb, cb @ wv @ wo @ ci))
            options = [(k, sa[:, None] * left, right @ ca) for k, left, right in options]
            out.append((l, options, sa[:, None] * (source @ ca) + ba))
            x = sa[:, None] * (before_after @ ca) + ba
    return out, x


def enumerate_paths(start, branches):
    """(length, product of the left factors, contribution) of every path through these branches"""
    for path in itertools.product(*[options for _, options, _ in branches]):
        left, right = np.eye(len(start), dtype=LD), np.eye(start.shape[1], dtype=LD)
        for _, a, b in path:
            left, right = a @ left, right @ b
        yield sum(k for k, _, _ in path), left, left @ start @ right


def norm(a):
    return float(np.sqrt((a * a).sum()))


def one_inf(a):
    return float(np.sqrt(np.abs(a).sum(0).max() * np.abs(a).sum(1).max()))


def sizes(a):
    r = a - a.mean(0)
    return {"fro": norm(a), "residual": norm(r) / norm(a) if norm(a) else None,
            "residual_1inf": one_inf(r) / one_inf(a) if norm(a) else None}


def rank1(p):
    u, s, v = np.linalg.svd(p.astype(float))
    return float(np.sqrt((s[1:] ** 2).sum() / (s ** 2).sum())), one_inf(p - s[0] * np.outer(u[:, 0], v[0])) / one_inf(p)


def outcome(model, name, y, x, ids):
    final, head = finals(model, name)
    with torch.no_grad():
        fx, fy = (final(torch.tensor(a.astype(float))[None]) for a in (x, y))
        lx, ly = head(fx)[0].double(), head(fy)[0].double()
    logx, logy = torch.log_softmax(lx, -1), torch.log_softmax(ly, -1)
    fx, fy = fx[0].numpy(), fy[0].numpy()
    out = {"state_rel_error": np.linalg.norm(fy - fx) / np.linalg.norm(fx),
           "state_cosine": ((fx * fy).sum(1) / np.linalg.norm(fx, axis=1) / np.linalg.norm(fy, axis=1)).mean(),
           "top1_agreement": (lx.argmax(-1) == ly.argmax(-1)).double().mean().item(),
           "kl": (logx.exp() * (logx - logy)).sum(-1).mean().item(),
           "logit_rel_error": ((ly - lx).norm() / lx.norm()).item()}
    if name != "bert" and len(ids) > 1:
        out["nll"] = -sum(logy[i, t].item() for i, t in enumerate(ids[1:])) / (len(ids) - 1)
    return {k: float(v) for k, v in out.items()}


# ---- the published code's paths: a chain of single heads with attention from its own states ----

def plain_norm(x):
    y = x - x.mean(1, keepdims=True)
    return y / np.sqrt((y * y).mean(1, keepdims=True) + LD(1e-5))


def own_heads(model, name):
    """For each layer the norm before its attention, its heads (W_Q, b_Q, W_K, b_K, W_V, b_V, W_O) and b_O"""
    for l, branches in enumerate(FAMILY[name](model)):
        heads, bo = branches[0]["op"]
        if name == "bert":
            at = model.bert.encoder.layer[l].attention.self
            (wq, bq), (wk, bk) = linear(at.query), linear(at.key)
        else:
            at, d = model.transformer.h[l].attn, model.config.n_embd
            w, b = arr(at.c_attn.weight), arr(at.c_attn.bias)
            (wq, bq), (wk, bk) = (w[:, :d], b[:d]), (w[:, d:2 * d], b[d:2 * d])
        dim = wq.shape[1] // len(heads)
        cut = [slice(h * dim, (h + 1) * dim) for h in range(len(heads))]
        yield branches[0].get("before"), [(wq[:, c], bq[c], wk[:, c], bk[c], *head) for c, head in zip(cut, heads)], bo


def chain(x, layers, path, causal):
    """The last state of one path, a head or None for each layer, and the product of its mixing matrices"""
    product = np.eye(len(x), dtype=LD)
    for (before, heads, bo), h in zip(layers, path):
        if h is None:
            continue
        wq, bq, wk, bk, wv, bv, wo = heads[h]
        y = x
        if before is not None:
            s, c, b = before.frozen(x)
            y = s[:, None] * (x @ c) + b
        logits = (y @ wq + bq) @ (y @ wk + bk).T / np.sqrt(LD(wq.shape[1]))
        if causal:
            logits = np.where(np.tril(np.ones(logits.shape, bool)), logits, -np.inf)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        x = plain_norm(p @ (y @ wv + bv) @ wo + bo)
        product = p @ product
    return x, product


def code_paths(model, name, start, end, ids):
    layers = list(own_heads(model, name))
    heads = len(layers[0][1])
    by_length = [[] for _ in range(len(layers) + 1)]
    for path in itertools.product([None, *range(heads)], repeat=len(layers)):
        by_length[sum(h is not None for h in path)].append(chain(start, layers, path, name == "gpt2"))
    rows = []
    for k, chains in enumerate(by_length):
        combined = plain_norm(sum(x for x, _ in chains))
        measures = np.array([(norm(x), sizes(x)["residual"], rank1(p)[0]) for x, p in chains])
        rows.append({"length": k, "combined": sizes(combined), "path_mean": measures.mean(0).tolist(),
                     "outcome": outcome(model, name, combined, end, ids)})
    return rows


def sample(model, name, ids):
    kept = {}
    blocks = BLOCKS[name](model)
    first = blocks[0].register_forward_pre_hook(
        lambda m, a, k: kept.__setitem__("in", a[0] if a else k["hidden_states"]), with_kwargs=True)
    last = blocks[-1].register_forward_hook(
        lambda m, i, o: kept.__setitem__("out", o[0] if isinstance(o, tuple) else o))
    with torch.no_grad():
        attentions = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    first.remove(), last.remove()
    start, end = (arr(kept[k].reshape(-1, kept[k].shape[-1])) for k in ("in", "out"))
    with torch.no_grad():
        branches, x = factors(model, name, start, attentions)
    assert norm(x - end) < 1e-12 * norm(x), norm(x - end) / norm(x)
    layers = branches[-1][0] + 1
    embedding = [np.zeros_like(start) for _ in range(layers + 1)]
    source = [np.zeros_like(start) for _ in range(layers + 1)]
    injected = [np.zeros_like(start) for _ in range(layers)]
    single = [[] for _ in range(layers + 1)]
    for k, left, y in enumerate_paths(start, branches):
        embedding[k] += y
        single[k].append((norm(y), sizes(y)["residual"], *rank1(left)))
    for i, (l, _, z) in enumerate(branches):
        for k, _, y in enumerate_paths(z, branches[i + 1:]):
            source[k] += y
            injected[l] += y
    whole = sum(embedding) + sum(source)
    assert norm(whole - x) < 1e-15 * norm(x) * len(single[-1]), norm(whole - x) / norm(x)
    rows, done, heads = [], np.zeros_like(x), len(branches[0][1]) - 1
    for k in range(layers + 1):
        done = done + embedding[k] + source[k]
        rest = sum(source[k + 1:], np.zeros_like(x))
        assert len(single[k]) == math.comb(layers, k) * heads**k
        measures = np.array(single[k])
        rows.append({
            "length": k, "count": len(single[k]), "embedding": sizes(embedding[k]), "source": sizes(source[k]),
            "projection": float((embedding[k] * x).sum() / (x * x).sum()),
            "source_projection": float((source[k] * x).sum() / (x * x).sum()),
            "cumulative_error": norm(done - x) / norm(x), "cumulative_error_sources": norm(done + rest - x) / norm(x),
            "path_mean": measures.mean(0).tolist(), "path_median": np.median(measures, 0).tolist(),
            "outcome": outcome(model, name, done, x, ids)})
    code = {"code": code_paths(model, name, start, x, ids)} if name in ("bert", "gpt2") else {}
    return {**code, "ids": ids, "n": len(ids), "d": int(x.shape[1]), "lengths": rows,
            "embedding": [e.astype(float).ravel().tolist() for e in embedding],
            "source": [e.astype(float).ravel().tolist() for e in source],
            "injected": [norm(e) for e in injected],
            "injected_projection": [float((e * x).sum() / (x * x).sum()) for e in injected]}


def case(name, samples):
    cls = T.AutoModelForMaskedLM if name == "bert" else T.AutoModelForCausalLM
    loaded = cls.from_pretrained(GOLDEN / "forward" / name)
    weights = {k: v.double() for k, v in loaded.state_dict().items()}
    with all_double():
        model = cls.from_config(loaded.config, attn_implementation="eager", dtype=torch.float64).eval()
        model.load_state_dict(weights)
        golden = {"samples": [sample(model, name, ids) for ids in samples]}
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    for family in FAMILY:
        case(family, [[5, 2, 9, 1, 3], [7], [4, 4, 4]])
