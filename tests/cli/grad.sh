#!/bin/sh
# grad.sh: `rankscope probe --grad`: its tables and findings, what it refuses, and that its numbers do not hang on batches, threads or
# recomputation. The loss's own values, from runs with another λ, α or temperature, are what derivatives are held against.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden
decoder=$golden/forward/llama
encoder=$golden/forward/bert
echo '[[5,2,9,1,7],[4,8,3],[6]]' >ids.json

# ---- what is refused ----
refused() { refused_by probe "$@"; }
refused unsupported "does not predict the next token" "$encoder" --tokens ids.json --grad --loss lm
arch headless '"depth": 2, "seq_len": 6'
refused unsupported "has no head" headless.json --random 2 --grad --loss lm
refused usage "behind the final norm" "$decoder" --tokens ids.json --grad --loss lm --loss-at state
refused unsupported "has no way back" "$decoder" --tokens ids.json --grad --sweep lambda=0:1:2
refused usage "needs the class" "$decoder" --tokens ids.json --grad --loss class
refused bad-option "not as many classes" "$decoder" --tokens ids.json --grad --loss class --target 1,2
refused bad-option "whole numbers" "$decoder" --tokens ids.json --grad --loss class --target x
refused token-out-of-range "the head has outputs" "$decoder" --tokens ids.json --grad --loss class --target 999999
refused usage "has no classes" "$decoder" --tokens ids.json --grad --loss random --target 1
refused unsupported "names its [MASK]" "$encoder" --tokens ids.json --grad --loss mlm
echo '[[5],[4]]' >single.json
refused unsupported "no token of the inputs has a target" "$decoder" --tokens single.json --grad --loss lm
refused bad-option "--loss" "$decoder" --tokens ids.json --grad --loss nonsense
for option in "--loss random" "--loss-at state" "--target 1" --freeze-attention --freeze-norm --recompute; do
    # shellcheck disable=SC2086
    refused usage "ask for grad too" "$decoder" --tokens ids.json $option
done
arch deep '"depth": 24, "seq_len": 64'
refused memory-limit "tapes of the way back" deep.json --random 64 --batch 64 --grad --memory 12MiB
says err "--recompute"
expect 0 "$RANKSCOPE" probe deep.json --random 64 --batch 64 --grad --memory 40MiB --recompute --no-attention --no-spectral -q

# ---- a model with a tokenizer that has a [MASK] ----
cp -r "$encoder" spoken
chmod -R u+w spoken
cp "$golden/tokenizer/bert.json" spoken/tokenizer.json
arch rezero '"depth": 3, "seq_len": 6, "branch_mixer": 0, "branch_mlp": 0'
arch collapse '"depth": 6, "seq_len": 16, "mlp": "none", "skip_mixer": 0, "norm": "none"'
arch dead '"depth": 2, "seq_len": 6, "mlp": "relu"'

cat >grad.py <<'END'
import json, math, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden"
decoder, encoder = f"{golden}/forward/llama", f"{golden}/forward/bert"
wrong = []

def probe(*options):
    run = subprocess.run([program, "probe", *options, "--grad", "--json", "-"], capture_output=True)
    if run.returncode:
        sys.exit(f"FAILED: {options}: {run.stderr.decode()}")
    return json.loads(run.stdout)

def rows(result):
    return {(r["variant"], r["layer"], r["head"], r["parameter"]): r for r in result["tables"]["gradients"]}

def norm(result, layer, parameter, variant="full"):
    return rows(result)[variant, layer, None, parameter]["norm"]

def loss(result, variant="full"):
    return result["run"]["loss"]["values"][variant]

def check(what, holds):
    if not holds:
        wrong.append(what)

def near(what, got, want, by):
    check(f"{what}: {got}, not {want}", abs(got - want) <= by * abs(want))

def findings(result):
    return {f["code"]: f for f in result["findings"]}

# ---- the loss is the table's, and a mean ----
ids = ("--tokens", "ids.json", "--precision", "f64")
lm = probe(decoder, *ids)
check("auto is lm", lm["run"]["loss"]["kind"] == "lm" and lm["run"]["loss"]["targets"] == 6)
near("lm", loss(lm), lm["tables"]["loss"][0]["nll"], 1e-13)
check("auto is random", probe(encoder, *ids)["run"]["loss"]["kind"] == "random")

# ---- batches, recomputation, threads ----
GRADED = ("gradients", "gradient_ratios")
for model, options in ((decoder, ()), (encoder, ("--loss", "random")), (encoder, ("--loss", "norm2", "--loss-at", "final")),
                       (decoder, ("--loss", "class", "--target", "3")), (f"{golden}/forward/albert", ("--variants", "full,san")),
                       ("spoken", ("--loss", "mlm"))):
    plain = probe(model, *ids, *options)
    for name, more in (("recomputed", ("--recompute",)), ("one thread", ("--threads", "1")), ("two threads", ("--threads", "2"))):
        other = probe(model, *ids, *options, *more)
        check(f"{model}: {name}", [other["tables"].get(t) for t in GRADED] == [plain["tables"].get(t) for t in GRADED])
    batches, most = rows(probe(model, *ids, *options, "--batch", "1")), max(r["norm"] for r in rows(plain).values())
    check(f"{model}: rows of batches", list(batches) == list(rows(plain)))
    for key, r in rows(plain).items():
        if r["at_floor"] or key[3].endswith(("skip", "scale")):
            continue
        check(f"{model} {key}: {batches[key]['norm']} in batches, {r['norm']} in one",
              abs(batches[key]["norm"] - r["norm"]) <= 1e-12 * r["norm"] + 1e-14 * most)
full, again = probe(decoder, *ids), probe(decoder, *ids, "--recompute")
check("the tape of one layer is smaller", again["run"]["tape_bytes"] < full["run"]["tape_bytes"])
check("f32", all(abs(a["norm"] - b["norm"]) <= 1e-4 * b["norm"] or a["at_floor"]
                 for a, b in zip(probe(decoder, "--tokens", "ids.json")["tables"]["gradients"], full["tables"]["gradients"])))

# ---- derivatives by numbers that the command line sets ----
for kind in ("random", "norm2"):
    one = probe("stack.json", "--random", "3", "--precision", "f64", "--loss", kind)
    inputs = ("--random", "3", "--precision", "f64", "--loss", kind)
    for option, parameter in (("--lambda", "skip"), ("--residual-scale", "scale")):
        h = 1e-4
        low, high = (loss(probe("stack.json", *inputs, option, repr(1 + s * h)), "edited") for s in (-1, 1))
        near(f"{kind}: d loss / d {parameter}", norm(one, 0, f"mixer.{parameter}"), abs(high - low) / (2 * h), 1e-6)

# ---- ReZero: α alone learns ----
zero = probe("rezero.json", "--random", "3", "--precision", "f64")
for key, r in rows(zero).items():
    if key[1] is not None:
        check(f"rezero {key}", (r["norm"] == 0) == (not key[3].endswith(("scale", "skip"))))
f = findings(zero)["zero_gradient"]
check(f"rezero's reason: {f['message']}", "residual scale is 0" in f["message"] and "to layer 2" in f["message"])
check("rezero has no ratio", all(r["ratio_gQ_gV"] is None for r in zero["tables"]["gradient_ratios"]))
h = 1e-4
low, high = (loss(probe("rezero1.json", "--random", "3", "--precision", "f64", "--residual-scale", repr(s * h)), "edited") for s in (-1, 1))
near("d loss / d α at 0", norm(probe("rezero1.json", "--random", "3", "--precision", "f64"), 0, "mixer.scale"), abs(high - low) / (2 * h), 1e-6)

# ---- held ----
held = probe(decoder, *ids, "--freeze-attention")
for key, r in rows(held).items():
    if key[3].startswith(("mixer.q", "mixer.k")):
        check(f"held {key}", r["norm"] == 0)
check("values are not held", norm(held, 0, "mixer.v.weight") > 0)
near("the last layer's values do not see what is held in it", norm(held, 1, "mixer.v.weight"), norm(full, 1, "mixer.v.weight"), 1e-12)
check("held is a note", findings(held)["zero_gradient"]["severity"] == "info" and "held" in findings(held)["zero_gradient"]["message"])
check("a held norm", norm(probe(decoder, *ids, "--freeze-norm"), 0, "mixer.v.weight") != norm(full, 0, "mixer.v.weight"))

# ---- shared tensors ----
albert = probe(f"{golden}/forward/albert", *ids)
shares, total = [r for k, r in rows(albert).items() if k[3] == "mixer.q.weight" and k[2] is None and k[1] < 3], rows(albert)["full", None, None, "layer.0.mixer.q.weight.sum"]
check("ALBERT's places", all(r["uses"] == 3 for r in shares + [total]))
check("a sum is no more than its shares", 0 < total["norm"] <= sum(r["norm"] for r in shares) * (1 + 1e-12))

# Parts of one fused tensor, used twice each, have sums of their own.
again = rows(probe(f"{golden}/forward/gpt2", *ids, "--depth", "4"))
for part in "qkv":
    total = again.get(("edited", None, None, f"layer.0.mixer.{part}.weight.sum"))
    shares = [again["edited", layer, None, f"mixer.{part}.weight"] for layer in (0, 2)]
    check(f"GPT-2's {part}, twice", total and all(r["uses"] == 2 for r in [total, *shares]) and total["norm"] <= sum(r["norm"] for r in shares) * (1 + 1e-12))

# ---- heads, and ratios ----
table = rows(full)
for layer in (0, 1):
    for name in "qkvo":
        whole = table["full", layer, None, f"mixer.{name}.weight"]["norm"]
        heads = [r["norm"] for k, r in table.items() if k[1] == layer and k[3] == f"mixer.{name}.weight" and k[2] is not None]
        near(f"heads of {name}", math.sqrt(sum(h * h for h in heads)), whole, 1e-12)
    ratio = full["tables"]["gradient_ratios"][layer]
    for name in "QK":
        q, v = (table["full", layer, None, f"mixer.{x}.weight"]["norm"] for x in (name.lower(), "v"))
        near("ratio", ratio[f"ratio_g{name}_gV"], (q / v) ** 2, 1e-12)

# ---- a stack that collapses: float32 and float64 say where they have nothing left, and not before ----
single, double, exact = (probe("collapse.json", "--random", "3", "--precision", p) for p in ("f32", "f64", "residual"))
for name, found, truth in (("f32", single, double), ("f64", double, exact)):
    marked, shown = [], []
    for a, b in zip(found["tables"]["gradients"], truth["tables"]["gradients"]):
        if a["at_floor"] is None:
            continue
        error = abs(a["norm"] - b["norm"]) / b["norm"] if b["norm"] else math.inf
        (marked if a["at_floor"] else shown).append(error)
        check(f"{name}: {a} is off by {error:.2g} and not at the floor", a["at_floor"] or error < 0.05)
        check(f"{name}: {a} is off by {error:.2g} only, and at the floor", not a["at_floor"] or error > 1e-5)
    check(f"{name}: something is at the floor, and something is not", marked and shown)
    check(f"{name}: what is at the floor is off by {sorted(marked)}", marked and sorted(marked)[len(marked) // 2] > 0.01)
f = findings(double)
check("queries starve", "vanishing_qk_gradient" in f and f["vanishing_qk_gradient"]["severity"] == "warn")
check("the sentence", "learn in layers 0 to 1" in f["gradient_summary"]["message"] and "do not in layers 2 to 5" in f["gradient_summary"]["message"])
never = findings(probe("collapse.json", "--random", "3", "--precision", "f64", "--threshold", "vanishing_qk_gradient=0,gradient_imbalance=1"))
check("thresholds", "vanishing_qk_gradient" not in never and "gradient_imbalance" in never and "gradient_imbalance" not in f)

# ---- closed forms of one layer of uniform attention (signal propagation; Noci et al. 2022, lemma 3.2, with Wishart's third moment) ----
n, d, samples, v, q = 8, 32, 400, 0, 0
for seed in "123":
    drawn = probe("uniform.json", "--random", str(samples), "--seed", seed, "--precision", "f64", "--no-attention", "--no-spectral")
    v += norm(drawn, 0, "mixer.v.weight") ** 2 / samples / 3
    q += norm(drawn, 0, "mixer.q.weight") ** 2 / samples / 3
    check("queries of 0: keys have no gradient", norm(drawn, 0, "mixer.k.weight") == 0)
near("E gV", v, d * d, 0.15)
near("E gQ", q, (n - 1) / n * d * (n + d) * (n * d + 4) / (n * d), 0.15)

# ---- one token, dead ReLU ----
alone = probe(encoder, "--tokens", "single.json", "--precision", "f64")
check("one token", "attends to itself alone" in findings(alone)["gradient_summary"]["message"] and "vanishing_qk_gradient" not in findings(alone))
check("one token is rounding", all(r["at_floor"] for k, r in rows(alone).items() if k[3].startswith(("mixer.q.", "mixer.k."))))
json.dump({**json.load(open("dead.json")), "init": {"w1": "zero"}}, open("dead.json", "w"))
check("dead ReLU", "no ReLU" in json.dumps(probe("dead.json", "--random", "2", "--precision", "f64")["tables"]["findings"]))

# ---- masked tokens ----
masked, seeded = probe("spoken", *ids, "--loss", "mlm"), probe("spoken", *ids, "--loss", "mlm", "--seed", "5")
check("the other tables are of the tokens themselves", masked["tables"]["tokens"] == probe("spoken", *ids)["tables"]["tokens"])
check("the seed picks", loss(masked) != loss(seeded))

# ---- too large for float32 ----
big = subprocess.run([program, "probe", "huge.json", "--random", "2", "--grad", "--loss", "norm2", "--json", "-"], capture_output=True)
if big.returncode == 0:
    f = findings(json.loads(big.stdout))
    check("overflow", "nonfinite_gradient" in f and "mixer" in f["nonfinite_gradient"]["message"] and "f64" in json.dumps(f["nonfinite_gradient"]))
else:
    wrong.append(big.stderr.decode())

for line in wrong:
    print("FAILED:", line)
sys.exit(bool(wrong))
END
echo '{"depth": 1, "d_model": 32, "heads": 1, "seq_len": 8, "mlp": "none", "norm": "none", "skip_mixer": 0,
 "init": {"wq": "zero", "wo": "none", "wk": "normal(0, 1/fan_in)", "wv": "normal(0, 1/fan_in)"}}' >uniform.json
arch stack '"depth": 1, "seq_len": 6, "mlp": "none"'
arch rezero1 '"depth": 1, "seq_len": 6, "mlp": "none", "branch_mixer": 0'
arch huge '"depth": 3, "seq_len": 6, "mlp": "none", "norm": "none", "skip_mixer": 0, "init": {"wq": "zero", "wk": "zero", "wv": "normal(0, 1e18)"}'
python3 grad.py "$RANKSCOPE" "$RS_SOURCE_DIR" || failures=$((failures + 1))

# ---- the first screen ----
expect 0 "$RANKSCOPE" probe collapse.json --random 3 --grad --precision f64
says out "gradient_summary"
says out "vanishing_qk_gradient"
expect 0 "$RANKSCOPE" probe collapse.json --random 3 --grad --svg drawn -q
[ -s drawn/gradient_ratios.svg ] || note_failure "there is no figure"
finish
