#!/bin/sh
# lib.sh: what the command-line tests share. Sourced by each tests/cli/NAME.sh, which runs in an empty folder of its own.
set -u
: "${RANKSCOPE:?}" "${RS_SOURCE_DIR:?}"
failures=0

note_failure() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: runs it with output in ./out and ./err.
expect() {
    wanted=$1
    shift
    "$@" >out 2>err </dev/null
    got=$?
    [ "$got" = "$wanted" ] || { note_failure "'$*' exited $got, expected $wanted"; sed 's/^/    /' err; }
}

# says FILE TEXT: FILE contains TEXT.
says() {
    grep -qF -- "$2" "$1" || { note_failure "$1 does not say '$2':"; head -5 "$1" | sed 's/^/    /'; }
}

silent() {
    [ ! -s "$1" ] || { note_failure "$1 should be empty:"; head -3 "$1" | sed 's/^/    /'; }
}

# refused_by COMMAND STATUS TEXT ARGUMENTS...: exit 2, nothing on standard output, the reason named.
refused_by() {
    command=$1 status=$2 text=$3
    shift 3
    expect 2 "$RANKSCOPE" "$command" "$@"
    silent out
    says err "[$status]"
    says err "$text"
}

# tiny_model DIR: a random-weight llama of 2 layers that the oracle made.
tiny_model() {
    mkdir -p "$1"
    cp "$RS_SOURCE_DIR/tests/golden/families/llama/config.json" "$RS_SOURCE_DIR/tests/golden/families/llama/model.safetensors" "$1/"
    chmod -R u+w "$1"
}

# arch NAME MEMBERS: NAME.json, a small model whose weights are drawn at random.
arch() {
    echo "{\"d_model\": 32, \"heads\": 2, $2}" >"$1.json"
}

# breaks_weight DIR TENSOR VALUE: the first number of an F32 tensor in DIR/model.safetensors becomes VALUE (nan, inf).
breaks_weight() {
    python3 - "$@" <<'END'
import json, struct, sys
path = f"{sys.argv[1]}/model.safetensors"
with open(path, "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    tensor = json.loads(f.read(size))[sys.argv[2]]
    assert tensor["dtype"] == "F32", tensor
    f.seek(8 + size + tensor["data_offsets"][0])
    f.write(struct.pack("<f", float(sys.argv[3])))
END
}

# silences_weight DIR TENSOR: all of its entries (F32) are zero.
silences_weight() {
    python3 - "$@" <<'END'
import json, struct, sys
with open(f"{sys.argv[1]}/model.safetensors", "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    begin, end = json.loads(f.read(size))[sys.argv[2]]["data_offsets"]
    f.seek(8 + size + begin)
    f.write(bytes(end - begin))
END
}

# answers COMMAND CODE SEVERITY PYTHON ARGUMENTS...: the verdict of a run, with which its text begins, and what else holds of the result r
# (left in r.json), its verdict v and its findings' messages f by code. $always: Python that is asked of every run before.
always=
answers() {
    command=$1 code=$2 severity=$3 also=$4
    shift 4
    expect 0 "$RANKSCOPE" "$command" "$@" --json r.json
    python3 - "$code" "$severity" "$also" "$always" <<'END' || note_failure "$command $*: $code, $severity, $also"
import json, re, sys
r = json.load(open("r.json"))
v = r["verdict"]
f = {x["code"]: x["message"] for x in r["findings"]}
text = " ".join(open("out").read().split())
assert text.startswith(v["answer"]) or text[2:].startswith(v["answer"]), text[:300]
assert (v["code"], v["severity"]) == (sys.argv[1], sys.argv[2]), (v, f)
exec(sys.argv[4])
assert eval(sys.argv[3]), (v, f)
END
}

# big_model DIR LAYERS: sparse zeros in the shape of a large llama: takes time to scan and no disk.
big_model() {
    python3 - "$1" "$2" <<'END'
import json, os, struct, sys
folder, layers, d = sys.argv[1], int(sys.argv[2]), 4096
os.makedirs(folder, exist_ok=True)
header, offset = {}, 0
for i in range(layers):
    for p in "qkvo":
        header[f"model.layers.{i}.self_attn.{p}_proj.weight"] = {
            "dtype": "BF16", "shape": [d, d], "data_offsets": [offset, offset + 2 * d * d]}
        offset += 2 * d * d
text = json.dumps(header).encode()
with open(f"{folder}/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + offset)
json.dump({"model_type": "llama", "hidden_size": d, "num_hidden_layers": layers, "num_attention_heads": 32,
           "intermediate_size": 11008, "vocab_size": 32000, "rms_norm_eps": 1e-5}, open(f"{folder}/config.json", "w"))
END
}

finish() {
    [ "$failures" = 0 ] && { echo "all passed"; exit 0; }
    echo "$failures failed"
    exit 1
}
