#!/usr/bin/env python3
"""Tries architecture files with every mixer against their definitions.

attack_mixers.py build/rankscope ARCH_WEIGHTS [--instances N] [--seed S] [--only MIXER,MIXER] [--keep DIR] [--mp]

ARCH_WEIGHTS is tests/oracle/arch_weights.c, which writes what the program draws; scripts/build.sh release --only arch_weights
makes build/tests/arch_weights.

Each instance draws ARCH.json, ids or states, and edits of the command line; mixer_definitions.py says what the states, the
branches and the matrices are. In float64 all must agree to 1e-10 of the largest entry, in float32 to 1e-4; an instance whose
definition in the same precision misses that in a wider one by more than a hundredth of this is given a hundred times what it
misses. Then: a later token must not move a bit of what is before it; a sample by itself must be what it is in a batch; tables
tokens and attention, and finding norm_decay_only, must be what their definitions make of the states; --precision residual must
agree with mpmath. Prints what differs with the command that repeats it, and the worst error of each kind.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

import mpmath
import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mixer_definitions as D  # noqa: E402
import state_measures as S  # noqa: E402
from arch_files import MIXERS, drawn_weights, meaning  # noqa: E402

BY_CHANNEL = ("s4d", "mamba", "gated_recurrence", "short_conv")
WORST = defaultdict(float)
COUNT = defaultdict(int)


class Refused(Exception):
    """What the program says instead of numbers."""


# ---- what is drawn ----

def some(r, share):
    return r.random() < share


def draw_arch(r, kinds):
    """ARCH.json, and the graph's matrix."""
    first = r.choice(kinds)
    depth = r.choice((1, 1, 2, 3))
    heads = r.choice((1, 2, 4))
    a = {"depth": depth, "d_model": heads * r.choice((1, 2, 4, 5)), "heads": heads, "seq_len": r.choice((1, 2, 3, 7, 12))}
    a["kv_heads"] = r.choice([k for k in (1, 2, 4) if heads % k == 0])
    if some(r, 0.5):
        a["d_head"] = r.choice((1, 2, 4, 6))
    listed = depth > 1 and some(r, 0.4)
    others = [k for k in MIXERS if k != "graph"] if len(kinds) > 1 else kinds
    a["mixer"] = [first] + [r.choice(others) for _ in range(depth - 1)] if listed else first
    used = set(a["mixer"]) if listed else {first}
    a["share_layers"] = depth > 1 and some(r, 0.3) and len(used) == 1
    a["norm"] = r.choice(("none", "pre", "post", "sandwich"))
    a["norm_kind"] = r.choice(("layernorm", "rmsnorm"))
    for name in ("skip_mixer", "skip_mlp", "branch_mixer", "branch_mlp"):
        if some(r, 0.5):
            a[name] = r.choice((0, 1, -0.5, 0.7, "1/sqrt(L)", "1/(l+1)", [r.choice((0, 1, -2, 0.3)) for _ in range(depth)]))
    a["mlp"] = r.choice(("none", "none", "linear", "relu", "gelu", "gelu_tanh", "swiglu"))
    a["mlp_width"] = r.randint(1, 9)
    if some(r, 0.3):
        a["vocab"] = r.choice((2, 9))
    if used & {"attention", "linear_attention"}:
        a["mask"] = r.choice(("none", "causal"))
        a["temperature"] = r.choice((1, 0.5, 3))
    if "attention" in used:
        draw_attention(r, a, used)
    if "linear_attention" in used:
        a["feature_map"] = r.choice(("identity", "elu"))
        a["normalised"], a["without_self"] = some(r, 0.3), some(r, 0.3)
        if a["mask"] == "causal" and some(r, 0.6):
            a["decay"] = r.choice((0, 0.9, 1, "retnet", [r.random() for _ in range(heads)]))
        if some(r, 0.3):
            a["value_map"] = "identity"
    if used & {"mamba", "mamba2", "gated_delta", "s4d"}:
        a["state"] = r.choice((1, 2, 5))
        a["groups"] = r.choice([g for g in (1, 2, 4) if heads % g == 0])
        a["dt_init"] = r.choice(([0.001, 0.1], [0.5, 2], [0.1, 0.1], [1e-6, 30]))
    a["conv"] = r.choice((1, 2, 4, 9))
    if some(r, 0.5):
        a["gate"] = r.choice(("before", "after", "none"))
    if some(r, 0.5):
        a["inner_norm"] = some(r, 0.5)
    draw_laws(r, a, used)
    graph = draw_graph(r, a) if "graph" in used else None
    for name in [n for n in a if n not in ("depth", "d_model", "heads", "mixer") and some(r, 0.05)]:
        del a[name]
    if used <= {"mamba2", "gated_delta", "linear_attention"} and some(r, 0.15):
        a["seq_len"] = r.choice((63, 64, 65, 130))  # chunks of 64 tokens
    return a, graph


def draw_attention(r, a, used):
    a["attention"] = r.choice(("softmax", "softmax", "uniform", "centred", "shaped", "rescaled"))
    if a["attention"] == "shaped":
        a["shaped"] = [r.choice((0, 1, -0.5)) for _ in range(3)]
    if a["attention"] == "rescaled":
        a["rescale"] = r.choice((0.3, -2))
    if used == {"attention"}:
        a["mask"] = r.choice((a["mask"], "sliding:2", "sliding:5"))
        a["positions"] = r.choice(("none", "none", "rope", "alibi", "relative"))
        if a["positions"] == "rope" and a.get("d_head", a["d_model"] // a["heads"]) % 2:
            a["positions"] = "alibi"


def draw_laws(r, a, used):
    laws = {}
    for name in ("wq", "wk", "wv", "wo", "w1", "w2", "win", "wx", "wdt", "conv"):
        if some(r, 0.25):
            laws[name] = r.choice(("orthogonal", "normal(0, 4/fan_in)", "uniform(-1, 1)", "normal(0.1, 0.5)", "zero", "normal(0, 400)"))
    if used <= {"attention", "graph", "linear_attention"} and some(r, 0.3):
        laws["wo"] = "none"
    if laws:
        a["init"] = laws
    if some(r, 0.5):
        a["input"] = {"law": "gaussian", "rho": r.choice((0, 0.5, 0.99, 1)) if a["d_model"] > 1 else 0, "norm2": r.choice(("d", 1, 1e-4, "100*d"))}


def draw_graph(r, a):
    n = r.choice((1, 2, 5, 9))
    form = r.choice(("row", "symmetric", "attention", "given"))
    g = np.random.default_rng(r.randrange(1 << 30))
    m = (g.random((n, n)) < r.choice((0.2, 0.5, 1))) * g.random((n, n))
    if some(r, 0.5):
        m = m + np.eye(n)
    m[0, -1] += 0.5
    if form == "symmetric":
        m = m + m.T
    if form == "given":
        m = m * g.choice((-1, 1), (n, n))
    if some(r, 0.4):
        m[r.randrange(1, n) if n > 1 else 0] = 0 if n > 1 else 1
        m = m if form != "symmetric" else m * m.T
    m = m.astype(r.choice((np.float32, np.float64))) if some(r, 0.7) or form == "given" else (m > 0).astype(r.choice((np.int32, np.int64)))
    a.update(graph={"file": "graph.npy", "form": form}, seq_len=n)
    if some(r, 0.3):
        a["value_map"] = "identity"
        a["kv_heads"] = a["heads"]
        a.pop("d_head", None)
    return m


# ---- edits of the command line ----

def place_norms(s, post):
    """--norm-placement: blocks' norms behind the sum, or before the branch; those inside of a branch stay."""
    to = {"sandwich": "post_inside" if post else "sandwich", "none": "none"}.get(s["norm"], "post" if post else "pre")
    return dict(s, norm=to, mlp_norm=to)


def draw_edit(r, a, s):
    """Options, and the description that they leave."""
    uses = set(s["mixer"])
    kind = r.choice(("none", "none", "gate", "inner", "place", "lambda", "san", "no-norm", "no-mlp", "no-mlp-branch", "no-skip", "depth",
                     "residual-scale", "temperature", "no-mask"))
    layers = s["layers"]
    if kind == "gate" and some(r, 0.1) | any(s["gate_of"][m] != "none" for m in uses & {"mamba", "mamba2", "gated_recurrence", "gated_delta"}):
        return ["--no-gate"], dict(s, gate_of={m: "none" for m in MIXERS})
    if kind == "inner" and some(r, 0.1) | any(s["inner_norm_of"][m] for m in uses & {"mamba", "mamba2", "gated_delta", "linear_attention"}):
        return ["--no-inner-norm"], dict(s, inner_norm_of={m: False for m in MIXERS})
    if kind == "place" and s["norm"] != "sandwich":
        where = r.choice(("pre", "post"))
        return ["--norm-placement", where], place_norms(s, where == "post")
    if kind == "lambda":
        values = [r.choice((0, 1, -1.5, 4)) for _ in range(layers if some(r, 0.5) else 1)]
        return ["--lambda", "mixer:" + ",".join(map(str, values))], dict(s, skip_mixer=values if len(values) > 1 else values * layers)
    if kind == "san":
        return ["--variants", "san"], dict(s, skip_mixer=[0.0] * layers, mlp="none")
    if kind == "no-norm":
        return ["--no-norm"], dict(s, norm="none", mlp_norm="none")
    if kind == "no-mlp":
        return ["--no-mlp"], dict(s, mlp="none")
    if kind == "no-mlp-branch":
        return ["--no-mlp-branch"], dict(s, no_mlp_branch=True)
    if kind == "no-skip":
        return ["--no-skip"], dict(s, skip_mixer=[0.0] * layers, skip_mlp=[0.0] * layers)
    if kind == "depth":
        more = r.randint(1, 4)
        return ["--depth", str(more)], dict(s, layers=more)
    if kind == "residual-scale" :
        return ["--residual-scale", "0.3"], dict(s, branch_mixer=[0.3] * layers, branch_mlp=[0.3] * layers)
    return [], s


# ---- running ----

class Instance:
    def __init__(self, args, seed, folder):
        self.args, self.seed, self.folder = args, seed, folder
        self.r = r = random.Random(f"mixers{seed}")
        self.loose = defaultdict(float)  # by layer: how far the definition's matrices are off in double precision
        kinds = args.only.split(",")
        self.arch, self.matrix = draw_arch(r, kinds)
        self.spec = meaning(self.arch)
        self.options, self.spec = draw_edit(r, self.arch, self.spec)
        json.dump(self.arch, open(self.at("arch.json"), "w"))
        if self.matrix is not None:
            np.save(self.at("graph.npy"), self.matrix)
        self.texts = None
        if self.arch.get("vocab"):
            n = self.arch.get("seq_len", 16)
            lengths = [n] * 2 if self.matrix is not None else [r.randint(1, n) for _ in range(r.randint(1, 4))]
            self.texts = [[r.randrange(self.arch["vocab"]) for _ in range(m)] for m in lengths]
        self.feed = self.fed(self.texts, "ids.json")

    def at(self, name):
        return os.path.join(self.folder, name)

    def fed(self, texts, name):
        if texts is None:
            return ["--random", "2"]
        json.dump(texts, open(self.at(name), "w"))
        return ["--tokens", self.at(name)]

    def command(self, precision, feed=None, more=()):
        return [self.args.program, "probe", self.at("arch.json"), "--init", "default", "--seed", str(self.seed), "--precision", precision,
                "--taps", self.at("taps"), "--output", self.at("out"), "--threads", "1", "--json", "-", *(feed or self.feed), *self.options, *more]

    def probe(self, precision, feed=None, more=()):
        done = subprocess.run(self.command(precision, feed, more), capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip())
        return load_file(self.at("taps")), load_file(self.at("out")), json.loads(done.stdout)

    def weights(self):
        try:
            return drawn_weights(self.args.weights, self.at("arch.json"), self.seed)
        except RuntimeError as why:
            raise Refused(f"weights: {why}")


def differ(found, wanted):
    """The largest difference by the largest entry."""
    wanted = np.asarray(wanted, dtype=np.float64)
    found = np.asarray(found, dtype=np.float64)
    if found.size == 0:
        return 0.0
    scale = np.abs(wanted).max()
    return float(np.abs(found - wanted).max() / (scale if scale > 0 else 1.0))


def finite(run):
    return all(np.isfinite(np.asarray(x, dtype=np.float64)).all() for part in run[:2] for x in part)


def compare_states(it, weights, precision, limit):
    """States, branches and final states of both; returns the definition's runs."""
    taps, out, result = it.probe(precision, more=["--mixing"])
    dtypes = {"f64": (np.float64, np.longdouble), "f32": (np.float32, np.float64)}[precision]
    lengths = [len(t) for t in it.texts] if it.texts else [taps["layer.0.block_out"].shape[1]] * taps["layer.0.block_out"].shape[0]
    runs, wrong = [], []
    for sample, n in enumerate(lengths):
        x = taps["layer.0.block_out"][sample, :n].astype(np.float64)
        with np.errstate(all="ignore"):
            own, wide = (D.Layers(it.spec, weights, D.Kind(dtype), it.matrix).run(x) for dtype in dtypes)
        if not finite(wide) or not finite(own):
            raise Refused("definition: not finite")
        runs.append(wide)
        for l in range(it.spec["layers"]):
            it.loose[l] = max([it.loose[l]] + [differ(a, b) for a, b in zip(own[2][l], wide[2][l])])
        loose = 0.0
        for l in range(it.spec["layers"]):
            loose = max(loose, differ(own[1][l], wide[1][l]), differ(own[0][l + 1], wide[0][l + 1]))
            allowed = max(limit, 100 * loose)
            for what, found, wanted in ((f"mixer_out {l + 1}", taps[f"layer.{l + 1}.mixer_out"][sample, :n], wide[1][l]),
                                        (f"block_out {l + 1}", taps[f"layer.{l + 1}.block_out"][sample, :n], wide[0][l + 1])):
                error = differ(found, wanted)
                for mixer in {it.spec["mixer"][l % it.spec["depth"]]}:
                    if allowed == limit:
                        WORST[f"{precision} {mixer}"] = max(WORST[f"{precision} {mixer}"], error)
                    COUNT[f"{precision} {mixer}"] += 1
                if not error <= allowed:
                    wrong.append(f"{precision} {what} sample {sample} ({it.spec['mixer'][l % it.spec['depth']]}): {error:.3g} > {allowed:.3g}")
                    break
            if wrong:
                break
        if not wrong and differ(out["last_hidden_state"][sample, :n], wide[3]) > max(limit, 100 * loose):
            wrong.append(f"{precision} final: {differ(out['last_hidden_state'][sample, :n], wide[3]):.3g}")
        if wrong:
            break
    return wrong, runs, taps, result, lengths


def check_input(it, taps, weights, lengths):
    """Drawn states have the squared norm that they should; ids have their rows."""
    if it.texts is None:
        law = it.arch.get("input", {}).get("norm2", "d")
        want = eval(str(law), {"d": it.arch["d_model"], "n": it.arch.get("seq_len", 16), "L": it.arch["depth"]})
        got = (taps["layer.0.block_out"].astype(np.float64) ** 2).sum(-1)
        return [] if np.abs(got - want).max() <= 1e-12 * want else [f"input norm2 {got.min()} to {got.max()}, not {want}"]
    for s, text in enumerate(it.texts):
        if differ(taps["layer.0.block_out"][s, :lengths[s]], weights["embedding"][text]) > 0:
            return ["state 0 is not the embedding's rows"]
    return []


def check_weights(it, weights):
    """Weights that follow no law: rates 1, 2, ..., skips 1, steps within dt_init, kernels within +-1/sqrt(width)."""
    low, high = it.arch.get("dt_init", [0.001, 0.1])
    wrong = []
    for name, x in weights.items():
        mixer = it.spec["mixer"][int(name.split(".")[0])] if name[0].isdigit() else ""
        part = name.split(".", 2)[-1]
        flat = x.reshape(-1)
        if part == "a_log":
            states = it.spec["state"] if mixer == "mamba" else it.spec["heads"]
            want = np.log(np.tile(np.arange(1, states + 1.0), len(flat) // states))
            ok = np.abs(flat - want).max() < 1e-6
        elif part == "d":
            ok = (flat == 1).all() or mixer == "s4d"
        elif part in ("dt_bias", "log_step") or (part == "step.bias"):
            steps = np.exp(flat) if part == "log_step" else np.log1p(np.exp(flat))
            ok = (steps > low * (1 - 1e-5)).all() and (steps < high * (1 + 1e-5)).all()
        elif part == "frequency":
            ok = np.abs(x.reshape(-1, it.spec["state"]) - np.pi * np.arange(it.spec["state"])).max() < 1e-4
        elif part == "log_decay":
            ok = np.abs(flat - np.log(0.5)).max() < 1e-6
        elif part == "conv" and "conv" not in it.arch.get("init", {}):
            ok = np.abs(flat).max() <= 1 / np.sqrt(x.shape[1]) + 1e-7
        else:
            continue
        COUNT["weights without a law"] += 1
        if not ok:
            wrong.append(f"weight {name} ({mixer}): {flat[:4]}")
    if it.arch.get("share_layers"):
        for name, x in weights.items():
            first = "0." + name.split(".", 1)[-1]
            if name[0].isdigit() and not np.array_equal(x, weights[first]):
                wrong.append(f"share_layers: {name} is not {first}")
    return wrong


def check_graph_centre(it):
    """--residual-centre graph: about the multiples of the right vector."""
    if set(it.spec["mixer"]) != {"graph"}:
        return []
    try:
        taps, _, result = it.probe("f64", more=["--residual-centre", "graph"])
    except Refused as why:
        COUNT["graph centre refused"] += 1
        known = it.spec["form"] in ("symmetric", "row", "attention") and (it.matrix.astype(float) != 0).any(1).all()
        return [f"graph centre: {why}"] if known else []
    a, wrong = it.matrix.astype(np.float64), []
    u = np.sqrt(a.sum(1)) if it.spec["form"] == "symmetric" else np.ones(len(a))
    if it.spec["form"] in ("row", "attention"):
        u = (a != 0).any(1).astype(float)
    for row in result["tables"]["tokens"]:
        rest = []
        for x in taps[f"layer.{row['layer']}.{row['site']}"].astype(np.float64):
            rest.append(np.linalg.norm(x - np.outer(u, u @ x) / (u @ u)))
        COUNT["graph centre"] += 1
        error = abs(row["residual_fro"] - np.mean(rest)) / (row["norm_fro"] or 1)
        WORST["graph centre"] = max(WORST["graph centre"], error)
        if error > 1e-10:
            wrong.append(f"graph centre {row['site']} {row['layer']}: {row['residual_fro']}, not {np.mean(rest)}")
    return wrong


def check_batch(it, taps, lengths):
    """Each sample by itself; a later token changed moves nothing before it."""
    if it.texts is None:
        return []
    wrong, layers = [], it.spec["layers"]
    for s, text in enumerate(it.texts[:2]):
        single = it.probe("f64", it.fed([text], "one.json"))[0]
        for l in range(1, layers + 1):
            for site in ("block_out", "mixer_out"):
                name = f"layer.{l}.{site}"
                error = differ(single[name][0, :lengths[s]], taps[name][s, :lengths[s]])
                WORST["batch against single"] = max(WORST["batch against single"], error)
                if error > 1e-12:
                    wrong.append(f"sample {s} by itself: {name} {error:.3g}")
        causal = all(m not in ("attention", "linear_attention", "graph") or (m != "graph" and it.spec["mask"] != "none") for m in it.spec["mixer"])
        if causal and len(text) > 1:
            cut = it.r.randrange(1, len(text))
            other = text[:cut] + [(t + 1) % it.arch["vocab"] for t in text[cut:]]
            changed = it.probe("f64", it.fed([other], "one.json"))[0]
            for l in range(1, layers + 1):
                if not np.array_equal(changed[f"layer.{l}.block_out"][0, :cut], single[f"layer.{l}.block_out"][0, :cut]):
                    wrong.append(f"tokens from {cut} on move layer.{l}.block_out before them")
            COUNT["causality"] += 1
    return wrong


def check_matrices(it, runs, lengths):
    """The taps of the first sample's matrices."""
    wrong = []
    named = []
    for l in range(it.spec["layers"]):
        many = len(runs[0][2][l])
        if many:
            named += [(l, h) for h in sorted({0, many // 2, many - 1})]
    if not named:
        return []
    words = ",".join(f"{l}:{h}" for l, h in named)
    taps = it.probe("f64", more=["--attention-maps", words])[0]
    for l, h in named:
        name = f"layer.{l + 1}.attention.{h}"
        if name not in taps:
            wrong.append(f"no {name}")
            continue
        n = lengths[0]
        error = differ(taps[name][0, :n, :n], runs[0][2][l][h])
        mixer = it.spec["mixer"][l % it.spec["depth"]]
        skips = runs[0][4][l]["d"]
        if mixer != "attention":
            skip = float(taps[f"layer.{l + 1}.skip.{h}"][0])
            if skip != (0.0 if skips is None else float(skips[h])):
                wrong.append(f"layer.{l + 1}.skip.{h} ({mixer}): {skip}")
        COUNT[f"matrix {mixer}"] += 1
        if error <= max(1e-10, 100 * it.loose[l]):
            WORST[f"matrix {mixer}"] = max(WORST[f"matrix {mixer}"], error)
        else:
            wrong.append(f"{name} ({mixer}): {error:.3g}")
    return wrong


def check_tables(it, taps, result, lengths, runs):
    samples = [s for s, n in enumerate(lengths) if n > 0]
    rows = result["tables"]["tokens"]
    wrong = []
    for row in rows:
        x = [taps[f"layer.{row['layer']}.{row['site']}"][s, :lengths[s]].astype(np.float64) for s in samples]
        wrong += S.compare_tokens(row, x, WORST, COUNT)
    for row in result["tables"].get("mixing", []):
        mixer = it.spec["mixer"][row["layer"] % it.spec["depth"]]
        if not runs[0][2][row["layer"]]:
            continue
        wrong += [f"mixer is {row['mixer']}, not {mixer}"] if row["mixer"] != mixer else []
        wrong += S.compare_mixing(row, [run[2][row["layer"]] for run in runs], [run[4][row["layer"]] for run in runs], WORST, COUNT,
                                  max(1e-10, 100 * it.loose[row["layer"]]))
    wrong += S.norm_decay(rows, result["findings"], it.spec["layers"])
    for row in result["tables"].get("attention", []):
        mixer = it.spec["mixer"][row["layer"] % it.spec["depth"]]
        if not runs[0][2][row["layer"]]:
            continue
        if mixer in BY_CHANNEL:
            wrong.append(f"table attention has a row for {mixer}")
            continue
        ms = [np.asarray(run[2][row["layer"]][row["head"]], dtype=np.float64) for run in runs]
        wrong += S.compare_matrices(row, ms, it.spec, mixer, WORST, COUNT)
    return wrong


def check_residual(it, weights):
    """--precision residual against mpmath: the tokens whole, and what tells them apart."""
    feed = it.fed(it.texts[:1], "one.json") if it.texts else ["--random", "1"]
    taps, _, result = it.probe("residual", feed)
    n, layers, wrong = taps["layer.0.block_out"].shape[1], it.spec["layers"], []
    mpmath.mp.dps = 60
    sample, count = 0, len(it.texts[0]) if it.texts else n
    start = plain_of(taps, 0, sample, count)
    states, outs = D.Layers(it.spec, weights, D.Kind(mp=mpmath), it.matrix).run(start)[:2]
    with np.errstate(all="ignore"):
        rounded = D.Layers(it.spec, weights, D.Kind(np.float64), it.matrix).run(start.astype(np.float64))[0]
    plain, loose = set(it.spec["mixer"]) != {"attention"}, 0.0
    gone = False
    for l in range(1, layers + 1):
        found = plain_of(taps, l, sample, count)
        scale = max(abs(v) for v in states[l].reshape(-1))
        if scale == 0:
            continue
        error = float(max(abs(v) for v in (found - states[l]).reshape(-1)) / scale)
        mean = states[l].sum(0) / count
        spread = max(abs(v) for v in (states[l] - mean).reshape(-1))
        if spread < scale * mpmath.mpf("1e-50"):  # equal, but for the rounding of 60 digits
            continue
        row = next(r for r in result["tables"]["tokens"] if r["layer"] == l and r["site"] == "block_out")
        loose = max(loose, float(max(abs(v) for v in (rounded[l] - states[l]).reshape(-1)) / scale))
        # a token of zeros is rounding there, which norms multiply by up to 1/sqrt(epsilon) each (docs/probe.md, Corners)
        gone |= any(not any(v != 0 for v in token) for part in (states[l], outs[l - 1]) for token in part)
        limit = max(1e-6 if gone else 1e-10, 100 * loose)
        COUNT["residual states"] += 1
        if error > limit:
            wrong.append(f"residual state {l}: {error:.3g}")
        elif spread > 0 and not row["at_floor"]:
            left = found - found.sum(0) / count - (states[l] - mean)
            miss = float(max(abs(v) for v in left.reshape(-1)) / spread)
            told = row["log10_residual_fro"]
            if told is not None and len(taps["layer.0.block_out"]) == 1:
                exact = mpmath.log10(mpmath.sqrt(sum(v * v for v in (states[l] - mean).reshape(-1))))
                if abs(told - float(exact)) > max(0.06 if plain else 1e-9, 1e-15 * abs(told)):
                    wrong.append(f"residual {l}: log10_residual_fro {told}, not {float(exact)}")
                COUNT["log10_residual_fro"] += 1
            wrong += [f"residual {l} {why}" for why in S.compare_residual(row, states[l], plain or gone or loose > 1e-12, mpmath, WORST, COUNT)]
            if plain and miss > 0.125:
                wrong.append(f"residual {l}: spread misses {miss:.3g}, not at_floor")
            if not plain:
                if not gone and loose < 1e-12:
                    WORST["residual attention spread"] = max(WORST["residual attention spread"], miss)
                if miss > max(1e-5 if gone else 1e-9, 1000 * loose):
                    wrong.append(f"residual {l}: spread misses {miss:.3g}")
        WORST["residual states"] = max(WORST["residual states"], error if error <= 1e-10 else 0)
        if wrong:
            return wrong
    return wrong


def plain_of(taps, l, sample, n):
    """X = 2^scale (1 base + 2^exponent residual), in mpmath."""
    name = f"layer.{l}.block_out"
    base, residual = taps[name + ".base"][sample], taps[name + ".residual"][sample, :n]
    scale, exponent = (int(taps[name + part][sample]) for part in (".scale", ".exponent"))
    of = np.vectorize(mpmath.mpf, otypes=[object])
    return mpmath.ldexp(mpmath.mpf(1), scale) * (of(base)[None, :] + mpmath.ldexp(mpmath.mpf(1), exponent) * of(residual))


def attack(args, seed, folder):
    it = Instance(args, seed, folder)
    wrong = []
    try:
        weights = it.weights()
        wrong, runs, taps, result, lengths = compare_states(it, weights, "f64", 1e-10)
        wrong += check_input(it, taps, weights, lengths) + check_weights(it, weights)
        if not wrong:
            wrong += check_graph_centre(it)
            wrong += check_tables(it, taps, result, lengths, runs)
            wrong += check_batch(it, taps, lengths) + check_matrices(it, runs, lengths)
            wrong += compare_states(it, weights, "f32", 1e-4)[0]
        if not wrong and args.mp and it.spec["d_model"] <= 8 and lengths[0] <= 12:
            wrong += check_residual(it, weights)
    except Refused as why:
        if wrong or "not finite" not in str(why):
            return it, wrong + [f"refused: {why}"], True
        return it, [f"refused: {why}"], True
    return it, wrong, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("weights")
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(MIXERS))
    parser.add_argument("--keep")
    parser.add_argument("--mp", action="store_true", help="also --precision residual against mpmath")
    args = parser.parse_args()
    failed, refused = 0, defaultdict(int)
    for seed in range(args.seed, args.seed + args.instances):
        folder = tempfile.mkdtemp()
        it, wrong, no = attack(args, seed, folder)
        if no:
            refused[wrong[-1][:160].replace(folder, "")] += 1
        elif wrong:
            failed += 1
            print(f"{seed}: {'; '.join(wrong[:4])}\n    {json.dumps(it.arch)}\n    {' '.join(it.command('f64')[1:])}", flush=True)
            if args.keep:
                shutil.copytree(folder, os.path.join(args.keep, str(seed)), dirs_exist_ok=True)
        shutil.rmtree(folder)
    print(f"{args.instances} instances, {sum(refused.values())} refused, {failed} differ")
    for why, times in sorted(refused.items(), key=lambda p: -p[1]):
        print(f"  refused {times}: {why}")
    for kind in sorted(set(WORST) | set(COUNT)):
        print(f"  {kind}: worst {WORST[kind]:.2g}" + (f" ({COUNT[kind]})" if COUNT[kind] else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
