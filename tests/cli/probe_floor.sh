#!/bin/sh
# probe_floor.sh: what `rankscope probe` says of values that are rounding and of values that do not exist.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
forward=$RS_SOURCE_DIR/tests/golden/forward
compare() {
    python3 "$RS_SOURCE_DIR/tests/cli/compare_floor.py" f32.json f64.json || failures=$((failures + 1))
}

# ---- float32 against float64, deep enough for all variants without skips to end in rounding ----
for family in bert llama gpt2 xlnet; do
    for precision in f32 f64; do
        expect 0 "$RANKSCOPE" probe "$forward/$family" --random 3 --seq-len 8 --depth 24 --variants all --no-attention \
            --precision $precision --json $precision.json
    done
    compare
done

# ---- the real encoder, where a last layer lifts rounding above the floor ----
if model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>/dev/null); then
    for precision in f32 f64; do
        expect 0 "$RANKSCOPE" probe "$model" --text "$RS_SOURCE_DIR/share/page.txt" --samples 2 --variants all --no-attention \
            --precision $precision --json $precision.json
    done
    compare
fi

# ---- a state that is zero ----
python3 - "$forward/llama" <<'END2'
import json, os, shutil, struct, sys
shutil.copytree(sys.argv[1], "zero")
path = "zero/model.safetensors"
os.chmod("zero", 0o755), os.chmod(path, 0o644)
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
entry = json.loads(data[8:8 + size])["model.embed_tokens.weight"]
width = entry["shape"][1] * (4 if entry["dtype"] == "F32" else 2)
at = 8 + size + entry["data_offsets"][0] + 7 * width
data[at:at + width] = bytes(width)
open(path, "wb").write(data)
END2
check() { # check EXPRESSION over the rows of table tokens and the findings by code
    python3 -c "
import json
result = json.load(open('a.json'))
rows, found = result['tables']['tokens'], {f['code']: f for f in result['findings']}
assert $1, (rows[0], found)" || failures=$((failures + 1))
}
echo '[[7,7,7]]' >ids.json
expect 0 "$RANKSCOPE" probe zero --tokens ids.json --json a.json
check "len(rows) == 5 and rows[0]['layer'] == 0 and rows[0]['relative_residual'] is None and rows[0]['at_floor'] is None"
check "'every entry before layer 0 is zero in 1 of 1 samples' in found['zero_state']['message']"
check "'relative_residual_std' in found['undefined_columns']['message']"
echo '[[7,7,7],[5,2,9],[4]]' >ids.json
expect 0 "$RANKSCOPE" probe zero --tokens ids.json --json a.json
check "rows[0]['relative_residual'] > 0 and 'zero in 1 of 3 samples' in found['zero_state']['message']"
check "'over the other samples' in found['zero_state']['message'] and '1 of 3 samples are one token' in found['undefined_columns']['message']"
echo '[[5,2,9],[1,3,4]]' >ids.json
expect 0 "$RANKSCOPE" probe zero --tokens ids.json --json a.json
check "'zero_state' not in found and 'undefined_columns' not in found"

# ---- the words of a collapse name the value and the threshold ----
expect 0 "$RANKSCOPE" probe zero --tokens ids.json --threshold token_collapse=0.99 --json a.json
check "'below the threshold 0.99' in found['token_collapse']['message'] and 'all but one' not in found['token_collapse']['message']"

# ---- the model as it is comes first, wherever it was named ----
expect 0 "$RANKSCOPE" probe zero --tokens ids.json --variants half=lambda:0.5,san,full --json a.json
check "[r['variant'] for r in result['tables']['summary']] == ['full', 'half', 'san']"
finish
