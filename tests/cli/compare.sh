#!/bin/sh
# compare.sh: `rankscope compare`: what changed between two checkpoints, against NumPy; what cannot be compared; what is broken.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf ./*
golden=$RS_SOURCE_DIR/tests/golden
models=$golden/compare

refused() { refused_by compare "$@"; }

# ---- numbers: whole products and their SVDs in NumPy (tests/oracle/make_compare_golden.py) ----
for name in moved tiny keys narrow; do
    for k in 0 2; do
        more=
        [ $k = 0 ] || more="--subspace $k"
        # shellcheck disable=SC2086 # two words or none
        expect 0 "$RANKSCOPE" compare "$models/base" "$models/$name" --quiet --json numbers.json $more
        python3 "$RS_SOURCE_DIR/tests/cli/compare_change.py" numbers.json $name $k || note_failure "$name, k = $k"
    done
done

for k in 0 2; do
    more=
    [ $k = 0 ] || more="--subspace $k"
    # shellcheck disable=SC2086 # two words or none
    expect 0 "$RANKSCOPE" compare "$golden/forward/falcon_mamba" "$models/ssm" --quiet --json numbers.json $more
    python3 "$RS_SOURCE_DIR/tests/cli/compare_change.py" numbers.json ssm $k || note_failure "ssm, k = $k"
done

# ---- the first screen, and every form of the result ----
expect 0 "$RANKSCOPE" compare "$models/base" "$models/moved" --json moved.json --html moved.html --csv tables --svg drawn
head -n 1 out | grep -q '^16 of 16 products changed' || note_failure "the first line is: $(head -n 1 out)"
says moved.html '<html'
for figure in ranks overlaps heads; do
    says "drawn/$figure.svg" '<svg'
done
for table in summary layers heads models findings_changed; do
    [ -s "tables/$table.csv" ] || note_failure "no table $table"
done
head -n 1 tables/heads.csv | grep -q '^path,stack,attention,layer,head,product,moved,change_norm,' || note_failure "heads.csv begins with $(head -n 1 tables/heads.csv)"
says moved.json '"command":"compare"'

# ---- what does not change ----
expect 0 "$RANKSCOPE" compare "$models/base" "$models/base" --fail-on warn --json same.json
says out 'No product changed: all 16 products are bit for bit the same.'
expect 0 "$RANKSCOPE" compare "$models/base" "$models/rotated" --json rotated.json
says out 'No product changed by more than the rounding'

# W_Q c and W_K / c are one product, whichever comes first; weights next to zero are stored in steps of their own.
MODELS=$models python3 - <<'END' || note_failure "twins are not written"
import array, json, os, pathlib, shutil, struct
def copy(name, code, dtype, change):
    base, folder = pathlib.Path(os.environ["MODELS"]) / "base", pathlib.Path(name)
    raw = (base / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), b""
    for key, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        numbers = [change(key, x) for x in array.array("d", raw[begin:end])]
        part = struct.pack(f"<{len(numbers)}{code}", *numbers)
        entry.update(dtype=dtype, data_offsets=[len(data), len(data) + len(part)])
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    shutil.copy(base / "config.json", folder)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
for name, c in (("thousand", 1000.0), ("power", 2.0**40)):
    copy(name, "d", "F64", lambda key, x: x * c if "q_proj" in key or "o_proj" in key else x / c)
copy("single", "f", "F32", lambda key, x: 1e-6 * x)
copy("half", "e", "F16", lambda key, x: 1e-6 * x)
END
for pair in "$models/base thousand" "thousand $models/base" "power thousand" "single half" "half single"; do
    # shellcheck disable=SC2086 # two words
    expect 0 "$RANKSCOPE" compare $pair
    says out 'No product changed by more than the rounding'
done
expect 0 "$RANKSCOPE" compare power "$models/base"
says out 'No product changed: all 16 products are bit for bit the same.'

# ---- findings that came and went; --fail-on ----
tiny_model before
tiny_model after
breaks_weight after model.layers.0.self_attn.q_proj.weight nan
expect 3 "$RANKSCOPE" compare before after --fail-on critical --json came.json
says out 'nonfinite_weights'
says out 'finding came'
expect 0 "$RANKSCOPE" compare after before --fail-on warn --json went.json
expect 3 "$RANKSCOPE" compare "$models/base" "$models/moved" --threshold rank_fell=0.0001 --fail-on warn --json fell.json
says out 'lost more than 0.01 % of their effective rank'

# ---- other depth, width, family ----
expect 0 "$RANKSCOPE" compare "$models/base" "$models/deep" --table not_compared --columns layer,which,reason --json deep.json
says out 'the first has no such product'
expect 0 "$RANKSCOPE" compare "$models/base" "$golden/families/llama" --json wide.json
says out 'The models differ in width, so ranks alone are compared'
expect 0 "$RANKSCOPE" compare "$golden/families/bert" "$golden/families/mamba2" --json apart.json
says out 'The two have no product in common'
expect 0 "$RANKSCOPE" compare "$golden/families/bert" "$golden/families/gpt2" --json kin.json
expect 0 "$RANKSCOPE" compare "$golden/families/mamba2" "$golden/families/mamba2" --json ssm.json
says out 'No product changed'

# ---- several: each with the first ----
expect 0 "$RANKSCOPE" compare "$models/base" "$models/tiny" "$models/moved" "$models/base" --json several.json
says several.json '"others":['

# ---- tokens ----
echo '[[5, 2, 9, 1, 7], [4, 8, 3]]' >ids.json
expect 0 "$RANKSCOPE" compare "$golden/forward/bert" "$golden/forward/gpt2" --tokens ids.json --json tokens.json --svg drawn
says drawn/tokens.svg '<svg'
"$RANKSCOPE" probe "$golden/forward/bert" --tokens ids.json --quiet --json bert.json || note_failure "probe of bert"
"$RANKSCOPE" probe "$golden/forward/gpt2" --tokens ids.json --quiet --json gpt2.json || note_failure "probe of gpt2"
# A model that cannot take them is named; where none can, the request is wrong.
echo '[[5, 2, 900]]' >far.json
expect 0 "$RANKSCOPE" compare "$golden/forward/llama" "$golden/forward/vit" --tokens ids.json --json unfit.json
says out 'tokens_not_compared'
refused token-out-of-range 900 "$golden/forward/bert" "$golden/forward/gpt2" --tokens far.json

python3 - <<'END' || note_failure "results are not as they should be"
import json
def load(name):
    return json.load(open(name + ".json"))
moved, same, rotated, deep = load("moved"), load("same"), load("rotated"), load("deep")
assert [m["path"].rsplit("/", 1)[1] for m in moved["models"]] == ["base", "moved"]
for row in moved["tables"]["heads"]:
    for key in row:
        if key.endswith("_change"):
            a, b = row[key[:-7] + "_a"], row[key[:-7] + "_b"]
            assert row[key] is None or row[key] == b - a, key
    assert row["moved"] == "changed" and row["change_floor"] < 1e-12
assert all(row["change_norm"] == 0 and row["moved"] == "same" and abs(row["overlap_left"] - 1) < 1e-12 for row in same["tables"]["heads"])
assert same["verdict"]["code"] == "same" and not same["tables"]["findings_changed"]
assert all(row["moved"] == "rounding" and abs(row["effective_rank_change"]) < 1e-12 for row in rotated["tables"]["heads"])
# what hangs on the factors alone: the squared norms of single units turn, their sum H stays
assert len(deep["tables"]["heads"]) == 16 and {r["layer"] for r in deep["tables"]["not_compared"]} == {2}
came, went = load("came"), load("went")
assert came["verdict"]["code"] == "findings_came" and came["verdict"]["severity"] == "critical"
assert {r["change"] for r in came["tables"]["findings_changed"]} == {"came"}
assert {r["change"] for r in went["tables"]["findings_changed"]} == {"went"}
assert {f["code"] for f in went["findings"]} >= {"findings_went"}
assert load("fell")["verdict"]["code"] == "rank_fell"
wide = load("wide")
assert all(r["change_norm"] is None and r["effective_rank_change"] is not None and r["reason"] for r in wide["tables"]["heads"])
several = load("several")
assert len(several["tables"]["heads"]) == 48 and len({r["path"] for r in several["tables"]["heads"]}) == 3
assert len(several["tables"]["models"]) == 4
assert several["verdict"]["code"] == "changed" and "compare/moved: " in several["verdict"]["answer"]  # base changed nothing
# what layers and summary say are means of heads
for table, keys in ("layers", ("layer", "product")), ("summary", ("product",)):
    for row in moved["tables"][table]:
        heads = [h for h in moved["tables"]["heads"] if all(h[k] == row[k] for k in keys)]
        for key, of in (("change_relative", "change_relative"), ("overlap_left", "overlap_left"), ("overlap_right_null", "overlap_right_null"),
                        ("effective_rank_ratio_b", "effective_rank_ratio_b"), ("stable_rank_a", "stable_rank_a")):
            want = sum(h[of] for h in heads) / len(heads)
            assert abs(row[key] - want) < 1e-12, (table, key)
        assert row["change_relative_max"] == max(h["change_relative"] for h in heads)
# tokens: what probe says of each
tokens = load("tokens")["tables"]["tokens"]
for end, name in ("_a", "bert"), ("_b", "gpt2"):
    states = {(r["layer"], r["site"]): r for r in load(name)["tables"]["tokens"]}
    for row in tokens:
        for key in ("relative_residual", "mean_cosine", "effective_rank", "norm_fro"):
            assert row[key + end] == states[row["layer"], row["site"]][key], (name, key)
assert tokens and all(r["relative_residual_change"] == r["relative_residual_b"] - r["relative_residual_a"] for r in tokens)
assert "tokens" not in load("unfit")["tables"] and load("unfit")["tables"]["models"]
END

# ---- what is refused: before anything is opened, or by name ----
refused usage 'needs two checkpoints at least' "$models/base"
refused usage 'needs an input'
refused usage 'give inputs too' "$models/base" "$models/moved" --seq-len 8
refused not-found nowhere "$models/base" nowhere
refused not-found nowhere nowhere "$models/base"
refused not-found nowhere "$golden/forward/bert" "$golden/forward/gpt2" --tokens nowhere
refused unknown-format ids.json "$models/base" ids.json
mkdir -p empty
refused no-checkpoint empty "$models/base" empty
mkdir -p broken
cp "$models/base/config.json" broken
head -c 2000 "$models/base/model.safetensors" >broken/model.safetensors
expect 2 "$RANKSCOPE" compare "$models/base" broken
silent out
says err 'broken/model.safetensors'
if [ "$(id -u)" != 0 ]; then
    tiny_model closed
    chmod 000 closed/model.safetensors
    refused unreadable closed "$models/base" closed
    chmod 644 closed/model.safetensors
fi
tiny_model mine
refused would-overwrite-input mine before mine --json mine/model.safetensors
refused would-overwrite-input mine before mine --json mine/config.json
refused no-product 'check --layers' "$models/base" "$models/moved" --layers 5
refused bad-option --subspace "$models/base" "$models/moved" --subspace 0
refused bad-option token_collapse "$models/base" "$models/moved" --threshold token_collapse=1
expect 2 "$RANKSCOPE" compare "$models/base" "$models/moved" --memory 1K
says err '[memory-limit]'

[ "$failures" = 0 ]
