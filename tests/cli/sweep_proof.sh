#!/bin/sh
# sweep_proof.sh: what --sweep proves of its points (docs/certificates_lambda.md, L29) against the runs themselves, and by value from the
# weights; half lines; the published equation 7; what is null and why.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >proof.py <<'PY'
import json, math, os, struct, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden/forward"
wrong, tight = [], 0

def sweep(path, text, *options):
    run = subprocess.run([program, "probe", path, "--json", "-", "--no-attention", "--no-spectral", "--no-loss", "--sweep", text, *options], capture_output=True)
    if run.returncode:
        wrong.append(f"{path} {text} {options}: {run.stderr.decode()}")
        return {"sweep": [], "sweep_ends": [], "tokens": []}
    return json.loads(run.stdout)["tables"]

# No state of any run may have less than was proved of it; every null has its reason; returns points whose bound says something.
def holds(out, what):
    said = 0
    start = {(r["lambda"], r["gate"], r["norm"]): r for r in out["sweep"] if r["layer"] == 0}
    for r in out["sweep"] + out["sweep_ends"]:
        bound, kept = r["certified_residual"], r["certified_kept"]
        if (kept is None) != (r["certified_failed"] is not None) or (bound is None and kept is not None):
            wrong.append(f"{what}: null without a reason, or the other way round: {r}")
        if bound is None:
            continue
        entered = start[r["lambda"], r["gate"], r["norm"]]["relative_residual"]
        if bound > r["relative_residual"] + 1e-12:
            wrong.append(f"{what}: {bound} is certified and {r['relative_residual']} is left: {r}")
        if kept is not None and not (0 <= kept <= 1 and kept * entered <= bound + 1e-12):
            wrong.append(f"{what}: {kept} of {entered} kept, and only {bound}")
        said += bound > 0.02 and r.get("layer") != 0
    for r in out["sweep_ends"]:
        for value, reason in (("certified_from", "certified_from_failed"), ("demanded_by_eq7", "demanded_by_eq7_failed")):
            if (r[value] is None) != (r[reason] is not None):
                wrong.append(f"{what}: {value} {r[value]} and {r[reason]}")
        mirror = [x for x in out["sweep_ends"] if (x["lambda"], x["gate"], x["norm"]) == (-r["lambda"], r["gate"], r["norm"])]
        if mirror and mirror[0]["certified_residual"] != r["certified_residual"]:
            wrong.append(f"{what}: another number at -{r['lambda']}")
        if r["certified_from"] is not None and abs(r["lambda"]) >= r["certified_from"]:
            if r["certified_kept"] < 0.9:
                wrong.append(f"{what}: on the half line from {r['certified_from']} only {r['certified_kept']} is proved: {r}")
    return said

json.dump([[5, 3, 8, 1, 9, 2, 7], [4, 11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]], open("ids.json", "w"))
ragged = ("--tokens", "ids.json", "--precision", "f64")

# ---- golden models, at the size of lambda that their own half line begins at ----
for model, of, more in (("llama", "", ()), ("llama", "mixer:", ("--lambda", "mlp:3")), ("llama", "mlp:", ("--lambda", "mixer:40")), ("mamba2", "", ()),
                        ("mamba", "", ()), ("gemma2", "", ()), ("gemma3", "mlp:", ()), ("olmo2", "", ()), ("gpt2", "", ()), ("gpt_neox", "", ()), ("gemma", "", ()), ("llama", "", ("--depth", "5")),
                        ("llama", "", ("--residual-scale", "0.1")), ("mamba2", "", ("--no-inner-norm",))):
    out = sweep(f"{golden}/{model}", f"lambda={of}-2:2:5", *ragged, *more)
    holds(out, model)
    begins = out["sweep_ends"][0]["certified_from"] if out["sweep_ends"] else None
    if begins is None:
        if of == "":
            wrong.append(f"{model} {of} {more}: no half line: {out['sweep_ends'][:1]}")
        continue
    for factor in (0.02, 0.1, 1, 1.0001, 30):
        size = begins * factor
        said = holds(sweep(f"{golden}/{model}", f"lambda={of}{-size!r}:{size!r}:3", *ragged, *more), f"{model} {of}{size}")
        if factor >= 1 and not said:
            wrong.append(f"{model} {of} {more}: nothing is proved at {size}")

# ---- and every other golden model that runs on random ids ----
proved, ran = set(), 0
for model in sorted(os.listdir(golden)):
    run = subprocess.run([program, "probe", f"{golden}/{model}", "--json", "-", "--no-attention", "--no-spectral", "--no-loss", "--random", "2",
                          "--seq-len", "8", "--precision", "f64", "--sweep", "lambda=-3000:3000:3"], capture_output=True)
    if run.returncode == 0:
        ran += 1
        if holds(json.loads(run.stdout)["tables"], model):
            proved.add(model)
if ran < 90 or len(proved) < 45:
    wrong.append(f"of {ran} golden models that ran {len(proved)} have a bound that says something: {sorted(proved)}")

# ---- drawn models: norms, mixers, MLPs, depths, points that the residual precision runs ----
base = {"d_model": 16, "heads": 2, "kv_heads": 1, "d_head": 8, "seq_len": 9}
for depth in (1, 24):
    for norm in ("layernorm", "rmsnorm"):
        for mixer in ("attention", "mamba2", "mamba"):
            for mlp in ("none", "swiglu"):
                arch = dict(base, depth=depth, norm="pre", norm_kind=norm, mixer=mixer, mlp=mlp, branch_mixer=0.3)
                json.dump(arch, open("drawn.json", "w"))
                for text in ("lambda=mixer:-4e3:4e3:3", "lambda=1e5:1e9:2"):
                    tight += holds(sweep("drawn.json", text, "--init", "default", "--random", "3", "--precision", "f64"), f"{arch} {text}")
if tight < 200:
    wrong.append(f"only {tight} states of drawn models have a bound that says something")

# ---- hypotheses that fail are named ----
def reasons(path, text, *options):
    return {(r["certified_residual"], r["certified_from"], r["certified_failed"]) for r in sweep(path, text, *options)["sweep_ends"]}
after, before = "no norm behind a sum (pre-norm)", "a norm before or inside every branch (pre-norm)"
for path, text, options, reason in ((f"{golden}/bert", "lambda=-2:2:3", ragged, after), (f"{golden}/llama", "lambda=-2:2:3,norm=off", ragged, before),
                                    (f"{golden}/llama", "lambda=-2:2:3", (*ragged, "--norm-placement", "post"), after)):
    if reasons(path, text, *options) != {(None, None, reason)}:
        wrong.append(f"{path} {text}: {reasons(path, text, *options)}, not {reason}")
both = sweep(f"{golden}/mamba2", "lambda=5000,gate=both,norm=both", *ragged)["sweep_ends"]
proved = {(r["gate"], r["norm"]): r["certified_residual"] for r in both}
if proved["on", "off"] is not None or proved["off", "off"] is not None or None in (proved["on", "on"], proved["off", "on"]):
    wrong.append(f"mamba2 with gates and norms on and off: {proved}")
if {r["gate"] for r in both if r["demanded_by_eq7"] is not None} != {"on"}:
    wrong.append("equation 7 of Mamba-2 rests on a run of the model as it is")

# Tokens I, branch output the swap of both: 1, 0 and 1/sqrt 5 are kept at 0, 1 and 2: points say nothing of what lies between.
def npy(path, rows):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {tuple(len(x) for x in (rows, rows[0]))}, }}".ljust(117) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"".join(struct.pack("<d", v) for r in rows for v in r))
npy("swap.npy", [[0, 1], [1, 0]])
arch = {"depth": 1, "d_model": 2, "heads": 1, "kv_heads": 1, "d_head": 2, "seq_len": 2, "norm": "none", "mlp": "none", "mixer": "graph",
        "graph": {"file": "swap.npy", "form": "given"}, "value_map": "identity", "init": {"wo": "identity"}, "input": {"law": "gaussian"}}
json.dump(arch, open("swap.json", "w"))
for r in sweep("swap.json", "lambda=0:2:3", "--init", "default", "--random", "3")["sweep_ends"]:
    if r["certified_from"] is not None or r["certified_residual"] is not None:
        wrong.append(f"the swap has a half line: {r}")

# ---- by value, from the weights of a Llama ----
def tensors(path):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        low, high = (8 + size + x for x in t["data_offsets"])
        flat = struct.unpack(f"<{(high - low) // 4}f", raw[low:high])
        cols = t["shape"][-1]
        out[name] = [list(flat[i:i + cols]) for i in range(0, len(flat), cols)] if len(t["shape"]) == 2 else list(flat)
    return out
def product(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]
def two(a): # power iteration on the Gram matrix
    gram, v = product(a, [list(c) for c in zip(*a)]), [1 + 0.1 * i for i in range(len(a))]
    for _ in range(4000):
        v = [sum(x * y for x, y in zip(row, v)) for row in gram]
        size = math.hypot(*v)
        v = [x / size for x in v]
    return math.sqrt(size)
w, d, head = tensors(f"{golden}/llama/model.safetensors"), 12, 6
gains, stretch = [], 0
for l in range(2):
    at = lambda name: w[f"model.layers.{l}.{name}.weight"]
    norms = 0
    for h in range(4):
        v, o = at("self_attn.v_proj")[(h // 2) * head:(h // 2 + 1) * head], [row[h * head:(h + 1) * head] for row in at("self_attn.o_proj")]
        norms += two(product(o, v))
    largest = max(map(abs, at("input_layernorm")))
    stretch = max(stretch, norms * largest)
    gate, up, down = at("mlp.gate_proj"), two(at("mlp.up_proj")), two(at("mlp.down_proj"))
    largest_mlp = max(map(abs, at("post_attention_layernorm")))
    longest = max(math.hypot(*row) for row in gate)
    gains += [norms * largest, down * math.sqrt(d) * longest * largest_mlp * up * largest_mlp]
ids = json.load(open("ids.json"))
for kept in (0.9, math.sqrt(0.9999)):
    out = sweep(f"{golden}/llama", f"lambda=-300:300:3,kept={kept!r}", *ragged)["sweep_ends"]
    a = kept * kept
    eq7 = math.sqrt(max(map(len, ids))) * stretch * (a + kept) / (1 - a)
    for r in out:
        if abs(r["demanded_by_eq7"] - eq7) > 1e-8 * eq7 or r["demanded_by_eq7_from"] != "weights":
            wrong.append(f"equation 7 asks for {r['demanded_by_eq7']}, from the weights {eq7}")
        bounds = []
        for sample in ids:
            x = [w["model.embed_tokens.weight"][i] for i in sample]
            mean = [sum(c) / len(x) for c in zip(*x)]
            size = math.sqrt(sum(v * v for row in x for v in row))
            mu = math.sqrt(sum((v - m) ** 2 for row in x for v, m in zip(row, mean)))
            reach = sum(c / abs(r["lambda"]) ** (k + 1) for k, c in enumerate(gains)) if r["lambda"] else math.inf
            turn = math.asin(min(1, reach * math.sqrt(d * len(x)) / size))
            bounds.append(math.sin(max(0, math.asin(mu / size) - turn)))
        if abs(r["certified_residual"] - sum(bounds) / len(bounds)) > 1e-8:
            wrong.append(f"lambda {r['lambda']}: {r['certified_residual']}, from the weights {sum(bounds) / len(bounds)}")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
PY
python3 proof.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "what a sweep proves"
# ---- the figure shades the half line and nothing else, and marks equation 7 ----
model=$RS_SOURCE_DIR/tests/golden/forward/llama
drawn() { # SWEEP ARGUMENT...: runs into drawn.json and folder drawn
    text=$1
    shift
    rm -rf drawn
    expect 0 "$RANKSCOPE" probe "$@" --sweep "$text" --json drawn.json --svg drawn --quiet
}
shades() { # COUNT: that many shaded stretches in drawn/sweep.svg
    python3 - "$1" <<'END' || note_failure "shaded stretches of $text"
import json, sys
import xml.etree.ElementTree as tree
svg, result = open("drawn/sweep.svg").read(), json.load(open("drawn.json"))
ends, spec = result["tables"]["sweep_ends"], result["figures"]["sweep"]
proved = min((r["certified_from"] for r in ends if r["certified_from"] is not None), default=None)
# of either sign, both ends at the axis' own and at the half line's beginning
axis = spec["layer"][-1]["encoding"]["x"]["scale"]["domain"]
rects = [(l["encoding"]["x"]["datum"], l["encoding"]["x2"]["datum"]) for l in spec["layer"] if l["mark"]["type"] == "rect"]
near = lambda a, b: abs(a - b) <= 1e-6 * abs(b)
assert len(rects) == int(sys.argv[1]) == svg.count('fill-opacity="0.22"'), (rects, svg)
assert all(near(low, axis[0]) and near(high, -proved) or near(low, proved) and near(high, axis[1]) for low, high in rects), (rects, proved, axis)
dots = [r for r in spec["data"]["values"] if r.get("dots")]
assert len(dots) == sum((r["certified_residual"] or 0) > 0 for r in ends) and all(r["marker"] for r in dots), len(dots)
rules = [l["encoding"]["x"]["datum"] for l in spec["layer"] if l["mark"]["type"] == "rule"]
asked = min((r["demanded_by_eq7"] for r in ends if r["demanded_by_eq7"] is not None), default=None)
inside = [x for x in (-asked, asked) if axis[0] <= x <= axis[1]] if asked else []
assert len(rules) == len(inside) and all(near(x, want) for x, want in zip(rules, inside)), (rules, asked)
notes, words = spec["usermeta"]["rankscope"]["notes"], [t.text for t in tree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
assert any("equation 7" in n for n in notes) == (asked is not None and not inside), notes
assert any("proved" in n for n in notes) == (proved is not None and not rects) and all(n in words for n in notes), (notes, words)
(said,) = [f for f in result["findings"] if f["code"] == "sweep_certified"]
assert (said["value"] is None) == (proved is None) and ("beyond" in said["message"]) == bool(notes), said
END
}
drawn lambda=-600:600:13 "$model" --tokens ids.json
shades 2
drawn lambda=-20:20:5 "$model" --tokens ids.json
shades 0
drawn lambda=-20:20:5,kept=0.99995 "$model" --tokens ids.json # the published figure's a
shades 0
drawn lambda=-8000:2:5 "$model" --tokens ids.json
shades 1
drawn lambda=-2000:2000:5,gate=both,norm=both "$RS_SOURCE_DIR/tests/golden/forward/mamba2" --tokens ids.json
shades 2
drawn lambda=-2:2:5 "$RS_SOURCE_DIR/tests/golden/forward/bert" --tokens ids.json
shades 0
drawn lambda=0:2:3 swap.json --init default --random 3
shades 0

for bad in 0 1 x -0.5; do
    refused_by probe bad-option "--sweep" "$RS_SOURCE_DIR/tests/golden/forward/llama" --random 1 --sweep "lambda=0:1:3,kept=$bad"
done
finish
