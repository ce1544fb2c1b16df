#!/bin/sh
# relevance.sh: `rankscope probe --relevance`: that it is conserved for every kind of model, what it refuses, that its numbers do not hang on
# threads or recomputation, and closed forms: one linear layer, f of a head without layers, removal curves at their ends.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden
decoder=$golden/forward/llama
echo '[[5,2,9,1,7],[4,8,3],[6]]' >ids.json

# ---- what is refused ----
refused() { refused_by probe "$@"; }
arch headless '"depth": 2, "seq_len": 6'
refused unsupported "has no head" headless.json --random 2 --relevance --target 1
refused token-out-of-range "the head has outputs" "$decoder" --tokens ids.json --relevance --target 999999
refused bad-option "whole numbers" "$decoder" --tokens ids.json --relevance --target x
refused bad-option "not as many classes" "$decoder" --tokens ids.json --relevance --target 1,2
refused unsupported "residual precision explains no single outputs" "$decoder" --tokens ids.json --relevance --precision residual
refused unsupported "run side by side" "$decoder" --tokens ids.json --relevance --sweep lambda=0:1:2
refused usage "ask for grad too" "$decoder" --tokens ids.json --relevance --freeze-norm
refused usage "or for relevance" "$decoder" --tokens ids.json --target 1
mkdir classifier
cp "$golden"/forward/gpt2/*.safetensors classifier
sed 's/GPT2LMHeadModel/GPT2ForSequenceClassification/' "$golden/forward/gpt2/config.json" >classifier/config.json
refused unsupported "has no head" classifier --tokens ids.json --relevance --target 1
expect 0 "$RANKSCOPE" probe classifier --tokens ids.json --no-spectral --verbose
says out "GPT2ForSequenceClassification"
arch deep '"depth": 24, "seq_len": 512'
refused memory-limit "tapes of relevance" deep.json --random 2 --batch 1 --relevance --memory 16MiB --no-attention --no-spectral
says err "--recompute"

cat >relevance.py <<'END2'
import json, math, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden"
decoder = f"{golden}/forward/llama"
wrong = []

def probe(*options):
    run = subprocess.run([program, "probe", *options, "--relevance", "--json", "-"], capture_output=True)
    if run.returncode:
        sys.exit(f"FAILED: {options}: {run.stderr.decode()}")
    return json.loads(run.stdout)

def check(what, holds):
    if not holds:
        wrong.append(what)

def near(what, got, want, by):
    check(f"{what}: {got}, not {want}", abs(got - want) <= by * (1e-3 + abs(want)))

def findings(result):
    return {f["code"]: f for f in result["findings"]}

# ---- conserved, by the tables alone ----
ids = ("--tokens", "ids.json", "--precision", "f64", "--no-attention", "--no-spectral")
TABLES = ("relevance", "conservation", "removal")
MODELS = ("bert", "gpt2", "llama", "gemma2", "albert", "xlnet", "mamba", "mamba2", "falcon_h1", "qwen3_5", "lfm2", "jamba")
for name in MODELS:
    result = probe(f"{golden}/forward/{name}", *ids)
    tables = result["tables"]
    check(f"{name}: {findings(result)['relevance_summary']['message']}", "adds up to" in findings(result)["relevance_summary"]["message"])
    check(f"{name} leaks", "relevance_leaks" not in findings(result))
    for row in tables["conservation"]:
        near(f"{name} {row}", row["sum"] + row["bias_share"] * row["explained"], row["explained"], 1e-11)
        check(f"{name}: deviation {row['deviation']}", row["deviation"] <= 1e-12)
        check(f"{name}: effective tokens", 1 - 1e-12 <= row["effective_tokens"] <= 5 + 1e-12)
        check(f"{name}: cosine", (row["profile_cosine"] is None) == (row["sample"] == 2))
    for sample, tokens in enumerate((5, 3, 1)):
        own = [r for r in tables["relevance"] if r["sample"] == sample]
        check(f"{name}: tokens", [r["token"] for r in own] == list(range(tokens)))
        cut = next(r for r in tables["conservation"] if r["sample"] == sample and r["layer"] == 0)
        near(f"{name}: the table's sum", sum(r["relevance"] for r in own), cut["sum"], 1e-12)
    curves = {}
    for row in tables.get("removal", []):
        curves.setdefault((row["method"], row["order"]), []).append(row)
    f = [r["explained"] for r in tables["conservation"] if r["layer"] == 0 and r["sample"] < 2]
    for (method, order), rows in curves.items():
        check(f"{name} {method}: steps", [round(10 * r["fraction"]) for r in rows] == list(range(11)) and rows[0]["samples"] == 2)
        near(f"{name} {method} {order}: the whole text", rows[-1 if order == "insert" else 0]["output"], sum(f) / 2, 1e-10)
        near(f"{name} {method} {order}: the whole text's distance", rows[-1 if order == "insert" else 0]["distance"], 0, 1e-9)
    ends = {round(rows[0 if order == "insert" else -1]["output"], 9) for (_, order), rows in curves.items()}
    check(f"{name}: one text of stand-ins", len(ends) <= 1)

# ---- threads, recomputation, variants, float32 ----
for model in (decoder, f"{golden}/forward/mamba2"):
    plain = probe(model, *ids)
    for more in (("--recompute",), ("--threads", "1"), ("--threads", "2")):
        other = probe(model, *ids, *more)
        check(f"{model} {more}", [other["tables"].get(t) for t in TABLES] == [plain["tables"].get(t) for t in TABLES])
    single = probe(model, "--tokens", "ids.json")
    for a, b in zip(single["tables"]["relevance"], plain["tables"]["relevance"]):
        near("f32", a["relevance"], b["relevance"], 1e-3)
both = probe(decoder, *ids, "--variants", "full,san+skip")
check("variants", {r["variant"] for r in both["tables"]["conservation"]} == {"full", "san+skip"})
check("as without the other", [r for r in both["tables"]["relevance"] if r["variant"] == "full"] == probe(decoder, *ids)["tables"]["relevance"])

# ---- which output ----
largest = probe(decoder, *ids)["tables"]["conservation"][0]
named = probe(decoder, *ids, "--target", str(largest["output"]))["tables"]["conservation"][0]
check("the largest is the default", named == largest)
apart = probe(decoder, *ids, "--target", "3,1,4")["tables"]["conservation"]
check("one for each sample", {r["sample"]: r["output"] for r in apart} == {0: 3, 1: 1, 2: 4})
check("the last token of a decoder", largest["explained_token"] == 4 and probe(f"{golden}/forward/bert", *ids)["tables"]["conservation"][0]["explained_token"] == 0)
seeds = [probe(f"{golden}/forward/bert", *ids, "--seed", s)["tables"]["removal"] for s in "12"]
check("the seed draws the random order alone",
      all((a == b) for a, b in zip(*seeds) if a["method"] != "random") and any(a != b for a, b in zip(*seeds)))
both = probe(decoder, *ids, "--grad", "--target", "3")
check("with gradients", both["run"]["loss"]["kind"] == "lm" and both["tables"]["conservation"][0]["output"] == 3)

# ---- without a head: f is a length, and nothing stands in ----
bare = probe("bare.json", "--random", "2", "--precision", "f64")
check("no output", all(r["output"] is None for r in bare["tables"]["conservation"]))
check("no removal", "removal" not in bare["tables"] and "no token ids" in findings(bare)["removal_left_out"]["message"])
# a final RMSNorm without gain: the state has length sqrt(d), whatever the tokens are
normed = probe("normed.json", "--random", "2", "--precision", "f64")
for row in normed["tables"]["conservation"]:
    near("the length of a normed state", row["explained"], math.sqrt(32), 1e-4)
    near("is conserved", row["sum"], row["explained"], 1e-12)
# pure uniform attention, no skip: all rows become one, and so do their profiles; the derivative is carried by all tokens
uniform = probe("uniform.json", "--random", "2", "--precision", "f64")
for row in uniform["tables"]["conservation"]:
    if row["layer"] < 2:
        near("profiles are one", row["profile_cosine"], 1, 1e-12)
        near("all tokens carry it", row["effective_tokens"], 6, 1e-12)
check("is said", "the same tokens count" in findings(uniform)["relevance_summary"]["message"])
# a causal network without a head explains the last token
check("causal: the last", probe("causal.json", "--random", "1")["tables"]["conservation"][0]["explained_token"] == 5)

# ---- branches of factor 0 tell no matrices: rollout is that of layers that mix nothing, where the explained token alone counts ----
still = probe(f"{golden}/forward/bert", *ids, "--residual-scale", "0")
for row in still["tables"]["removal"]:
    if row["method"] == "rollout" and row["order"] == "remove" and row["fraction"] < 0.85:
        near(f"rollout without mixing: {row}", row["distance"], 0, 1e-9)
# ---- f = 0: what has no share is said ----
nothing = probe("nothing.json", "--random", "2")
check("no share", all(r["bias_share"] is None for r in nothing["tables"]["conservation"]))
check("is said", "what is explained is 0" in findings(nothing)["relevance_summary"]["message"] and "nan" not in findings(nothing)["relevance_summary"]["message"])

# ---- a leak has a name: float32's range ends inside ----
big = probe("huge.json", "--random", "1")
check("a leak", "relevance_leaks" in findings(big) and "not finite" in findings(big)["relevance_leaks"]["message"])

for line in wrong:
    print("FAILED:", line)
sys.exit(bool(wrong))
END2
arch bare '"depth": 2, "seq_len": 6'
arch normed '"depth": 2, "seq_len": 6, "norm": "pre", "norm_kind": "rmsnorm"'
arch causal '"depth": 2, "seq_len": 6, "mask": "causal"'
echo '{"depth": 2, "d_model": 8, "heads": 1, "seq_len": 6, "mlp": "none", "norm": "none", "skip_mixer": 0, "init": {"wq": "zero"}}' >uniform.json
echo '{"depth": 1, "d_model": 4, "seq_len": 3, "norm": "none", "skip_mlp": 0, "init": {"w2": "zero"}}' >nothing.json
arch huge '"depth": 3, "seq_len": 6, "mlp": "none", "norm": "none", "skip_mixer": 0, "init": {"wq": "zero", "wk": "zero", "wv": "normal(0, 1e30)"}'
python3 relevance.py "$RANKSCOPE" "$RS_SOURCE_DIR" || failures=$((failures + 1))

# ---- the first screen, pictures ----
expect 0 "$RANKSCOPE" probe "$golden/forward/bert" --tokens ids.json --relevance
says out "relevance_summary"
expect 0 "$RANKSCOPE" probe "$golden/forward/bert" --tokens ids.json --relevance --svg drawn -q
for figure in removal relevance; do [ -s drawn/$figure.svg ] || note_failure "there is no figure $figure"; done
finish
