#!/bin/sh
# certify_claims.sh: what `rankscope certify` calls proved, against the same blocks in 60 digits; and what it may not call so.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

# ---- containment: blocks whose weights span many decades ----
mkdir -p block
python3 "$RS_SOURCE_DIR/tests/cli/exact_block.py" "$RANKSCOPE" 24 || note_failure "a claim is false, or of a kind that was never tried"

# ---- tokens that rounding alone tells apart: no share of such a spread is known, none is proved enough ----
cat >collapsed.json <<'END'
{"depth":60,"d_model":8,"heads":1,"kv_heads":1,"d_head":8,"seq_len":128,"mask":"causal","norm":"post","norm_kind":"rmsnorm","skip_mixer":0,
 "branch_mixer":1,"mlp":"none","init":{"wq":"normal(0, 0.0001)","wk":"normal(0, 0.0001)","wv":"identity","wo":"identity"}}
END
expect 0 "$RANKSCOPE" certify collapsed.json --random 2 --json collapsed.out --quiet
python3 - <<'END' || note_failure "kept_now and its error"
import json, re
result = json.load(open("collapsed.out"))
rows = result["tables"]["lambda"]
unknown = 0
for r in rows:
    error, why = r["kept_now_error"], r["kept_now_failed"]
    assert (error is None) == (r["kept_now"] is None) == (why is not None), r
    assert error is None or 0 <= error < float("inf"), r
    unknown += error is None
assert unknown > 5
# a state that is rounding is so behind its layer and before the next mixer
floor = {(r["sample"], r["layer"] + 1): r["at_floor"] for r in result["tables"]["bounds"]}
assert any(floor.values())
for r in rows:
    assert r["layer"] == 0 or r["at_floor"] == floor[r["sample"], r["layer"]], r
message = next(f["message"] for f in result["findings"] if f["code"] == "lambda_summary")
enough = int(re.search(r"proved enough in (\d+) of", message).group(1))
# at most the rows whose value, less its error, is enough or whose λ = 0 lies in a half line
most = sum(r["kept_now"] is not None and r["kept_now"] - r["kept_now_error"] >= 0.9 or (r["lambda_certified"] or 1) <= 0
           or (r["lambda_certified_negative"] is not None and r["lambda_certified_negative"] >= 0) for r in rows)
assert enough <= most, (enough, most)
END

# ---- a null has its reason, also where the numbers themselves are too large ----
echo '[[5,2,9,1],[4,8]]' >ids.json
for edit in "--no-norm --no-skip" "--no-norm --lambda 1e200" "--lambda 1e160" "--residual-scale 1e300" "--temperature 1e-300"; do
    for family in albert bert gpt2; do
        # shellcheck disable=SC2086 # options
        expect 0 "$RANKSCOPE" certify "$RS_SOURCE_DIR/tests/golden/forward/$family" --tokens ids.json --json one.json --quiet $edit
        python3 - <<'END' || note_failure "nulls of $family $edit"
import json
tables = json.load(open("one.json"))["tables"]
for r in tables["lambda"]:
    for name, why in (("weights_only_gain", "weights_only_gain_failed"), ("kept_now", "kept_now_failed"), ("lambda_certified", "lambda_certified_failed"),
                      ("mlp_weights_only_gain", "mlp_weights_only_gain_failed"), ("theorem_d_kept", "theorem_d_kept_failed"),
                      ("demanded_for_any_input", "any_input_failed"), ("kept_for_any_input", "any_input_failed"), ("eq7_input", "eq7_input_failed"),
                      *(("demanded_by_theorem_" + n, "theorem_%s_failed" % n) for n in ("a", "a_layer", "b", "d"))):
        assert r[name] is not None or r[why] is not None, (name, r)
for r in tables["bounds"]:
    assert r["recursion"] is not None or r["log10_recursion"] is not None or r["recursion_failed"] is not None, r
    assert r["certified_diameter"] is not None or r["log10_certified"] is not None or r["certified_failed"] is not None, r
END
    done
done

# ---- "within a tenth of what entered" is said of each sample, not of the widest ----
# a causal head looks at the first token alone where tokens are far apart, and at all alike where they are near: the wide sample collapses, the
# narrow one keeps half
mkdir -p two
python3 - <<'END'
import json, struct
wide, d = 100.0, 2
tensors = {"wte.weight": ([4, d], [wide, 0, -wide, 0, 0.05, 0, -0.05, 0]), "wpe.weight": ([4, d], [0] * 8)}
for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
    tensors[name + ".weight"], tensors[name + ".bias"] = ([d], [1] * d), ([d], [0] * d)
rows = [[0, 0, 1, 0, 1, 0], [0, 0, 0, 1, 0, 1]]  # inputs by outputs: W_Q = 0, W_K = W_V = 1
tensors["h.0.attn.c_attn.weight"] = ([d, 3 * d], sum(rows, []))
tensors["h.0.attn.c_attn.bias"] = ([3 * d], [1, 0, 0, 0, 0, 0])
tensors["h.0.attn.c_proj.weight"], tensors["h.0.attn.c_proj.bias"] = ([d, d], [1, 0, 0, 1]), ([d], [0] * d)
tensors["h.0.mlp.c_fc.weight"], tensors["h.0.mlp.c_fc.bias"] = ([d, 4 * d], [0] * 4 * d * d), ([4 * d], [0] * 4 * d)
tensors["h.0.mlp.c_proj.weight"], tensors["h.0.mlp.c_proj.bias"] = ([4 * d, d], [0] * 4 * d * d), ([d], [0] * d)
header, data = {}, b""
for name, (shape, values) in tensors.items():
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
    data += struct.pack("<%df" % len(values), *values)
head = json.dumps(header).encode()
open("two/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
json.dump({"model_type": "gpt2", "architectures": ["GPT2Model"], "n_embd": d, "n_head": 1, "n_layer": 1, "vocab_size": 4, "n_positions": 4,
           "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, open("two/config.json", "w"))
json.dump([[0, 1], [2, 3]], open("both.json", "w"))
json.dump([[0, 1]], open("wide.json", "w"))
END
for which in both wide; do
    expect 0 "$RANKSCOPE" certify two --tokens $which.json --json two.json --quiet --no-norm --no-skip --no-mlp
    python3 - $which <<'END' || note_failure "certified_collapse of $which"
import json, sys
result = json.load(open("two.json"))
codes = [f["code"] for f in result["findings"]]
assert ("certified_collapse" in codes) == (sys.argv[1] == "wide"), (codes, [(r["entering_diameter"], r["certified_diameter"]) for r in result["tables"]["bounds"]])
END
done

# ---- a sample that overflows is none for which a skip strength was found ----
python3 - <<'END'
import struct
data = bytearray(open("two/model.safetensors", "rb").read())
first = 8 + struct.unpack("<Q", data[:8])[0] + 4 * 6  # of token 3
data[first:first + 4] = struct.pack("<f", float("inf"))
open("two/model.safetensors", "wb").write(data)
END
expect 0 "$RANKSCOPE" certify two --tokens both.json --json two.json --quiet --no-norm --no-mlp --lambda 3
python3 - <<'END' || note_failure "lambda_summary beside a sample that is not finite"
import json
message = next(f["message"] for f in json.load(open("two.json"))["findings"] if f["code"] == "lambda_summary")
assert "for every layer and sample for which one was found" in message, message
END

# The digits of a skip that is called proved claim no more than the number behind them.
for kept in 0.5 0.6 0.7 0.8 0.85 0.9 0.93 0.95 0.97 0.99; do
    expect 0 "$RANKSCOPE" certify "$RS_SOURCE_DIR/tests/golden/forward/bert" --random 2 --seq-len 5 --kept $kept --json skip.json --quiet
    python3 - <<'END' || note_failure "--kept $kept: the skip is printed below what is proved"
import json, re
finding = next(f for f in json.load(open("skip.json"))["findings"] if f["code"] == "lambda_summary")
printed = float(re.search(r"a skip of λ >= (\S+) is", finding["message"]).group(1))
assert finding["value"] <= printed <= 1.001 * finding["value"], finding
END
done

# ---- what hangs on a condition is marked, named for its true reason, and never called proved ----
model=$RS_SOURCE_DIR/tests/golden/forward
echo '[[5,2,9,1],[4,8]]' >ids.json
for family in xlnet bert qwen3 gemma3 llama; do
    for rigorous in --fast --rigorous ""; do
        expect 0 "$RANKSCOPE" certify "$model/$family" --tokens ids.json --json one.json --quiet $rigorous
        python3 - "$family" "$rigorous" <<'END' || note_failure "conditions of $family $rigorous"
import json, sys
family, rigorous = sys.argv[1], sys.argv[2] != "--fast"
result = json.load(open("one.json"))
codes = {f["code"]: f["message"] for f in result["findings"]}
hangs = family == "xlnet"
twins = 0
for table in ("bounds", "lambda", "intervals"):
    for r in result["tables"][table]:
        for name in r:
            if not name.endswith("_conditional"):
                continue
            twins += 1
            value = r[name[:-len("_conditional")]]
            weights = ("weights_only_gain", "mlp_weights_only_gain", "demanded_for_any_input", "kept_for_any_input")
            if name[:-len("_conditional")] in weights or name.startswith("recursion"):
                assert not r[name], r
            elif value is not None and table != "intervals":
                assert r[name] == hangs, (family, name, r)
                assert not (hangs and rigorous), (name, r)
            elif table == "intervals":
                assert r[name] == (hangs and value != "unknown"), r
assert twins and "conditional" not in result["tables"]["bounds"][0]
for r in result["tables"]["lambda"]:
    for name in ("a", "a_layer", "b", "d"):
        assert (r["demanded_by_theorem_" + name] is None) == (r["theorem_%s_failed" % name] is not None), (name, r)
    for name, why in (("weights_only_gain",) * 2, ("mlp_weights_only_gain",) * 2, ("theorem_d_kept",) * 2, ("eq7_input",) * 2,
                      ("demanded_for_any_input", "any_input"), ("kept_for_any_input", "any_input")):
        assert (r[name] is None) == (r[why + "_failed"] is not None), (name, r)
for r in result["tables"]["summary"]:
    assert not hangs or (r["at_most"] is None and r["at_least"] is None), r
assert ("lambda_conditional" in codes) == hangs
if hangs:
    assert "relative positions" in codes["lambda_conditional"] and "QK-norm" not in codes["lambda_conditional"]
    assert "provably" not in codes["apart_summary"] and "certified_collapse" not in codes, codes
    assert "lambda_summary" not in codes
END
    done
done

finish
