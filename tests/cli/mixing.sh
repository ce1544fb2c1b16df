#!/bin/sh
# mixing.sh: table `mixing` against NumPy's entry by entry matrices, of models and of architecture files; which models have it, and who
# leaves it out.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >mixing.py <<'END'
import json, struct, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden"
wrong = []

def probe(path, *options):
    run = subprocess.run([program, "probe", path, "--json", "-", *options], capture_output=True)
    if run.returncode:
        wrong.append(f"{path} {options}: {run.stderr.decode()}")
        return {}
    return json.loads(run.stdout)["tables"]

def compare(what, got, want, near):
    if len(got) != len(want):
        wrong.append(f"{what}: {len(got)} rows, not {len(want)}")
    for g, w in zip(got, want):
        for key, value in w.items():
            if value is None or isinstance(value, (str, int)):
                same = g[key] == value
            else:
                size = max(abs(value), w["frobenius"] if key.startswith("row_sum") else 0)
                same = g[key] is not None and abs(g[key] - value) <= near * size
            if not same:
                wrong.append(f"{what}, layer {w['layer']} {w['mixer']} {w['head']}: {key} is {g[key]}, not {value}")

NEAR = {"f64": 1e-12, "f32": 1e-4, "residual": 1e-12}

def check_case(name, rows, path, *options, shuffled=NEAR):
    """shuffled: the precisions in which neither threads nor batches may change a number."""
    for precision, near in NEAR.items():
        told = probe(path, *options, "--precision", precision)["mixing"]
        compare(f"{name} in {precision}", told, rows, near)
        if precision not in shuffled:
            continue
        if [probe(path, *options, "--precision", precision, "--threads", t)["mixing"] for t in ("1", "3")] != [told, told]:
            wrong.append(f"{name} in {precision}: threads change the table")
        compare(f"{name} one by one", probe(path, *options, "--precision", precision, "--batch", "1")["mixing"], rows, near)

def check_options(name, rows, path, *options):
    # What need not be formed stays where attention's matrices are not.
    alone = probe(path, *options, "--precision", "f64", "--no-attention")["mixing"]
    compare(f"{name} without attention", alone, [r for r in rows if r["mixer"] != "attention"], 1e-12)
    both = probe(path, *options, "--precision", "f64", "--no-attention", "--mixing")["mixing"]
    compare(f"{name} with all", both, rows, 1e-12)
    if "mixing" in probe(path, *options, "--no-mixing"):
        wrong.append(f"{name}: --no-mixing has a table")

for case in json.load(open(f"{golden}/mixing.json")):
    json.dump(case["ids"], open("ids.json", "w"))
    for check in (check_case, check_options):
        check(case["model"], case["rows"], f"{golden}/forward/{case['model']}", "--tokens", "ids.json")

def save_matrix(path, rows):
    """As numpy.save has it."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + b"".join(struct.pack(f"<{len(r)}d", *r) for r in rows))

for case in json.load(open(f"{golden}/mixing_arch.json")):
    json.dump(case["ids"], open("ids.json", "w"))
    json.dump(case["arch"], open("arch.json", "w"))
    if "graph" in case:
        save_matrix("graph.npy", case["graph"])
    check_case(json.dumps(case["arch"]), case["rows"], "arch.json", "--init", "default", "--seed", str(case["seed"]), "--tokens", "ids.json",
               shuffled=("f64",))

# A model of softmax attention alone has the table when it is asked for; a head's rows sum to what its weights do.
path, tokens = f"{golden}/forward/llama", ("--random", "2", "--seq-len", "9", "--seed", "3")
if "mixing" in probe(path, *tokens):
    wrong.append("attention alone has a table unasked")
tables = probe(path, *tokens, "--mixing", "--variants", "full,shifted=attention-rescale:0.5")
for row in tables["mixing"]:
    if not (abs(row["row_sum_min"] - 1) < 1e-6 and row["decay"] is row["half_life"] is row["delta_mean"] is row["share_of_d"] is None):
        if row["variant"] == "full":
            wrong.append(f"attention: {row}")
if {r["variant"] for r in tables["mixing"]} != {"full", "shifted"}:
    wrong.append("not every variant has rows")
maps = probe(path, "--random", "1", "--seq-len", "9", "--mixing", "--precision", "f64", "--attention-maps", "0:1")
entries = [r["weight"] for r in maps["attention_maps"]]
told = next(r for r in maps["mixing"] if r["layer"] == 0 and r["head"] == 1)["frobenius"]
if abs(told - sum(e * e for e in entries) ** 0.5) > 1e-12:
    wrong.append(f"attention's norm is {told}")
# A tapped matrix holds the skip inside the mixer, which the file has beside it: without it, M is what the table's share tells.
def tensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    found = json.loads(data[8:8 + length])
    found.pop("__metadata__", None)
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // (8 if v['dtype'] == 'F64' else 4)}"
                             f"{'d' if v['dtype'] == 'F64' else 'f'}", data[8 + length + v["data_offsets"][0]:8 + length + v["data_offsets"][1]])
            for k, v in found.items()}

path, n = f"{golden}/forward/bamba", 11
tables = probe(path, "--random", "1", "--seq-len", str(n), "--precision", "f64", "--attention-maps", "0:2,1:0", "--taps", "taps.safetensors")
taps, stored = tensors("taps.safetensors"), tensors(f"{path}/model.safetensors")
row = next(r for r in tables["mixing"] if r["layer"] == 0 and r["head"] == 2)
matrix, (d,) = taps["layer.1.attention.2"], taps["layer.1.skip.2"]
if d != stored["model.layers.0.mamba.D"][2] or "layer.2.skip.0" in taps:
    wrong.append(f"the tapped skip is {d}")
without = sum((e - d * (k // n == k % n)) ** 2 for k, e in enumerate(matrix))
if abs(row["frobenius"] ** 2 - sum(e * e for e in matrix)) > 1e-12 * row["frobenius"] ** 2:
    wrong.append("the tapped matrix has another norm")
if abs(row["share_of_d"] - n * d * d / (n * d * d + without)) > 1e-12:
    wrong.append("the tapped matrix without its skip has another share")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
python3 mixing.py "$RANKSCOPE" "$RS_SOURCE_DIR" >why || { note_failure "table mixing"; head -20 why; }
refused_by probe usage "give one of the two" "$RS_SOURCE_DIR/tests/golden/forward/mamba" --random 1 --mixing --no-mixing
for family in mamba bamba; do
    COLUMNS=80 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/forward/$family" --random 1 --table mixing >shown 2>&1 || note_failure "$family"
    grep -q "^Mixers" shown || note_failure "$family has no table"
    sed -n "/^Mixers/,\$p" shown | awk "length > 80 { exit 1 }" || note_failure "$family is wider than 80 columns"
done
finish
