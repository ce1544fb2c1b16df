#!/bin/sh
# probe_residual.sh: `rankscope probe --precision residual`: collapse far below every double.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
forward=$RS_SOURCE_DIR/tests/golden/forward

# check EXPRESSION: true of the result in r.json; `rows` are those of table tokens, `found` the findings by code.
check() {
    python3 - "$1" <<'END' || note_failure "not so: $1"
import json, math, struct, sys
result = json.load(open("r.json"))
rows = result["tables"]["tokens"]
outs = [r for r in rows if r["site"] == "block_out"]
found = {f["code"]: f for f in result["findings"]}
sys.exit(not eval(sys.argv[1]))
END
}

# ---- the published panel at random weights, whose float32 stops at 1e-7: dong2021's SAN in BERT-base, measured further ----
mkdir bert
cat >bert/config.json <<'END'
{"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
 "intermediate_size": 3072, "hidden_act": "gelu", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
 "layer_norm_eps": 1e-12, "initializer_range": 0.02}
END
expect 0 "$RANKSCOPE" probe bert/config.json --init default --random 2 --seq-len 48 --variants san --precision residual --no-attention \
    --json r.json --html r.html
says out "10^-"
# one more or one fewer token moves the start a little, and each layer triples what that does
check "[r['layer'] for r in outs] == list(range(13))"
check "all(abs(outs[l + 1]['log10_residual_fro'] / outs[l]['log10_residual_fro'] - 3) < 0.02 for l in range(6, 12))"
check "-430000 < outs[12]['log10_relative_residual_1inf'] < -330000 and outs[12]['relative_residual_1inf'] == 0"
check "-7.5 < outs[2]['log10_relative_residual_1inf'] < -5 and abs(math.log10(outs[2]['relative_residual']) - outs[2]['log10_relative_residual']) < .1"
check "not any(r['at_floor'] for r in rows) and 'token_collapse' in found"
check "outs[12]['log10_relative_residual_min'] <= outs[12]['log10_relative_residual'] <= outs[12]['log10_relative_residual_max']"
check "outs[12]['log10_one_minus_cosine'] < 2 * outs[12]['log10_relative_residual'] + 10 and outs[12]['mean_cosine'] == 1"

# ---- every family of the goldens: the same numbers as float64 while there is no collapse ----
for family in bert llama gpt2 xlnet gemma3 olmo2 falcon mamba falcon_mamba mamba2 bamba jamba granite_hybrid; do
    for precision in f64 residual; do
        expect 0 "$RANKSCOPE" probe "$forward/$family" --random 3 --seq-len 8 --precision $precision --json $precision.json
    done
    python3 - <<'END' || note_failure "$family: residual and f64 differ"
import json, sys
def numbers(path):
    tables = json.load(open(path))["tables"]
    out = {}
    for name in ("tokens", "attention"):
        for i, row in enumerate(tables[name]):
            for column, value in row.items():
                out[name, i, column] = value
    return out
a, b = numbers("f64.json"), numbers("residual.json")
bad = [(k, v, b[k]) for k, v in a.items() if isinstance(v, float) and abs(v - b[k]) > 1e-7 * max(1, abs(v))]
print(bad[:5])
sys.exit(bool(bad) or len(a) < 100)
END
done

# ---- residuals that are exactly zero, and beyond the count ----
echo '[[5], [7]]' >one.json
expect 0 "$RANKSCOPE" probe "$forward/gpt2" --tokens one.json --precision residual --json r.json
check "found['residual_exactly_zero']['value'] == 2"
check "all(r['relative_residual'] == 0 and r['log10_relative_residual'] is None for r in rows)"
cat >arch.json <<'END'
{"depth": 60, "d_model": 16, "heads": 2, "kv_heads": 2, "d_head": 8, "seq_len": 8, "vocab": null, "mixer": "attention", "norm": "none",
 "skip_mixer": 0, "mlp": "none"}
END
expect 0 "$RANKSCOPE" probe arch.json --init default --random 2 --precision residual --no-attention --json r.json
says out "2^-2^61"
check "found['residual_beyond_exponents']['layer'] > 30 and outs[60]['log10_residual_fro'] is None and outs[60]['residual_fro'] == 0"
check "outs[30]['log10_residual_fro'] < -1e13"

# Attention that is all but sure of keys of equal values leaves what no double holds beside them: not zero, and it is never
# called so; equal tokens stay equal whatever their positions.
pure="--depth 30 --no-skip --no-mlp --no-norm --precision residual --no-attention"
echo '[[1,2,3,4,5]]' >five.json
echo '[[3,3,3,3,3]]' >same.json
# shellcheck disable=SC2086  # words
expect 0 "$RANKSCOPE" probe "$forward/llama" --tokens five.json $pure --json r.json
check "'residual_exactly_zero' not in found and found['residual_beyond_exponents']['layer'] == 22"
check "outs[20]['log10_residual_fro'] is not None and outs[25]['log10_residual_fro'] is None and outs[25]['norm_fro'] > 1e5"
# shellcheck disable=SC2086  # words
expect 0 "$RANKSCOPE" probe "$forward/llama" --tokens same.json $pure --json r.json
check "'residual_beyond_exponents' not in found and found['residual_exactly_zero']['value'] == 1"

# ---- tokens whose size leaves the doubles: a skip of 20 around a mixer that norms what it reads ----
expect 0 "$RANKSCOPE" probe "$forward/mamba2" --random 2 --seq-len 8 --precision residual --no-attention --lambda 20 --depth 64 --json r.json
check "83 < outs[64]['log10_norm_fro'] < 85 and abs(math.log10(outs[64]['norm_fro']) - outs[64]['log10_norm_fro']) < .1"
check "'size_beyond_doubles' not in found and not any(r['at_floor'] for r in rows)"
expect 0 "$RANKSCOPE" probe "$forward/mamba2" --random 2 --seq-len 8 --precision residual --no-attention --lambda 20 --depth 300 --json r.json \
    --taps t.safetensors
check "found['size_beyond_doubles']['layer'] in (234, 235, 236, 237) and 'nonfinite_activation' not in found"
check "all(abs(b['log10_norm_fro'] - a['log10_norm_fro'] - math.log10(20)) < 1e-6 for a, b in zip(outs[20:], outs[21:]))"
check "outs[300]['norm_fro'] is None and abs(outs[300]['relative_residual'] - outs[100]['relative_residual']) < 1e-12"
python3 - <<'END' || note_failure "the scale is not in the taps"
import json, struct, sys
data = open("t.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
def scale(state):
    begin, end = header["layer.%d.block_out.scale" % state]["data_offsets"]
    return struct.unpack("<2q", data[8 + size + begin:8 + size + end])
sys.exit(not (scale(100) == (0, 0) and all(1290 < s < 1310 for s in scale(300))))
END
expect 0 "$RANKSCOPE" probe "$forward/mamba" --random 2 --seq-len 8 --precision residual --no-attention --variants pure --depth 300 --json r.json
check "outs[300]['norm_fro'] == 0 and -500 < outs[300]['log10_norm_fro'] < -330 and 0.9 < outs[300]['relative_residual'] < 1"

# ---- a state and what it is made of ----
expect 0 "$RANKSCOPE" probe "$forward/bert" --random 3 --seq-len 8 --precision residual --no-attention --taps t.safetensors --output o.safetensors
python3 - <<'END' || note_failure "the taps do not fit together"
import json, math, struct, sys
data = open("t.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
def read(name):
    entry = header[name]
    begin, end = entry["data_offsets"]
    count = (end - begin) // 8
    return struct.unpack("<%d%s" % (count, "q" if entry["dtype"] == "I64" else "d"), data[8 + size + begin:8 + size + end]), entry["shape"]
for state in ("layer.0.block_out", "layer.1.mixer_out", "layer.2.block_out"):
    (x, shape), (base, _), (m, _), (e, _) = (read(state + part) for part in ("", ".base", ".residual", ".exponent"))
    samples, n, d = shape
    for s in range(samples):
        for i in range(n * d):
            value = base[s * d + i % d] + math.ldexp(m[s * n * d + i], e[s])
            if abs(value - x[s * n * d + i]) > 1e-15 * abs(value) + 1e-300:
                sys.exit(1)
END
# A state whose squares leave the range of doubles is measured as float64 measures it.
echo '{"depth":1,"d_model":16,"heads":2,"seq_len":8,"skip_mixer":1e160}' >huge.json
for precision in f64 residual; do
    expect 0 "$RANKSCOPE" probe huge.json --init default --random 1 --precision $precision --quiet --json $precision.json
done
python3 - <<'END' || note_failure "a state of size 1e161 is measured otherwise than in float64"
import json
wide, split = (json.load(open(name + ".json"))["tables"]["tokens"] for name in ("f64", "residual"))
for a, b in zip(wide, split):
    for name in ("norm_fro", "residual_fro", "relative_residual", "mean_cosine", "diameter", "effective_rank", "row_normalised_mu"):
        assert abs(a[name] - b[name]) <= 1e-12 * abs(a[name]), (name, a[name], b[name])
END

# Norms of such states: a skip of 1e10 multiplies them, the normed state stays of its size.
expect 0 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/forward/llama" --random 1 --seq-len 4 --lambda 1e10 --depth 12 --quiet --precision f64 --json f64.json
expect 0 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/forward/llama" --random 1 --seq-len 4 --lambda 1e10 --depth 12 --quiet --precision residual --json residual.json
python3 - <<'END' || note_failure "the norm of a state of size 1e160 is not that of its direction"
import json
for name in ("f64", "residual"):
    rows = [r for r in json.load(open(name + ".json"))["tables"]["tokens"] if r["site"] == "mixer_out"]
    for late, early in zip(rows[8:], rows[6:]):
        assert abs(late["norm_fro"] / early["norm_fro"] - 1) < 1e-6, (name, late, early)
END

# An activation whose slope is below every double: what it leaves is not 0, and not known.
cp -r "$RS_SOURCE_DIR/tests/golden/forward/bert" drowned && chmod -R u+w drowned
python3 - <<'END'
import json, struct
path = "drowned/model.safetensors"
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
for name, entry in json.loads(data[8:8 + size]).items():
    if name.endswith("intermediate.dense.bias"):
        assert entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        data[8 + size + begin:8 + size + end] = struct.pack("<f", -45) * ((end - begin) // 4)
open(path, "wb").write(data)
END
expect 0 "$RANKSCOPE" probe drowned --random 1 --seq-len 4 --precision residual --lambda mlp:0 --no-norm --depth 1
says out "residual_beyond_exponents"
grep -q "residual_exactly_zero" out && note_failure "a residual below every double is called zero"

# Logits beyond what integers count.
echo '[[1,2,3,4,5],[2,2,2,2,2],[3]]' >deep.json
expect 0 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/forward/llama" --tokens deep.json --depth 200 --no-skip --no-mlp --no-norm \
    --precision residual --quiet --json deep_out.json

# ---- plain linear attention of the tokens themselves: tokens s times as large leave layer l s^(3^l) times as large ----
for s in 1 4; do
    cat >linear.json <<END
{"depth": 9, "d_model": 8, "heads": 1, "seq_len": 6, "mixer": "linear_attention", "value_map": "identity", "mask": "causal",
 "mlp": "none", "norm": "none", "skip_mixer": 0, "init": {"wo": "none"}, "input": {"norm2": "d*$s"}}
END
    expect 0 "$RANKSCOPE" probe linear.json --init default --random 1 --precision residual --quiet --json r.json
    [ "$s" = 1 ] && mv r.json ones.json
done
check "[abs((a['log10_norm_fro'] - b['log10_norm_fro']) / (math.log10(2) * 3 ** a['layer']) - 1) < 1e-12 and \
abs(a['relative_residual'] / b['relative_residual'] - 1) < 1e-12 and b['relative_residual'] > 0.5 for a, b in zip(outs, \
[r for r in json.load(open('ones.json'))['tables']['tokens'] if r['site'] == 'block_out'])] == [True] * 10"
check "outs[9]['log10_norm_fro'] > 9000"

finish
