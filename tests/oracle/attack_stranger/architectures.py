"""Architecture files (docs/arch.md), drawn wild, and the layers that they mean."""
import numpy as np
from arch_files import meaning

from .mixers import EPS


def some(r, share):
    return r.random() < share


def draw_arch(r, kind):
    heads = r.choice((1, 1, 2, 4))
    depth = r.choice((1, 1, 2, 3))
    a = {"depth": depth, "d_model": r.randint(1, 12), "heads": heads, "d_head": r.choice((1, 1, 2, 3)), "seq_len": r.choice((1, 2, 3, 5, 8)),
         "kv_heads": r.choice([k for k in (1, 2, 4) if heads % k == 0]), "mixer": kind, "norm": r.choice(("pre", "pre", "post", "post", "none", "sandwich")),
         "norm_kind": r.choice(("layernorm", "rmsnorm", "rmsnorm")), "conv": r.choice((1, 2, 4)), "state": r.choice((1, 1, 2, 5)),
         "mlp": r.choice(("none", "none", "linear", "relu", "gelu", "gelu_tanh", "swiglu")), "mlp_width": r.randint(1, 6)}
    a["groups"] = r.choice([k for k in (1, 2, 4) if heads % k == 0])
    a["dt_init"] = r.choice(([0.001, 0.1], [0.5, 2], [1e-6, 30], [1e-12, 1e-9], [20, 60]))
    for name in ("skip_mixer", "skip_mlp"):
        if some(r, 0.6):
            a[name] = r.choice((1.5, -1, 4, -20, 300, -3000, 1e5, 0.5))
    if some(r, 0.3):
        a["branch_mixer"] = r.choice((0.5, -2, 0.01))
    if some(r, 0.6):
        a["gate"] = r.choice(("before", "after", "none"))
    if some(r, 0.6):
        a["inner_norm"] = some(r, 0.7)
    if kind == "linear_attention":
        a.update(mask=r.choice(("none", "causal")), temperature=r.choice((1, 0.3, 10, 300)), feature_map=r.choice(("identity", "elu")),
                 normalised=some(r, 0.3), without_self=some(r, 0.2))
        if a["mask"] == "causal" and some(r, 0.6):
            a["decay"] = r.choice((0, 0.5, 0.9, "retnet", 1))
        if some(r, 0.6):  # theorem C's
            a.update(heads=1, kv_heads=1, groups=1, value_map="identity", inner_norm=False, norm="post",
                     norm_kind=r.choice(("rmsnorm", "rmsnorm", "layernorm")), mlp=r.choice(("none", "none", "relu")))
            a.pop("d_head"), a.pop("gate", None)
            a["init"] = {"wo": "none"}
            if some(r, 0.7):
                a["skip_mixer"] = r.choice((1, -1, 3, 10, -10, 40, -200, 1000))
    laws = a.setdefault("init", {})
    for name in ("wq", "wk", "wv", "wo", "w1", "w2", "win", "wx", "wdt", "conv"):
        if some(r, 0.25) and name not in laws:
            laws[name] = r.choice(("orthogonal", "normal(0, 4/fan_in)", "uniform(-1, 1)", "normal(0.1, 0.5)", "normal(0, 400)", "normal(0, 1e-4)"))
    if some(r, 0.6):
        rho = r.choice((0, 0.5, 0.99, 0.9999999)) if a["d_model"] > 1 else 0
        a["input"] = {"law": "gaussian", "rho": rho, "norm2": r.choice(("d", "d", 1, 1e-4, "100*d", 1e8))}
    return a


def arch_layers(a, w):
    s, layers = meaning(a), []
    kind = s["mixer"][0]
    for l in range(a["depth"]):
        p = f"{l}.0."
        of = {name[len(p):]: x for name, x in w.items() if name.startswith(p)}
        row = {name: of[name].reshape(-1) for name in ("d", "dt_bias") if name in of}
        m = {"o": of.get("o"), "conv": of.get("conv"), "gate": s["gate_of"][kind], "norm": s["inner_norm_of"][kind], "norm_eps": EPS, "state": s["state"],
             **row}
        if "a_log" in of:
            m["a"] = np.exp(of["a_log"].reshape(-1))
        if kind == "mamba":
            m.update({"in": of["in"], "x": of["x"], "step": of["step"], "step_b": of["step.bias"].reshape(-1), "a": m["a"].reshape(-1, s["state"])})
            m["three_eps"] = EPS if m["norm"] else None
        if kind == "mamba2":
            m.update({"in": of["in"], "groups": s["groups"]})
        if kind == "gated_delta":
            m.update(qkv=np.concatenate([of[name] for name in "qkv"]), wa=of["a"], wb=of["b"])
            m.update({"z": of["z"]} if "z" in of else {})
        if kind == "linear_attention":
            m.update({name: of[name] for name in ("q", "k", "v") if name in of}, heads=s["heads"], kv_heads=s["kv_heads"], elu=s["feature_map"] == "elu",
                     temperature=s["temperature"], causal=s["mask"] == "causal", decay=s["decay_of"], without_self=s["without_self"],
                     normalised=s["normalised"])
            m.update({"z": of["gate"]} if "gate" in of else {})
        m = {name: x for name, x in m.items() if x is not None}
        layer = {"kind": kind, "m": m, "norm_kind": s["norm_kind"] if s["norm"] in ("pre", "sandwich") else "none", "eps": EPS, "skip": s["skip_mixer"][l],
                 "branch": s["branch_mixer"][l], "place": s["norm"], "post_kind": s["norm_kind"]}
        q = f"{l}.1."
        if a.get("mlp") != "none":
            layer["mlp"] = {"form": s["mlp"], **{name: w[q + name] for name in ("up", "down", "gate") if q + name in w}}
        layers.append(layer)
    return layers


def first_rows(m):
    return np.concatenate([m[name] for name in ("in", "qkv", "z", "q", "k", "v", "wa", "wb") if name in m])
