#!/bin/sh
# sweep.sh: every point of --sweep against the run at that skip strength alone, in models of several shapes; what is refused.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >sweep.py <<'PY'
import json, math, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden/forward"
wrong = []

def probe(path, *options):
    run = subprocess.run([program, "probe", path, "--json", "-", "--no-attention", "--no-spectral", "--no-loss", *options], capture_output=True)
    if run.returncode:
        wrong.append(f"{path} {options}: {run.stderr.decode()}")
        return {"tables": {"sweep": [], "tokens": [], "sweep_ends": []}, "findings": [], "run": {}}
    return json.loads(run.stdout)

# Each point against `--lambda X` with the same other options, at every state.
def compare(path, lambdas, of, options, tolerance, switches="", edits=()):
    low, high, n = lambdas
    text = f"lambda={of}{low}:{high}:{n}{switches}"
    out = probe(path, "--sweep", text, *options)["tables"]
    points = {(r["lambda"], r["gate"], r["norm"]) for r in out["sweep"]}
    wanted = [low + (high - low) * i / (n - 1) for i in range(n)]
    if sorted({p[0] for p in points}) != wanted or len(out["sweep_ends"]) != len(points):
        wrong.append(f"{path} {text}: points {sorted(points)}")
    for value, gate, norm in sorted(points):
        edit = ["--no-gate"] * (gate == "off") + ["--no-norm"] * (norm == "off")
        alone = {r["layer"]: r for r in probe(path, "--lambda", f"{of}{value}", *edit, *options)["tables"]["tokens"] if r["site"] == "block_out"}
        rows = [r for r in out["sweep"] if (r["lambda"], r["gate"], r["norm"]) == (value, gate, norm)]
        if [r["layer"] for r in rows] != sorted(alone):
            wrong.append(f"{path} {text}: states {[r['layer'] for r in rows]}")
        for r in rows:
            want = alone[r["layer"]]
            mine = (r["relative_residual"], r["mu"])
            theirs = (want["relative_residual"], want["residual_fro"])
            # of the state's own size: what is left of nearly equal tokens is rounding in both
            sizes = (1, want["norm_fro"])
            if any((a is None) != (b is None) or a is not None and abs(a - b) > tolerance * size for a, b, size in zip(mine, theirs, sizes)):
                wrong.append(f"{path} {text} at {value} {gate} {norm}, state {r['layer']}: {mine}, alone {theirs}")
    last = {(r["lambda"], r["gate"], r["norm"]): r for r in out["sweep"]}
    for end in out["sweep_ends"]:
        row = last[end["lambda"], end["gate"], end["norm"]]
        words = ["no gate"] * (end["gate"] == "off") + ["no norm"] * (end["norm"] == "off")
        if end["line"] != (", ".join(words) or "as it is"):
            wrong.append(f"{path}: a line of another name: {end}")
        if any(end[k] != row[k] for k in ("relative_residual", "mu", "log10_mu")):
            wrong.append(f"{path}: sweep_ends {end} is not {row}")
    return out

json.dump([[5, 3, 8, 1, 9, 2, 7], [4], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]], open("ids.json", "w"))
ragged = ("--tokens", "ids.json")
# Rows of a product are not rounded alike beside many others and beside few: float32 shows that, float64 compares.
for model in ("llama", "bert", "gpt_neox", "mamba", "mamba2", "falcon_h1", "qwen3_5", "lfm2", "albert"):
    for precision, tolerance in (("f64", 1e-12), ("f32", 3e-5)):
        compare(f"{golden}/{model}", (-2, 2, 5), "", (*ragged, "--precision", precision), tolerance)
compare(f"{golden}/llama", (-1, 1, 3), "mixer:", (*ragged, "--precision", "f64"), 1e-12)
compare(f"{golden}/llama", (-1, 1, 3), "mlp:", (*ragged, "--precision", "f64"), 1e-12)
compare(f"{golden}/llama", (-1, 1, 3), "mixer:", (*ragged, "--precision", "f64", "--lambda", "mlp:0.5", "--depth", "5"), 1e-12)
compare(f"{golden}/llama", (-1, 1, 3), "", (*ragged, "--precision", "f64", "--norm-placement", "post"), 1e-12)
compare(f"{golden}/mamba2", (-1, 1, 3), "", (*ragged, "--precision", "f64"), 1e-12, ",gate=both,norm=both")
compare(f"{golden}/mamba2", (-1, 1, 3), "", (*ragged, "--precision", "residual"), 1e-12)

# A stored weight is decoded once, however many points there are: in the precision asked for, and once more in another one.
for options, high in (((), 2), ((), 1e30), (("--precision", "f64"), 2)):
    one, many = (probe(f"{golden}/mamba2", "--sweep", f"lambda={points}", *ragged, *options)["run"]["weight_bytes_decoded"]
                 for points in (high, f"{high / 2}:{high}:9"))
    if one != many or (one == 0) != (high == 2 and not options):
        wrong.append(f"mamba2 {options} to {high}: {one} bytes of weights decoded for one point, {many} for nine")

# Neither threads nor the batch change a point beyond rounding.
text = ("--sweep", "lambda=-3:3:7", *ragged, "--precision", "f64")
first = probe(f"{golden}/mamba2", *text)["tables"]["sweep"]
for more in (("--threads", "1"), ("--threads", "3")):
    if probe(f"{golden}/mamba2", *text, *more)["tables"]["sweep"] != first:
        wrong.append(f"{more} changes a sweep")
for a, b in zip(first, probe(f"{golden}/mamba2", *text, "--batch", "1")["tables"]["sweep"]):
    if abs(a["relative_residual"] - b["relative_residual"]) > 1e-12:
        wrong.append(f"--batch 1: {b}, not {a}")

# 20^64 leaves float32, and 1e6^64 leaves float64: the precision follows, and the logarithms go on.
arch = {"depth": 64, "d_model": 8, "heads": 2, "kv_heads": 2, "d_head": 4, "seq_len": 5, "norm": "pre", "mlp": "none"}
json.dump(arch, open("deep.json", "w"))
drawn = ("--init", "default", "--random", "2")
for value, precision, decades in ((1, "f32", 0), (20, "f64", 64 * math.log10(20)), (-20, "f64", 64 * math.log10(20)), (1e6, "residual", 384)):
    out = probe("deep.json", *drawn, "--sweep", f"lambda={value}")
    (end,) = out["tables"]["sweep_ends"]
    start = out["tables"]["sweep"][0]
    if end["precision"] != precision:
        wrong.append(f"lambda {value} ran in {end['precision']}, not {precision}")
    if value != 1 and abs(end["log10_mu"] - start["log10_mu"] - decades) > 0.5:
        wrong.append(f"lambda {value}: log10 mu {end['log10_mu']} from {start['log10_mu']}, not by {decades}")
    codes = [f["code"] for f in out["findings"]]
    if ("sweep_precision" in codes) != (precision != "f32"):
        wrong.append(f"lambda {value}: findings {codes}")

# X = I, O the swap of both tokens: 1, 0 and 1/sqrt 5 of the spread are kept at 0, 1 and 2.
import struct
def npy(path, rows):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {tuple(len(x) for x in (rows, rows[0]))}, }}".ljust(117) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"".join(struct.pack("<d", v) for r in rows for v in r))
npy("swap.npy", [[0, 1], [1, 0]])
arch = {"depth": 1, "d_model": 2, "heads": 1, "kv_heads": 1, "d_head": 2, "seq_len": 2, "norm": "none", "mlp": "none", "mixer": "graph",
        "graph": {"file": "swap.npy", "form": "given"}, "value_map": "identity", "init": {"wo": "identity"}, "input": {"law": "gaussian"}}
json.dump(arch, open("swap.json", "w"))
out = probe("swap.json", "--init", "default", "--random", "3", "--sweep", "lambda=0:2:3", "--precision", "f64")["tables"]
start = out["sweep"][0]["mu"]
# R X is an antisymmetric pair: the swap gives it the factor -1, so |lambda - 1| of mu is left
for row in out["sweep_ends"]:
    if abs(row["mu"] / start - abs(row["lambda"] - 1)) > 1e-12:
        wrong.append(f"swap at {row['lambda']}: {row['mu'] / start} of mu is left")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
PY
python3 sweep.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "the points of a sweep"

model=$RS_SOURCE_DIR/tests/golden/forward/llama
for bad in "lambda" "lambda=" "lambda=x" "lambda=1:2" "lambda=1:2:0" "lambda=1:2:1.5" "lambda=2:1:3" "lambda=1:2:1" "lambda=nan" \
    "lambda=inf:1:2" "lambda=1:2:3:4" "lambda=0:1:200000" "gate=both" "lambda=0:1:3,gate=maybe" "lambda=0:1:3,size=2" "" "lambda=1,"; do
    refused_by probe bad-option "--sweep" "$model" --random 1 --sweep "$bad"
done
refused_by probe bad-option "no gated mixer" "$model" --random 1 --sweep "lambda=0:1:3,gate=both"

# Read in a terminal: the points, and the curve.
expect 0 env COLUMNS=80 "$RANKSCOPE" probe "$model" --random 2 --seq-len 8 --sweep lambda=-2:2:5 --table sweep_ends
says out "lambda"
[ "$(LC_ALL=C.UTF-8 wc -L <out)" -le 80 ] || note_failure "lines beyond 80 columns"
finish
