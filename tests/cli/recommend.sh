#!/bin/sh
# recommend.sh: what `certify --recommend` names, against runs of probe at those skips, closed forms of two tokens, and logits of its own.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >recommend.py <<'PY'
import json, math, struct, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden/forward"
wrong = []

def run(command, *words):
    done = subprocess.run([program, command, *words, "--json", "-"], capture_output=True)
    if done.returncode:
        wrong.append(f"{command} {words}: {done.stderr.decode()}")
        raise SystemExit("\n".join(wrong))
    return json.loads(done.stdout)

def probe(path, *words, output="states.safetensors"):
    out = run("probe", path, "--precision", "f64", "--no-attention", "--no-spectral", "--output", output, *words)["tables"]
    states = {r["layer"]: r for r in out["tokens"] if r["site"] == "block_out"}
    return states, out["loss"][0]["nll"] if out.get("loss") else None, logits(output)

def logits(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + size]).get("logits")
    if tensor is None:
        return None
    assert tensor["dtype"] == "F64", tensor
    first, last = tensor["data_offsets"]
    return struct.unpack(f"<{(last - first) // 8}d", data[8 + size + first:8 + size + last])

def near(what, mine, theirs, tolerance):
    if (mine is None) != (theirs is None) or mine is not None and not abs(mine - theirs) <= tolerance * max(1, abs(theirs)):
        wrong.append(f"{what}: {mine}, not {theirs}")

def codes(result):
    return {f["code"]: f for f in result["findings"] if f["code"] in ("lambda_recommended", "lambda_out_of_reach")}

# Each candidate against probe's runs; those of one λ a little nearer fall short.
def compare(path, kept, inputs, edits=(), wanted=("none", "one λ, positive side", "one λ, negative side", "per layer")):
    result = run("certify", path, *inputs, *edits, "--recommend", str(kept))
    table, layers = result["tables"]["recommendation"], result["tables"]["recommendation_layers"]
    name = f"{path} {kept} {edits}"
    if tuple(r["candidate"] for r in table) != wanted:
        wrong.append(f"{name}: candidates {[r['candidate'] for r in table]}")
    own_states, own_loss, own_logits = probe(path, *inputs, *edits)
    last = max(own_states)
    for row in table:
        what = f"{name}, {row['candidate']}"
        of = [r for r in layers if r["candidate"] == row["candidate"]]
        own = [r["lambda_own"] for r in of]
        if row["relative_residual"] is None:
            if not row["failed"] or row["keeps_enough"] or of:
                wrong.append(f"{what}: no numbers and no reason")
            continue
        option = ("--lambda", row["option"]) if row["option"] else ()
        states, loss, told = probe(path, *inputs, *edits, *option)
        near(what + ", relative μ", row["relative_residual"], states[last]["relative_residual"], 1e-10)
        if row["keeps_enough"] != (states[last]["relative_residual"] >= kept):
            wrong.append(f"{what}: keeps_enough {row['keeps_enough']} at {states[last]['relative_residual']}")
        if row["candidate"] != "none" and not row["keeps_enough"]:
            wrong.append(f"{what}: recommended, and keeps too little")
        near(what + ", norm", row["log10_norm"], math.log10(states[last]["norm_fro"]), 1e-10)
        near(what + ", growth", row["log10_growth"], math.log10(states[last]["norm_fro"] / states[0]["norm_fro"]), 1e-10)
        near(what + ", loss", row["loss"], loss, 1e-10)
        near(what + ", loss_change", row["loss_change"], None if loss is None else loss - own_loss, 1e-9)
        change = None
        if told is not None:
            change = math.sqrt(sum((a - b) ** 2 for a, b in zip(told, own_logits)) / sum(b * b for b in own_logits))
        near(what + ", logits", row["logits_change"], change, 1e-9)
        moved = [r["lambda"] - r["lambda_own"] for r in of]
        near(what + ", change", row["change"], math.sqrt(sum(m * m for m in moved) / len(moved)), 1e-12)
        near(what + ", largest_change", row["largest_change"], max(map(abs, moved)), 1e-12)
        for r in of:
            near(f"{what}, layer {r['layer']}", r["relative_residual"], states[r["layer"] + 1]["relative_residual"], 1e-10)
            near(f"{what}, layer {r['layer']}, own", r["relative_residual_own"], own_states[r["layer"] + 1]["relative_residual"], 1e-10)
            if (r["kept_certified"] is None) != (r["kept_certified_failed"] is not None):
                wrong.append(f"{what}, layer {r['layer']}: {r}")
            if r["kept_certified"] is not None and not 0 <= r["kept_certified"] <= r["kept"]:
                wrong.append(f"{what}, layer {r['layer']}: {r}")
        if row["candidate"].startswith("one"):
            centre = own[0] if len(set(own)) == 1 else sum(own) / len(own)
            if (row["lambda"] > centre) != ("positive" in row["candidate"]) or [r["lambda"] for r in of] != [row["lambda"]] * len(of):
                wrong.append(f"{what}: λ {row['lambda']} from {centre}")
            # the tolerance that is stated, and a few per cent
            if row["falls_short_at"] is None or not abs(row["lambda"] - row["falls_short_at"]) <= 0.021 * abs(row["lambda"] - centre):
                wrong.append(f"{what}: falls short at {row['falls_short_at']}, recommended {row['lambda']}")
            for value in (row["falls_short_at"], centre + 0.97 * (row["lambda"] - centre)):
                nearer = probe(path, *inputs, *edits, "--lambda", f"mixer:{value!r}")[0][last]["relative_residual"]
                if nearer >= kept:
                    wrong.append(f"{what}: {value} keeps {nearer}, too, and is nearer")
        if row["candidate"] == "per layer":
            least = min(r["change"] for r in table if r["candidate"].startswith("one") and r["change"] is not None)
            if row["change"] > least * (1 + 1e-12):
                wrong.append(f"{what}: changes more ({row['change']}) than one λ ({least})")
        # what is certified of a layer is what table lambda has for the edited model
        if row["option"]:
            rows = run("certify", path, *inputs, *edits, *option)["tables"]["lambda"]
            proved = sum(r["kept_now_error"] is not None and not r["kept_now_error_conditional"] and not r["at_floor"] for r in rows)
            if row["mixers_certified"] != proved:
                wrong.append(f"{what}: {row['mixers_certified']} certified, table lambda has {proved}")
            for r in of:
                certified = [x for x in rows if x["layer"] == r["layer"] and x["kept_now"] is not None]
                if r["kept_certified"] is not None:
                    near(f"{what}, kept_certified", r["kept_certified"], min(x["kept_now"] - x["kept_now_error"] for x in certified), 1e-12)
    if "lambda_recommended" not in codes(result):
        wrong.append(f"{name}: findings {codes(result)}")
    return table

def arch(name, **members):
    base = {"d_model": 16, "heads": 2, "kv_heads": 2, "d_head": 8, "seq_len": 12, "mlp": "none"}
    json.dump({**base, **members}, open(name, "w"))
    return name

drawn = ("--init", "default", "--random", "3")
post = arch("post.json", depth=12, norm="post", skip_mixer=0.3, vocab=50)  # collapses
compare(post, 0.7, drawn)
compare(post, 1e-7, drawn, wanted=("none",))
json.dump([[5, 3, 8, 1, 9, 2, 7], [4, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]], open("ids.json", "w"))
tokens = ("--tokens", "ids.json")
pre = arch("pre.json", depth=6, norm="pre", skip_mixer=0.2, vocab=50, mask="causal", mlp="gelu", mlp_width=32)
told = compare(pre, 0.6, ("--init", "default", *tokens))
if any(row["loss"] is None or row["logits_change"] is None for row in told):
    wrong.append(f"{pre}: no loss or logits: {told}")
compare(arch("uneven.json", depth=4, norm="pre", skip_mixer=[0.5, 0, 0.25, 0.1]), 0.6, drawn)
compare(arch("mamba2.json", depth=5, norm="post", skip_mixer=0, mixer="mamba2", mask="causal", d_model=16), 0.965, drawn)
compare(f"{golden}/llama", 0.6, tokens, ("--lambda", "mixer:0.1"))

# Two tokens, O their swap: differences get the factor λ - 1, the mean λ + 1; in closed form at which λ a share is left, and what branches are.
def npy(path, rows):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {tuple(len(x) for x in (rows, rows[0]))}, }}".ljust(117) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"".join(struct.pack("<d", v) for r in rows for v in r))

def two(name, matrix, own):
    npy(f"{name}.npy", matrix)
    return arch(f"{name}.json", depth=1, d_model=2, heads=1, kv_heads=1, d_head=2, seq_len=2, norm="none", mixer="graph", skip_mixer=own,
                graph={"file": f"{name}.npy", "form": "given"}, value_map="identity", init={"wo": "identity"}, input={"law": "gaussian"})

swap, one = two("swap", [[0, 1], [1, 0]], 1), ("--init", "default", "--random", "1")
ratio = probe(swap, *one)[0][0]["relative_residual"]
r, m = ratio, math.sqrt(1 - ratio * ratio)
for x in (0.5, 1.5):  # |λ - 1|/|λ + 1|
    kept = x * r / math.sqrt(x * x * r * r + m * m)
    result = run("certify", swap, *one, "--recommend", repr(kept))
    rows = {row["candidate"]: row for row in result["tables"]["recommendation"]}
    exact = {"one λ, positive side": (1 + x) / (1 - x) if x < 1 else None, "one λ, negative side": (1 - x) / (1 + x)}
    for side, value in exact.items():
        row = rows[side]
        if (row["lambda"] is None) != (value is None):
            wrong.append(f"swap, {x}, {side}: {row['lambda']}, not {value}")
        elif value is None:
            if not row["failed"]:
                wrong.append(f"swap, {x}, {side}: no λ and no reason")
        else:
            if not -1e-9 <= abs(row["lambda"] - 1) / abs(value - 1) - 1 <= 0.012:
                wrong.append(f"swap, {x}, {side}: {row['lambda']}, not {value}")
            t = row["lambda"]
            near(f"swap at {t}, relative μ", row["relative_residual"], abs(t - 1) * r / math.hypot((t - 1) * r, (t + 1) * m), 1e-12)
            near(f"swap at {t}, share", row["branch_share"], 1 / math.hypot((t - 1) * r, (t + 1) * m), 1e-12)
            near(f"swap at {t}, growth", row["log10_growth"], math.log10(math.hypot((t - 1) * r, (t + 1) * m)), 1e-12)

# M = I: no λ changes relative μ.
result = run("certify", two("same", [[1, 0], [0, 1]], 1), *one, "--recommend", repr((1 + ratio) / 2))
found = codes(result)
if list(found) != ["lambda_out_of_reach"] or "1e+06" not in found["lambda_out_of_reach"]["message"]:
    wrong.append(f"M = I: {found}")
if [(r["candidate"], r["keeps_enough"], r["failed"] is None) for r in result["tables"]["recommendation"]] != [
        (c, False, False) for c in ("none", "one λ, positive side", "one λ, negative side", "per layer")]:
    wrong.append(f"M = I: {result['tables']['recommendation']}")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
PY
python3 recommend.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "what is recommended"

model=$RS_SOURCE_DIR/tests/golden/forward/llama
for bad in 0 1 -0.5 2 nan inf x ""; do
    refused_by certify bad-option "--recommend" "$model" --random 1 --recommend "$bad"
done
refused_by certify bad-option "--no-skip" "$model" --random 1 --recommend 0.5 --no-skip
says err "--lambda mixer:0"
expect 0 "$RANKSCOPE" certify "$model" --random 1 --seq-len 6 --json plain.json --quiet
grep -q '"recommendation' plain.json && note_failure "a recommendation that nobody asked for"

# Whatever the number of threads, the same.
for threads in 1 3; do
    expect 0 "$RANKSCOPE" certify post.json --init default --random 3 --recommend 0.7 --csv "threads-$threads" --quiet --threads "$threads"
done
cmp -s threads-1/recommendation.csv threads-3/recommendation.csv || note_failure "the number of threads changes what is recommended"
finish
