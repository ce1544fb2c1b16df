"""Architecture files (docs/arch.md) for the scripts here: what the fields of one mean, and which weights the program draws for it."""
import math
import subprocess

import numpy as np

MIXERS = ("attention", "linear_attention", "s4d", "mamba", "mamba2", "gated_recurrence", "gated_delta", "short_conv", "graph")


def formula(value, depth, l):
    if isinstance(value, list):
        return float(value[l])
    if isinstance(value, str):
        return eval(value, {"L": depth, "l": l, "sqrt": math.sqrt})
    return float(value)


def meaning(a):
    """The file with its defaults, as mixer_definitions.py reads it."""
    depth, heads = a["depth"], a["heads"]
    s = {"norm": "pre", "norm_kind": "layernorm", "mlp": "gelu", "mask": "none", "temperature": 1, "feature_map": "identity",
         "normalised": False, "without_self": False, "state": 16, "groups": 1, "positions": "none", "kv_heads": heads,
         "d_head": a["d_model"] // heads, "attention": "softmax", "layers": depth, **a}
    s["mixer"] = a["mixer"] if isinstance(a["mixer"], list) else [a["mixer"]] * depth
    for name in ("skip_mixer", "skip_mlp", "branch_mixer", "branch_mlp"):
        s[name] = [formula(a.get(name, 1), depth, l) for l in range(depth)]
    gates = {"gated_delta": "after", "linear_attention": "none"}
    s["gate_of"] = {m: a.get("gate", gates.get(m, "before")) for m in MIXERS}
    s["inner_norm_of"] = {m: a.get("inner_norm", m in ("mamba2", "gated_delta")) for m in MIXERS}
    decay = a.get("decay", 1)
    s["decay_of"] = decay if isinstance(decay, list) else [1 - 2.0 ** (-5 - h) if decay == "retnet" else decay for h in range(heads)]
    s["mlp_norm"], s["final_norm"] = s["norm"], s["norm"] in ("pre", "sandwich")
    w = a.get("rescale", 1)
    mixes = {"softmax": (0, 1, 0), "uniform": (0, 0, -1), "centred": (0, 1, 1), "rescaled": (0, 1 + w, w)}
    s["mix"] = mixes.get(s["attention"]) or tuple(a.get("shaped", [1, 1, 1]))
    s["form"] = a.get("graph", {}).get("form")
    return s


def drawn_weights(program, path, seed):
    """What `probe PATH --init default --seed SEED` draws, by name, as arch_weights.c (the program) tells it."""
    done = subprocess.run([program, path, "default", str(seed)], capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    data, at, found = done.stdout, 0, {}
    while at < len(data):
        end = data.index(b"\n", at)
        name, rows, cols = data[at:end].decode().split()
        count = int(rows) * int(cols)
        found[name] = np.frombuffer(data, np.float64, count, end + 1).reshape(int(rows), int(cols))
        at = end + 1 + 8 * count
    return found
