#!/bin/sh
# Saved networks (src/network/saved.h): the folder is opened by scan, probe, certify and paths; says the same as the drawn
# network; and what is wrong with a folder is said by name.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
: "${SAVED_NETWORK:?}"

cat >st.py <<'PY'
"""Reads and writes safetensors for the cases below."""
import json, struct

def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {n: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for n, t in head.items()}

def write(path, tensors):
    head, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
PY

python3 - <<'PY'
import json, struct
N = 6
head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (6, 6), }"
head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
numbers = [float(abs(i - j) <= 1 or i == 0) for i in range(N) for j in range(N)]
open("edges.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<36d", *numbers))
PY

same() { # same NAME TABLES: the drawn network and the saved one say the same, to the bit
    name=$1 command=$2
    shift 2
    expect 0 "$RANKSCOPE" "$command" "$name.json" --init default --seed 5 "$@" --json drawn.out --quiet
    expect 0 "$RANKSCOPE" "$command" "$name" --seed 5 "$@" --json saved.out --quiet
    python3 - "$name" "$command" <<'PY' || failures=$((failures + 1))
import json, sys
a, b = json.load(open("drawn.out")), json.load(open("saved.out"))
bad = 0
for result in (a, b):
    assert result["tables"], "no table"
if a["tables"] != b["tables"]:
    print("FAILED:", sys.argv[1:], "tables differ:", [n for n in a["tables"] if a["tables"][n] != b["tables"].get(n)])
    bad = 1
m, n = a["model"], b["model"]
for key in ("family", "layers", "d_model", "heads", "kv_heads", "d_head", "parameters", "dtype"):
    if m[key] != n[key]:
        print("FAILED:", sys.argv[1:], key, m[key], n[key])
        bad = 1
if n["weights"] != "checkpoint":
    print("FAILED: weights are", n["weights"])
    bad = 1
sys.exit(bad)
PY
}

# ---- every mixer: the tables of the drawn network, and the bits of its weights again ----
small='"depth": 3, "d_model": 16, "heads": 4, "seq_len": 6, "state": 4'
write() { # write NAME MEMBERS
    echo "{$small, $2}" >"$1.json"
    expect 0 "$SAVED_NETWORK" save "$1.json" 5 f32 "$1"
    expect 0 "$SAVED_NETWORK" resave "$1" f64 "$1-f64"
    expect 0 "$SAVED_NETWORK" resave "$1-f64" f32 "$1-again"
    cmp "$1/model.safetensors" "$1-again/model.safetensors" || note_failure "$1: other weights behind a round trip"
    cmp "$1/config.json" "$1-again/config.json" || note_failure "$1: another config.json behind a round trip"
}
for mixer in attention linear_attention s4d mamba mamba2 gated_recurrence gated_delta short_conv; do
    write "$mixer" "\"mixer\": \"$mixer\", \"mask\": \"causal\", \"vocab\": 9"
    same "$mixer" probe --random 2
done
write graph '"mixer": "graph", "graph": {"file": "edges.npy", "form": "attention"}'
same graph probe --random 2
write mixed '"mixer": ["mamba2", "attention", "s4d"], "norm": "sandwich", "positions": "relative", "input": {"law": "gaussian", "rho": 0.3}, "skip_mixer": "1/(l+1)"'
same mixed probe --random 2 --variants full,san
same mixed probe --random 2 --grad
write shared '"share_layers": true, "positions": "alibi", "vocab": 9, "skip_mlp": [1, 0.5, 0.25]'
same shared probe --random 2
write plain '"vocab": 9, "mask": "causal", "norm_kind": "rmsnorm"'
same plain certify --random 2
same plain paths --random 2
same mamba2 certify --random 2

# tokens are ids where there is no tokenizer; with one in the folder, text is read
echo '[[1, 2, 3], [4, 5]]' >ids.json
expect 0 "$RANKSCOPE" probe plain --tokens ids.json --quiet
echo "some text" >text.txt
refused_by probe tokenizer-missing "tokenizer" plain --text text.txt
refused_by probe input-format "no vocabulary" mixed --tokens ids.json
echo "{$small, \"vocab\": 1000, \"mask\": \"causal\"}" >spoken.json
expect 0 "$SAVED_NETWORK" save spoken.json 1 f32 spoken
cp "$RS_SOURCE_DIR/tests/golden/tokenizer/llama3.json" spoken/tokenizer.json
expect 0 "$RANKSCOPE" tokenize spoken --text text.txt
cp out spoken.ids
expect 0 "$RANKSCOPE" probe spoken --text text.txt --quiet
# --init draws the same architecture anew
expect 0 "$RANKSCOPE" probe plain --init default --seed 5 --random 2 --json again.out --quiet
expect 0 "$RANKSCOPE" probe plain.json --init default --seed 5 --random 2 --json drawn.out --quiet
python3 -c 'import json; assert json.load(open("again.out"))["tables"] == json.load(open("drawn.out"))["tables"]' || note_failure "--init on a saved network"
refused_by probe usage "no weights of its own" plain/config.json --random 2

# ---- a folder that is moved has its graph with it ----
cmp edges.npy graph/graph.npy || note_failure "the graph's file is another"
mkdir elsewhere && mv graph elsewhere/g && mv edges.npy gone.npy
expect 0 "$RANKSCOPE" probe elsewhere/g --random 2 --quiet
mv gone.npy edges.npy

# ---- scan: products by another way: a map of the names, and the same tensors under published names ----
scanned() { # scanned A B: tables heads and layers of two results agree to the bit, but for the words of corrections
    python3 - "$1" "$2" <<'PY' || failures=$((failures + 1))
import json, sys
def table(path, name):
    t = json.load(open(path))["tables"][name]
    return [{c: v for c, v in row.items() if c != "corrections"} for row in t]
a, b = table(sys.argv[1], "heads"), table(sys.argv[2], "heads")
if not a or a != b:
    print("FAILED:", sys.argv[1:], len(a), len(b), [(k, x[k], y[k]) for x, y in zip(a, b) for k in x if x[k] != y.get(k)][:5])
    sys.exit(1)
PY
}
write grouped '"kv_heads": 2, "d_head": 6, "vocab": 9, "positions": "rope"'
write lined '"mixer": "linear_attention", "kv_heads": 2, "vocab": 9'
for name in grouped lined; do
    rope=; [ "$name" = grouped ] && rope=', "rope": "half"'
    width=4; [ "$name" = grouped ] && width=6
    cat >map.json <<END
{"heads": 4, "kv_heads": 2, "head_dim": $width, "q": "layers.{i}.mixer.q.weight", "k": "layers.{i}.mixer.k.weight",
 "v": "layers.{i}.mixer.v.weight", "o": "layers.{i}.mixer.o.weight"$rope}
END
    expect 0 "$RANKSCOPE" scan "$name" --json own.out --quiet
    expect 0 "$RANKSCOPE" scan "$name" --map map.json --json mapped.out --quiet
    scanned own.out mapped.out
done
python3 - <<'PY'
import json, os, sys
sys.path.insert(0, ".")
import st
for kind, extra in (("mamba", {"intermediate_size": 16, "state_size": 4, "time_step_rank": 1, "conv_kernel": 4, "expand": 1}),
                    ("mamba2", {"num_heads": 4, "head_dim": 4, "state_size": 4, "n_groups": 1, "conv_kernel": 4, "expand": 1})):
    names = {"in.weight": "in_proj.weight", "out.weight": "out_proj.weight", "conv.weight": "conv1d.weight", "x.weight": "x_proj.weight",
             "dt.weight": "dt_proj.weight", "dt.bias": "dt_proj.bias", "a_log": "A_log", "d": "D", "dt_bias": "dt_bias"}
    out = {}
    for name, (dtype, shape, data) in st.read(kind + "/model.safetensors").items():
        parts = name.split(".", 3)
        if parts[0] != "layers" or parts[2] != "mixer":
            continue
        if parts[3] == "conv.weight":
            shape = [shape[0], 1, shape[1]]
        if parts[3] in ("d", "dt_bias", "dt.bias") or (parts[3] == "a_log" and kind == "mamba2"):
            shape = [shape[0] * shape[1]]
        out["backbone.layers.%s.mixer.%s" % (parts[1], names[parts[3]])] = (dtype, shape, data)
    os.makedirs(kind + "-hf", exist_ok=True)
    st.write(kind + "-hf/model.safetensors", out)
    json.dump(dict({"model_type": kind, "hidden_size": 16, "num_hidden_layers": 3, "vocab_size": 9}, **extra), open(kind + "-hf/config.json", "w"))
PY
for kind in mamba mamba2; do
    expect 0 "$RANKSCOPE" scan "$kind" --json own.out --quiet
    expect 0 "$RANKSCOPE" scan "$kind-hf" --json published.out --quiet
    scanned own.out published.out
    python3 - <<'PY' || failures=$((failures + 1))
import json, sys
a, b = (json.load(open(path))["tables"]["ssm"] for path in ("own.out", "published.out"))
if not a or a != b:
    sys.exit("FAILED: table ssm differs: %s %s" % (a, b))
PY
done
refused_by scan no-product "no head product" s4d

# ---- what is wrong, by name ----
broken() { # broken STATUS TEXT PYTHON: what PYTHON makes of tensors t and configuration c in folder `bad` is refused
    rm -rf bad && cp -r plain bad
    python3 - "$3" <<'PY'
import json, sys
sys.path.insert(0, ".")
import st
t, c = st.read("bad/model.safetensors"), json.load(open("bad/config.json"))
exec(sys.argv[1])
st.write("bad/model.safetensors", t)
json.dump(c, open("bad/config.json", "w"))
PY
    refused_by probe "$1" "$2" bad --random 2
    refused_by scan "$1" "$2" bad
}
broken tensor-missing "layers.1.mixer.q.weight" 'del t["layers.1.mixer.q.weight"]'
broken tensor-missing "2 tensors" 'del t["layers.1.mixer.q.weight"], t["head.weight"]'
broken bad-tensor-name "layers.9.mixer.q.weight" 't["layers.9.mixer.q.weight"] = t["layers.1.mixer.q.weight"]'
broken tensor-shape "layers.1.mlp.up.weight" 'd = t["layers.1.mlp.up.weight"]; t["layers.1.mlp.up.weight"] = (d[0], d[1][::-1], d[2])'
broken tensor-dtype "head.weight" 'd = t["head.weight"]; t["head.weight"] = ("I32", d[1], d[2])'
broken architecture-schema "d_modle" 'c["arch"]["d_modle"] = 16'
broken architecture-schema "positions" 'c["arch"]["positions"] = 3'
broken architecture-schema "skip_mixer" 'c["arch"]["skip_mixer"] = [1, 1]'
broken architecture-schema "shaped" 'c["arch"]["attention"] = "shaped"; c["arch"]["shaped"] = [[1, 1, 1]]'
broken architecture-schema "shaped" 'c["arch"]["attention"] = "shaped"; c["arch"]["shaped"] = [[1, 1], [1, 1, 1], [1, 1, 1]]'
broken config-schema "not there" 'del c["arch"]'
broken config-schema "no object" 'c["arch"] = [1, 2]'
broken architecture-schema "depth" 'c["arch"]["depth"] = 10 ** 9'
broken tensor-shape "" 'c["arch"]["d_model"] = c["arch"]["mlp_width"] = 1 << 24; c["arch"]["d_head"] = 4'
broken config-bad-size "" 'c["arch"].update(d_model=1 << 24, heads=65536, kv_heads=65536, d_head=1 << 24, mlp_width=1 << 26)'
broken memory-limit "" 'c["arch"].update(positions="alibi", seq_len=1 << 24, heads=65536, kv_heads=65536, d_head=1)'
rm -rf bad && cp -r plain bad && chmod u+w bad/model.safetensors
head -c 3000 plain/model.safetensors >bad/model.safetensors
refused_by probe safetensors-incomplete "bad/model.safetensors" bad --random 2
rm -rf bad && cp -r plain bad
echo '{"model_type": "rankscope", "arch": {' >bad/config.json
refused_by scan json-syntax "config.json" bad

# ---- a disk that is full, a folder that is none: the file is named, the older network stays ----
cp -r plain kept && cp -r plain kept.before
expect 2 "$SAVED_NETWORK" full plain.json 4096 kept
says err "kept/model.safetensors"
diff -r kept kept.before || note_failure "a full disk changed the older network"
expect 2 "$SAVED_NETWORK" full plain.json 4096 fresh
[ ! -e fresh ] || [ -z "$(ls -A fresh)" ] || note_failure "a full disk left $(ls -A fresh)"
echo no folder >file
expect 2 "$SAVED_NETWORK" save plain.json 5 f32 file
says err "file"
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    expect 2 "$SAVED_NETWORK" save plain.json 5 f32 locked
    says err "locked/"
    chmod u+w locked
fi
# the same again changes nothing but the file of weights
expect 0 "$SAVED_NETWORK" save plain.json 6 f32 kept
cmp kept/config.json kept.before/config.json || note_failure "config.json changed"
cmp -s kept/model.safetensors kept.before/model.safetensors && note_failure "the weights did not change"
[ "$(find kept -type f | wc -l)" = 2 ] || note_failure "kept has $(ls -A kept)"
finish
