#!/bin/sh
# scan --write as a user meets it, without PyTorch: what is said of it, where it may not write and why, asked before anything is
# measured; many folders and files; a disk that is full and a run that is stopped leave nothing.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf ./*
forward=$RS_SOURCE_DIR/tests/golden/forward
mkdir model
cp "$forward/gpt2/config.json" "$forward/gpt2/model.safetensors" model/
ln -s model link
cuts() {
    expect 0 "$RANKSCOPE" scan "$@" --energy 0.7
}
refused() { refused_by scan "$@" --energy 0.7; }
fails() {
    text=$1
    shift
    expect 1 "$RANKSCOPE" scan "$@" --energy 0.7
    says err "$text"
    silent out
}

# ---- what is said ----
cuts model --write small --json small.json
tr -s ' \n' ' ' <out | grep -qF 'in Python: sys.path.insert(0, "small/factors"); import load; model = load.load(model)' || note_failure "the loader is not said"
python3 - <<'END' || note_failure "what is said of the written model"
import json
r = json.load(open("small.json"))
f = {x["code"]: x for x in r["findings"]}
assert f["written"]["message"].startswith("small has the checkpoint as it is at 70 % of the energy, small/factors"), f["written"]
assert f["written"]["hint"] == r["verdict"]["next"] and "load.load(model)" in r["verdict"]["next"], r["verdict"]
assert f["compression"]["hint"] is None, f["compression"]
END
cuts model --json plain.json
grep -q '"written"' plain.json && note_failure "something is said to be written"
# a new folder by its full name; an empty one; a link to an empty one; one inside the model's
mkdir empty other
ln -s other toempty
for place in "$PWD/full" empty/ toempty model/inner; do
    cuts model --write "$place" --quiet
    cmp -s small/model.safetensors "$place/model.safetensors" || note_failure "$place has another model"
    cmp -s small/factors/factors.safetensors "$place/factors/factors.safetensors" || note_failure "$place has other factors"
done
rm -r model/inner
# nothing to cut: a copy, and a loader that has nothing to put in
expect 0 "$RANKSCOPE" scan model --energy 1 --write whole --quiet
cmp -s whole/model.safetensors model/model.safetensors || note_failure "a cut that saves nothing was made"

# ---- where it may not write ----
for place in model model/ ./model/. link link/ "$PWD/model" "../$(basename "$PWD")/model"; do
    refused would-overwrite-input "the model's own folder" model --write "$place"
    refused would-overwrite-input "the model's own folder" link --write "$place"
    refused would-overwrite-input "the model's own folder" model/model.safetensors --write "$place"
done
mkdir -p only/factors
for place in . .. small only; do
    refused would-overwrite-input "has files already" model --write "$place"
done
touch file
ln -s nowhere dangling
fails "is no folder" model --write file
fails "has no name" model --write ""
# asked first: the text is missing, too
fails "cannot be made: No such file" model --write a/b --text nowhere.txt
fails "cannot be made: No such file" model --write dangling --text nowhere.txt
refused tokenizer-missing "" model --write new --text nowhere.txt
refused_by scan usage "2 are given" model --energy 0.8,0.9 --write new
refused_by scan usage "0 are given" model --write new
for place in model.safetensors config.json report.json factors/load.py; do
    refused bad-option "lies in the folder that --write makes" model --write new --json "new/$place"
    refused bad-option "lies in the folder that --write makes" model --write new --html "./new/$place"
done
refused bad-option "lies in the folder that --write makes" model --write new --html new/../new/config.json
for place in new new/ new/factors ./new/tables; do
    refused bad-option "lies in the folder that --write makes" model --write new --csv "$place"
    refused bad-option "lies in the folder that --write makes" model --write new --svg "$place"
done
[ ! -e new ] || note_failure "refused, and a folder is left"

# ---- what cannot be written, named before the text is missed ----
mkdir gguf
cp "$forward/gpt2_gguf/model.gguf" gguf/
refused unsupported "a GGUF file is not written" gguf --write new --text nowhere.txt
refused unsupported "a GGUF file is not written" gguf/model.gguf --write new --text nowhere.txt
tiny_model eighth
python3 - <<'END'
import json, struct
with open("eighth/model.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
out, parts = {}, []
for name, t in header.items():
    if name == "__metadata__":
        continue
    part = data[slice(*t["data_offsets"])]
    new = [(name, t, part)]
    if name.endswith("layers.1.self_attn.k_proj.weight"):
        small = bytes(30 + i * 7 % 40 for i in range(len(part) // 4))
        new = [(name + "_scale", t | {"dtype": "F32", "shape": [1]}, struct.pack("<f", 0.5)), (name, t | {"dtype": "F8_E4M3"}, small)]
    for name, t, part in new:
        at = sum(map(len, parts))
        out[name] = t | {"data_offsets": [at, at + len(part)]}
        parts.append(part)
text = json.dumps(out).encode()
open("eighth/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))
END
refused unsupported "cannot be written as F8_E4M3" eighth --write new --text nowhere.txt
says err "layers.1.self_attn.k_proj.weight"
cuts eighth --quiet
[ ! -e new ] || note_failure "refused, and a folder is left"

# ---- folders of modules, tables and pictures beside each other ----
cp -r model modules
for name in 1_Pooling 2_Dense 3_Normalize 4_Other; do
    mkdir "modules/$name"
    echo '{}' >"modules/$name/config.json"
done
cuts modules --write copied --csv tables --svg drawn --quiet
for name in 1_Pooling 2_Dense 3_Normalize 4_Other; do
    [ -s "copied/$name/config.json" ] || note_failure "$name was not copied"
done

# ---- more shards than any published model has ----
python3 - <<'END'
import json, os, struct
with open("model/model.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
header.pop("__metadata__", None)
os.mkdir("shards")
names, files = list(header), 300
places = {}
def write(path, tensors):
    out, parts = {}, b""
    for name, t, part in tensors:
        out[name] = t | {"data_offsets": [len(parts), len(parts) + len(part)]}
        parts += part
    text = json.dumps(out).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + parts)
tensors = [(n, {"dtype": header[n]["dtype"], "shape": header[n]["shape"]}, data[slice(*header[n]["data_offsets"])]) for n in names]
tensors += [(f"spare.{i}", {"dtype": "F32", "shape": [2]}, bytes(8)) for i in range(files - len(names))]
for i, t in enumerate(tensors):
    places[t[0]] = f"model-{i + 1:05d}-of-{files:05d}.safetensors"
    write(f"shards/{places[t[0]]}", [t])
json.dump({"metadata": {}, "weight_map": places}, open("shards/model.safetensors.index.json", "w"))
END
cp model/config.json shards/
cuts shards --write sharded --quiet
[ "$(find sharded -maxdepth 1 -name '*.safetensors' | wc -l)" = 300 ] || note_failure "$(find sharded -name '*.safetensors' | wc -l) of 300 shards"
python3 - <<'END' || note_failure "shards are cut otherwise"
import glob, json, struct
def tensors(folder):
    found = {}
    for path in glob.glob(f"{folder}/*.safetensors"):
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        found |= {n: data[slice(*t["data_offsets"])] for n, t in header.items() if n != "__metadata__" and not n.startswith("spare")}
    return found
assert tensors("small") == tensors("sharded") != tensors("model")
END

# ---- a disk that is full, and one that fills ----
full() { # SIZE: writes onto a disk of that size and says what is left there
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare -Urm sh -c 'mkdir -p disk && mount -t tmpfs -o size='"$1"' none disk || exit 99
        "$0" scan model --energy 0.7 --write disk/new --quiet --json report.json 2>err >out </dev/null
        code=$?
        find disk -mindepth 1 | head -3 >left
        exit $code' "$RANKSCOPE"
}
if unshare -Urm true 2>/dev/null; then
    size=$(($(wc -c <model/model.safetensors) / 1024))
    for room in $((size / 2)) $((size + 12)); do
        full "${room}k"
        got=$?
        [ $got = 1 ] || note_failure "a disk of $room KiB: exit code $got, $(cat err)"
        [ ! -s left ] || note_failure "a disk of $room KiB: left $(cat left)"
        [ ! -e report.json ] || note_failure "a disk of $room KiB: a report of what was not written"
        says err "free some space or write to another disk"
    done
    full "$((8 * size + 64))k" || note_failure "a disk with room: $(cat err)"
else
    echo "no user namespaces: disks that fill are left out"
fi

# ---- a run that is stopped ----
big_model big 2
"$RANKSCOPE" scan big --energy 0.5 --write stopped --json stopped.json >out 2>err &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -e stopped ] && break
    sleep 0.5
done
[ -e stopped ] || note_failure "the folder is not made first ($i)"
kill -TERM $pid
wait $pid
got=$?
[ $got = 130 ] || note_failure "stopped with exit code $got"
[ ! -e stopped ] || note_failure "stopped, and a folder is left: $(ls stopped)"
[ ! -e stopped.json ] || note_failure "stopped, and a report is left"
finish
