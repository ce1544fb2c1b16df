#!/bin/sh
# lab_model.sh: the experiments that take a model: what they claim of one, beside `probe --sweep` on the same tokens, and what is skipped.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/forward
echo '{"mixer": "mamba2", "depth": 3, "d_model": 8, "heads": 2, "d_head": 8, "seq_len": 12, "mlp": "none"}' >random.json

for figure in 1 2 3; do
    expect 0 "$RANKSCOPE" lab run "lambda-figure-$figure" --quick --seed 5 --json "none-$figure.json"
    says out "skipped"
    expect 0 "$RANKSCOPE" lab run "lambda-figure-$figure" --quick --seed 5 --model "$golden/mamba2" --json "mamba2-$figure.json"
    expect 0 "$RANKSCOPE" lab run "lambda-figure-$figure" --quick --model "$golden/bert" --json "bert-$figure.json" --quiet
    expect 0 "$RANKSCOPE" lab run "lambda-figure-$figure" --quick --model random.json --json "random-$figure.json" --quiet
done
# The same tokens: those of 4 random windows, drawn from the same seed.
"$RANKSCOPE" probe "$golden/mamba2" --random 4 --seed 5 --sweep "lambda=-20:20:81,gate=off" --json sweep-2.json --quiet || note_failure "a sweep"
"$RANKSCOPE" probe "$golden/mamba2" --random 4 --seed 5 --sweep "lambda=1,gate=both,norm=both" --json sweep-3.json --quiet || note_failure "a sweep"
"$RANKSCOPE" probe "$golden/bert" --random 4 --sweep "lambda=-20:20:81" --json sweep-bert.json --quiet || note_failure "a sweep"
# A text in place of random ids: its first 4 windows.
mkdir -p spoken
cp "$RS_SOURCE_DIR/tests/golden/tokenizer/bert.json" spoken/tokenizer.json
vocabulary=$(python3 -c 'import json; print(len(json.load(open("spoken/tokenizer.json", encoding="utf-8"))["model"]["vocab"]))')
echo "{\"depth\": 3, \"d_model\": 8, \"heads\": 2, \"seq_len\": 24, \"vocab\": $vocabulary}" >spoken/arch.json
expect 0 "$RANKSCOPE" lab run lambda-figure-2 --quick --model spoken/arch.json --text "$RS_SOURCE_DIR/share/page.txt" --json text-2.json
"$RANKSCOPE" probe spoken/arch.json --init default --text "$RS_SOURCE_DIR/share/page.txt" --samples 4 --sweep "lambda=-20:20:81" \
    --json sweep-text.json --quiet || note_failure "a sweep of a text"

# What dong-ensembles says of a model is read from what paths says of it; where leaving heads out costs nothing there is no share of it.
for model in llama gpt2; do
    expect 0 "$RANKSCOPE" lab run dong-ensembles --quick --seed 5 --model "$golden/$model" --db ensembles.db --json "ensembles-$model.json" --quiet
    "$RANKSCOPE" paths "$golden/$model" --random 4 --seed 5 --paths 16 --lesions --json "paths-$model.json" --quiet || note_failure "paths of a model"
done

cat >check.py <<'PY'
import json, math, sys
wrong = []

def read(name):
    return json.load(open(name + ".json"))

def claims(name):
    return read(name)["tables"]["claims"]

def near(a, b):
    return abs(a - b) <= 1e-6

# Without a model the published claims are skipped, with the reason, and all that is claimed of random layers is judged.
for figure, published in ((1, 6), (2, 3), (3, 3)):
    result = read(f"none-{figure}")
    for row in result["tables"]["claims"]:
        about = row["claim"].startswith("trained")
        if about != (row["verdict"] == "skipped") or about != (row["reason"] == "random weights") or (about and row["measured"] is not None):
            wrong.append(f"no model: {row}")
        if not about and row["verdict"] != "pass":
            wrong.append(f"random layers: {row}")
    skipped = sum(row["verdict"] == "skipped" for row in result["tables"]["claims"])
    if skipped != published or result["verdict"]["code"] != "claims_hold" or f"{skipped} were skipped" not in result["verdict"]["answer"]:
        wrong.append(f"figure {figure}: {skipped} skipped, {result['verdict']}")
    if not any(f["code"] == "not_measured" and "random weights" in f["message"] for f in result["findings"]):
        wrong.append(f"figure {figure} does not say what is skipped")
    # Drawn weights of a description are no trained ones.
    drawn = read(f"random-{figure}")
    if {row["verdict"] for row in drawn["tables"]["claims"]} != {"skipped"} or drawn["verdict"]["code"] != "claims_skipped":
        wrong.append(f"random.json, figure {figure}: {drawn['verdict']}")
    # Of a checkpoint they pass or differ from the paper, and nothing else is claimed.
    model = claims(f"mamba2-{figure}")
    if len(model) != published or not {row["verdict"] for row in model} <= {"pass", "differs_from_paper"}:
        wrong.append(f"mamba2, figure {figure}: {model}")
    for row in model:
        differs = abs(row["measured"] - row["published"]) > row["tolerance"]
        if differs != (row["verdict"] == "differs_from_paper") or row["reason"] is not None or row["expected"] is not None:
            wrong.append(f"mamba2, figure {figure}: {row}")

def ends(name, gate="off"):
    return {row["lambda"]: row["relative_residual"] for row in read(name)["tables"]["sweep_ends"] if row["gate"] == gate}

# What is measured is what probe's sweep measures.
swept, states = ends("sweep-2"), {}
for row in read("sweep-2")["tables"]["sweep"]:
    states.setdefault(row["lambda"], {})[row["layer"]] = row["relative_residual"]
for name, wanted in (("mamba2-2", swept), ("bert-2", ends("sweep-bert", "on")), ("text-2", ends("sweep-text", "on"))):
    points = read(name)["tables"]["lambda_figure_2"]
    if len(points) != 13:
        wrong.append(f"{name}: {len(points)} strengths")
    for row in points:
        if not near(row["relative_residual"], wanted[row["skip_strength"]]):
            wrong.append(f"{name}: {row}, swept {wanted[row['skip_strength']]}")
curve = read("mamba2-1")["tables"]["lambda_figure_1"]
if len(curve) != 30:
    wrong.append(f"figure 1 has {len(curve)} points")
for row in curve:
    skip = float(row["series"].split()[1])
    if not near(row["relative_residual"], states[skip][row["layer"]]):
        wrong.append(f"figure 1: {row}, swept {states[skip][row['layer']]}")
names = {("on", "on"): "gate and norm", ("on", "off"): "gate, no norm", ("off", "on"): "norm, no gate", ("off", "off"): "no gate, no norm"}
ablated = {(row["series"], row["layer"]): row["relative_residual"] for row in read("mamba2-3")["tables"]["lambda_figure_3"]}
for row in read("sweep-3")["tables"]["sweep"]:
    if not near(ablated.pop((names[row["gate"], row["norm"]], row["layer"])), row["relative_residual"]):
        wrong.append(f"figure 3: {row}")
if ablated:
    wrong.append(f"figure 3 has more: {ablated}")

# The claims' numbers, from the sweep.
texts = {row["claim"]: row["measured"] for figure in (1, 2, 3) for row in claims(f"mamba2-{figure}")}
full = {(row["gate"], row["norm"]): row["relative_residual"] for row in read("sweep-3")["tables"]["sweep_ends"]}
wanted = {
    "trained, skip strength 0.5: residual over norm at the end": swept[0.5],
    "trained, skip strength 1: residual over norm at the end": swept[1],
    "trained: by how much a positive strength leaves more of the norm than the negative one, at most":
        max(0, *(swept[s] - swept[-s] for s in (1, 2, 5, 10, 20))),
    "trained: flat between skip strengths 10 and 20: difference": swept[20] - swept[10],
    "trained: flat between skip strengths -10 and -20: difference": swept[-20] - swept[-10],
    "trained, gate and norm: residual over norm at the end": full["on", "on"],
    "trained, norm and no gate: residual over norm at the end": full["off", "on"],
}
for s in (-20, -10, 10, 20):
    change = max(abs(states[s][l] - states[s][0]) for l in states[s])
    wanted[f"trained, skip strength {s}: largest change of residual over norm over the layers"] = change
bare = [row["relative_residual"] for row in read("sweep-3")["tables"]["sweep"] if (row["gate"], row["norm"]) == ("off", "off")]
wanted["trained, no gate, no norm: it drops to a half or less, and grows from there to twice that or more (1: so)"] = (
    min(bare) <= bare[0] / 2 and bare[-1] >= 2 * min(bare))
for text, number in wanted.items():
    if text not in texts or not near(texts[text], number):
        wrong.append(f"{text}: {texts.get(text)}, not {number}")
if len(texts) != len(wanted):
    wrong.append(f"{len(texts)} claims, {len(wanted)} known")

# Paths and lesions of a model: means over samples or draws.
def mean(values):
    return sum(values) / len(values)

def error(values):
    m, n = mean(values), len(values)
    return math.sqrt(sum((v - m) ** 2 for v in values) / n / (n - 1)) if n > 1 else None

def same(what, *pairs):
    for a, b in pairs:
        if (a is None) != (b is None) or (a is not None and abs(a - b) > 1e-9 * (1 + abs(b))):
            wrong.append(f"{what}: {a}, paths has {b}")

for name in ("llama", "gpt2"):
    lab, known = (read(f"{command}-{name}")["tables"] for command in ("ensembles", "paths"))
    said = {row["claim"]: row for row in lab["claims"] if row["claim"].startswith("model: ")}
    lengths = [row for row in lab["dong_ensembles_lengths"] if row["network"] == "model"]
    missing, cosine, null = ({row["length"]: [] for row in lengths} for _ in range(3))
    for row in known["lengths"]:
        missing[row["length"]].append(row["cumulative_error"])
    for row in known["paths"]:
        if row["cosine"] is not None:
            cosine[row["length"]].append(row["cosine"])
            null[row["length"]].append(row["cosine_null"])
    loss = {row["max_length"]: row["nll"] for row in known["truncated"] if row["sample"] is None and row["max_length"] is not None}
    for row in lengths:
        k = row["length"]
        same(f"{name}, length {k}", (row["cumulative_error"], mean(missing[k])), (row["cumulative_error_error"], error(missing[k])),
             (row["nll"], loss.get(k)), (row["cosine"], mean(cosine[k]) if cosine[k] else None),
             (row["cosine_error"], error(cosine[k]) if cosine[k] else None), (row["cosine_null"], null[k][-1] if null[k] else None))
    half, alike = max(missing) // 2, max((k for k in cosine if cosine[k]), key=lambda k: abs(mean(cosine[k])))
    same(f"{name}, half", (said["model: what paths of at most half the attentions miss of what all add, below 0.5 by"]["measured"],
                           0.5 - mean(missing[half]) / mean(missing[0])))
    # In one network the cosine is off 0 by chance as far as its null says, whatever its samples' spread.
    one, n = mean(cosine[1]), len(cosine[1])
    above = said[f"model: cosine of two paths of one head, {'above' if one > 0 else 'below'} 0 by"]
    student = {2: 12.706204736174705, 3: 4.302652729749464, 4: 3.182446305283710}.get(n, 1.959963984540054) / 1.959963984540054
    same(f"{name}, one head", (above["measured"], abs(one)), (above["tolerance"], 2 * student * math.hypot(error(cosine[1]), null[1][-1])))
    same(f"{name}, alike", (said["model: cosine of two paths of one length, where it is largest, below 0.5 by"]["measured"],
                            0.5 - abs(mean(cosine[alike]))))
    singles = [row["loss_rise"] for row in known["lesions"] if row["kind"] == "head"]
    sets = {1: ([*singles], [*singles])}
    for row in known["lesions"]:
        if row["kind"] == "heads":
            for to, of in zip(sets.setdefault(row["heads"], ([], [])), ("loss_rise", "single_rises")):
                to.append(row[of])
    lesions = [row for row in lab["dong_ensembles_lesions"] if row["network"] == "model"]
    if {row["heads"] for row in lesions} != sets.keys():
        wrong.append(f"{name}: sets of {[row['heads'] for row in lesions]} heads, paths has {sets.keys()}")
    for row in lesions:
        rises, alones = sets[row["heads"]]
        same(f"{name}, {row['heads']} heads", (row["draws"], len(rises)), (row["loss_rise"], mean(rises)), (row["loss_rise_error"], error(rises)),
             (row["single_rises"], mean(alones)), (row["ratio"], sum(rises) / sum(alones) if sum(alones) > 0 else None),
             (row["most"], max(singles) if row["heads"] == 1 else None))
    needed = said["model: rise of the loss without one head, the most needed, over that without all, below 0.5 by"]
    every = mean(sets[max(sets)][0])
    same(f"{name}, one head", (needed["measured"], 0.5 - max(singles) / every if every > 0 else None))
    if (every > 0) == (needed["verdict"] == "skipped") or (every > 0) != (name == "llama"):
        wrong.append(f"{name}: {needed}, the loss rises by {every}")

# A model without gates: figures 1 and 2 run it as it is, figure 3 has nothing to compare.
for row in claims("bert-3"):
    if row["verdict"] != "skipped" or "no gate" not in row["reason"]:
        wrong.append(f"bert: {row}")
if any(row["verdict"] == "skipped" for figure in (1, 2) for row in claims(f"bert-{figure}")):
    wrong.append("bert: figures 1 and 2 skip claims")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
PY
python3 check.py || note_failure "claims about a model"

# All experiments: those that take a model run it, the others have networks of their own. One by one those refuse it.
expect 2 "$RANKSCOPE" lab run dong-mlp --quick --model "$golden/mamba2"
says err "lambda-figure-1, -2 and -3, kobayashi-fig4 and dong-ensembles run one model"
silent out
expect 2 "$RANKSCOPE" lab list --model "$golden/mamba2"
expect 2 "$RANKSCOPE" lab run lambda-figure-1 --text check.py
says err "name a model"
expect 2 "$RANKSCOPE" lab run lambda-figure-1 --model ./nothing-here
silent out
expect 2 "$RANKSCOPE" lab run lambda-figur-1 --model ./nothing-here
says err "did you mean"
finish
