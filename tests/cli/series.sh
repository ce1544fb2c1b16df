#!/bin/sh
# series.sh: `rankscope scan` of several checkpoints and of a run: ranks from one to the next, what is skipped, what is no run.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf ./*
golden=$RS_SOURCE_DIR/tests/golden
llama=$golden/families/llama

refused() { refused_by scan "$@"; }
run() { python3 "$RS_SOURCE_DIR/tests/cli/series_run.py" "$llama" "$@"; }

# ---- a rank that falls ----
run falling 1 qk 500=1 1000=0.98 1500=0.7 2000=0.3 10000=0.1
expect 0 "$RANKSCOPE" scan falling --json falling.json --html falling.html --csv tables --svg drawn
head -n 1 out | grep -q "layer 1's QK rank falls since step 1000: 99 → 91 → 59 → 38 % of chance" || note_failure "the first line is: $(head -n 1 out)"
awk 'length($0) > 80 * 3 { exit 1 }' out || note_failure "a line is too long"
says falling.html '<html'
says drawn/series.svg '<svg'
for table in trends series checkpoints findings_changed; do
    [ -s "tables/$table.csv" ] || note_failure "no table $table"
done
head -n 1 tables/series.csv | grep -q '^path,step,stack,attention,layer,product,' || note_failure "series.csv begins with $(head -n 1 tables/series.csv)"
python3 "$RS_SOURCE_DIR/tests/cli/series_numbers.py" falling.json || note_failure "numbers of the series"
expect 3 "$RANKSCOPE" scan falling --fail-on warn --quiet
expect 0 "$RANKSCOPE" scan falling --threshold rank_falls=0.9,qk_low_rank=0 --fail-on warn --json holds.json
says out "No layer's rank falls over 5 checkpoints, step 500 to step 10000"
# the order of a shell's glob is not that of steps
expect 0 "$RANKSCOPE" scan falling/checkpoint-* --json globbed.json
expect 0 "$RANKSCOPE" scan falling --threads 1 --json again.json
expect 0 "$RANKSCOPE" scan falling --layers 0 --json first.json

# the highest is named where it was before the fall begins, and higher
run early 1 qk 10=1 20=0.9 30=0.91 40=0.89 50=0.5 60=0.2
expect 0 "$RANKSCOPE" scan early --json early.json
head -n 2 out | tr -s '\n ' '  ' | grep -q "since step 40: 99 (step 10) → 98 → 78 → 48 % of chance" || note_failure "the first line is: $(head -n 2 out)"

# ---- ranks that hold, rise, and go up and down ----
run rising all ov 1=0.1 2=0.3 3=0.6 4=1
expect 0 "$RANKSCOPE" scan rising --json rising.json
run noisy all qk 1=0.5 2=0.8 3=0.55 4=0.75 5=0.5 6=0.85 7=0.55
expect 0 "$RANKSCOPE" scan noisy --json noisy.json
run dip all qk 1=1 2=0.7 3=0.5 4=0.75 5=1
expect 0 "$RANKSCOPE" scan dip --json dip.json
says out 'No layer'
run flat 0 qk 0001=1 00020=1 3=1
expect 0 "$RANKSCOPE" scan flat --json flat.json
says out "No layer's rank falls over 3 checkpoints, step 1 to step 20"

# ---- heads that die count as 0, those that never lived do not ----
run some 1 qk 1=1 2=0.8 3=0.8/3 4=0.8/3
expect 0 "$RANKSCOPE" scan some --json some.json
head -n 2 out | tr -s '\n ' '  ' | grep -q '% of chance (3 of 4 heads are all zero)' || note_failure "the first line is: $(head -n 2 out)"
run whole 1 qk 1=1 2=0.9 3=0.5 4=0.5/4
expect 0 "$RANKSCOPE" scan whole --json whole.json
says out '0 % of chance'
run born 1 qk 1=1/2 2=1/2 3=1
expect 0 "$RANKSCOPE" scan born --json born.json
run alive 1 qk 1=1 2=1/4 3=1
expect 0 "$RANKSCOPE" scan alive --json alive.json
run never 1 qk 1=1/4 2=1/4
expect 0 "$RANKSCOPE" scan never --json never.json

# ---- what cannot be read is named and skipped ----
run broken 0 qk 1=1 2=1 3=1 4=1 5=1 6=1
head -c 900 broken/checkpoint-2/model.safetensors >half && mv half broken/checkpoint-2/model.safetensors
rm broken/checkpoint-3/model.safetensors
echo '{"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}' >broken/checkpoint-3/model.safetensors.index.json
rm -r broken/checkpoint-4/*
echo '{"model_type"' >broken/checkpoint-5/config.json
mkdir broken/runs broken/tmp-checkpoint-7
cp "$llama/model.safetensors" "$llama/config.json" broken/tmp-checkpoint-7/
expect 0 "$RANKSCOPE" scan broken --verbose --json broken.json
says out 'skipped_checkpoint'
says out 'tmp-checkpoint-7'
expect 3 "$RANKSCOPE" scan broken --fail-on warn --quiet
expect 0 "$RANKSCOPE" scan broken/checkpoint-1 nowhere broken/checkpoint-6 --json missing.json
# one that is left is scanned
expect 0 "$RANKSCOPE" scan broken/checkpoint-1 nowhere broken/checkpoint-2 --json left.json
expect 0 "$RANKSCOPE" scan broken/checkpoint-1 --json one.json
mkdir single && cp -r broken/checkpoint-1 single/checkpoint-1
expect 0 "$RANKSCOPE" scan single --json single.json
# a folder with weights of its own is a checkpoint, and says what lies inside
cp -r flat both && cp "$llama/config.json" "$llama/model.safetensors" both/
expect 0 "$RANKSCOPE" scan both --verbose --json both.json
says out 'checkpoints inside, checkpoint-0001 to checkpoint-00020'
# a run's own checkpoints and those in `checkpoints`: the larger family is taken, the other is named
mkdir two && cp -r flat/checkpoint-0001 two/checkpoint-1 && cp -r flat two/checkpoints
expect 0 "$RANKSCOPE" scan two --json two.json --quiet
cp -r flat/checkpoint-0001 two/checkpoint-2 && cp -r flat/checkpoint-0001 two/checkpoint-3
expect 0 "$RANKSCOPE" scan two --json equal.json --quiet
python3 - <<'END' || note_failure "another folder was taken"
import json
both = [json.load(open(f"{name}.json")) for name in ("two", "equal")]
first = [b["series"] for b in both]
assert [s["checkpoints"] for s in first] == [3, 3] and [s["first"].split("/")[1] for s in first] == ["checkpoints", "checkpoint-1"], first
said = [[f["message"] for f in b["findings"] if f["code"] == "skipped_file"] for b in both]
assert said == [["two: passed over for two/checkpoints: its largest family has 1 checkpoints, that one's 3"],
                ["two/checkpoints: passed over for two: its largest family has 3 checkpoints, that one's 3"]], said
END
# none: the request is wrong
refused not-found 'none of 2 checkpoints could be read' nowhere neither
refused safetensors-header-length 'none of 2 checkpoints could be read' broken/checkpoint-2 broken/checkpoint-2
mkdir -p none/checkpoint-1 none/checkpoint-2
refused no-checkpoint 'none' none
mkdir photos photos/album-1 photos/album-2 photos/notes
refused no-checkpoint 'holds no *.safetensors and no *.gguf' photos
for option in --spectra --matrices=all --energy=0.9; do
    refused usage 'it is about one checkpoint' falling $option
done
refused no-product 'none of 5 checkpoints' falling --layers 7-9

# ---- other shapes: what is common is compared, the rest named ----
expect 0 "$RANKSCOPE" scan "$golden/compare/base" "$golden/compare/deep" "$llama" "$golden/families/mamba2" --json shapes.json
says out 'not_in_all'

# ---- a checkpoint that is broken in its numbers is critical while it is the last ----
run nan 0 qk 1=1 2=1 3=1
breaks_weight nan/checkpoint-2 model.layers.0.self_attn.q_proj.weight nan
expect 0 "$RANKSCOPE" scan nan --fail-on critical --json middle.json
breaks_weight nan/checkpoint-3 model.layers.0.self_attn.q_proj.weight nan
expect 3 "$RANKSCOPE" scan nan --fail-on critical --json ends.json

# ---- two runs are no series ----
expect 0 "$RANKSCOPE" scan falling flat falling --json twice.json
says out 'repeated_step'
expect 0 "$RANKSCOPE" scan falling/checkpoint-500 falling/checkpoint-1000 falling/checkpoint-500/ --json again_named.json
says out 'falling/checkpoint-500 is named more than once'

# ---- names with slashes behind them, and a share that is none ----
cp -r falling/checkpoint-500 good && cp -r falling/checkpoint-10000 bad
expect 0 "$RANKSCOPE" scan good/ bad// --json slashes.json
head -n 1 out | grep -q "layer 1's QK rank falls since good: 99 → 38 % of chance" || note_failure "the first line is: $(head -n 1 out)"
expect 0 "$RANKSCOPE" scan good/ good/
says out 'over 2 checkpoints, good to good'
refused bad-option 'no rank loses more than all of itself' falling --threshold rank_falls=1.5
expect 0 "$RANKSCOPE" scan falling --threshold rank_falls=1

# ---- outputs: never into the folder of a checkpoint ----
expect 2 "$RANKSCOPE" scan falling --quiet --json falling/checkpoint-500/model.safetensors
says err 'would-overwrite-input'
expect 0 "$RANKSCOPE" scan falling --quiet --json falling/report.json

# ---- what train leaves ----
echo '{"task": "associative-recall", "steps": 6, "batch": 2, "every_checkpoint": 2, "keep": 9, "rank_every": 0}' >task.json
if "$RANKSCOPE" train task.json --out trained --quiet >out 2>err; then
    expect 0 "$RANKSCOPE" scan trained/checkpoints --json trained.json
    expect 0 "$RANKSCOPE" scan trained --quiet --json end.json
else
    note_failure "train: $(head -n 1 err)"
fi

python3 - <<'END' || note_failure "results are not as they should be"
import json
import subprocess
import os

def load(name):
    return json.load(open(name + ".json"))

def codes(result):
    return {f["code"]: f for f in result["findings"]}

falling = load("falling")
assert [m["step"] for m in falling["tables"]["checkpoints"]] == [500, 1000, 1500, 2000, 10000]
assert list(falling["tables"]["series"][0])[:6] == ["path", "step", "stack", "attention", "layer", "product"]
v = falling["verdict"]
assert v["code"] == "rank_falls" and v["severity"] == "warn" and v["threshold"] == -0.2, v
rows = [r for r in falling["tables"]["series"] if (r["layer"], r["product"]) == (1, "qk")]
assert abs(v["value"] - (rows[-1]["effective_rank_ratio"] / rows[0]["effective_rank_ratio"] - 1)) < 1e-15
trend = {(t["layer"], t["product"]): t for t in falling["tables"]["trends"]}
assert trend[1, "qk"]["trend"] == "falls" and trend[1, "qk"]["since_step"] == 1000 and trend[0, "qk"]["trend"] == "holds"
assert falling["tables"]["trends"][0]["layer"] == 1  # what fell most comes first
assert falling["model"]["family"] == "llama" and falling["series"] == {"checkpoints": 5, "skipped": 0, "first": "falling/checkpoint-500", "last": "falling/checkpoint-10000"}

# Each row is what a scan of that checkpoint says of the layer, bit for bit; so are the findings of the last.
program = os.environ["RANKSCOPE"]
def scan(path, *options):
    return json.loads(subprocess.run([program, "scan", path, "--json", "-", *options], capture_output=True, check=True).stdout)
for checkpoint in falling["tables"]["checkpoints"]:
    one = scan(checkpoint["path"])
    layers = {(r["layer"], r["product"]): r for r in one["tables"]["layers"]}
    mine = [r for r in falling["tables"]["series"] if r["path"] == checkpoint["path"]]
    assert len(mine) == len(layers)
    for row in mine:
        of = layers[row["layer"], row["product"]]
        for key in ("effective_rank", "effective_rank_null", "effective_rank_ratio", "stable_rank", "stable_rank_null", "participation_ratio",
                    "energy_rank", "pseudo_rank", "numerical_rank", "spectral_norm", "frobenius_norm", "nuclear_excess", "balance_score"):
            assert row[key] == of[key + "_mean"], (key, row, of)
        assert row["effective_rank_ratio_min"] == of["effective_rank_ratio_min"] and row["heads"] == of["heads"]
    for summary in one["tables"]["summary"]:
        assert abs(checkpoint[summary["product"]] - summary["ratio"]) < 1e-14
    assert checkpoint["verdict"] == one["verdict"]["code"]
    assert checkpoint["warnings"] == sum(f["severity"] != "info" for f in one["tables"]["findings"])
last = [f for f in one["tables"]["findings"]]
kept = [f for f in falling["tables"]["findings"] if f["code"] != "rank_falls"]
assert [(f["code"], f["layer"], f["head"], f["value"]) for f in last] == [(f["code"], f["layer"], f["head"], f["value"]) for f in kept]
changed = falling["tables"]["findings_changed"]
assert changed and all(c["change"] == "came" and c["code"] == "qk_low_rank" and c["step"] in (2000, 10000) for c in changed), changed
assert len(changed) == sum(f["code"] == "qk_low_rank" for f in last)

# the same whatever the order that they are given in, and the number of threads
for other in "globbed", "again":
    assert load(other)["tables"]["series"] == falling["tables"]["series"] and load(other)["verdict"] == v, other
assert load("holds")["verdict"]["code"] == "ranks_hold" and "rank_falls" not in codes(load("holds"))
assert {r["layer"] for r in load("first")["tables"]["series"]} == {0}

rising = load("rising")
assert rising["verdict"]["code"] == "ranks_hold" and "2 of 4 rise" in rising["verdict"]["answer"], rising["verdict"]
assert {t["product"] for t in rising["tables"]["trends"] if t["trend"] == "rises"} == {"ov"}
noisy = load("noisy")
assert "rank_falls" not in codes(noisy) and {t["trend"] for t in noisy["tables"]["trends"]} == {"holds"}
def of_died(name):
    series, trends = ([r for r in load(name)["tables"][table] if (r["layer"], r["product"]) == (1, "qk")] for table in ("series", "trends"))
    return series, trends[0] if trends else None

rows, t = of_died("some")
living = scan("some/checkpoint-4", "--layers", "1")["tables"]["layers"][0]
assert living["product"] == "qk" and [(r["heads"], r["heads_dead"]) for r in rows] == [(4, 0), (4, 0), (4, 3), (4, 3)], rows
assert abs(rows[3]["effective_rank_ratio"] - living["effective_rank_ratio_mean"] / 4) < 1e-15 and rows[3]["effective_rank_ratio_min"] == 0
assert rows[3]["effective_rank"] == living["effective_rank_mean"]  # of the one that has a rank
assert t["trend"] == "falls" and t["since_step"] == 2 and t["last"] == rows[3]["effective_rank_ratio"]
assert abs(load("some")["tables"]["checkpoints"][3]["qk"] - (of_died("some")[0][3]["effective_rank_ratio"] + scan("some/checkpoint-4", "--layers", "0")["tables"]["layers"][0]["effective_rank_ratio_mean"]) / 2) < 1e-14
assert load("some")["tables"]["checkpoints"][3]["lowest"] == 0 and {"rank_falls", "dead_head"} <= set(codes(load("some")))
rows, t = of_died("whole")
assert rows[3]["heads"] == rows[3]["heads_dead"] == 4 and t["trend"] == "falls" and t["last"] == 0 and t["fall"] == 1, (rows, t)
assert load("whole")["verdict"]["value"] == -1
rows, t = of_died("born")
assert [(r["heads"], r["heads_dead"]) for r in rows] == [(2, 0), (2, 0), (4, 0)] and t["trend"] == "holds", rows
rows, t = of_died("alive")
assert t["trend"] == "holds" and t["lowest"] == 0 and t["last"] == t["first"], t
rows, t = of_died("never")
assert t is None and all(r["heads"] == 0 and r["effective_rank_ratio"] is None for r in rows), rows
t = [t for t in load("shapes")["tables"]["trends"] if t["product"] == "qk"]
assert t and all(x["last"] is None and x["fall"] is None and x["first"] > 0 for x in t), t  # the last checkpoint has none
assert {t["trend"] for t in load("dip")["tables"]["trends"]} == {"holds"}  # what came back does not rise, either
early = {(t["layer"], t["product"]): t for t in load("early")["tables"]["trends"]}[1, "qk"]
assert early["highest_step"] == 10 and early["since_step"] == 40 and early["fall"] > 0.5 and early["swing"] < 0.01, early
assert [c["step"] for c in load("flat")["tables"]["checkpoints"]] == [1, 3, 20]

broken = load("broken")
skipped = [c for c in broken["tables"]["checkpoints"] if c["reason"]]
assert [c["step"] for c in skipped] == [2, 3, 4, 5] and all(c["position"] is None and c["qk"] is None for c in skipped), skipped
assert [c["position"] for c in broken["tables"]["checkpoints"]] == [1, None, None, None, None, 2]
f = codes(broken)["skipped_checkpoint"]
assert f["severity"] == "warn" and f["count"] == 4, f
assert broken["series"]["checkpoints"] == 2 and broken["series"]["skipped"] == 4
assert load("missing")["tables"]["checkpoints"][2]["path"] == "nowhere"  # without a number it stands last
one, single, left = load("one"), load("single"), load("left")
def without_path(result):
    return json.loads(json.dumps({k: result[k] for k in ("model", "tables", "figures", "verdict", "findings")}).replace("single/", "").replace("broken/", ""))
assert without_path(single) == without_path(one)  # a series of one is a scan
for name in one["tables"]:
    if name != "findings":
        assert left["tables"][name] == one["tables"][name], name
assert left["verdict"] == one["verdict"] and codes(left)["skipped_checkpoint"]["count"] == 2

assert "trends" not in load("both")["tables"] and load("both")["tables"]["heads"]

shapes = load("shapes")
assert len({c["family"] for c in shapes["tables"]["checkpoints"]}) >= 2
apart = shapes["tables"]["not_compared"]
assert {a["reason"].split()[0] for a in apart} == {"it", "another"}, apart
assert any(a["product"] == "cb" for a in apart) and any(a["layer"] == 2 for a in apart)
assert all(t["trend"] == "holds" for t in shapes["tables"]["trends"] if t["product"] in ("qk", "ov"))  # the last has none of them
assert "not_in_all" in codes(shapes) and all(c["step"] is None for c in shapes["tables"]["checkpoints"])

middle, ends = load("middle"), load("ends")
assert "nonfinite_weights" not in codes(middle) and [c["change"] for c in middle["tables"]["findings_changed"] if c["code"] == "nonfinite_weights"] == ["came", "went"]
assert ends["verdict"]["code"] == "nonfinite_weights" and ends["verdict"]["severity"] == "critical" and ends["verdict"]["answer"].startswith("At step 3: 1 tensor has NaN")
assert [r["heads"] for r in ends["tables"]["series"] if r["step"] == 3] == [3, 4, 4, 4]  # what is not finite is no part of a mean

assert [c["path"] for c in load("slashes")["tables"]["checkpoints"]] == ["good", "bad"]
twice = load("twice")
assert codes(twice)["repeated_step"]["severity"] == "warn" and len(twice["tables"]["checkpoints"]) == 13

trained, end = load("trained"), load("end")
assert [c["step"] for c in trained["tables"]["checkpoints"]] == [2, 4, 6], trained["tables"]["checkpoints"]
assert "trends" not in end["tables"]
ranks = {(r["layer"], r["product"]): r["effective_rank_mean"] for r in end["tables"]["layers"]}
assert all(r["effective_rank"] == ranks[r["layer"], r["product"]] for r in trained["tables"]["series"] if r["step"] == 6)

# A long run: memory does not grow by what a checkpoint takes, and the figure has a table of its own.
os.makedirs("long")
real = os.path.abspath("falling/checkpoint-500")
import resource
import sys
def series_of(n):
    for i in range(n):
        if not os.path.exists(f"long/checkpoint-{i}"):
            os.symlink(real, f"long/checkpoint-{i}")
    done = subprocess.run([sys.executable, "-c", """
import resource, subprocess, sys
subprocess.run([sys.argv[1], "scan", "long", "--quiet", "--json", "long.json"], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)""", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
few, many = series_of(60), series_of(700)
result = load("long")
assert len(result["tables"]["checkpoints"]) == 700 and len(result["tables"]["series_curves"]) == 4 * 240
assert result["tables"]["series_curves"][239]["position"] == 700
print(f"{few} KiB for 60 checkpoints, {many} KiB for 700")
# sanitizers keep what was freed
assert os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS") or many - few < 40 * 1024  # the tables and their text: 640 checkpoints of 4 rows
END

finish
