#!/bin/sh
# predict_said.sh: what `rankscope predict` says where theory has no number, where a map has no gradient, where nothing helps, where
# numbers are beyond the doubles, and what it refuses because nobody waits for it.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
refused() { refused_by predict "$@"; }

# ---- fields that there are not ----
arch small '"depth": 3, "seq_len": 8'
refused bad-option '"foo" is no field' small.json --grid foo=0:1:3
refused bad-option 'did you mean "input.rho"' small.json --grid input.rh=0:1:3 --trials 0
refused bad-option 'did you mean "branch_mlp"' small.json --grid depth=1:2,branch_mpl=0:1:3
expect 0 "$RANKSCOPE" predict small.json --grid input.rho=0:0.5:2 --trials 0
refused bad-option "1000000 cells of 0 trials are too many" small.json --trials 0 --grid branch_mixer=0:1:1000,branch_mlp=0:1:1000
echo '[]' >list.json
echo 3 >number.json
refused config-schema 'an architecture file is an object' list.json
refused config-schema 'an architecture file is an object' number.json

# ---- what theory takes is known before it begins ----
echo '{"depth": 3, "seq_len": 100000, "mask": "causal"}' >long.json
refused memory-limit "the Gram matrices of theory need" long.json --trials 0 --memory 8G
echo '{"depth": 2, "seq_len": 40000, "positions": "rope"}' >turned.json
refused bad-option "would take" turned.json --trials 0 --memory 8000G

cat >said.py <<'END'
import json, subprocess, sys
program = sys.argv[1]
wrong = []

def check(what, holds):
    if not holds:
        wrong.append(what)

def predict(arch, *options):
    if arch is not None:
        json.dump(arch, open("asked.json", "w"))
    what = ["asked.json"] if arch is not None else []
    run = subprocess.run([program, "predict", *what, *options, "--json", "-"], capture_output=True)
    if run.returncode:
        sys.exit(f"FAILED: {arch} {options}: {run.stderr.decode()}")
    return json.loads(run.stdout.decode())

def answers(result):
    return {a["question"]: a["answer"] for a in result["tables"]["answers"]}

# layers that share weights: the first is covered, what stands behind the others is not
shared = predict({"depth": 6, "share_layers": True})
rows = shared["tables"]["forward"]
check("first of shared layers", rows[1]["rho_theory"] is not None and rows[1]["F2_theory"] is not None)
check("shared layers", all(r["rho_theory"] is None and "share weights" in r["theory_note"] for r in rows[2:]))
check("the verdict is that of trials", shared["verdict"]["code"] == "slow" and "drawn" in shared["verdict"]["answer"])
check("answers say who", "drawn: slow" in answers(shared)["apart"] and "does not say" in answers(shared)["sizes"])
silent = predict({"depth": 6, "share_layers": True}, "--trials", "0")
check("without trials", silent["verdict"]["code"] == "unknown" and silent["tables"]["forward"][-1]["theory_note"])
one = predict({"depth": 1, "share_layers": True}, "--trials", "0")
check("one layer shares with none", one["tables"]["forward"][-1]["rho_theory"] is not None)
off = predict({"depth": 3, "share_layers": True, "branch_mixer": [1, 0, 0], "branch_mlp": [1, 0, 0]}, "--trials", "0")
check("layers that add nothing", off["tables"]["forward"][-1]["rho_theory"] is not None)

# a law whose mean is not 0: rank one is added to the map
for law in ("normal(0.5, 1/fan_in)", "uniform(0, 1)"):
    for name in ("wq", "wv", "w1"):
        result = predict({"depth": 4, "init": {name: law}})
        last = result["tables"]["forward"][-1]
        check(f"{name} {law}", last["rho_theory"] is None and "mean is not 0" in last["theory_note"] and result["verdict"]["code"] != "unknown")
for law in ("normal(0, 1/fan_in)", "uniform(-1, 1)", "orthogonal"):
    check(law, predict({"depth": 2, "init": {"wv": law}}, "--trials", "0")["tables"]["forward"][-1]["rho_theory"] is not None)

# absent maps have no gradient, and W_Q = 0 leaves keys without one
sas = predict(None, "--preset", "sas-18", "--trials", "0")
back = sas["tables"]["backward"]
check("no gradient of what is not there", all(r["gV_theory"] is None and r["gO_theory"] is None and r["ratio_gQ_gV_theory"] is None for r in back))
check("keys have none", all(r["gK_theory"] == 0 for r in back))
text = answers(sas)["queries"]
check(f"it says so: {text}", "keys get no gradient at the start (W_Q = 0)" in text and "no W_V" in text and "temperature" not in text)
check("nor at other sizes", "gQ/gV" not in answers(sas)["sizes"])
masked = predict({"depth": 2, "mask": "causal", "attention": "shaped", "skip_mixer": 0, "init": {"wq": "zero", "wv": "identity", "wo": "identity"}},
                 "--trials", "0")
check("under a mask, too", all(r["gV_theory"] is None and r["gO_theory"] is None for r in masked["tables"]["backward"]))
for law, says in (({"wq": "zero"}, "keys get no gradient at the start (W_Q = 0)"), ({"wk": "zero"}, "queries get no gradient at the start (W_K = 0)"),
                  ({"wq": "zero", "wk": "zero"}, "queries and keys get no gradient at the start (W_Q = W_K = 0)")):
    text = answers(predict({"depth": 2, "init": law}, "--trials", "0"))["queries"]
    check(f"{law}: {text}", says in text)
check("nothing is 0", "no gradient" not in answers(predict({"depth": 2}, "--trials", "0"))["queries"])

# the price of a change that leaves maps out: operations of the maps and of attention, counted by hand
d, n = 256, 16
price = {r["name"]: r for r in predict({"depth": 2, "d_model": d, "seq_len": n}, "--trials", "0", "--remedies", "sas,sas-p")["tables"]["remedies"]}
per_token = lambda maps: maps * d * d + 2 * n * d
for name in ("sas", "sas-p"):
    check(f"{name}: {price[name]['time_ratio']}", abs(price[name]["time_ratio"] - per_token(10) / per_token(12)) < 1e-12)

# growth beyond the doubles is told by its logarithm
grown = predict({"norm": "none", "depth": 64, "branch_mlp": 3, "attention": "uniform", "mlp": "relu"}, "--trials", "0")
once = grown["tables"]["forward"][-1]["log10_F2_theory"]
json.dump(None, open("asked.json", "w"))
twice = predict({"norm": "none", "depth": 128, "branch_mlp": 3, "attention": "uniform", "mlp": "relu"}, "--trials", "0")["tables"]["forward"][-1]["log10_F2_theory"]
text = answers(grown)["sizes"]
check(f"{text}: {twice - once}", f"growth × 10^{twice - once:.1f}" in text and "e-" not in text)
fast = predict({"norm": "none", "depth": 7, "skip_mixer": 0, "mlp": "none"}, "--trials", "0")
check(f"nothing underflows: {answers(fast)['sizes']}", "1−ρ × 0 " not in answers(fast)["sizes"] and "1−ρ × 10^-" in answers(fast)["sizes"])
swamped = [f for f in predict({"depth": 2, "norm": "none", "init": {"w2": "normal(0, 1e200)"}}, "--trials", "0")["findings"] if f["code"] == "embedding_swamped"]
check("plain exponents", swamped and "e+" not in swamped[0]["message"] and "10^2" in swamped[0]["message"])

# what stays as it is needs no help, and what explodes is none
still = predict({"branch_mixer": 0, "branch_mlp": 0}, "--trials", "0")
check(f"nothing helps: {answers(still)['remedy']}", "none of" in answers(still)["remedy"])
gone = predict({"depth": 1000, "norm": "none", "branch_mixer": 1e-100, "branch_mlp": 1e-100, "skip_mixer": 0, "skip_mlp": 0}, "--trials", "0")
said = [f["message"] for f in gone["findings"] if f["code"] == "recommendation"]
check(f"an explosion is no help: {said}", not any("explosion" in m for m in said))

# gradients that vanish whatever the depth
for words, says in (({"seq_len": 1}, "one token"), ({"input": {"rho": 1}}, "equal"), ({"init": {"wk": "zero"}}, "W_K = 0")):
    hints = [f["hint"] for f in predict({"depth": 2, **words}, "--trials", "0")["findings"] if f["code"] == "vanishing_qk_gradient"]
    check(f"{words}: {hints}", hints and all(says in h and "1/sqrt(L)" not in h for h in hints))

# selective attention is not called uniform
for s, word in ((0.3, "nearly uniform"), (0.8, "selective"), (9, "condensed")):
    text = answers(predict({"depth": 1, "seq_len": 8, "temperature": 1 / s}, "--trials", "0"))["attention"]
    check(f"{s}: {text}", text.startswith(word))

# condensed attention is rough, and says so without trials and beside them
cold = {"depth": 2, "d_model": 128, "seq_len": 4, "temperature": 0.1, "input": {"rho": 0.2}, "norm": "none", "mlp": "none"}
rough = predict(cold, "--trials", "0")
check("the headline", "rough" in rough["verdict"]["answer"])
check("a note", "rough" in rough["tables"]["forward"][0]["theory_note"])

# theory that takes long leaves out what multiplies it
deep = predict({"depth": 60000, "d_model": 4, "seq_len": 2, "attention": "uniform", "mlp": "none"}, "--trials", "0")
check(f"deep: {answers(deep)['remedy']}", "left out" in answers(deep)["remedy"] and "remedies" not in deep["tables"])
if wrong:
    sys.exit("FAILED: " + "\n  ".join(wrong))
END
python3 said.py "$RANKSCOPE" || note_failure "what is said"
finish
