#!/bin/sh
# predict.sh: `rankscope predict`: presets and files, its tables against each other, the same numbers for any number of threads, published
# configurations, extremes that stay numbers, and what is refused by name.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
refused() { refused_by predict "$@"; }

# ---- what is refused ----
refused usage "needs an architecture"
refused usage "two questions" x.json --preset gpt2
refused not-found 'did you mean "gpt2"' --preset gtp2
refused unsupported "experts are not predicted" --preset moe
arch wrong '"depht": 3'
refused architecture-schema 'did you mean "depth"' wrong.json
arch small '"depth": 6, "seq_len": 12, "norm": "post", "mlp": "relu"'
refused bad-option "0.001" small.json --threshold halving=-0.001
refused bad-option "halving" small.json --threshold havling=1
refused bad-option '"deepnorm"' small.json --remedies depnorm
refused unsupported "espa" small.json --remedies e-spa
refused bad-option "no two numbers" small.json --grid depth=1
refused bad-option "not said" small.json --grid branch_mixer=0:1.5
refused bad-option "two fields at most" small.json --grid depth=1:2,d_model=8:9,heads=1:2
refused bad-option "1000000 cells of 16 trials" small.json --grid branch_mixer=0:1:1000,branch_mlp=0:1:1000
refused usage "no weights to measure" small.json --init measured
refused bad-option "is not a law" small.json --init nrmal

# ---- presets ----
expect 0 "$RANKSCOPE" predict --preset list
says out post-norm-xavier-18
expect 0 "$RANKSCOPE" predict --preset gpt2 --explain
says out "init.wo"
expect 3 "$RANKSCOPE" predict --preset post-norm-xavier-6 --trials 0 --fail-on warn
awk 'length($0) > 100 { exit 1 }' out || note_failure "the first screen is wide"
for word in apart size queries attention depth remedy sizes trust; do says out "$word"; done

# ---- the tables ----
cat >tables.py <<'END2'
import json, math, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden"
wrong = []

def predict(*options):
    run = subprocess.run([program, "predict", *options, "--json", "-"], capture_output=True)
    if run.returncode:
        sys.exit(f"FAILED: {options}: {run.stderr.decode()}")
    text = run.stdout.decode()
    if "Infinity" in text or "NaN" in text:
        sys.exit(f"FAILED: {options}: a number that JSON has not")
    return json.loads(text)

def check(what, holds):
    if not holds:
        wrong.append(what)

def near(what, got, want, by=1e-9):
    check(f"{what}: {got}, not {want}", got is not None and abs(got - want) <= by * (1 + abs(want)))

def answers(result):
    return {a["question"]: a for a in result["tables"]["answers"]}

small = predict("small.json")
forward, backward = small["tables"]["forward"], small["tables"]["backward"]
check("rows", len(forward) == 7 and len(backward) == 6 and len(answers(small)) == 8)
for row in forward:
    n = 12
    near("rho", row["rho"], (row["C"] / row["F2"] - 1) / (n - 1), 1e-9)
    near("rho_theory", row["rho_theory"], (row["C_theory"] / row["F2_theory"] - 1) / (n - 1), 1e-9)
    near("log F2", row["log10_F2_theory"], math.log10(row["F2_theory"]))
    width = 32
    late = 0.03 + 1.5 / width + 3 * row["rho_se"]
    check(f"theory of layer {row['layer']}", abs(row["rho"] - row["rho_theory"]) <= late or row["theory_note"])
for row in backward:
    near("ratio", row["ratio_gQ_gV_theory"], row["gQ_theory"] / row["gV_theory"])
    near("log gQ", row["log10_gQ_theory"], math.log10(row["gQ_theory"]))
near("apart", answers(small)["apart"]["value"], forward[-1]["rho_theory"])
near("queries", answers(small)["queries"]["value"], min(math.log10(r["ratio_gQ_gV_theory"]) for r in backward))

# the verdict, by its rule
e = [10 ** r["log10_one_minus_rho_theory"] for r in forward]
p = math.log10(e[3] / e[6]) / math.log10(2)
code = "exponential" if e[6] < e[0] / 2 and p >= 1.5 else "slow" if e[6] < e[0] / 2 else "healthy"
check(f"verdict {small['verdict']['code']}, not {code}", small["verdict"]["code"] == code)
check("threshold", predict("small.json", "--threshold", "halving=1e-9")["verdict"]["code"] == "healthy")

# the same for any number of threads; other draws for another seed
def bare(result):
    return {t: rows for t, rows in result["tables"].items()}
check("threads", bare(predict("small.json", "--threads", "1")) == bare(predict("small.json", "--threads", "2")))
other = predict("small.json", "--seed", "5")["tables"]["forward"]
check("seed", other[3]["rho"] != forward[3]["rho"] and other[3]["rho_theory"] == forward[3]["rho_theory"])

# a remedy is the file with these words
edited = {**json.load(open("small.json")), "branch_mixer": "1/L", "branch_mlp": "1/L"}
json.dump(edited, open("edited.json", "w"))
remedy = {r["name"]: r for r in predict("small.json", "--trials", "0")["tables"]["remedies"]}["scale-depth"]
run = predict("edited.json", "--trials", "0")
near("remedy", remedy["log10_one_minus_rho"], run["tables"]["forward"][-1]["log10_one_minus_rho_theory"])
check("remedy's verdict", remedy["verdict"] == run["verdict"]["code"])

# a grid's cell is the file with these numbers, also its trials
grid = predict("small.json", "--grid", "depth=2:4,branch_mixer=0.5:1:2", "--trials", "5")["tables"]["grid"]
check("cells", len(grid) == 6)
cell = next(c for c in grid if c["depth"] == 3 and c["branch_mixer"] == 0.5)
json.dump({**json.load(open("small.json")), "depth": 3, "branch_mixer": 0.5}, open("cell.json", "w"))
alone = predict("cell.json", "--trials", "5")
near("cell, theory", cell["log10_one_minus_rho_theory"], alone["tables"]["forward"][-1]["log10_one_minus_rho_theory"])
near("cell, drawn", cell["log10_one_minus_rho"], alone["tables"]["forward"][-1]["log10_one_minus_rho"], 1e-12)

# fields of whole numbers take the nearest ones; a phase diagram has a line between verdicts that differ
drawn = predict("small.json", "--grid", "depth=1:9:4,branch_mixer=log:0.1:2:5", "--trials", "0", "--svg", "drawn")["tables"]["grid"]
check("whole depths", sorted({c["depth"] for c in drawn}) == [1, 4, 6, 9])
at = {(c["place"], c["place_2"]): c["verdict_theory"] for c in drawn}
lines = sum(at.get(beside, code) != code for (x, y), code in at.items() for beside in ((x + 1, y), (x, y + 1)))
svg = open("drawn/grid.svg").read()
check("borders", lines > 0 and svg.count('stroke="#d81b60"') == lines)
check("axes", ">depth<" in svg and ">branch_mixer<" in svg and ">9<" in svg)

# bands hold what most of the trials are
for row in forward[1:]:
    check("band", row["log10_F2_low"] <= row["log10_F2"] <= row["log10_F2_high"])
    check("band", row["log10_one_minus_rho_low"] <= row["log10_one_minus_rho"] <= row["log10_one_minus_rho_high"])

# published configurations: what enters the first layer
for name, rho in (("bert", 1 / 3), ("gpt2", 0), ("llama", 0)):
    result = predict(f"{golden}/forward/{name}/config.json", "--seq-len", "8", "--trials", "3")
    near(f"{name} enters with rho", result["tables"]["forward"][0]["rho_theory"], rho, 1e-12)
    check(f"{name}: theory", result["tables"]["forward"][-1]["log10_F2_theory"] is not None)
    check(f"{name}: drawn", result["tables"]["forward"][-1]["rho"] is not None)
measured = predict(f"{golden}/forward/bert", "--init", "measured", "--seq-len", "8")
check("measured", measured["tables"]["forward"][-1]["rho_theory"] is not None)

# extremes are numbers, or null with a reason
base = {"d_model": 8, "heads": 2, "seq_len": 5}
for name, words in {
    "one layer": {"depth": 1}, "one token": {"seq_len": 1}, "width 1": {"d_model": 1, "heads": 1},
    "deep": {"depth": 1000, "norm": "none"}, "equal": {"input": {"rho": 1}}, "simplex": {"input": {"rho": -0.25}},
    "nothing added": {"branch_mixer": 0, "branch_mlp": 0}, "hot": {"temperature": 1e6}, "cold": {"temperature": 1e-6},
    "zero": {"init": {"wq": "zero", "wv": "zero"}}, "large": {"depth": 40, "norm": "none", "init": {"w2": "normal(0, 1e30)"}},
    "mamba": {"mixer": "mamba"}, "parallel": {"block": "parallel"},
}.items():
    json.dump({"depth": 4, **base, **words}, open("extreme.json", "w"))
    result = predict("extreme.json", "--trials", "3")
    last = result["tables"]["forward"][-1]
    check(f"{name}: no number and no reason", last["log10_F2_theory"] is not None or last["theory_note"])
    if name == "equal":
        check("equal from the start", result["verdict"]["code"] == "exponential" and result["verdict"]["severity"] == "critical")
    if name in ("deep", "large"):
        check(f"{name} grows", result["verdict"]["code"] == "explosion" and last["log10_F2_theory"] > 200)
if wrong:
    sys.exit("FAILED: " + "\n  ".join(wrong))
END2
python3 tables.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "tables"
finish
