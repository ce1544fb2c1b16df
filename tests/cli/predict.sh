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
arch cold '"temperature": 1e-300'
refused bad-option "a temperature is a number above 1e-150" cold.json
refused bad-option '"deepnorm"' small.json --remedies depnorm
refused unsupported "espa" small.json --remedies e-spa
refused bad-option "no two numbers" small.json --grid depth=1
refused bad-option "not said" small.json --grid branch_mixer=0:1.5
refused bad-option "two fields at most" small.json --grid depth=1:2,d_model=8:9,heads=1:2
refused bad-option "1000000 cells of 16 trials" small.json --grid branch_mixer=0:1:1000,branch_mlp=0:1:1000
arch frozen '"depth": 3, "temperature": "1-l"'
refused architecture-schema '"temperature" of layer 1 is 0' frozen.json
refused bad-option "'0' is no amount" small.json --budget 0
refused bad-option "'-5' is no amount" small.json --budget=-5
refused bad-option "'1e400' is no amount" small.json --budget 1e400
refused bad-option "'10X' is no amount" small.json --budget 10X
refused bad-option "'many' is no amount" small.json --budget many
refused bad-option "one layer of width 2 has 48 already" small.json --budget 47
refused bad-option "from 1 to 1e+18" small.json --budget 1e30
arch shared '"depth": 3, "share_layers": true'
refused bad-option "no depth to 4096 has" shared.json --budget 1e17
refused bad-option "1000 trials of" small.json --budget 1B --trials 1000
refused unsupported "only an architecture file can be changed" "$RS_SOURCE_DIR/tests/golden/forward/gemma2/config.json" --budget 1M
arch layers '"depth": 3, "skip_mixer": [1, 1, 1], "mlp": "relu"'
refused usage "no weights to measure" small.json --init measured
refused bad-option "is not a law" small.json --init nrmal

refused memory-limit "the trials need" small.json --memory 10K
arch kept '"attention": "shaped", "skip_mixer": 0, "init": {"wv": "identity", "wo": "identity"}'
refused memory-limit "the weights need" kept.json --memory 10K

# what is refused whatever the trials say is refused before they are asked for: these have no memory
refused bad-option "1000000 cells of 16 trials" small.json --memory 10K --grid branch_mixer=0:1:1000,branch_mlp=0:1:1000
refused bad-option "no field" small.json --memory 10K --grid 7
refused bad-option "1000 trials of" small.json --memory 10K --budget 1B --trials 1000
refused unsupported "espa" small.json --memory 10K --remedies e-spa
# the last cell is no architecture (two heads do not share a width of 8193): the others cost as much
refused bad-option "4 cells of 1000000 trials" small.json --memory 10K --grid d_model=8192:8193,heads=1:2 --trials 1000000

# ---- interrupted: nothing is written ----
arch long '"depth": 40, "seq_len": 128, "norm": "post", "mlp": "relu"'
"$RANKSCOPE" predict long.json --remedies all --trials 400 --json long.out --html long.html --quiet 2>err &
started=$!
sleep 2
kill -INT $started
wait $started
[ $? = 130 ] || note_failure "an interrupted run does not exit with 130"
says err "interrupted; nothing was written"
for output in long.out long.html; do [ ! -e $output ] || note_failure "$output was left behind"; done

# ---- presets ----
expect 0 "$RANKSCOPE" predict --preset list
says out post-norm-xavier-18
says out layernorm-scaling-48
expect 0 "$RANKSCOPE" predict --preset gpt2 --explain
says out "init.wo"
expect 3 "$RANKSCOPE" predict --preset post-norm-xavier-6 --trials 0 --fail-on warn
awk 'length($0) > 100 { exit 1 }' out || note_failure "the first screen is wide"
for word in apart size queries attention depth remedy sizes trust; do says out "$word"; done

# ---- the tables ----
cat >tables.py <<'END2'
import json, math, os, re, subprocess, sys
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
near("remedy", remedy["log10_one_minus_rho_theory"], run["tables"]["forward"][-1]["log10_one_minus_rho_theory"])
check("remedy's verdict", remedy["verdict_theory"] == run["verdict"]["code"] and remedy["verdict"] is None)

# by trials, too, and so is what it is compared with; those that were drawn come first, the best first
def least(rows, column="ratio_gQ_gV"):
    return min((r[column] for r in rows if r[column] is not None), default=None)
init = {"init": {"wq": "zero", "wv": "identity", "wo": "identity"}}
simple = {"norm": "pre", "attention": "shaped", "skip_mixer": 0, "branch_mlp": "1/sqrt(L)", **init}
edits = {"scale-depth": {"branch_mixer": "1/L", "branch_mlp": "1/L"}, "pre-norm": {"norm": "pre"}, "centred": {"attention": "centred"},
         "rezero": {"norm": "none", "branch_mixer": 0, "branch_mlp": 0}, "lambda-skip": {"skip_mixer": 2, "skip_mlp": 2},
         "value-skipinit": {"attention": "shaped", "shaped": [1, 0, 0], "skip_mixer": 0}, "sas": simple,
         "sas-p": {**simple, "block": "parallel"}, "fusion": {"fusion": "concat"}}
drawn = predict("small.json", "--remedies", "all", "--trials", "6", "--seed", "3")["tables"]["remedies"]
alone = predict("small.json", "--trials", "6", "--seed", "3")["tables"]
now, rows = drawn[0], {r["name"]: r for r in drawn}
near("as it is", now["log10_one_minus_rho"], alone["forward"][-1]["log10_one_minus_rho"], 1e-12)
near("as it is, gQ/gV", now["ratio_gQ_gV"], least(alone["backward"]), 1e-12)
for name, words in edits.items():
    json.dump({**json.load(open("small.json")), **words}, open("edited.json", "w"))
    run, row = predict("edited.json", "--trials", "6", "--seed", "3")["tables"], rows[name]
    growth = run["forward"][-1]["log10_F2"] - run["forward"][0]["log10_F2"]
    if name == "fusion": # the layers are as they were; 1 - rho is of all of them: sums over layers
        total = sum(r["F2"] for r in run["forward"][1:])
        apart = sum(r["F2"] * 10 ** r["log10_one_minus_rho"] for r in run["forward"][1:]) / total
        near(f"{name}: 1 - rho", 10 ** row["log10_one_minus_rho"], apart, 1e-9)
    else:
        near(f"{name}: log 1 - rho", row["log10_one_minus_rho"], run["forward"][-1]["log10_one_minus_rho"], 1e-12)
    check(f"{name}: growth {row['log10_growth']}, not {growth}", abs(row["log10_growth"] - growth) < 0.02)
    ratio = least(run["backward"])
    check(f"{name}: gQ/gV {row['ratio_gQ_gV']}, not {ratio}", row["ratio_gQ_gV"] == ratio)
    check(f"{name}: a change of rho and its error", abs(row["change"] - row["log10_one_minus_rho"] + row["log10_one_minus_rho_before"]) < 1e-12
          and 0 <= row["change_se"] < 1)
    check(f"{name}: price", row["trials"] == 6 and row["width"] == 32 and row["at_init"] and row["time_ratio"] > 0)
    if name not in ("sas", "sas-p"): # those have no W_V: another way of drawing, and so another before
        check(f"{name}: before", row["log10_one_minus_rho_before"] == now["log10_one_minus_rho"] and row["ratio_gQ_gV_before"] == now["ratio_gQ_gV"])
order = ["healthy", "slow", "exponential", "doubly_exponential", "explosion"]
ranks = [order.index(r["verdict"]) for r in drawn[1:]]
check(f"order of remedies {ranks}", ranks == sorted(ranks) and [r["place"] for r in drawn] == list(range(len(drawn))))
for threads in ("1", "7"):
    again = predict("small.json", "--remedies", "all", "--trials", "6", "--seed", "3", "--threads", threads)
    check(f"remedies of {threads} threads", again["tables"]["remedies"] == drawn)
best = predict("small.json", "--trials", "6", "--seed", "3")["tables"]["remedies"]
check("three are drawn unasked", [r["trials"] for r in best[1:4]] == [6, 6, 6] and best[4]["trials"] is None and best[4]["verdict_theory"])
check("the same as with others", all(r == {**rows[r["name"]], "place": r["place"]} for r in best[1:4]))
named = predict("small.json", "--remedies", "post-norm,rezero", "--trials", "2")["tables"]["remedies"]
check("one that changes nothing says so", len(named) == 3 and "already" in named[2]["note"] and named[2]["verdict"] is None)

# what is exact: with the same matrix of attention centring leaves what tells tokens apart; shaped attention is the identity at its start,
# and values that are tokens leave them as they were
def edited(**words):
    json.dump({"depth": 1, "d_model": 16, "heads": 2, "seq_len": 6, "norm": "none", "mlp": "none", **words}, open("exact.json", "w"))
    return predict("exact.json", "--trials", "5")["tables"]
def residual(tables):
    return tables["forward"][-1]["F2"] - tables["forward"][-1]["C"] / 6
plain, centred = edited(skip_mixer=0), edited(skip_mixer=0, attention="centred")
near("centring leaves what differs", residual(centred), residual(plain), 1e-9)
equal = edited(skip_mixer=0, attention="centred", input={"rho": 1})["forward"]
check("centring leaves nothing of equal tokens", equal[-1]["F2"] < 1e-20 * equal[0]["F2"])
with_skip = [residual(edited(attention=a)) for a in ("softmax", "centred")]
near("centring with a skip", with_skip[1], with_skip[0], 1e-9)
for more in ({}, {"mask": "causal"}, {"positions": "rope"}):
    same = edited(depth=4, skip_mixer=0, attention="shaped", input={"rho": 0.25}, **init, **more)
    for column in ("F2", "C"):
        near(f"the identity {more}: {column}", same["forward"][-1][column], same["forward"][0][column], 1e-12)
    check("W_Q = 0: keys have no gradient, queries do", same["backward"][0]["gK"] == 0 and same["backward"][0]["gQ"] > 0)
twice = edited(depth=4, skip_mixer=0, attention="shaped", shaped=[1, 0, 0], init={"wv": "orthogonal", "wo": "orthogonal"}, input={"rho": 0.25})
near("value-skipinit: rho", twice["forward"][-1]["rho"], twice["forward"][0]["rho"], 1e-5)
check("value-skipinit: no gradient of queries", twice["backward"][0]["gQ"] == 0 and twice["backward"][0]["gV"] > 0)
# SAS and SAS-P are one function at their start: what the norm gives and the MLP of it
check("sas and sas-p", abs(rows["sas"]["log10_one_minus_rho"] - rows["sas-p"]["log10_one_minus_rho"]) < 1e-4)
maps = 2 * 32 * 32 + 8 * 32 * 32
near("parameters without W_V and W_O", rows["sas"]["parameters_ratio"], maps / (maps + 2 * 32 * 32), 1e-12)
near("parameters of what reads all layers", rows["fusion"]["parameters_ratio"], 1 + 1 / 12, 1e-12)

# states of all layers side by side, as probe measures them of other draws
json.dump({**json.load(open("small.json")), "d_model": 32, "fusion": "concat"}, open("fused.json", "w"))
probed = []
for seed in range(8):
    run = subprocess.run([program, "probe", "fused.json", "--init", "default", "--random", "16", "--seed", str(seed), "--no-spectral",
                          "--table", "tokens", "--json", "-"], capture_output=True)
    probed += [r["one_minus_cosine"] for r in json.loads(run.stdout)["tables"]["tokens"] if r["site"] == "fusion_concat"]
fused = predict("fused.json", "--trials", "100")["tables"]
check("what is fused already", "fusion" not in [r["name"] for r in fused["remedies"]])
json.dump({**json.load(open("small.json")), "d_model": 32}, open("plain.json", "w"))
row = predict("plain.json", "--remedies", "fusion", "--trials", "100")["tables"]["remedies"][1]
mean = sum(probed) / 8
error = math.sqrt(sum((x - mean) ** 2 for x in probed) / 7 / 8) + 10 ** row["log10_one_minus_rho"] * math.log(10) * row["log10_one_minus_rho_se"]
near("fusion as probe has it", 10 ** row["log10_one_minus_rho"], mean, 4 * error)
near("fusion by theory", row["log10_one_minus_rho"], row["log10_one_minus_rho_theory"], 0.05)

# a mixer without a theory: all that apply are drawn; one that moves nothing is not said to help
json.dump({"depth": 3, "d_model": 16, "heads": 2, "seq_len": 6, "mixer": "mamba"}, open("mamba.json", "w"))
mamba = predict("mamba.json", "--trials", "8")["tables"]
check("mamba", all(r["trials"] == 8 and r["verdict_theory"] is None for r in mamba["remedies"]) and len(mamba["remedies"]) > 7)
check("no remedy of attention for mamba", not {"centred", "shaped", "sas", "temperature", "deepnorm"} & {r["name"] for r in mamba["remedies"]})
json.dump({"depth": 3, "d_model": 16, "heads": 2, "seq_len": 6, "mixer": "linear_attention"}, open("linear.json", "w"))
said = answers(predict("linear.json", "--remedies", "scale-root", "--trials", "4"))["remedy"]["answer"]
check(f"no gain within its error: {said}", "none of 1 does measurably better" in said or "no measurable change" in said)
one = predict("small.json", "--remedies", "scale-depth", "--trials", "1")["tables"]["remedies"][1]
check("one trial has no error", one["change_se"] is None and one["change"] is not None)

# a narrower twin is what both are drawn of
json.dump({"depth": 2, "d_model": 512, "heads": 8, "seq_len": 64, "norm": "post", "mlp": "relu"}, open("wide.json", "w"))
wide = predict("wide.json", "--remedies", "scale-depth", "--trials", "20")
row = wide["tables"]["remedies"]
check(f"twin of width {row[1]['width']}", row[0]["width"] == row[1]["width"] < 257 and row[1]["trials"] == 20)
check("the answer says so", "20 drawn, narrower" in answers(wide)["remedy"]["answer"])
check("twin's theory", abs(row[1]["log10_one_minus_rho"] - row[1]["log10_one_minus_rho_theory"]) < 0.05)

# one that does not fit the memory says so, and the others are run
json.dump({"depth": 8, "d_model": 256, "heads": 4, "seq_len": 64, "norm": "post", "mlp": "relu"}, open("held.json", "w"))
held = predict("held.json", "--remedies", "rezero,sas", "--trials", "2", "--memory", "50M", "--threads", "1")["tables"]["remedies"]
held = {r["name"]: r for r in held}
check(f"memory: {held['sas']['note']}", held["rezero"]["trials"] == 2 and held["sas"]["trials"] is None
      and "--memory gives 50.0 MiB" in held["sas"]["note"])

# a grid's cell is the file with these numbers, also its trials, though depths share their states; in either order of the fields
def level(row, name):
    few = row[name + "_se"] > 0.3 * row[name]
    return 10 ** row["log10_" + name] if few else row[name]

rooted = {**json.load(open("small.json")), "branch_mlp": "1/sqrt(L)"}
json.dump(rooted, open("rooted.json", "w"))
for name in "small", "rooted":
    grid = predict(f"{name}.json", "--grid", "depth=2:4,branch_mixer=0.5:1:2", "--trials", "5")["tables"]["grid"]
    turned = predict(f"{name}.json", "--grid", "branch_mixer=0.5:1:2,depth=2:4", "--trials", "5")["tables"]["grid"]
    place = lambda row: (row["depth"], row["branch_mixer"])
    same = [{key: x for key, x in row.items() if not key.startswith("place")} for row in sorted(turned, key=place)]
    check("cells", [place(c) for c in grid] == [(d, b) for d in (2, 3, 4) for b in (0.5, 1)])
    check("the other order", same == [{key: x for key, x in row.items() if not key.startswith("place")} for row in grid])
    for cell in grid:
        json.dump({**json.load(open(f"{name}.json")), "depth": cell["depth"], "branch_mixer": cell["branch_mixer"]}, open("cell.json", "w"))
        tables = predict("cell.json", "--trials", "5")["tables"]
        ahead, back = tables["forward"], tables["backward"]
        near("cell, theory", cell["log10_one_minus_rho_theory"], ahead[-1]["log10_one_minus_rho_theory"])
        near("cell, drawn", cell["log10_one_minus_rho"], ahead[-1]["log10_one_minus_rho"], 1e-12)
        near("its first gQ/gV", cell["ratio_gQ_gV_first"], level(back[0], "gQ") / level(back[0], "gV"), 1e-12)
        near("its last gQ/gV", cell["ratio_gQ_gV_last"], level(back[-1], "gQ") / level(back[-1], "gV"), 1e-12)

# a preset is its file: what --explain writes says the same when it is asked
explained = predict("--preset", "layernorm-scaling-48", "--explain")["architecture"]
check("a norm's scale", explained["temperature"] == list(range(1, 49)) and explained["branch_mlp"][3] == 0.5)
json.dump(explained, open("explained.json", "w"))
named, written = predict("--preset", "layernorm-scaling-48", "--trials", "0"), predict("explained.json", "--trials", "0")
check("the preset and its file", named["tables"]["forward"] == written["tables"]["forward"])
check("it keeps tokens apart", named["verdict"]["code"] in ("healthy", "slow"))

# a budget's row is the file of that depth and width, also its trials; no width beside it is nearer
def parameters(depth, width):
    return depth * 12 * width * width
result = predict("small.json", "--budget", "20k", "--trials", "5")
shapes, last = result["tables"]["budget"], answers(result)["budget"]
check(f"depths {[s['depth'] for s in shapes]}", [s["depth"] for s in shapes] == [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362])
for s in shapes:
    near_ones = [w for w in (s["width"] - 2, s["width"], s["width"] + 2) if w > 0]
    check(f"{s['depth']} x {s['width']}", s["parameters"] == parameters(s["depth"], s["width"]) and s["width"] % 2 == 0 and
          s["width"] == min(near_ones, key=lambda w: abs(parameters(s["depth"], w) - 20000)))
json.dump({**json.load(open("small.json")), "depth": 16, "d_model": 10}, open("shape.json", "w"))
shape, alone = next(s for s in shapes if s["depth"] == 16), predict("shape.json", "--trials", "5")
check("width at 16 layers", shape["width"] == 10)
near("shape, theory", shape["rho_theory"], alone["tables"]["forward"][-1]["rho_theory"])
near("shape, drawn", shape["rho"], alone["tables"]["forward"][-1]["rho"], 1e-12)
near("shape's least gQ/gV", shape["ratio_gQ_gV_theory"], min(r["ratio_gQ_gV_theory"] for r in alone["tables"]["backward"]))
near("shape's growth", shape["log10_growth_theory"], alone["tables"]["forward"][-1]["log10_F2_theory"] - alone["tables"]["forward"][0]["log10_F2_theory"])
near("shape's gap", shape["gap_errors"], answers(alone)["trust"]["value"])
check("shape's verdict", shape["verdict_theory"] == alone["verdict"]["code"])
apart = max((s for s in shapes if s["log10_one_minus_rho"] is not None), key=lambda s: s["log10_one_minus_rho"])
healthy = [s["depth"] for s in shapes if (s["verdict"] or s["verdict_theory"]) == "healthy"]
check(f"ninth answer: {last['answer']}", last["number"] == 9 and f"{apart['depth']} × {apart['width']} (" in last["answer"])
check("deepest healthy", last["value"] == (max(healthy) if healthy else None))
check("the same for any number of threads", bare(predict("small.json", "--budget", "3k", "--threads", "1")) == bare(predict("small.json", "--budget", "3k")))
few = predict("layers.json", "--budget", "20k", "--trials", "2")["tables"]["budget"]
check("a list fits one depth", all((s["depth"] == 3) == (s["parameters"] is not None) == (s["why"] is None) for s in few))
tight = predict("small.json", "--budget", "100M", "--trials", "1", "--memory", "50M")["tables"]["budget"]
check("what memory does not hold", any("not drawn" in (s["why"] or "") for s in tight) and all(s["rho_theory"] is not None for s in tight if s["parameters"]))
json.dump({"depth": 1, "d_model": 16, "seq_len": 512, "mask": "causal", "mlp": "relu"}, open("masked.json", "w"))
tight = predict("masked.json", "--budget", "100k", "--trials", "0", "--memory", "50M")["tables"]["budget"]
check("theory that memory does not hold", all(("Gram matrices of theory need" in (s["why"] or "")) == (s["depth"] > 3) == (s["verdict_theory"] is None) for s in tight))
huge = predict("small.json", "--budget", "1e15")["tables"]["budget"]
check("theory alone", all(s["rho"] is None for s in huge) and huge[0]["rho_theory"] is not None)

# a temperature a layer: the remedy multiplies every one by the same factor, a formula's as a list's; a grid replaces all
cooled = {**json.load(open("small.json")), "depth": 3, "norm": "pre", "temperature": "(l+4)/2"}
json.dump(cooled, open("cooled.json", "w"))
json.dump({**cooled, "temperature": [(l + 4) / 2 for l in range(3)]}, open("list.json", "w"))
by_formula, by_list = predict("cooled.json", "--trials", "3"), predict("list.json", "--trials", "3")
check("a formula's temperatures are a list's", all(by_formula["tables"][t] == by_list["tables"][t] for t in ("forward", "backward")))
text = answers(by_formula)["queries"]["answer"]
found = re.search(r"temperatures × (\S+) balance", text)
check(f"temperatures that balance: {text}", found)
if found:
    remedy = {r["name"]: r for r in by_formula["tables"]["remedies"]}["temperature"]
    json.dump({**cooled, "temperature": f"(l+4)/2*{found[1]}"}, open("balanced.json", "w"))
    run = predict("balanced.json", "--trials", "0")
    ratios = [math.log10(r["ratio_gQ_gV_theory"]) for r in run["tables"]["backward"]]
    check(f"the mean of log10(gQ/gV) is {sum(ratios) / 3}", abs(sum(ratios) / 3) < 0.1)
    near("remedy's least gQ/gV", math.log10(remedy["ratio_gQ_gV_theory"]), min(ratios), 0.05)
hot = predict("cooled.json", "--grid", "temperature=1:3", "--trials", "2")["tables"]["grid"]
json.dump({**cooled, "temperature": 3}, open("hot.json", "w"))
near("one temperature for all", hot[2]["log10_one_minus_rho_theory"], predict("hot.json", "--trials", "0")["tables"]["forward"][-1]["log10_one_minus_rho_theory"])

# what is recommended is a row of table remedies, better and nowhere worse
collapsing = predict("--preset", "post-norm-xavier-6", "--trials", "0")
told = [f for f in collapsing["findings"] if f["code"] == "recommendation"]
rows = {r["name"]: r for r in collapsing["tables"]["remedies"]}
check("one recommendation", len(told) == 1)
if told:
    row = rows[told[0]["message"].split()[0]]
    near("its number", told[0]["value"], 10 ** row["log10_one_minus_rho_theory"])
    near("what it was", told[0]["threshold"], 10 ** rows["as it is"]["log10_one_minus_rho_theory"])
    check("it helps", told[0]["value"] > told[0]["threshold"] and not row["worse_at"])
check("nothing to recommend", not [f for f in predict("--preset", "rezero-64", "--trials", "0")["findings"] if f["code"] == "recommendation"])

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
    # what is asked about changes is asked of an architecture file that says the same
    told, remedies = answers(result), result["tables"]["remedies"]
    check(f"{name}: changes", told["depth"]["value"] >= 2 and "not known" not in told["sizes"]["answer"] and len(remedies) > 8)
    same = next(r for r in remedies if r["name"] == "as it is")
    near(f"{name}: as it is", same["log10_one_minus_rho_theory"], result["tables"]["forward"][-1]["log10_one_minus_rho_theory"], 0.05)
measured = predict(f"{golden}/forward/bert", "--init", "measured", "--seq-len", "8")
check("measured", measured["tables"]["forward"][-1]["rho_theory"] is not None)

# extremes are numbers, or null with a reason
deep = 150 if os.environ.get("ASAN_OPTIONS") else 1000
base = {"d_model": 8, "heads": 2, "seq_len": 5}
for name, words in {
    "one layer": {"depth": 1}, "one token": {"seq_len": 1}, "width 1": {"d_model": 1, "heads": 1},
    "deep": {"depth": deep, "norm": "none"}, "equal": {"input": {"rho": 1}}, "simplex": {"input": {"rho": -0.25}},
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
        check(f"{name} grows", result["verdict"]["code"] == "explosion" and last["log10_F2_theory"] > (200 if name == "large" else deep / 5))
# what rounding rules is no measurement, and no comparison uses it
def answer(result, question):
    return next(r["answer"] for r in result["tables"]["answers"] if r["question"] == question)

def codes(result):
    return [f["code"] for f in result["findings"]]

def predict_words(words, *options):
    json.dump(words, open("words.json", "w"))
    return predict("words.json", *options)

bare = {"norm": "none", "mlp": "none", "skip_mixer": 0}
floored = predict_words({"depth": 6, "d_model": 64, "heads": 1, "seq_len": 16, **bare}, "--trials", "12", "--remedies", "admin,attnscale,fusion")
forward, backward = floored["tables"]["forward"], floored["tables"]["backward"]
at = [r["at_floor"] for r in forward]
check(f"a floor: {at}", at == sorted(at) and at[-1] and not at[3])
for row in forward:
    for name in ("log10_one_minus_rho", "rho_se", "log10_one_minus_rho_low", "relative_residual", "logit_std"):
        held = row["layer"] == 6 and name == "logit_std"
        check(f"floor: {name} of {row['layer']}", (row[name] is None) == (row["at_floor"] or held))
    check("floor: rho", row["rho"] is not None and (not row["at_floor"] or row["rho"] == 1))
for row, state in zip(backward, forward):
    check("floor: layers", row["at_floor"] == state["at_floor"])
    for name in ("gQ", "gQ_se", "log10_gK", "ratio_gQ_gV", "ratio_gQ_gV_high"):
        check(f"floor: {name} of {row['layer']}", (row[name] is None) == row["at_floor"])
    check("floor: gV", row["gV"] > 0 and "trials differ: gQ" not in (row["theory_note"] or "") or not row["at_floor"])
check("floor: verdicts", "verdict_differs" not in codes(floored) and "same verdict" in answer(floored, "trust"))
check("floor: trust", f"from layer {at.index(True)} on rounding hides" in answer(floored, "trust"))
gap = re.search(r"widest gap ([0-9.]+) s.e. .chance: ([0-9.]+).: \w+ of layer (\d+)", answer(floored, "trust"))
check(f"floor: gap: {answer(floored, 'trust')}", gap and int(gap[3]) < at.index(True) and float(gap[1]) < 20 and 1 < float(gap[2]) < 3.5)
check(f"floor: remedy: {answer(floored, 'remedy')}", "1 − ρ below 10^-29 → admin: 0." in answer(floored, "remedy"))
by = {r["name"]: r for r in floored["tables"]["remedies"]}
check("floor: attnscale", by["attnscale"]["log10_one_minus_rho"] is None and by["attnscale"]["change"] is None and not by["attnscale"]["worse_at"])
check("floor: admin", by["admin"]["change"] is None and "below 10^-29" in by["admin"]["note"] and by["admin"]["verdict"] == "healthy")
check("floor: fusion", by["fusion"]["log10_one_minus_rho"] > -2 and by["fusion"]["ratio_gQ_gV"] is None)
grid = predict_words({"depth": 6, "d_model": 16, "heads": 1, "seq_len": 8, **bare}, "--trials", "8", "--grid", "depth=2:6")["tables"]["grid"]
check("floor: grid", [r["at_floor"] for r in grid] == [r["log10_one_minus_rho"] is None for r in grid] and grid[-1]["at_floor"])

# where nothing is left, the change that brings it back is told
equal = predict_words({"depth": 3, "attention": "uniform", **bare}, "--trials", "20")
check(f"equal: {answer(equal, 'remedy')}", re.search(r"below 10\^-\d+ → deepnorm: (1|0\.9)", answer(equal, "remedy")) and "recommendation" in codes(equal))
one = predict_words({"depth": 1, "attention": "uniform", **bare}, "--trials", "4")
none = next(f["message"] for f in one["findings"] if f["code"] == "vanishing_qk_gradient")
check(f"exactly none: {none}", "exactly none" in none and "inf" not in none)
nothing = predict_words({"depth": 3, "attention": "centred", "init": {"wq": "zero"}, **bare}, "--trials", "20")
check(f"nothing: {answer(nothing, 'remedy')}", "nothing (states are 0) → " in answer(nothing, "remedy") and "recommendation" in codes(nothing))

# what left the range of float64 is not counted, above or below
for words in ({"branch_mixer": 1e200}, {"branch_mixer": 1e-100, "branch_mlp": 1e-100, "skip_mixer": 0, "skip_mlp": 0, "norm": "none"}):
    gone = predict_words({"depth": 6, **words}, "--trials", "6")
    check(f"left: {codes(gone)}", "trials_overflow" in codes(gone))
    for row in gone["tables"]["forward"][1:]:
        check("left: forward", all(row[name] is None for name in ("F2", "F2_se", "C", "rho", "effective_keys", "logit_std")))
        check(f"left: {row['theory_note']}", "trials differ" not in (row["theory_note"] or ""))
    for row in gone["tables"]["backward"]:
        check("left: backward", all(row[name] is None for name in ("gQ", "gV_se", "log10_dX", "ratio_gQ_gV")))
    check(f"left: {answer(gone, 'remedy')}", "left float64; by theory: " in answer(gone, "remedy"))
    check(f"left: {answer(gone, 'trust')}", "have no verdict; theory has nothing to compare" in answer(gone, "trust"))

# worse at what: the same words for theory and trials
worse = {}
for trials in ("0", "20"):
    result = predict_words({"depth": 8, "d_model": 32, "heads": 2, "seq_len": 12, "mlp": "relu"}, "--trials", trials,
                           "--remedies", "value-skipinit,sas,lambda-skip,rezero")
    worse[trials] = {r["name"]: r["worse_at"] for r in result["tables"]["remedies"]}
check(f"worse: {worse}", worse["0"] == worse["20"])
check(f"worse at: {worse['0']}", worse["0"] == {"as it is": None, "value-skipinit": "queries", "sas": None, "lambda-skip": "size", "rezero": "queries"})
if wrong:
    sys.exit("FAILED: " + "\n  ".join(wrong))
END2
python3 tables.py "$RANKSCOPE" "$RS_SOURCE_DIR" || note_failure "tables"

# ---- a signal between shapes: nothing is written ----
rm -f cut.json
"$RANKSCOPE" predict small.json --budget 200k --trials 500 --progress always --json cut.json >out 2>err &
pid=$!
until grep -q shapes err || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid || note_failure "predict ended before the signal: $(cat err)"
wait $pid
code=$?
[ $code = 130 ] || note_failure "SIGINT gave exit $code: $(cat err)"
[ ! -e cut.json ] || note_failure "an interrupted run wrote a result"
finish
