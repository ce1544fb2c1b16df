#!/bin/sh
# proof_steps.sh: `certify --steps`: every line against the oracle's definitions (tests/oracle/make_steps_golden.py) on what
# enters the mixer, for BERT, a causal GPT-2 and grouped queries; what every family says; ends of the range; bad input.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
: "${SAVED_NETWORK:?}"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/forward

cat >grouped.json <<'END'
{"depth": 2, "d_model": 8, "heads": 4, "kv_heads": 2, "d_head": 3, "seq_len": 6, "norm": "none", "mlp": "none", "temperature": 0.7}
END
cat >merged.json <<'END'
{"depth": 2, "d_model": 4, "heads": 2, "seq_len": 5, "norm": "none", "mlp": "none", "init": {"wo": "none"}}
END
for name in grouped merged; do
    expect 0 "$SAVED_NETWORK" save "$name.json" 5 f64 "$name"
done

cat >steps.py <<'PY'
import json, math, os, struct, subprocess, sys
program, source = sys.argv[1], sys.argv[2]
golden = os.path.join(source, "tests/golden/forward")
sys.path.insert(0, os.path.join(source, "tests/oracle"))
wrong = []

def run(command, *words):
    done = subprocess.run([program, command, *words, "--json", "-"], capture_output=True)
    if done.returncode:
        raise SystemExit(f"{command} {words}: {done.stderr.decode()}")
    return json.loads(done.stdout)

def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = t["data_offsets"]
        kind = {"F32": "f", "F64": "d"}.get(t["dtype"])
        if kind:
            out[name] = (t["shape"], struct.unpack(f"<{(last - first) // struct.calcsize(kind)}{kind}", data[8 + size + first:8 + size + last]))
    return out

def rows(tensor):
    shape, numbers = tensor
    return [list(numbers[i * shape[-1]:(i + 1) * shape[-1]]) for i in range(len(numbers) // shape[-1])]

def state(path, layer):
    """The first sample's tokens that enter the layer."""
    shape, numbers = tensors(path)[f"layer.{layer}.block_out"]
    return rows((shape[1:], numbers[:shape[1] * shape[2]]))

NAMES = {"below": "low", "above": "high"}
NORMS = {"entry": "entry", "1": "one", "inf": "inf", "1,inf": "both"}

def compare(what, table, head):
    from make_steps_golden import lines
    from mpmath import log10
    expected = lines(head)
    told = 0
    for row in table:
        sides = expected.get(NAMES.get(row["line"], row["line"]), {}).get(NORMS[row["norm"]])
        name = f"{what}: {row['line']} {row['norm']}"
        if sides is None:
            if row["left"] is not None or not row["note"]:
                wrong.append(f"{name}: {row['left']}, {row['note']}")
            continue
        for value, column in zip(sides, ("left", "right", "repaired_right")):
            mine = row[column]
            if value is None or (column == "repaired_right" and row["repaired"] is None):
                continue
            told += 1
            if mine is None or abs(mine - value) > 1e-10 * max(abs(value), 1e-12 if row["line"] != "signed" else 1):
                wrong.append(f"{name}: {column} {mine}, not {float(value)}")
        if row["holds"] is not None and row["holds"] != bool(sides[0] <= sides[1]):
            wrong.append(f"{name}: holds {row['holds']}")
        if row["repaired"] and row["repaired_holds"] is False:
            wrong.append(f"{name}: a repaired line is refuted")
        if row["ratio"] is not None and row["holds"] is not None and (row["ratio"] <= 1) != row["holds"] and row["ratio"] != 1:
            wrong.append(f"{name}: ratio {row['ratio']}")
    if told < 40:
        wrong.append(f"{what}: {told} numbers were compared")

def proof(path, *words):
    return run("certify", path, *words)["tables"]["proof"]

def take(matrix, first, count):
    return matrix[first:first + count]

def bert():
    words = ("--tokens", "ids.json")
    run("probe", f"{golden}/bert", *words, "--precision", "f64", "--taps", "bert.safetensors")
    w = tensors(f"{golden}/bert/model.safetensors")
    for layer, h in ((0, 0), (1, 2)):
        at = f"bert.encoder.layer.{layer}.attention."
        output = rows(w[at + "output.dense.weight"])
        compare(f"bert {layer}:{h}", proof(f"{golden}/bert", *words, "--steps", f"{layer}:{h}"), {
            "x": state("bert.safetensors", layer), "q": take(rows(w[at + "self.query.weight"]), 5 * h, 5), "k": take(rows(w[at + "self.key.weight"]), 5 * h, 5),
            "v": take(rows(w[at + "self.value.weight"]), 5 * h, 5), "o": [[row[5 * h + u] for row in output] for u in range(5)],
            "bias": list(w[at + "self.query.bias"][1][5 * h:5 * h + 5]), "scale": 1 / math.sqrt(5), "causal": 0, "window": 0})

def drawn(name, layer, h, group, dim, scale, *words):
    run("probe", name, *words, "--precision", "f64", "--taps", f"{name}.safetensors")
    w = tensors(f"{name}/model.safetensors")
    part = lambda kind, i: rows(w[f"layers.{layer}.mixer.{kind}.weight"])
    output, head = None, None
    v = part("v", 0)
    value = dim
    if f"layers.{layer}.mixer.o.weight" in w:
        full = part("o", 0)
        output = [[row[dim * h + u] for row in full] for u in range(dim)]
    else:
        value = len(v[0])
    compare(f"{name} {layer}:{h}", proof(name, *words, "--steps", f"{layer}:{h}"), {
        "x": state(f"{name}.safetensors", layer), "q": take(part("q", 0), dim * h, dim), "k": take(part("k", 0), dim * group, dim),
        "v": take(v, value * group, value), "o": output, "bias": [0.0] * dim, "scale": scale, "causal": 0, "window": 0})

def families():
    """All rows are null with one reason, or told."""
    said = {"bert": None, "albert": None, "distilbert": None, "vit": None, "gpt2": "a mask hides keys", "llama": "rotary positions",
            "gemma3": "rotary positions", "mamba2": "no softmax attention", "xlnet": "relative positions"}
    for family, reason in said.items():
        if not os.path.isdir(f"{golden}/{family}"):
            continue
        table = proof(f"{golden}/{family}", "--random", "2", "--seq-len", "5", "--steps", "0:0")
        null = [r for r in table if r["left"] is None and r["log10_left"] is None]
        if any(r["repaired_holds"] is False or (r["proved"] and r["holds"] is False) for r in table):
            wrong.append(f"{family}: a proved line is refuted")
        if reason is None and null:
            wrong.append(f"{family}: {null[0]['line']} is null: {null[0]['note']}")
        if reason and not null or reason and not all(reason in r["note"] for r in null):
            wrong.append(f"{family}: {sorted({r['note'] for r in null})}, not {reason}")
        if reason and reason != "a mask hides keys" and len(null) != len(table):
            wrong.append(f"{family}: {len(null)} of {len(table)} rows are null")

def ends():
    for name, law, words in (("large", {"norm2": 1e300}, ()), ("tiny", {"norm2": 1e-300}, ()), ("equal", {"rho": 1}, ()), ("one", {}, ("--seq-len", "1"))):
        arch = {"depth": 1, "d_model": 3, "heads": 1, "seq_len": 3, "norm": "none", "mlp": "none", "input": {"law": "gaussian", **law}}
        json.dump(arch, open(f"{name}.json", "w"))
        table = proof(f"{name}.json", "--init", "default", "--random", "1", "--steps", "0:0", *words)
        for r in table:
            if r["repaired_holds"] is False or (r["proved"] and r["holds"] is False):
                wrong.append(f"{name}: {r['line']} {r['norm']} is refuted")
            if name in ("equal", "one") and (r["holds"] is not True or r["ratio"] not in (None, 0, 1)):
                wrong.append(f"{name}: {r['line']} {r['norm']}: {r['holds']}, {r['ratio']}")
            if r["left"] is None and r["log10_left"] is None and r["right"] != 0 and not r["note"] and r["holds"] is not True:
                wrong.append(f"{name}: {r['line']} {r['norm']} is null without a reason")
        if name == "large" and not any(r["log10_left"] and r["log10_left"] > 295 for r in table):
            wrong.append("large: no logarithm")
        if name == "tiny" and not any(r["log10_left"] and r["log10_left"] < -295 for r in table):
            wrong.append("tiny: no logarithm")

families()
ends()
one = run("certify", f"{golden}/bert", "--tokens", "ids.json", "--steps", "0:0,1:2,0:1", "--threads", "1")["tables"]
four = run("certify", f"{golden}/bert", "--tokens", "ids.json", "--steps", "0:0,1:2,0:1", "--threads", "4")["tables"]
if one["proof"] != four["proof"] or one["proof_numbers"] != four["proof_numbers"]:
    wrong.append("threads change the numbers")
try:
    import mpmath
    bert()
    drawn("grouped", 1, 3, 1, 3, 1 / math.sqrt(3) / 0.7, "--random", "1")
    drawn("grouped", 0, 0, 0, 3, 1 / math.sqrt(3) / 0.7, "--random", "1")
    drawn("merged", 1, 1, 1, 2, 1 / math.sqrt(2), "--random", "1")
except ImportError:
    print("mpmath is not here: no line was compared with the oracle")
print("\n".join(wrong))
sys.exit(bool(wrong))
PY
printf '[[3, 7, 1, 5, 11, 2, 7], [4, 4, 9]]' >ids.json
python3 steps.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "the lines"

# ---- the report, and what is refused ----
expect 0 "$RANKSCOPE" certify "$golden/bert" --tokens ids.json --steps 1:2 --html report.html --csv tables
says out "proof_steps"
says report.html '"proof":'
[ "$(wc -l <tables/proof.csv)" -gt 29 ] || note_failure "table proof has too few rows"
refused_by certify bad-option "there is no layer 2: the model has 2" "$golden/bert" --tokens ids.json --steps 2:0
refused_by certify bad-option "there is no head 3 in layer 1: it has 3" "$golden/bert" --tokens ids.json --steps 0:0,1:3
refused_by certify bad-option "is no list of layers and heads" "$golden/bert" --tokens ids.json --steps 1
finish
