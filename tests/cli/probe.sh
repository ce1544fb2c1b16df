#!/bin/sh
# probe.sh: what `rankscope probe` accepts and refuses, and what it leaves behind.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$RS_SOURCE_DIR/tests/golden/forward/llama
encoder=$RS_SOURCE_DIR/tests/golden/forward/bert
vision=$RS_SOURCE_DIR/tests/golden/forward/vit
echo '[[5,2,9,1],[4,8]]' >ids.json

refused() { refused_by probe "$@"; }

# ---- usage ----
expect 0 "$RANKSCOPE" probe --help
says out "--variants LIST"
says out "before a norm of that output (Gemma 2 and 3)"
says out "--residual-centre mean|median|lp"
expect 0 "$RANKSCOPE" --help
says out "probe"
refused usage "needs an input" --tokens ids.json
refused usage "nothing to feed the model" "$model"
refused usage "one kind of input is enough" "$model" --tokens ids.json --random 3
refused bad-option "did you mean --tokens" "$model" --token ids.json
refused bad-option "--attention-maps" "$model" --tokens ids.json --attention-maps 0-1
refused bad-option "there is no layer 9" "$model" --tokens ids.json --attention-maps 9:0
refused bad-option "there is no head 99" "$model" --tokens ids.json --attention-maps 0:99
refused bad-option "cannot read" "$model" --tokens ids.json --threshold dead_head=1
refused bad-option "nonsense" "$model" --tokens ids.json --variants nonsense
refused bad-option "no definitions are known" "$model" --tokens ids.json --compat nonsense
for count in --samples --batch --seq-len --generate; do
    refused bad-option "give a whole number of at least 1" "$model" --tokens ids.json $count 0
done
refused bad-option "a variant without any option" "$model" --tokens ids.json --variants a=
refused bad-option "is to be written by --output already" "$model" --tokens ids.json --output a.st --taps a.st
refused bad-option "is to be written by --output already" "$model" --tokens ids.json --output a.st --html "$PWD/./a.st"
refused usage "a configuration has no weights" "$model/config.json" --tokens ids.json
refused unsupported "predicts no next token" "$vision" --random 1 --generate 3

refused bad-option "4097 is more than 4096" "$model" --tokens ids.json --generate 4097
positions=$RS_SOURCE_DIR/tests/golden/forward/gpt2
limit=$(python3 -c "import json; print(json.load(open('$positions/config.json'))['n_positions'])")
refused text-too-long "the 4 of sample 0 are more than the model's $limit positions" "$positions" --tokens ids.json --generate $((limit - 3))
expect 0 "$RANKSCOPE" probe "$positions" --tokens ids.json --generate $((limit - 4)) --quiet
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --compat dong2021-code
says out "changes nothing here"
albert=$RS_SOURCE_DIR/tests/golden/forward/albert
expect 0 "$RANKSCOPE" probe "$albert" --random 1 --seq-len 4 --compat dong2021-code --variants full,san
grep -q "changes nothing here" out && note_failure "--compat is said to change nothing where it does"
expect 0 "$RANKSCOPE" probe "$albert" --random 1 --seq-len 4 --compat dong2021-code
says out "albert with its MLP"

# What the reader of the folder had to say, once, also beside a scan.
rm -rf folder && cp -r "$model" folder && chmod -R u+w folder && cp folder/model.safetensors folder/other.safetensors
for more in --no-loss --scan; do
    expect 0 "$RANKSCOPE" probe folder --tokens ids.json $more --json a.json --quiet
    python3 -c "import json; c = [f['code'] for f in json.load(open('a.json'))['findings']]; assert c.count('skipped_file') == 1, c" ||
        note_failure "probe $more does not say once which files it passed over"
done

# What is proved, beside what is measured: the tables of certify, the same numbers.
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --certify --rigorous --json both.json --quiet
expect 0 "$RANKSCOPE" certify "$model" --tokens ids.json --rigorous --json alone.json --quiet
python3 - <<'END' || note_failure "probe --certify does not say what certify says"
import json
both, alone = (json.load(open(name + ".json"))["tables"] for name in ("both", "alone"))
assert both["certificate"] == alone["summary"] and len(alone["summary"]) > 0
assert all(both[name] == alone[name] for name in ("bounds", "lambda", "chains"))
assert "variant" in both["summary"][0]
END
refused usage "nothing to certify" "$model" --tokens ids.json --rigorous

# One float64 pass serves both; a list without "full" and --precision residual have one for the certificates alone.
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --precision f64 --json f64.json --quiet
for more in "" "--precision f32" "--variants full,san" "--variants san" "--precision residual"; do
    # shellcheck disable=SC2086
    expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json $more --certify --rigorous --json both.json --progress always
    case $more in
    "--variants san" | *residual) says err certify ;;
    *) ! grep -q certify err || note_failure "probe --certify $more: a pass of its own" ;;
    esac
    python3 - "$more" <<'END' || note_failure "probe --certify $more: other numbers"
import json, sys
both, f64, alone = (json.load(open(name + ".json")) for name in ("both", "f64", "alone"))
b, f, a = both["tables"], f64["tables"], alone["tables"]
assert b["certificate"] == a["summary"] and all(b[name] == a[name] for name in ("bounds", "lambda", "chains", "intervals", "demands"))
assert both["run"]["precision"] == ("residual" if "residual" in sys.argv[1] else "f64"), both["run"]
if sys.argv[1] in ("", "--precision f32"):
    assert all(b[name] == f[name] for name in ("summary", "tokens", "attention", "loss"))
END
done

# ---- bad inputs ----
refused not-found "nowhere.json" "$model" --tokens nowhere.json
: >empty.txt
refused empty-file "empty" "$model" --tokens empty.txt
echo '[[1],[2,99]]' >range.json
refused token-out-of-range "sample 1, position 1: id 99" "$model" --tokens range.json
refused input-format "reads no images" "$model" --images ids.json
refused input-format "has no vocabulary" "$vision" --tokens ids.json
refused text-too-long "longer than the model's 14 positions" "$encoder" --random 2 --seq-len 15
refused bad-option "no cross-attention" "$model" --tokens ids.json --encoder-states ids.json
python3 - <<'END2'
import struct
def npy(name, descr, shape, data, fortran=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
npy("ids4.npy", "<i4", (2, 3), struct.pack("<6i", 5, 2, 9, 1, 1, 3))
npy("ids8.npy", "<i8", (2, 3), struct.pack("<6q", 5, 2, 9, 1, 1, 3))
npy("real.npy", "<f4", (2, 3), struct.pack("<6f", 5, 2, 9, 1, 1, 3))
npy("short.npy", "<i4", (2, 3), struct.pack("<5i", 5, 2, 9, 1, 1))
npy("image.npy", "<f4", (1, 3, 5, 5), bytes(300))
npy("memory.npy", "<f4", (2, 5, 15), struct.pack("<150f", *[(i * 37 % 11 - 5) / 3 for i in range(150)]))
END2
refused input-format "must be integers" "$model" --tokens real.npy
refused input-format "20 bytes follow" "$model" --tokens short.npy
refused input-shape "sample 0: images of 3 x 5 x 5" "$vision" --images image.npy
cross=$RS_SOURCE_DIR/tests/golden/forward/bert_cross
refused input-format "cross-attention, which needs states" "$cross" --random 2 --seq-len 4
refused input-shape "do not serve 3 samples" "$cross" --random 3 --seq-len 4 --encoder-states memory.npy
expect 0 "$RANKSCOPE" probe "$cross" --random 2 --seq-len 4 --encoder-states memory.npy
says out "cross_attention"
expect 0 "$RANKSCOPE" probe "$cross" --random 2 --seq-len 4 --encoder-states memory.npy --generate 3 --json cross.json --quiet
python3 -c "import json; rows = json.load(open('cross.json'))['tables']['generate']; assert len(rows) == 2, rows" ||
    note_failure "a model with cross-attention does not continue every sample"
refused tokenizer-missing "no tokenizer.json" "$model" --text empty.txt
cp -r "$model" lying && chmod -R u+w lying
sed -i.bak 's/"num_attention_heads": [0-9]*/"num_attention_heads": 7/' lying/config.json
expect 2 "$RANKSCOPE" probe lying --tokens ids.json
silent out
sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": []/' lying/config.json.bak >lying/config.json
refused config-layers "lists no layer" lying --tokens ids.json
sed 's/"hidden_act": *"[a-z_]*"/"hidden_act": "mystery"/' lying/config.json.bak >lying/config.json
expect 2 "$RANKSCOPE" probe lying --tokens ids.json
says err mystery

# ---- the same ids in every form ----
echo '[[5,2,9],[1,1,3]]' >same.json
for form in same.json ids4.npy ids8.npy; do
    expect 0 "$RANKSCOPE" probe "$model" --tokens $form --csv "csv_$form" --quiet
done
cmp -s csv_same.json/tokens.csv csv_ids4.npy/tokens.csv || note_failure "int32 gives other numbers than JSON"
cmp -s csv_ids8.npy/tokens.csv csv_ids4.npy/tokens.csv || note_failure "int64 gives other numbers than int32"

# ---- results ----
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --json -
silent err
python3 - out <<'END2' || note_failure "the JSON is not what was promised"
import json, sys
result = json.load(open(sys.argv[1]))
assert result["command"] == "probe" and result["model"]["family"] == "llama"
assert result["inputs"]["samples"] == 2 and result["inputs"]["longest"] == 4
tokens = result["tables"]["tokens"]
layers = result["model"]["layers"]
assert [(r["layer"], r["site"]) for r in tokens] == [(0, "block_out")] + [
    (l, s) for l in range(1, layers + 1) for s in ("block_out", "mixer_out")]
columns = ("variant layer site norm_fro residual_fro relative_residual residual_1inf relative_residual_1inf row_normalised_mu "
           "rank1_residual mean_cosine one_minus_cosine diameter effective_rank stable_rank stable_rank_gram numerical_rank at_floor "
           "relative_residual_std relative_residual_min relative_residual_max relative_residual_median relative_residual_geomean").split()
assert list(tokens[0]) == columns, list(tokens[0])
heads = result["tables"]["attention"]
assert len(heads) == layers * result["model"]["heads"]
wanted = ("variant layer head entropy logit_variance spectral_gap sigma1 sigma2 lambda2 dobrushin distance_to_uniform self_weight "
          "first_token_weight").split()
assert list(heads[0])[:len(wanted)] == wanted, list(heads[0])
assert list(result["tables"]["loss"][0]) == ["variant", "tokens", "nll", "perplexity"]
END2
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --variants full,san,mine=no-norm,lambda:0.5 --residual-centre median --no-spectral --json a.json --quiet
python3 - <<'END2' || note_failure "variants are not what was promised"
import json
result = json.load(open("a.json"))
assert [r["variant"] for r in result["tables"]["summary"]] == ["full", "san", "mine"]
assert all(r["effective_rank"] is None and r["norm_fro"] > 0 for r in result["tables"]["tokens"])
END2
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --no-attention --no-loss --json a.json --quiet
python3 -c "import json; t=json.load(open('a.json'))['tables']; assert 'attention' not in t and 'loss' not in t" || note_failure "tables that nobody wanted"
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --no-skip --json a.json --quiet
python3 -c "import json; assert json.load(open('a.json'))['tables']['tokens'][0]['variant'] == 'edited'" || note_failure "an edited model is called full"
expect 0 "$RANKSCOPE" probe "$vision" --random 2 --quiet
expect 0 "$RANKSCOPE" probe "$encoder" --random 2 --seq-len 5 --variants all --fusion max --attention-maps 0:0 --html a.html --json a.json
python3 - <<'END2' || note_failure "fusion and maps are not what was promised"
import json
result = json.load(open("a.json"))
assert any(r["site"] == "fusion_max" for r in result["tables"]["tokens"])
maps = result["tables"]["attention_maps"]
assert len(maps) == 5 * 25 and abs(sum(r["weight"] for r in maps[:5]) - 1) < 1e-5
END2

# ---- one token, and rows without any ----
echo '[[7]]' >one.json
expect 0 "$RANKSCOPE" probe "$model" --tokens one.json --json a.json --quiet
echo '[[7,3],[],[1,2]]' >gap.json
expect 0 "$RANKSCOPE" probe "$model" --tokens gap.json --output o.safetensors --taps t.safetensors
says out "1 of 3 samples have no token"

# ---- random weights ----
expect 0 "$RANKSCOPE" probe "$model/config.json" --init default --random 1 --seq-len 4 --json a.json --quiet
expect 0 "$RANKSCOPE" probe "$model" --random 1 --seq-len 4 --json b.json --quiet
python3 - <<'END2' || note_failure "files are not named by one rule"
import json
assert json.load(open("a.json"))["model"]["files"] == ["config.json"]
assert json.load(open("b.json"))["model"]["files"] == ["model.safetensors"]
END2
for law in default xavier orthogonal "normal(0, 1/fan_in)"; do
    expect 0 "$RANKSCOPE" probe "$model/config.json" --init "$law" --random 2 --seq-len 6 --json "a.json" --quiet
done
expect 0 "$RANKSCOPE" probe "$model/config.json" --init default --random 2 --seq-len 6 --seed 1 --csv one --quiet --threads 1
expect 0 "$RANKSCOPE" probe "$model/config.json" --init default --random 2 --seq-len 6 --seed 1 --csv two --quiet --threads 2
cmp -s one/tokens.csv two/tokens.csv || note_failure "threads change the draws"
echo '{"depth": 6, "d_model": 32, "seq_len": 8}' >arch.json
expect 0 "$RANKSCOPE" probe arch.json --random 3 --json a.json --quiet
python3 -c "import json; r=json.load(open('a.json')); assert r['model']['layers']==6 and r['inputs']['longest']==8" || note_failure "arch.json"

# ---- NaN weights are named ----
mkdir -p sick && cp "$model"/config.json sick/ && python3 - "$model/model.safetensors" <<'END2'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
entry = json.loads(data[8:8 + size])["model.layers.1.mlp.up_proj.weight"]
data[8 + size + entry["data_offsets"][0]:][:4]
struct.pack_into("<f", data, 8 + size + entry["data_offsets"][0], float("nan"))
open("sick/model.safetensors", "wb").write(data)
END2
expect 3 "$RANKSCOPE" probe sick --tokens ids.json --fail-on critical
says out "nonfinite_activation"
says out "layer 1"
expect 0 "$RANKSCOPE" probe sick --tokens ids.json --json a.json --quiet
python3 - <<'END2' || note_failure "the NaN is not named"
import json
found = [f for f in json.load(open("a.json"))["findings"] if f["code"] == "nonfinite_activation"]
assert len(found) == 1 and found[0]["layer"] == 1 and "model.layers.1.mlp.up_proj.weight" in found[0]["message"], found
END2

# ---- outputs never replace inputs, and a failed run leaves nothing ----
cp ids.json keep.json
refused would-overwrite-input "one of the inputs" "$model" --tokens ids.json --output ids.json
cmp -s ids.json keep.json || note_failure "an input was overwritten"
refused would-overwrite-input "one of the inputs" sick --tokens ids.json --taps sick/model.safetensors
cp -r "$encoder" beside && chmod -R u+w beside && mkdir beside/1_Pooling
echo '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]' >beside/modules.json
echo '{"pooling_mode_mean_tokens": true}' >beside/1_Pooling/config.json
echo '{}' >beside/tokenizer.json
for input in modules.json tokenizer.json config.json 1_Pooling/config.json; do
    for path in beside beside/model.safetensors; do
        refused would-overwrite-input "beside/$input" $path --random 2 --seq-len 4 --json beside/$input
    done
done
expect 1 "$RANKSCOPE" probe "$model" --tokens ids.json --output nowhere/o.safetensors
silent out
expect 1 "$RANKSCOPE" probe "$model" --tokens ids.json --output fresh.safetensors --taps nowhere/t.safetensors
[ ! -e fresh.safetensors ] || note_failure "a failed run left an output"
ls ./*.tmp >/dev/null 2>&1 && note_failure "a temporary file was left"
finish
