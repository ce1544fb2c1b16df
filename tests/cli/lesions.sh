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

finish
