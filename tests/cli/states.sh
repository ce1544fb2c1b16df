#!/bin/sh
# states.sh: --states: real-valued sequences in the place of tokens, for probe, certify and paths.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/forward
rm -rf ./*.json ./*.npy ./*.safetensors model out err

cat >files.py <<'END'
"""Files of numbers, with the standard library alone."""
import array, json, struct
def save(name, shape, numbers, descr="<f8", fortran=False, version=1, code="d"):
    header = str({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    data = b"" if numbers is None else array.array(code, numbers).tobytes()
    open(name, "wb").write(b"\x93NUMPY" + bytes([version, 0]) + length + header + b"\n" + data)
def tensors(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for key, t in json.loads(data[8:8 + size]).items():
        if key != "__metadata__":
            begin, end = t["data_offsets"]
            yield key, t["shape"], data[8 + size + begin:8 + size + end]
def floats(n, seed=1):
    out = []
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2**31
        out.append(seed / 2**30 - 1)
    return out
END

# ---- what entered the first block, given back, is the run on the tokens, bit for bit ----
echo '[[5, 2, 9, 1, 7], [4, 8, 3, 3, 6]]' >ids.json
for model in bert gpt2 llama; do
    expect 0 "$RANKSCOPE" probe "$golden/$model" --tokens ids.json --precision f64 --taps taps.safetensors -q --json /dev/null
    python3 - <<'END' || note_failure "taps of $model"
from files import *
name, shape, data = next(t for t in tensors("taps.safetensors") if t[0] == "layer.0.block_out")
save("own.npy", tuple(shape), array.array("d", data))
END
    for command in probe certify paths; do
        more=
        [ $command != probe ] || more="--precision f64 --variants full,san,pure --grad --loss norm2 --certify"
        [ $command != paths ] || more="--paths 3 --lesions"
        # shellcheck disable=SC2086  # several words
        expect 0 "$RANKSCOPE" $command "$golden/$model" --tokens ids.json -q --json tokens.json $more
        # shellcheck disable=SC2086
        expect 0 "$RANKSCOPE" $command "$golden/$model" --states own.npy -q --json states.json $more
        python3 - $command <<'END' || note_failure "$command $model: states are not the tokens"
import json, sys
tokens, states = (json.load(open(name + ".json")) for name in ("tokens", "states"))
assert tokens["inputs"].pop("kind") == "tokens" and states["inputs"].pop("kind") == "states"
assert tokens["inputs"] == states["inputs"] and states["args"]["states"] == "own.npy"
about_ids = {"nll", "perplexity", "top1_agreement"}
embedding = lambda row: row.get("layer") is None # its weights, and sums over places that hold one of them
seen = 0
for name, table in tokens["tables"].items():
    if name in ("loss", "summary", "findings"):
        continue
    other = states["tables"][name]
    if name == "gradients":
        table, other = ([row for row in rows if not embedding(row)] for rows in (table, other))
    assert len(table) == len(other), name
    for a, b in zip(table, other):
        for key in a:
            assert a[key] == b[key] or "loss" in key or "rise" in key or key in about_ids, (name, key, a[key], b[key])
        seen += 1
assert seen > 5 and "loss" not in states["tables"]
codes = {f["code"] for f in states["findings"]}
assert "past_embedding" in codes or states["model"]["family"] == "llama", codes
assert ("no_token_ids" in codes) == (states["model"]["family"] != "bert"), codes
END
    done
done

# ---- files that hold the same numbers ----
python3 - <<'END'
from files import *
numbers = [struct.unpack("<f", struct.pack("<f", x))[0] for x in floats(2 * 3 * 15)]
save("wide.npy", (2, 3, 15), numbers)
save("narrow.npy", (2, 3, 15), numbers, "<f4", code="f", version=2)
rows = [numbers[15 * i:15 * i + 15] for i in range(6)]
json.dump([rows[:3], rows[3:]], open("rows.json", "w"))
json.dump([rows[:3], [], rows[3:4]], open("ragged.json", "w"))
json.dump([rows[3:4]], open("one.json", "w"))
END
for file in wide.npy narrow.npy rows.json; do
    for as in first-block embeddings; do
        expect 0 "$RANKSCOPE" probe "$golden/bert" --states $file --states-as $as -q --json $file.$as.json
    done
done
expect 0 "$RANKSCOPE" probe "$golden/bert" --states ragged.json -q --json ragged_out.json
expect 0 "$RANKSCOPE" probe "$golden/bert" --states ragged.json --samples 1 -q --json first.json
expect 0 "$RANKSCOPE" certify "$golden/bert" --states one.json
says out "Nothing to prove"
expect 0 "$RANKSCOPE" paths "$golden/bert" --states one.json
python3 - <<'END' || note_failure "forms of files"
import json
read = lambda name: json.load(open(name + ".json"))
for way, kind in ("first-block", "states"), ("embeddings", "embeddings"):
    forms = [read(f"{name}.{way}") for name in ("wide.npy", "narrow.npy", "rows.json")]
    assert all(one["tables"] == forms[0]["tables"] for one in forms) and forms[0]["inputs"]["kind"] == kind
assert read("wide.npy.first-block")["tables"]["tokens"] != read("wide.npy.embeddings")["tables"]["tokens"]
ragged = read("ragged_out")
assert ragged["inputs"]["samples"] == 3 and ragged["inputs"]["tokens"] == 4 and ragged["inputs"]["empty_samples"] == 1
assert "empty_sample" in {f["code"] for f in ragged["findings"]}
assert read("first")["inputs"]["samples"] == 1 and read("first")["inputs"]["tokens"] == 3
END

# ---- what is refused ----
python3 - <<'END'
from files import *
x = floats(2 * 3 * 15)
for name, value in ("nan", float("nan")), ("inf", float("-inf")), ("large", 1e300), ("beyond", -1e39):
    save(name + ".npy", (2, 3, 15), x[:15 * 4 + 7] + [value] + x[15 * 4 + 8:])
save("flat.npy", (3, 15), x[:45])
save("whole.npy", (2, 3, 15), [1] * 90, "<i4", code="i")
save("half.npy", (2, 3, 15), [1] * 90, "<f2", code="H")
save("fortran.npy", (2, 3, 15), x, fortran=True)
save("cut.npy", (2, 3, 15), x[:-1])
save("none.npy", (2, 0, 15), [])
save("many.npy", (10**12, 0, 15), [])
save("huge.npy", (2**40, 2**40, 15), [])
save("ids.npy", (10**12, 0), [], "<i8")
open("empty.npy", "w")
save("sparse.npy", (2**20, 2**12, 15), [])
end = open("sparse.npy", "r+b")
end.truncate(len(open("sparse.npy", "rb").read()) + 2**32 * 15 * 8)
rows = [x[:15], x[15:30]]
for name, value in ("bare", float("nan")), ("null", None), ("text", "1"):
    json.dump([rows, [rows[0], rows[1][:4] + [value] + rows[1][5:]]], open(name + ".json", "w"))
open("far.json", "w").write("[[[1e999]]]")
json.dump([rows, [rows[0], rows[1][:7]]], open("short.json", "w"))
json.dump(rows, open("flat.json", "w"))
json.dump([], open("nothing.json", "w"))
json.dump([[], []], open("silent.json", "w"))
json.dump({"a": 1}, open("object.json", "w"))
END
refuses() { # STATUS TEXT FILE ARGUMENTS...: whatever the command
    status=$1 text=$2 file=$3
    shift 3
    for command in probe certify paths; do
        refused_by $command "$status" "$text" "$golden/bert" --states "$file" "$@"
    done
}
refuses input-format "nan.npy: sample 1, token 1, feature 7 is NaN" nan.npy
refuses input-format "inf.npy: sample 1, token 1, feature 7 is -Infinity" inf.npy
refuses input-format "this is float64 of 2" flat.npy
refuses input-format "this is int32 of 3" whole.npy
refuses input-format "'<f2'" half.npy
refuses input-format "Fortran order" fortran.npy
refuses input-format "promises 90 elements of 8 bytes, but 712 bytes follow" cut.npy
refuses input-format "there is no token in 2 samples of 0 tokens" none.npy
refuses input-format "there is no token in 1000000000000 samples" many.npy
refuses input-format "larger than any file" huge.npy
refuses empty-file "the file is empty" empty.npy
refuses not-found "" missing.npy
refuses memory-limit "the states need 480.0 GiB" sparse.npy --memory 1GiB
rm sparse.npy
refuses input-format "sample 1, token 1, feature 4 is NaN" bare.json
refuses input-format "sample 1, token 1, feature 4 is no number" null.json
refuses input-format "sample 1, token 1, feature 4 is no number" text.json
refuses json-syntax "" far.json
refuses input-shape "sample 1, token 1: a row of 7 numbers, where the model's first block takes 15" short.json
refuses input-format "sample 0, token 0 is not a list of numbers" flat.json
refuses input-format "there is no list of samples" nothing.json
refuses input-format "there is no list of samples" object.json
refuses input-format "all 2 samples are without tokens" silent.json
refuses usage "one kind of input is enough" wide.npy --text ids.json
refuses usage "one kind of input is enough" wide.npy --tokens ids.json
refuses usage "one kind of input is enough" wide.npy --random 2
refuses bad-option "first-block|embeddings" wide.npy --states-as word-vectors
for command in probe certify paths; do
    refused_by "$command" usage "no states that could stand for embeddings" "$golden/bert" --random 2 --states-as embeddings
    refused_by "$command" input-format "all 1000000000000 samples are without tokens" "$golden/bert" --tokens ids.npy
done
refused_by probe input-format "has no embeddings that rows could stand for" "$golden/vit" --states wide.npy --states-as embeddings
# ALBERT's table is narrower than its blocks: both numbers are said, and the other way in where it fits
python3 - "$golden/albert/config.json" <<'END'
from files import *
import sys
config = json.load(open(sys.argv[1]))
for name, key in ("table", "embedding_size"), ("block", "hidden_size"):
    save(name + ".npy", (1, 2, config[key]), floats(2 * config[key]))
END
refused_by probe input-shape "give --states-as embeddings" "$golden/albert" --states table.npy
refused_by probe input-shape "leave --states-as out" "$golden/albert" --states block.npy --states-as embeddings
expect 0 "$RANKSCOPE" probe "$golden/albert" --states table.npy --states-as embeddings
expect 0 "$RANKSCOPE" probe "$golden/albert" --states block.npy
# positions end with embeddings, not with states
python3 -c 'from files import *; save("long.npy", (1, 40, 15), floats(600))'
refused_by probe text-too-long "sample 0: 40 tokens" "$golden/bert" --states long.npy --states-as embeddings
expect 0 "$RANKSCOPE" probe "$golden/bert" --states long.npy
# numbers that float32 does not hold
refused_by probe input-format "sample 1, token 1, feature 7 is -1e+39, which float32 does not hold" "$golden/bert" --states beyond.npy
refused_by probe input-format "sample 1, token 1, feature 7 is 1e+300, which float32 does not hold" "$golden/bert" --states large.npy
expect 0 "$RANKSCOPE" probe "$golden/bert" --states beyond.npy --precision f64
for precision in f64 residual; do
    expect 0 "$RANKSCOPE" probe "$golden/bert" --states large.npy --precision $precision
    says out "nonfinite_activation"
    says out "float64 overflows: scale the inputs"
done
expect 1 "$RANKSCOPE" paths "$golden/bert" --states large.npy
says err "sample 1, layer 0 (attention)"
# what needs ids
width=$(python3 -c "import json; print(json.load(open('$golden/gpt2/config.json'))['n_embd'])")
python3 -c "from files import *; save('gpt2.npy', (1, 4, $width), floats(4 * $width))"
for loss in lm mlm; do
    refused_by probe unsupported "the loss $loss predicts tokens" "$golden/gpt2" --states gpt2.npy --grad --loss $loss
done
refused_by probe unsupported "the inputs are no token ids" "$golden/gpt2" --states gpt2.npy --generate 2
for way in "" "--states-as embeddings"; do
    for more in "--grad --batch 1" "--grad --precision residual" "--relevance" "--sweep lambda=-2:2:3" "--attention-rank 2" "--null random"; do
        # shellcheck disable=SC2086
        expect 0 "$RANKSCOPE" probe "$golden/gpt2" --states gpt2.npy $way $more -q --json more.json
    done
done

# ---- models that are fed rows, or states, from the start ----
cat >task.json <<'END'
{"task": "series", "data": {"x": "series.npy", "length": 8}, "steps": 3, "batch": 2, "model": {"depth": 2, "d_model": 8, "heads": 2}}
END
python3 -c 'from files import *; save("series.npy", (200, 3), floats(600), "<f4", code="f"); save("held.npy", (2, 6, 3), floats(36, 5))'
expect 0 "$RANKSCOPE" train task.json --out model -q
refused_by probe input-shape "rows of 3 numbers, where the model's first block takes 8 [input-shape]; give --states-as embeddings" model --states held.npy
for command in probe certify paths; do
    expect 0 "$RANKSCOPE" $command model --states held.npy --states-as embeddings
done
python3 -c 'from files import *; save("pair.npy", (50, 2), floats(100), "<f4", code="f")'
trains() { # MODEL: on a series of two channels
    echo "{\"task\": \"series\", \"data\": {\"x\": \"pair.npy\", \"length\": 6}, \"steps\": 2, \"batch\": 2, \"model\": \"$1\"}" >pair.json
}
trains model
refused_by train task-schema "the model reads rows of 3 numbers, those of the task have 2" pair.json --out other
trains "$golden/gpt2"
refused_by train task-schema "the model is fed no rows" pair.json --out other
echo '{"depth": 2, "d_model": 4, "heads": 2, "norm": "pre"}' >arch.json
echo '[[[1, 0, 0, 2.5], [0, 1e-3, 0, 0], [0, 0, -1, 0]], [[4, 3, 2, 1], [1, 2, 3, 4]]]' >few.json
for command in probe certify paths; do
    expect 0 "$RANKSCOPE" $command arch.json --init default --states few.json
    refused_by $command input-format "has no embeddings" arch.json --init default --states few.json --states-as embeddings
done
finish
