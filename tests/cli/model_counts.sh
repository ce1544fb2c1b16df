#!/bin/sh
# model_counts.sh: one dtype and one parameter count for one file, whichever command prints them. The oracle is the file's own header:
# every stored number of every tensor counts once, buffers not.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
golden=$RS_SOURCE_DIR/tests/golden

cat >compare.py <<'END_PYTHON'
"""compare.py FOLDER RESULT.json...: what the results say of the model is what the header of FOLDER's weights says."""
import collections, json, struct, sys
BUFFERS = ("position_ids", "inv_freq", "masked_bias")  # of transformers' modules: tables, not weights
with open(sys.argv[1] + "/model.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
numbers = collections.Counter()
for name, entry in header.items():
    if name == "__metadata__" or name.endswith(BUFFERS) or entry["dtype"][0] not in "FB" or entry["dtype"] == "BOOL":
        continue
    count = 1
    for size in entry["shape"]:
        count *= size
    numbers[entry["dtype"]] += count
wanted = (sum(numbers.values()), numbers.most_common(1)[0][0], None)
bad = 0
for path in sys.argv[2:]:
    model = json.load(open(path))["model"]
    said = (model["parameters"], model["dtype"], model["file_type"])
    if said != wanted:
        print(f"{path} of {sys.argv[1]} says {said}, the header {wanted}")
        bad = 1
sys.exit(bad)
END_PYTHON

# check FOLDER COMMANDS: scan, and each of the commands that can run the model, agree with the header.
check() {
    rm -f ./*.result
    "$RANKSCOPE" scan "$1" --json scan.result --quiet 2>err || note_failure "scan $1: $(cat err)"
    for command in $2; do
        "$RANKSCOPE" "$command" "$1" --random 1 --seq-len 2 --json "$command.result" --quiet 2>err ||
            grep -qE "cannot be run|not run here" err || note_failure "$command $1: $(cat err)"
    done
    python3 compare.py "$1" ./*.result || note_failure "the counts of $1"
}

for folder in "$golden"/families/*/; do check "${folder%/}" probe; done

# Buffers, tensors that no forward pass uses, an output layer stored beside the embedding to which it is tied, and a mixture in which the
# products' type is not that of most numbers.
python3 - "$golden/families" <<'END_PYTHON'
import json, os, struct, sys

def change(family, folder, add, retype, **config):
    os.makedirs(folder)
    source = f"{sys.argv[1]}/{family}"
    settings = json.load(open(source + "/config.json"))
    settings.update(config)
    json.dump(settings, open(folder + "/config.json", "w"))
    with open(source + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    tensors = {k: (v["dtype"], v["shape"], data[v["data_offsets"][0]:v["data_offsets"][1]]) for k, v in header.items() if k != "__metadata__"}
    add(tensors)
    for name, (dtype, shape, content) in tensors.items():
        if retype(name) and dtype == "F32":  # the upper half of a float32 is a bfloat16
            tensors[name] = ("BF16", shape, b"".join(content[i + 2:i + 4] for i in range(0, len(content), 4)))
    header, body = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(folder + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)

def llama_extras(tensors):
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = ("F32", [4], bytes(16))
    tensors["nobody.knows.weight"] = ("F32", [30, 50], bytes(6000))
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]

def bert_extras(tensors):
    prefix = next(name for name in tensors if name.endswith("embeddings.word_embeddings.weight"))[:-len("word_embeddings.weight")]
    tensors[prefix + "position_ids"] = ("I64", [1, 8], bytes(64))

change("llama", "extras", llama_extras, lambda name: False, tie_word_embeddings=True)
change("bert", "ids", bert_extras, lambda name: False)
change("llama", "mixture", llama_extras, lambda name: "self_attn" in name)
END_PYTHON
for folder in extras ids mixture; do check $folder "probe certify paths"; done

# A --map that names attention alone counts the same numbers.
cat >map.json <<'END_JSON'
{"heads": 4, "kv_heads": 2, "q": "model.layers.{i}.self_attn.q_proj.weight", "k": "model.layers.{i}.self_attn.k_proj.weight",
 "v": "model.layers.{i}.self_attn.v_proj.weight", "o": "model.layers.{i}.self_attn.o_proj.weight"}
END_JSON
expect 0 "$RANKSCOPE" scan extras --map map.json --json mapped.json --quiet
python3 compare.py extras mapped.json || note_failure "the counts of --map"

# GGUF: the same in scan as in probe.
for folder in "$golden"/families_gguf/*/; do
    "$RANKSCOPE" scan "$folder/model.gguf" --json scan.result --quiet 2>err || note_failure "scan $folder: $(cat err)"
    "$RANKSCOPE" probe "$folder/model.gguf" --random 1 --seq-len 2 --json probe.result --quiet 2>err || continue
    python3 - "$folder" <<'END_PYTHON' || note_failure "the counts of $folder"
import json, sys
scan, probe = ([json.load(open(name + ".result"))["model"][key] for key in ("parameters", "dtype", "file_type")] for name in ("scan", "probe"))
if scan != probe:
    sys.exit(f"scan says {scan}, probe {probe}")
END_PYTHON
done
finish
