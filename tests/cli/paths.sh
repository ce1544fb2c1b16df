#!/bin/sh
# paths.sh: what `rankscope paths` accepts and refuses, and what it leaves behind.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$RS_SOURCE_DIR/tests/golden/forward/llama
encoder=$RS_SOURCE_DIR/tests/golden/forward/bert
vision=$RS_SOURCE_DIR/tests/golden/forward/vit
echo '[[5,2,9,1],[4,8]]' >ids.json

refused() { refused_by paths "$@"; }

# ---- usage ----
expect 0 "$RANKSCOPE" paths --help
says out "--max-length K"
says out "--semantics theorem|code"
refused usage "needs an input" --tokens ids.json
refused usage "nothing to feed the model" "$model"
refused usage "one kind of input is enough" "$model" --tokens ids.json --random 3
refused bad-option "is no whole number" "$model" --tokens ids.json --max-length -1
refused bad-option "is no whole number" "$model" --tokens ids.json --max-length two
refused bad-option "is no whole number" "$model" --tokens ids.json --paths 3x
refused bad-option "is no whole number" "$model" --tokens ids.json --paths 99999999999999999999
refused bad-option "is not one of theorem|code" "$model" --tokens ids.json --semantics other
refused bad-option "there are none" "$model" --tokens ids.json --semantics code --paths 0
refused bad-option "leaves MLPs" "$model" --tokens ids.json --semantics code --sources
refused bad-option "--samples" "$model" --tokens ids.json --samples 0
refused unsupported "float64 alone" "$model" --tokens ids.json --precision f32
refused bad-option "no such option" "$model" --tokens ids.json --variants full
refused usage "a configuration has no weights" "$model/config.json" --tokens ids.json
refused not-found "nowhere.json" "$model" --tokens nowhere.json
echo '[[1],[2,99]]' >range.json
refused token-out-of-range "sample 1, position 1: id 99" "$model" --tokens range.json
echo '{"depth": 2, "d_model": 4, "widht": 3}' >arch.json
refused architecture-schema "unknown field" arch.json --init default --random 1

# ---- what it gives ----
expect 0 "$RANKSCOPE" paths "$model" --tokens ids.json --sources --json result.json --csv tables --html page.html
says out "path_identity"
says result.json '"command":"paths"'
[ -s page.html ] || note_failure "no page was written"
for table in summary lengths truncated paths sources; do
    [ -s tables/$table.csv ] || note_failure "no table $table"
done
python3 - <<'END' || note_failure "the result is not what the contract says"
import json
r = json.load(open("result.json"))
assert 0 <= r["identity_error"] <= r["identity_error_of_output"] <= 1e-10 and r["semantics"] == "theorem"
rows = r["tables"]["lengths"]
assert [(x["sample"], x["length"]) for x in rows] == [(s, k) for s in range(2) for k in range(3)]
heads, layers = r["model"]["heads"], r["model"]["layers"]
assert [x["count"] for x in rows[:3]] == [1, layers * heads, heads ** 2]
for x in rows:
    assert {"log10_count", "contribution_fro", "residual_ratio", "cumulative_error"} <= set(x)
assert all(abs(x["cumulative_error"]) < 1e-14 for x in rows if x["length"] == layers)
for s in range(2):  # projections on the output sum to 1
    total = sum(x["projection"] + x["source_projection"] for x in rows if x["sample"] == s)
    assert abs(total - 1) < 1e-13, total
full = [x for x in r["tables"]["truncated"] if x["max_length"] is None]
assert len(full) == 3 and all(x["top1_agreement"] == 1 and x["kl"] == 0 for x in full)
by_layer = r["tables"]["sources"]
for s in range(2):  # what all layers' sources become is what sources become
    a = sum(x["projection"] for x in by_layer if x["sample"] == s)
    b = sum(x["source_projection"] for x in rows if x["sample"] == s)
    assert abs(a - b) < 1e-13
END

# The loss of the model as it is is the one that probe finds.
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --precision f64 --json probe.json --quiet
python3 - <<'END' || note_failure "paths and probe disagree about the loss"
import json
a = json.load(open("probe.json"))["tables"]["loss"][0]
b = [x for x in json.load(open("result.json"))["tables"]["truncated"] if x["max_length"] is None and x["sample"] is None][0]
assert abs(a["nll"] - b["nll"]) < 1e-12 and a["tokens"] == b["tokens"] - 2, (a, b)
END

# Longer paths are summed together; the lengths that are told apart keep their numbers.
expect 0 "$RANKSCOPE" paths "$model" --tokens ids.json --max-length 1 --paths 0 --no-loss --json short.json --quiet
python3 - <<'END' || note_failure "--max-length changes numbers"
import json
a, b = json.load(open("result.json")), json.load(open("short.json"))
assert b["identity_error"] <= 1e-10 and "paths" not in b["tables"]
rows = {(x["sample"], x["length"]): x for x in a["tables"]["lengths"]}
for x in b["tables"]["lengths"]:
    assert x["length"] <= 1
    for key in ("contribution_fro", "share", "cumulative_error", "source_fro", "cumulative_error_sources"):
        assert abs(x[key] - rows[x["sample"], x["length"]][key]) < 1e-12, key
assert all(x["nll"] is None for x in b["tables"]["truncated"])
END

# The same seed gives the same paths for any number of threads.
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --paths 3 --seed 5 --threads 1 --csv one --quiet
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --paths 3 --seed 5 --threads 2 --csv two --quiet
cmp -s one/paths.csv two/paths.csv || note_failure "threads change the sampled paths"
cmp -s one/lengths.csv two/lengths.csv || note_failure "threads change the sums"

cmp -s one/strongest_paths.csv two/strongest_paths.csv || note_failure "threads change the strongest paths"
cmp -s one/path_edges.csv two/path_edges.csv || note_failure "threads change the lattice"

# The strongest paths: all of one head, whether they were drawn or not, and 40 of the others; the lattice has them and no others. There may be
# more paths than a whole number holds.
echo '{"depth": 24, "d_model": 32, "heads": 16, "d_head": 2, "seq_len": 6, "norm": "post", "mlp": "gelu"}' >many.json
expect 0 "$RANKSCOPE" paths many.json --init default --random 2 --json many.out --svg many --quiet
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --paths 1000 --json all.json --quiet
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --paths 1 --json few.json --quiet
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --paths 0 --json no.json --quiet
python3 - <<'END' || note_failure "the strongest paths"
import json, math

def read(name):
    r = json.load(open(name))
    return r, r["tables"]["strongest_paths"]

def steps(row, layers):
    """(layer, lane) of each attention, from the words of the route; None: the skip, the embedding."""
    taken = dict(tuple(map(int, part.split(":"))) for part in row["route"].split() if part != "-")
    assert len(taken) == row["length"], row
    return [(None, None)] + [(l, taken.get(l)) for l in range(layers)] + [(layers, None)]

def check(name, ones, others):
    r, rows = read(name)
    layers, heads = r["model"]["layers"], r["model"]["heads"]
    assert [x["path"] for x in rows] == list(range(len(rows)))
    assert len({x["route"] for x in rows}) == len(rows)
    assert sum(x["length"] == 1 for x in rows) == ones and sum(x["length"] != 1 for x in rows) == others, (name, len(rows))
    norms = [x["contribution_fro"] for x in rows]
    assert norms == sorted(norms, reverse=True)
    edges = {}
    for x in rows:
        assert abs(math.log10(x["contribution_fro"]) - x["log10_contribution_fro"]) < 1e-12
        kind = ["no head", "one head", "several heads"][min(x["length"], 2)]
        way = steps(x, layers)
        for a, b in zip(way, way[1:]):
            assert a[1] is None or 0 <= a[1] < heads
            edge = edges.setdefault((kind, *a, *b), [0, 0.0])
            edge[0] += 1
            edge[1] = max(edge[1], x["contribution_fro"])
    got = {(x["kind"], x["layer"], x["lane"], x["to_layer"], x["to_lane"]): [x["paths"], x["contribution_fro"]] for x in r["tables"]["path_edges"]}
    assert got == edges and len(got) == len(r["tables"]["path_edges"]), name
    drawn = r["figures"]["lattice"]["data"]["values"]
    assert len(drawn) == len(got) and all(-1 <= v["layer"] < v["to_layer"] <= layers and -1 <= v["lane"] < heads for v in drawn)
    return r, rows

check("many.out", 24 * 16, 40)
r, every = check("all.json", 6, 10)  # two layers of three heads: 16 paths in all
# Where all are taken, means by length are those of table paths, which is held against transformers' weights.
for k in range(3):
    own = [x["contribution_fro"] for x in every if x["length"] == k]
    told = [x["contribution_fro"] for x in r["tables"]["paths"] if x["length"] == k]
    assert abs(sum(own) / len(own) - sum(told) / len(told)) < 1e-13, k
norms = {x["route"]: x["contribution_fro"] for x in every}
for x in check("few.json", 6, 2)[1]:
    assert abs(x["contribution_fro"] - norms[x["route"]]) < 1e-14, x
no = json.load(open("no.json"))
assert "strongest_paths" not in no["tables"] and "lattice" not in no["figures"]
count = {x["length"]: x["count"] for x in json.load(open("many.out"))["tables"]["lengths"] if x["sample"] == 0}
assert count[1] == 384 and count[24] is None  # 16^24 = 2^96
END
says many/lattice.svg ">skip<"
says many/lattice.svg ">out<"

# Other inputs, architectures, interventions and semantics.
expect 0 "$RANKSCOPE" paths "$vision" --random 1 --quiet
expect 0 "$RANKSCOPE" paths "$encoder" --tokens ids.json --semantics code --json code.json
says out "code_semantics"
says code.json '"identity_error":null'
echo '{"depth": 40, "d_model": 16, "heads": 2, "d_head": 8, "norm": "pre", "mlp": "gelu", "mlp_width": 32}' >arch.json
expect 0 "$RANKSCOPE" paths arch.json --init default --random 2 --json deep.json
says deep.json '"longest_path":40'
expect 0 "$RANKSCOPE" paths arch.json --init default --random 1 --no-skip --no-mlp --depth 5 --json san.json --quiet
python3 - <<'END' || note_failure "without skips there are paths that are not of full length"
import json
rows = json.load(open("san.json"))["tables"]["lengths"]
assert [x["count"] for x in rows] == [0] * 5 + [32] and rows[0]["contribution_fro"] == 0
assert rows[0]["residual_ratio"] is None and rows[0]["log10_count"] is None
END
# Where the pass is not finite, where it starts; where terms cancel, the sum is judged by them.
expect 1 "$RANKSCOPE" paths arch.json --init default --random 1 --lambda 1e200
says err "sample 0, layer 0 (MLP)"
says err "[pass-not-finite]"
expect 1 "$RANKSCOPE" paths arch.json --init default --random 1 --lambda 1e200 --semantics code
says err "[pass-not-finite]"
echo '{"depth": 30, "d_model": 1, "heads": 3, "norm": "none", "d_head": 1, "mlp": "gelu", "mlp_width": 3}' >one.json
expect 0 "$RANKSCOPE" paths one.json --init xavier --random 1 --seq-len 1 --seed 902 --center-attention --lambda 0.5 --json one.out
says out "cancelling_terms"
says out "vanished_paths"
python3 - <<'END' || note_failure "the identity is not relative to the terms"
import json
r = json.load(open("one.out"))
assert r["identity_error"] <= 1e-14 < r["identity_error_of_output"]
assert r["identity_error_relative_to"].startswith("sum of the norms of the terms")
assert r["cancellation"] > 1e8
assert all(x["rank1_distance"] is None for x in r["tables"]["paths"] if x["length"] > 0)
END
# Products of 200 row scales have a rank all the same.
echo '{"depth": 200, "d_model": 16, "heads": 2, "d_head": 8, "norm": "pre"}' >deep.json
expect 0 "$RANKSCOPE" paths deep.json --init default --random 1 --seq-len 8 --json deep.out
python3 - <<'END' || note_failure "long paths have no rank"
import json
assert all(x["rank1_distance"] is not None for x in json.load(open("deep.out"))["tables"]["paths"])
END

# States whose squares leave the range of doubles, above or below, are measured all the same.
echo '[[5,2,9,4]]' >four.json
llama=$RS_SOURCE_DIR/tests/golden/forward/llama
expect 0 "$RANKSCOPE" paths "$llama" --tokens four.json --lambda 1e10 --depth 8 --json large.out
cp "$llama/config.json" small.json
expect 0 "$RANKSCOPE" paths small.json --init 'normal(0, 0.0004)' --tokens four.json --no-skip --no-mlp --no-norm --depth 80 --json small.out
python3 - <<'END' || note_failure "a state beyond the squares of doubles is taken for zero"
import json
for name, at in (("large", 0), ("small", 80)):
    r = json.load(open(name + ".out"))
    assert all(f["code"] != "zero_output" for f in r["findings"]), name
    lengths, truncated = r["tables"]["lengths"], r["tables"]["truncated"]
    assert abs(lengths[at]["projection"] - 1) < 1e-9, (name, lengths[at])
    assert 0 < lengths[0]["cumulative_error"] <= 1, (name, lengths[0])
    assert all(0 <= t["state_rel_error"] <= 1 and (t["state_cosine"] or 0) <= 1 for t in truncated), name
first = min((t for t in truncated if t["max_length"] is not None), key=lambda t: t["max_length"])
assert first["state_rel_error"] == 1, first
END
expect 2 "$RANKSCOPE" paths "$llama" --tokens four.json --center-attention --uniform-attention
says err "has replaced the attention matrix already"

# Weights that are all alike, up to 1e38: LayerNorm takes the mean from rows of equal numbers, and rounding is all that is left.
for case in gpt2:1e38 gpt2:1 albert:1e38 vit:1e38; do
    python3 - "$RS_SOURCE_DIR/tests/golden/families/${case%:*}" "${case#*:}" <<'END'
import json, os, shutil, struct, sys
source, value = sys.argv[1], float(sys.argv[2])
shutil.rmtree("alike", ignore_errors=True)
os.makedirs("alike")
data = bytearray(open(source + "/model.safetensors", "rb").read())
begin = 8 + struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:begin])
for name, entry in header.items():
    if name != "__metadata__" and entry["dtype"] == "F32":
        first, end = entry["data_offsets"]
        data[begin + first:begin + end] = struct.pack("<f", value) * ((end - first) // 4)
open("alike/model.safetensors", "wb").write(data)
shutil.copyfile(source + "/config.json", "alike/config.json")
END
    "$RANKSCOPE" paths alike --random 1 --seq-len 6 --quiet >out 2>err
    code=$?
    grep -q "fault of the program" err && note_failure "$case: $(cat err)"
    [ $code = 0 ] || { [ $code = 1 ] && says err "values cancel" && says err "[beyond-double-precision]"; }
    [ $code = 1 ] || [ "${case#*:}" = 1 ] || note_failure "$case exits $code"
done

expect 2 "$RANKSCOPE" paths "$model" --tokens ids.json --json ids.json
says err "[would-overwrite-input]"
# ---- the first line answers: the least length whose paths make the output but for a tenth ----
verdict_of() {
    expect 0 "$RANKSCOPE" paths "$@" --json v.json
    python3 - <<'END' || note_failure "verdict of paths $*"
import json
r = json.load(open("v.json"))
v = r["verdict"]
assert " ".join(open("out").read().split()).startswith(v["answer"]), v
rows = {}
for x in r["tables"]["lengths"]:
    rows.setdefault(x["length"], []).append(x["cumulative_error"])
enough = [k for k in sorted(rows) if sum(rows[k]) / len(rows[k]) <= 0.1]
most = r["model"]["layers"]
code = "beyond" if not enough else "long" if enough[0] == most else "short" if 2 * enough[0] < most else "middle"
assert v["code"] == code and v["severity"] == "info", (v, enough, most)
assert code == "beyond" or v["value"] == enough[0], v
END
}
verdict_of "$model" --tokens ids.json
verdict_of "$encoder" --tokens ids.json
verdict_of "$model" --tokens ids.json --max-length 0
echo '{"depth": 8, "d_model": 32, "heads": 2, "seq_len": 12, "norm": "pre", "mlp": "gelu", "branch_mixer": 0.2}' >short.json
verdict_of short.json --random 2
says v.json '"code":"short"'
echo '{"depth": 2, "d_model": 8, "heads": 1, "seq_len": 6, "norm": "none", "mlp": "none"}' >skip.json
expect 0 "$RANKSCOPE" paths skip.json --random 1 --semantics code --json v.json
says v.json '"verdict":{"answer":"The published code'
finish
