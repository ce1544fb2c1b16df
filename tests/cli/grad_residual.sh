#!/bin/sh
# grad_residual.sh: `rankscope probe --grad --precision residual`: float64's numbers where that has its digits, of every kind of model; the
# law below it; what is said in logarithms; that nothing hangs on batches, threads or recomputation; where it claims nothing.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/forward
echo '[[5,2,9,1,7],[4,8,3],[6]]' >ids.json
pure='"mlp": "none", "skip_mixer": 0, "norm": "none", "seq_len": 8'
arch stack "\"depth\": 8, $pure"
arch rope "\"depth\": 6, $pure, \"positions\": \"rope\""
arch causal "\"depth\": 5, $pure, \"mask\": \"causal\", \"kv_heads\": 1"
arch centred "\"depth\": 5, $pure, \"attention\": \"centred\""
arch post '"depth": 5, "norm": "post", "skip_mixer": 0, "skip_mlp": 0, "seq_len": 8'
arch many "\"depth\": 60, $pure"

cat >residual.py <<'END'
import json, math, os, re, shutil, struct, subprocess, sys
program, golden = sys.argv[1:3]
wrong = []

def probe(*options, precision="residual"):
    run = subprocess.run([program, "probe", *options, "--grad", "--precision", precision, "--no-attention", "--no-spectral", "--json", "-"],
                         capture_output=True)
    if run.returncode:
        sys.exit(f"FAILED: {options}: {run.stderr.decode()}")
    return json.loads(run.stdout)

def rows(result):
    return {(r["variant"], r["layer"], r["head"], r["parameter"]): r for r in result["tables"]["gradients"]}

def check(what, holds):
    if not holds:
        wrong.append(what)

def findings(result):
    return {f["code"]: f for f in result["findings"]}

# ---- float64's numbers, where it has them ----
def same(model, *options):
    plain, own = (rows(probe(model, *options, precision=p)) for p in ("f64", "residual"))
    most = max(r["norm"] for r in plain.values())
    check(f"{model}: rows", list(plain) == list(own))
    for key, r in plain.items():
        if r["at_floor"] or key[3].endswith(("skip", "scale")) or ".k.bias" in key[3]:
            continue
        check(f"{model} {key}: {own[key]['norm']}, by f64 {r['norm']}", abs(own[key]["norm"] - r["norm"]) <= 1e-9 * r["norm"] + 1e-13 * most)

for model in ("llama", "gpt2", "albert", "gemma3", "qwen3", "jamba", "bamba", "lfm2"):
    same(f"{golden}/{model}", "--tokens", "ids.json", "--loss", "lm" if model != "albert" else "random")
same(f"{golden}/bert", "--tokens", "ids.json", "--loss", "class", "--target", "3")
same(f"{golden}/gpt2", "--tokens", "ids.json", "--loss", "norm2", "--loss-at", "final")
same(f"{golden}/gpt2", "--tokens", "ids.json", "--freeze-attention")
same("rope.json", "--random", "2")

# ---- layers whose gradients are further apart than doubles are ----
def stored(folder, factor):
    """A GPT-2 of golden/gpt2 in float64, without biases of attention: with --depth 4 the last layer gives 1 and the first layer's bias has factor^2."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(f"{golden}/gpt2", folder)
    with open(f"{golden}/gpt2/model.safetensors", "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header, body, out = json.loads(data[8:8 + size]), data[8 + size:], b""
    for name, t in header.items():
        if name == "__metadata__":
            continue
        numbers, width = list(struct.unpack(f"<{math.prod(t['shape'])}f", body[slice(*t["data_offsets"])])), t["shape"][-1]
        if ".attn." in name and name.endswith("bias"):
            numbers = [0.] * len(numbers)
        if name.endswith("attn.c_attn.weight"):
            by = factor ** (1.25 if "h.1." in name else -.5)
            numbers = [x * by if i % width >= width * 2 // 3 else x for i, x in enumerate(numbers)]
        if name.endswith(("wte.weight", "wpe.weight")):
            numbers = [x * factor ** -1.5 for x in numbers]
        t.update(dtype="F64", data_offsets=[len(out), len(out) + 8 * len(numbers)])
        out += struct.pack(f"<{len(numbers)}d", *numbers)
    text = json.dumps(header).encode()
    os.chmod(folder, 0o755)
    os.remove(f"{folder}/model.safetensors")
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + out)

for folder, power in (("apart", 400), ("near", 18), ("even", 6)):
    stored(folder, 10. ** (power // 2))
    found = probe(folder, "--tokens", "ids.json", "--loss", "random", "--variants", "pure", "--depth", "4")
    f = {f["code"]: f for f in found["findings"]}["gradient_imbalance"]
    said = re.search(r"a factor (\S+), above 1e\+03$", f["message"])
    check(f"the factor: {f['message']}", said and "inf" not in f["message"])
    value = said and (float(said[1][3:]) if said[1].startswith("10^") else math.log10(float(said[1])))
    check(f"{said and said[1]} of 10^{power}", said and said[1].startswith("10^") == (power > 15) and abs(value - power) < 1.5)

# ---- below it ----
drawn = ("--random", "3", "--loss", "random")
full, plain = probe("stack.json", *drawn), probe("stack.json", *drawn, precision="f64")
ratios, lost = full["tables"]["gradient_ratios"], plain["tables"]["gradient_ratios"]
for l in range(4, 8):
    check(f"gQ of layer {l} goes with the third power of the one before", abs(ratios[l]["log10_gQ"] / ratios[l - 1]["log10_gQ"] - 3) < 0.5)
    check(f"gV of layer {l} does not", abs(ratios[l]["log10_gV"] - lost[l]["log10_gV"]) < 1e-9)
    for x in "QK":
        r = ratios[l]
        check(f"log10 of layer {l}'s ratio", abs(r[f"log10_ratio_g{x}_gV"] - (r[f"log10_g{x}"] - r["log10_gV"])) < 1e-9 * abs(r[f"log10_g{x}"]))
        check(f"ratio of layer {l}", r[f"ratio_g{x}_gV"] == 0 if r[f"log10_ratio_g{x}_gV"] < -330 else True)
check("below the doubles", ratios[7]["log10_gQ"] < -1000 and ratios[7]["ratio_gQ_gV"] == 0)
for key, r in rows(full).items():
    if key[3].startswith(("mixer.q.weight", "mixer.k.weight")):
        check(f"{key} is no rounding", r["at_floor"] is False and r["log10_floor"] < r["log10_norm"])
        check(f"{key}: norm and its logarithm", r["norm"] == 0 if r["log10_norm"] < -330 else math.isclose(10 ** r["log10_norm"], r["norm"], rel_tol=1e-9))
told, said = findings(full), findings(full)["gradient_summary"]["message"]
check(f"the sentence: {said}", "of the values'" in said and "10^-" in said and "rounding" not in said)
check("vanishing", told["vanishing_qk_gradient"]["count"] >= 5)
check("not 0", "zero_gradient" not in told or "weight" not in told["zero_gradient"]["message"])

# ---- sixty layers: as far as exponents are counted, and no claim below ----
deep = probe("many.json", *drawn)
for r in deep["tables"]["gradient_ratios"][9:30]:
    check(f"layer {r['layer']} of many", r["log10_gQ"] < -1000 and r["log10_gV"] is not None)
last = rows(deep)["full", 59, None, "mixer.q.weight"]
check(f"what is not counted is not claimed: {last}", last["at_floor"] is True)

# ---- it hangs on nothing ----
GRADED = ("gradients", "gradient_ratios")
for model in ("stack.json", "causal.json", "post.json"):
    plain = probe(model, *drawn)
    for name, more in (("recomputed", ("--recompute",)), ("one thread", ("--threads", "1")), ("two threads", ("--threads", "2"))):
        other = probe(model, *drawn, *more)
        check(f"{model}: {name}", [other["tables"][t] for t in GRADED] == [plain["tables"][t] for t in GRADED])
    for key, r in rows(probe(model, *drawn, "--batch", "1")).items():
        of = rows(plain)[key]
        if r["log10_norm"] is None or key[3].endswith(("skip", "scale")):
            continue
        check(f"{model} {key} in batches", abs(r["log10_norm"] - of["log10_norm"]) < 1e-9 * max(1, abs(of["log10_norm"])))

# ---- where nothing is claimed ----
for model in ("rope.json", "centred.json"):
    graded, plain = (rows(probe(model, *drawn, precision=p)) for p in ("residual", "f64"))
    for x in "qk":
        key = "full", 0, None, f"mixer.{x}.weight"
        r = graded[key]
        if model == "rope.json":
            check(f"the floor of {key}", math.isclose(r["floor"], plain[key]["floor"], rel_tol=1e-9))
        else:
            check(f"{key} is not claimed: {r}", r["at_floor"] and r["floor"] == r["norm"])
        own = rows(probe(model, *drawn))["full", 4, None, f"mixer.{x}.weight"]
        check(f"{model}: the last layer's own: {own}", (own["at_floor"] is False) == (model == "centred.json") or model == "rope.json")
held = rows(probe("stack.json", *drawn, "--freeze-attention"))
check("held", all(r["norm"] == 0 for key, r in held.items() if key[3].startswith(("mixer.q", "mixer.k"))))
for text in wrong[:20]:
    print("WRONG", text)
sys.exit(bool(wrong))
END
python3 residual.py "$RANKSCOPE" "$golden" || note_failure "gradients of the residual precision"
finish
