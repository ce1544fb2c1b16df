#!/bin/sh
# lesions.sh: heads left out (--ablate), cosines of single paths, and `paths --lesions`.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
golden=$RS_SOURCE_DIR/tests/golden
three=$golden/paths/three
forward=$golden/forward

refused() { refused_by paths "$@"; }

cat >cut.py <<'END2'
"""cut.py FROM TO TENSOR in|out FIRST COUNT: a copy of a float32 checkpoint, some inputs of a stored matrix set to 0"""
import json, pathlib, shutil, struct, sys
source, target, name, side, first, count = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
if not pathlib.Path(target).exists():
    shutil.copytree(source, target)
path = pathlib.Path(target) / "model.safetensors"
path.chmod(0o644)
data = bytearray(path.read_bytes())
size = struct.unpack("<Q", data[:8])[0]
entry = json.loads(data[8:8 + size])[name]
assert entry["dtype"] == "F32", entry
rows, cols = entry["shape"]
at = 8 + size + entry["data_offsets"][0]
for r in range(rows):
    for c in range(cols):
        if first <= (r if side == "rows" else c) < first + count:
            data[at + 4 * (r * cols + c):at + 4 * (r * cols + c) + 4] = bytes(4)
path.write_bytes(data)
END2

# ---- cosines: all pairs of the paths of a length, against NumPy ----
python3 -c 'import json,sys; json.dump(json.load(open(sys.argv[1]))["samples"], open("three.json", "w"))' "$golden/paths/lesions.json"
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --paths 12 --json all.json --quiet
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --paths 5 --seed 3 --json some.json --quiet
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --paths 5 --seed 3 --threads 1 --json one.json --quiet
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --paths 4000 --seed 4 --json same.json --quiet
python3 - "$golden/paths/lesions.json" <<'END2' || note_failure "the cosines are not those of the enumeration"
import json, math, sys
want = json.load(open(sys.argv[1]))
rows = {(x["sample"], x["length"]): x for x in json.load(open("all.json"))["tables"]["paths"]}
for s, lengths in enumerate(want["cosines"]):
    for k, w in enumerate(lengths):
        x = rows[s, k]
        assert x["exhaustive"] and x["paths"] == w["paths"]
        if w["mean"] is None:
            assert x["cosine"] is x["cosine_se"] is x["cosine_null"] is None
            continue
        assert abs(x["cosine"] - w["mean"]) < 1e-13, (s, k, x["cosine"], w)
        assert x["cosine_se"] == 0
        n = len(want["samples"][s])
        assert abs(x["cosine_null"] - 1 / math.sqrt(n * 8 * w["pairs"])) < 1e-15
some, one = (json.load(open(f))["tables"]["paths"] for f in ("some.json", "one.json"))
assert some == one, "threads change the cosines"
for x in some:  # of five paths, copies among them: the mean lies within a few of its errors
    if x["length"] and x["cosine_se"]:
        assert abs(x["cosine"] - rows[x["sample"], x["length"]]["cosine"]) < 8 * x["cosine_se"] + 0.2, x
END2

# ---- --ablate: the numbers of a checkpoint whose weights are 0 there ----
echo '[[5,2,9,1],[4,8]]' >ids.json
same() {
    python3 - "$1" "$2" <<'END2' || note_failure "$3"
import json, sys
a, b = (json.load(open(f))["tables"] for f in sys.argv[1:])
edited = lambda rows: [{k: v for k, v in x.items() if k != "variant"} for x in rows]
for name in a:
    assert name == "findings" or edited(a[name]) == edited(b[name]), name
END2
}
python3 cut.py "$three" cut_three transformer.h.1.attn.c_proj.weight rows 4 4
python3 cut.py "$three" cut_three transformer.h.2.attn.c_proj.weight rows 0 4
python3 cut.py "$forward/llama" cut_llama model.layers.0.self_attn.o_proj.weight cols 12 6
for precision in f32 f64 residual; do
    expect 0 "$RANKSCOPE" probe "$three" --tokens ids.json --precision $precision --ablate 1:1,2:0 --json a.json --quiet
    expect 0 "$RANKSCOPE" probe cut_three --tokens ids.json --precision $precision --json b.json --quiet
    same a.json b.json "--ablate in $precision is not the edited checkpoint of GPT-2"
    expect 0 "$RANKSCOPE" probe "$forward/llama" --tokens ids.json --precision $precision --ablate 0:2 --json a.json --quiet
    expect 0 "$RANKSCOPE" probe cut_llama --tokens ids.json --precision $precision --json b.json --quiet
    same a.json b.json "--ablate in $precision is not the edited checkpoint of LLaMA"
done
expect 0 "$RANKSCOPE" paths "$three" --tokens ids.json --ablate 1:1 --ablate 2:0 --json a.json --quiet
expect 0 "$RANKSCOPE" paths cut_three --tokens ids.json --json b.json --quiet
same a.json b.json "paths --ablate is not the edited checkpoint"
expect 0 "$RANKSCOPE" probe "$three" --tokens ids.json --variants full,cut=ablate:1:1:2:0,no-mlp --json a.json --quiet
says a.json '"variant":"cut"'
# Every head of a two-layer model at once: tokens pass along the skips and MLPs alone.
expect 0 "$RANKSCOPE" paths "$forward/llama" --tokens ids.json --ablate 0:0,0:1,0:2,0:3,1:0,1:1,1:2,1:3 --json a.json --quiet
python3 - <<'END2' || note_failure "paths through heads that are gone contribute"
import json
for x in json.load(open("a.json"))["tables"]["lengths"]:
    assert (x["contribution_fro"] == 0) == (x["length"] > 0), x
END2
for family in mamba2 qwen3_5 bamba gpt_neox_old_form gemma2_q8_0/model.gguf; do
    expect 0 "$RANKSCOPE" probe "$forward/$family" --tokens ids.json --ablate 0:0 --json a.json --quiet
done
refused bad-option "no layer 3" "$three" --tokens ids.json --ablate 3:0
refused bad-option "no head 2: this mixer (attention) has 2" "$three" --tokens ids.json --ablate 0:2
refused bad-option "L:H for each head" "$three" --tokens ids.json --ablate 0
refused_by probe bad-option "it has no heads" "$forward/mamba" --tokens ids.json --ablate 0:0
refused_by probe bad-option "short convolution) can be left out: it has no heads" "$forward/lfm2" --tokens ids.json --ablate 0:0

# ---- --lesions: losses and residuals of transformers with those weights at 0 ----
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --lesions --threads 2 --json l.json --csv tables --quiet
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --lesions --threads 1 --json l1.json --quiet
[ -s tables/lesions.csv ] || note_failure "no table lesions"
python3 - "$golden/paths/lesions.json" <<'END2' || note_failure "the lesions are not those of transformers"
import json, sys
want, r = json.load(open(sys.argv[1])), json.load(open("l.json"))
rows = r["tables"]["lesions"]
near = lambda a, b: abs(a - b) < 1e-11 * max(1, abs(b))
whole = want["heads"][""]
assert rows[0]["kind"] == "none" and rows[0]["loss_rise"] == 0 and rows[0]["residual_change"] == 0
single = {}
for x in rows:
    w = whole
    if x["kind"] in ("attention", "mlp"):
        w = want[x["kind"]][x["layer"]]
    elif x["members"]:
        w = want["heads"][x["members"]]
    assert near(x["nll"], w["nll"]) and near(x["residual_ratio"], w["residual"]), (x, w)
    assert near(x["loss_rise"], w["nll"] - whole["nll"]) and near(x["residual_change"], w["residual"] - whole["residual"])
    members = (x["members"] or "").split()
    assert x["heads"] == len(members)
    if x["kind"] == "head":
        assert members == ["%d:%d" % (x["layer"], x["head"])]
        single[members[0]] = x["loss_rise"]
for x in rows:
    if x["kind"] in ("attention", "heads"):
        assert near(x["single_rises"], sum(single[m] for m in x["members"].split())), x
    else:
        assert x["single_rises"] is None
kinds = [x["kind"] for x in rows]
assert [kinds.count(k) for k in ("none", "head", "attention", "mlp", "heads")] == [1, 6, 3, 3, 17]
sets = [x for x in rows if x["kind"] == "heads"]
assert [x["heads"] for x in sets] == [2] * 8 + [4] * 8 + [6]
assert all(len(set(x["members"].split())) == x["heads"] for x in sets)
# Layers below a lesion are not run again: (L + 1) / 2 of L layers on average.
cells = r["figures"]["lesions"]["data"]["values"]
assert sorted((c["layer"], c["head"]) for c in cells) == [(l, h) for l in range(3) for h in range(2)]
layers = r["lesion_layers"]
assert layers["single_run"] * 2 * 3 == layers["single_whole_passes"] * 4, layers
assert layers["run"] < layers["whole_passes"]
best = max(single, key=single.get)
found = [f for f in r["findings"] if f["code"] == "lesion_heads"][0]
assert "%d:%d" % (found["layer"], found["head"]) == best and best in found["message"], found
assert rows == json.load(open("l1.json"))["tables"]["lesions"], "threads change the lesions"
END2
# A lesion is the whole pass of a checkpoint without those weights, bit for bit; and that of --ablate.
python3 cut.py "$three" cut_one transformer.h.1.attn.c_proj.weight rows 4 4
expect 0 "$RANKSCOPE" paths cut_one --tokens three.json --lesions --json b.json --quiet
expect 0 "$RANKSCOPE" paths "$three" --tokens three.json --ablate 1:1 --lesions --json a.json --quiet
python3 - <<'END2' || note_failure "a lesion is not the pass of the edited checkpoint"
import json
lesion = [x for x in json.load(open("l.json"))["tables"]["lesions"] if x["kind"] == "head" and x["members"] == "1:1"][0]
a, b = (json.load(open(f))["tables"]["lesions"] for f in ("a.json", "b.json"))
assert a == b
for key in ("nll", "residual_ratio"):
    assert lesion[key] == b[0][key], (key, lesion[key], b[0][key])
END2
# Without a loss its columns are null, and a finding says why.
why() { # TEXT ARGUMENTS...
    text=$1
    shift
    expect 0 "$RANKSCOPE" paths "$@" --lesions --json w.json --quiet
    says w.json "$text"
    python3 - <<'END2' || note_failure "a loss without a head"
import json
rows = json.load(open("w.json"))["tables"]["lesions"]
assert all(x["nll"] is x["loss_rise"] is x["single_rises"] is None for x in rows)
assert all(x["state_rel_error"] is not None for x in rows)
END2
}
why "does not predict the next token" "$forward/bert" --tokens ids.json
why "--no-loss leaves the head out" "$three" --tokens three.json --no-loss
echo '[[7]]' >single.json
why "no sample has a next token" "$three" --tokens single.json
says w.json "no single head (layer:head) moves"
# One layer, one head; mixers without heads; a network whose branches are all off.
echo '{"depth": 1, "d_model": 8, "heads": 1, "seq_len": 4}' >little.json
why "no output head" little.json --init default --random 1
says w.json '"lesion_heads"'
expect 0 "$RANKSCOPE" paths "$forward/mamba" --tokens ids.json --lesions --json w.json --quiet
says w.json "no head was left out: "
says w.json "it has no heads"
for family in qwen3_next xlnet gemma2 gpt_neox; do
    expect 0 "$RANKSCOPE" paths "$forward/$family" --tokens ids.json --lesions --json w.json --quiet
done
# More paths than an int64 counts; cross-attention beside the mixer.
echo '{"depth": 70, "d_model": 4, "heads": 2, "d_head": 2, "norm": "pre"}' >deep.json
expect 0 "$RANKSCOPE" paths deep.json --init default --random 1 --seq-len 2 --paths 2 --lesions --json w.json --quiet
says w.json '"count":null'
python3 - <<'END2'
import struct
head = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3, 15), }".ljust(117) + chr(10)
numbers = [((7 * i) % 19 - 9) / 9 for i in range(90)]
open("memory.npy", "wb").write(b"\x93NUMPY" + bytes([1, 0]) + struct.pack("<H", len(head)) + head.encode() + struct.pack("<90d", *numbers))
END2
expect 0 "$RANKSCOPE" paths "$forward/bert_cross" --tokens ids.json --encoder-states memory.npy --lesions --json w.json --quiet
says w.json '"kind":"cross_attention"'
# Huge states have a residual.
expect 0 "$RANKSCOPE" paths little.json --init default --random 2 --no-norm --lambda 1e150 --lesions --json w.json --quiet
python3 - <<'END2' || note_failure "huge states have no residual"
import json
assert all(0 < x["residual_ratio"] <= 1 for x in json.load(open("w.json"))["tables"]["lesions"])
END2
refused bad-option "runs other networks" "$three" --tokens three.json --semantics code --lesions

finish
