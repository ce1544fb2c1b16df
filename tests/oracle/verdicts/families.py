"""Defects planted in BERT- and LLaMA-like checkpoints under tests/golden: beside the same checkpoint without, they alone are new.

What follows from docs/scan.md and docs/probe.md: maps of zeros give heads of zero products that are dead, W_Q of zeros
uniform attention, W_V of zeros a mixer that gives its bias alone; a factor of rank one an effective rank of 1; a weight
that is no number its name; a norm without gain equal tokens.
"""
import json
import math
import re
import shutil
import struct

import numpy as np

from .case import GOLDEN
from .planted import write_safetensors

FOLDERS = ("bert bert_relu bert_untied bert_decoder roberta camembert xlm_roberta distilbert distilbert_relu llama llama_bias_tied "
           "llama_linear llama_llama3 llama_old_form llama_one llama_yarn mistral mistral_full ministral qwen2 qwen2_window qwen3 "
           "qwen3_bias gemma gemma2 gemma3 gemma3_both_ways granite olmo olmo2").split()
ROLES = {"q": r"(query|q_proj|q_lin)\.weight$", "k": r"(key|k_proj|k_lin)\.weight$", "v": r"(value|v_proj|v_lin)\.weight$",
         "o": r"(attention\.output\.dense|o_proj|out_lin)\.weight$",
         "last_norm": r"(?<!attention\.)(output\.LayerNorm|output_layer_norm)\.weight$",
         "position": r"position_embeddings\.weight$", "word": r"(word_embeddings|embed_tokens)\.weight$"}
SCAN = "qk_low_rank", "ov_low_rank", "dead_head"
HEADS = "uniform_attention", "condensed_attention", "attention_sink"


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + size])
    entries.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size:][slice(*e["data_offsets"])], np.float32).reshape(e["shape"]).copy()
            for name, e in entries.items()}


class Model:
    """A checkpoint's tensors by role and layer; projections are stored [outputs, inputs]."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.tensors = read_safetensors(folder / "model.safetensors")
        self.heads = config.get("num_attention_heads") or config.get("n_heads")
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.layers = config.get("num_hidden_layers") or config.get("n_layers")
        self.d_head = config.get("head_dim") or (config.get("hidden_size") or config.get("dim")) // self.heads
        self.qk_norm = any("q_norm" in name for name in self.tensors)
        self.vocabulary, self.padding = config["vocab_size"], config.get("pad_token_id")

    def name(self, role, layer=None):
        for name in self.tensors:
            if re.search(ROLES[role], name) and (layer is None or re.search(rf"layers?\.{layer}\.", name)):
                return name
        return None

    def rows(self, role, head):
        """The head's own rows (of o columns), and the query heads that share them."""
        group = self.heads // self.kv_heads
        if role in "kv":
            head //= group
            return slice(head * self.d_head, (head + 1) * self.d_head), range(head * group, (head + 1) * group)
        return slice(head * self.d_head, (head + 1) * self.d_head), range(head, head + 1)

    def bias(self, role, layer):
        return self.tensors.get(re.sub("weight$", "bias", self.name(role, layer)))


def draw(rng, folder):
    source = GOLDEN / "forward" / rng.choice(FOLDERS)
    model, random = Model(source), np.random.default_rng(rng.randrange(2**32))
    layer, head = rng.randrange(model.layers), rng.randrange(model.heads)
    kinds = ["q_zero", "q_zero_scan", "v_zero", "v_zero_scan", "rank_one", "small", "nan_scan", "nan", "nan", "equal_ids"]
    kinds += ["norm_gain", "norm_gain", "norm_zero"] if model.name("last_norm") else []
    kinds += ["sink"] if model.name("position") and model.d_head > 1 else []
    kinds += ["sink_ids", "common"] if model.bias("q", 0) is not None and not model.qk_norm else []
    kind, t, what, fed = rng.choice(kinds), model.tensors, None, None
    if kind in ("q_zero", "q_zero_scan", "v_zero", "v_zero_scan"):
        t[model.name(kind[0], layer)][:] = 0
        if model.bias(kind[0], layer) is not None:
            model.bias(kind[0], layer)[:] = 0
    elif kind in ("rank_one", "small"):
        what = role = rng.choice("qkvo")
        mine, shared = model.rows(role, head)
        part = t[model.name(role, layer)]
        part = part[:, mine] if role == "o" else part[mine]
        part[:] = np.outer(*(random.normal(0, 0.3, n) for n in part.shape)) if kind == "rank_one" else part * np.float32(1e-4)
        head = shared
    elif kind == "nan_scan":
        what = model.name(rng.choice("qkvo"), layer)
        t[what].flat[rng.randrange(t[what].size)] = rng.choice([math.nan, math.inf, -math.inf])
    elif kind == "nan":
        what = rng.choice([n for n in t if re.search(rf"layers?\.{layer}\..*weight$", n)])
        t[what].flat[rng.randrange(t[what].size)] = math.nan
    elif kind in ("norm_gain", "norm_zero"):
        name = model.name("last_norm", layer)
        t[name][:] = 0
        bias = t[name.replace("weight", "bias")]
        bias[:] = random.normal(0, 1, bias.shape) if kind == "norm_gain" else 0
    elif kind == "common":  # a bias of values is mixed into all tokens alike
        model.bias("v", layer)[:] = rng.choice([1e5, 1e6, 1e7]) * random.choice([-1, 1], model.bias("v", layer).shape)
    elif kind == "sink" or kind == "sink_ids":  # queries ask by their bias for what the first token alone has
        layer, (mine, _) = 0, model.rows("q", head)
        keys, shared = model.rows("k", head)
        table = t[model.name("position" if kind == "sink" else "word")]
        first = 0 if kind == "sink" else model.vocabulary - 1
        if kind == "sink" and ("roberta" in source.name or "camembert" in source.name):
            first = model.padding + 1  # their positions begin behind the padding
        direction = random.normal(0, 1, table.shape[1])
        direction -= direction.mean()
        table[first] += (20 * direction * max(1, np.abs(table).max())).astype(np.float32)
        unit = np.zeros(model.d_head)
        unit[[model.d_head // 2 - 1, model.d_head - 1]] = 1  # what turns slowest under RoPE
        for role, part in ("q", mine), ("k", keys):
            t[model.name(role, 0)][part] = 0
            model.bias(role, 0)[part] = 0
        seen = direction / np.linalg.norm(direction)
        t[model.name("k", 0)][keys] = np.outer(unit, seen)
        for h in shared:
            where, _ = model.rows("q", h)
            t[model.name("q", 0)][where] = 0
            model.bias("q", 0)[where] = 40 * unit
        head = shared
        if kind == "sink_ids":
            fed = [[first] + [rng.randrange(1, model.vocabulary - 1) for _ in range(9)] for _ in range(3)]
    elif kind == "equal_ids":  # one row of the embedding for all
        table = t[model.name("word")]
        table[:] = table[1]
        if model.name("position"):
            t[model.name("position")][:] = 0
    if fed:
        (folder / "ids.json").write_text(json.dumps(fed))
    for name in "m", "before":
        folder.joinpath(name).mkdir()
        shutil.copy(source / "config.json", folder / name)
    shutil.copy(source / "model.safetensors", folder / "before")
    write_safetensors(folder / "m" / "model.safetensors", t)
    if kind in ("q_zero_scan", "v_zero_scan", "rank_one", "small", "nan_scan"):
        args = ["scan", "m"] + (["--fold-norms"] if rng.random() < 0.2 else [])
    else:
        args = ["probe", "m"] + (["--tokens", "ids.json"] if fed else ["--random", "3", "--seq-len", "10"]) + ["--no-spectral", "--no-loss"]
        args += ["--precision", rng.choice(["f32", "f32", "f64", "residual"] if kind not in ("nan", "common") else ["f32", "f64"])]
        args += ["--variants", "dong"] if rng.random() < 0.3 or kind == "v_zero" else []
    return args + ["--threads", "1"], (kind, model, layer, head, what, source.name)


def found(result, codes):
    return {(r["code"], r["layer"], r["head"]) for r in result["tables"]["findings"] if r["code"] in codes}


def check(case, plan, run):
    kind, model, layer, head, what, family = plan
    before = run([("before" if a == "m" else a) for a in case.args])
    name = f"{family}, {kind} in layer {layer}" + (f" ({what})" if what else "")
    miss = lambda fine, text: case.check(fine, f"{name}: {text}")
    if before is None:
        miss(False, "the checkpoint itself is refused")
    elif case.args[0] == "scan":
        check_scanned(case, before, miss, plan)
    else:
        early = lambda result: {f for f in found(result, HEADS) if f[1] < layer}
        if kind not in ("equal_ids", "sink", "sink_ids"):
            miss(early(case.result) == early(before), f"heads before it: {sorted(early(case.result) ^ early(before))}")
        check_probed(case, miss, plan)


def check_scanned(case, before, miss, plan):
    kind, model, layer, heads, what, _ = plan
    result, rows = case.result, case.result["tables"]["findings"]
    was, now = found(before, SCAN), found(result, SCAN)
    mine = lambda product: [r for r in result["tables"]["heads"] if r["product"] == product and r["layer"] == layer]
    if kind == "nan_scan":
        named = [r for r in rows if r["code"] == "nonfinite_weights"]
        miss(result["verdict"]["code"] == "nonfinite_weights" and result["verdict"]["severity"] == "critical", result["verdict"]["answer"])
        miss(len(named) == 1 and what in named[0]["message"] and named[0]["severity"] == "critical", f"named: {[r['message'] for r in named]}")
        for r in result["tables"]["heads"]:
            empty = r["effective_rank"] is None
            miss(not empty or r["layer"] == layer, f"empty row: layer {r['layer']}, head {r['head']}, {r['product']}")
        miss(any(r["effective_rank"] is None for r in mine("qk") + mine("ov")), "no row is empty")
        return
    product = "ov" if kind[0] == "v" or what and what in "vo" else "qk"
    if kind.endswith("_zero_scan"):
        for r in mine(product):
            miss(r["frobenius_norm"] == 0 and r["effective_rank_ratio"] is None, f"{product} of head {r['head']}: {r['frobenius_norm']}")
        want = {("dead_head", layer, h) for h in range(model.heads)}  # no norm makes anything of 0, QK-norm neither
        extra = {f for f in now ^ was if f[1] != layer}
        miss(want <= now, f"new: {sorted(now - was)}, to be {sorted(want)}")
        miss(not extra, f"in other layers: {sorted(extra)}")
        miss(result["verdict"]["code"] in ("dead_heads", "lost_rank"), result["verdict"]["answer"])
    elif kind == "rank_one":
        for r in mine(product):
            low = r["head"] in heads
            miss(low == (abs(r["effective_rank"] - 1) < 1e-4) or model.d_head == 1, f"{product} of head {r['head']}: {r['effective_rank']}")
            if low and r["effective_rank"] < case.threshold(product + "_low_rank") * r["effective_rank_null"]:
                miss((product + "_low_rank", layer, r["head"]) in now, f"head {r['head']} is not found: {sorted(now)}")
                miss(result["verdict"]["code"] == "lost_rank", result["verdict"]["answer"])
        extra = {f for f in now - was if f[0] != "dead_head" and not (f[1] == layer and f[2] in heads)}
        miss(not extra, f"found, too: {sorted(extra)}")
    elif kind == "small" and not (product == "qk" and model.qk_norm):
        if len(heads) * 2 < model.heads:  # the median is that of heads that were left alone
            miss({("dead_head", layer, h) for h in heads} <= now, f"heads {list(heads)} are not dead: {sorted(now)}")
        extra = {f for f in now - was if not (f[1] == layer and f[2] in heads)}
        miss(not extra, f"found, too: {sorted(extra)}")


def check_probed(case, miss, plan):
    kind, model, layer, heads, what, _ = plan
    result, verdict, rows = case.result, case.result["verdict"], case.result["tables"]["findings"]
    tokens = {(r["variant"], r["site"], r["layer"]): r for r in result["tables"]["tokens"]}
    attention = [r for r in result["tables"]["attention"] if r["variant"] == "full" and r["layer"] == layer]
    state = lambda l: tokens["full", "block_out", l]
    if kind == "q_zero":
        for r in attention:
            miss(r["logit_variance"] == 0 and abs(r["entropy_ratio"] - 1) < 1e-6, f"head {r['head']}: entropy_ratio {r['entropy_ratio']}")
        missing = {("uniform_attention", layer, h) for h in range(model.heads)} - found(result, HEADS)
        miss(not missing, f"not found: {sorted(missing)}")
    elif kind == "v_zero":
        for variant in "full", "san":
            mixed = tokens[variant, "mixer_out", layer + 1]
            miss(not mixed["residual_fro"] or mixed["at_floor"], f"{variant}: tokens of the mixer's output differ")
        after = tokens["san", "block_out", layer + 1]
        equal = next(r for r in result["tables"]["summary"] if r["variant"] == "san")["equal_after"]
        gone = after["norm_fro"] == 0 or after["residual_fro"] == 0
        miss(gone or after["at_floor"], f"san: relative residual {after['relative_residual']} behind it")
        miss(gone or result["run"]["precision"] == "residual" or equal is not None and equal <= layer + 1, f"san: equal after {equal}")
    elif kind in ("nan", "nan_scan"):
        named = [r for r in rows if r["code"] == "nonfinite_activation" and r["variant"] == "full"]
        miss(verdict["code"] == "nonfinite" and verdict["severity"] == "critical", verdict["answer"])
        miss(bool(named) and what in named[0]["message"] and named[0]["layer"] == layer, f"named: {[r['message'] for r in named]}")
        for l in range(layer + 1):
            miss(state(l)["relative_residual"] is not None, f"state {l} has no number")
    elif kind == "norm_gain":
        miss(verdict["code"] == "collapse" and verdict["severity"] == "critical", verdict["answer"])
        for l in range(layer + 1, model.layers + 1):
            miss(state(l)["at_floor"] or not state(l)["residual_fro"], f"state {l}: {state(l)['relative_residual']}")
        found_layers = {r["layer"] for r in rows if r["code"] == "token_collapse" and r["variant"] == "full"}
        miss(len(found_layers) > 0, "no token_collapse")
        if result["run"]["precision"] == "residual":
            miss(any(r["code"] == "residual_exactly_zero" for r in rows), "no residual_exactly_zero")
    elif kind == "norm_zero":
        miss(any(r["code"] == "zero_state" for r in rows), "no zero_state")
        miss(state(layer + 1)["norm_fro"] == 0 and state(layer + 1)["relative_residual"] is None, f"state {layer + 1} is not of zeros")
        if layer + 1 == model.layers and state(0)["relative_residual"]:
            values = [state(l)["relative_residual"] for l in range(model.layers)]
            miss(verdict["code"] == ("collapse" if min(values) < 0.1 else "undefined"), verdict["answer"])
    elif kind == "common":
        miss(verdict["code"] == "collapse", f"{verdict['code']}: {[state(l)['relative_residual'] for l in range(model.layers + 1)]}")
    elif kind in ("sink", "sink_ids"):
        missing = {("attention_sink", 0, h) for h in heads} - found(result, HEADS)
        weights = [(r["head"], r["first_token_weight"]) for r in attention]
        miss(not missing, f"not found: {sorted(missing)}, weights {weights}")
    elif kind == "equal_ids":
        miss(verdict["code"] == "collapse" and verdict["severity"] == "critical", verdict["answer"])
        miss(state(0)["residual_fro"] == 0 or state(0)["at_floor"], f"state 0: {state(0)['relative_residual']}")
