#!/bin/sh
# broken.sh: checkpoints that are damaged, incomplete or something else: each its own clear error.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model broken && tiny_model model

# try NAME CODE STATUS: scans ./broken and wants that error.
try() {
    expect "$2" "$RANKSCOPE" scan broken --json -
    silent out
    says err "[$3]"
    [ "$failures" = 0 ] || echo "    in case: $1"
    rm -rf broken
}
fresh() { rm -rf broken && cp -r model broken; }

mkdir broken; try "an empty folder" 2 no-checkpoint
mkdir broken; printf 'PK\003\004' >broken/pytorch_model.bin; try "a pickle" 2 pickle-file
fresh; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >broken/model.safetensors; try "an LFS pointer" 2 git-lfs-pointer
fresh; : >broken/model.safetensors; try "an empty file" 2 empty-file
fresh; head -c 2000 model/model.safetensors >broken/model.safetensors; try "a download cut in the header" 2 safetensors-header-length
fresh; head -c -10 model/model.safetensors >broken/model.safetensors; try "a partial download" 2 safetensors-incomplete
fresh; printf 'x' >>broken/model.safetensors; try "a trailing byte" 2 safetensors-trailing-bytes
fresh; printf 'x' >>broken/model.safetensors; expect 0 "$RANKSCOPE" scan broken --lenient; says out "trailing_bytes"
fresh; printf '{"model_type": "llama"' >broken/config.json; try "a cut config" 2 json-syntax
fresh; printf '[1]' >broken/config.json; try "a config that is a list" 2 config-schema
fresh; rm broken/config.json; try "no config" 2 config-missing
printf 'GGUF\001\000\000\000' >broken; try "GGUF version 1" 2 gguf-version
head -c 100 /dev/zero >broken; try "zeros" 2 unknown-format
mkdir broken
printf '{"weight_map": {"a": "../../etc/passwd"}}' >broken/model.safetensors.index.json
try "an index that leaves its folder" 2 index-unsafe-path
mkdir broken
printf '{"weight_map": {"a": "model-00001-of-00002.safetensors"}}' >broken/model.safetensors.index.json
try "a missing shard" 2 index-shard-missing
if [ "$(id -u)" != 0 ]; then
    fresh; chmod 000 broken/model.safetensors; try "an unreadable shard" 2 unreadable
fi

# A Hugging Face cache: files are links into blobs.
mkdir -p broken/blobs broken/snapshots/main
cp model/model.safetensors broken/blobs/1 && cp model/config.json broken/blobs/2
ln -s ../../blobs/1 broken/snapshots/main/model.safetensors && ln -s ../../blobs/2 broken/snapshots/main/config.json
expect 0 "$RANKSCOPE" scan broken/snapshots/main
rm -rf broken

# Weights that are not finite: a finding that names the tensor, and exit 3 on request.
fresh
python3 - <<'END'
import json, struct
data = bytearray(open("broken/model.safetensors", "rb").read())
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
tensor = header["model.layers.1.self_attn.q_proj.weight"]
assert tensor["dtype"] == "F32"
at = 8 + n + tensor["data_offsets"][0] + 8
data[at:at + 4] = struct.pack("<f", float("nan"))
open("broken/model.safetensors", "wb").write(data)
END
expect 3 "$RANKSCOPE" scan broken --json a.json --fail-on critical
says a.json "nonfinite_weights"
says a.json "model.layers.1.self_attn.q_proj.weight"
grep -qi 'nan,\|: nan\|infinity' a.json && note_failure "NaN in the JSON"
grep -o '"code":"nonfinite_weights"' a.json >codes
expect 3 "$RANKSCOPE" scan broken --matrices all --json b.json --fail-on critical
grep -o '"code":"nonfinite_weights"' b.json | cmp -s codes - || note_failure "--matrices all says the same tensor again"

# What a run did not read is not called analysed.
fresh
expect 0 "$RANKSCOPE" scan broken --layers 1 --json a.json
python3 - <<'END' || failures=$((failures + 1))
import json
tensors = json.load(open("a.json"))["tables"]["tensors"]
analysed = {t["tensor"] for t in tensors if t["status"] == "analysed"}
assert analysed == {f"model.layers.1.self_attn.{p}_proj.weight" for p in "qkvo"}, analysed
assert all(t["reason"] for t in tensors if t["status"] != "analysed")
END
expect 0 "$RANKSCOPE" scan broken --matrices 'mlp' --fold-norms --json a.json
says a.json '"tensor":"model.layers.0.mlp.up_proj.weight","file":"model.safetensors","dtype":"F32","shape":"[8,16]","role":"mlp_up","status":"analysed"'

# ALBERT: shared blocks once, with their depth use.
expect 0 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/families/albert"
says out "depth 12"
says out "shared_layers"
finish
