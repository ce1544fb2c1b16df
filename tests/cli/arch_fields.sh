#!/bin/sh
# arch_fields.sh: parallel blocks, absent maps, sine and sigmoid, correlations below zero and fusions of architecture files, through
# the commands: what each says of them, drawn, saved and trained. The numbers are held against PyTorch in loader.sh.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
: "${SAVED_NETWORK:?}"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf ./*

check() { # check RESULT.json PYTHON: an assertion over its tables t
    python3 - "$1" "$2" <<'END' || note_failure "$2"
import json, sys
r = json.load(open(sys.argv[1]))
t = r["tables"]
assert eval(sys.argv[2]), {n: rows[:2] for n, rows in t.items()}
END
}
same() { # same NAME COMMAND...: of the file and of the folder that it was saved as
    name=$1 command=$2
    shift 2
    expect 0 "$RANKSCOPE" "$command" "$name.json" --init default --seed 5 "$@" --json drawn.out --quiet
    expect 0 "$RANKSCOPE" "$command" "$name" --seed 5 "$@" --json saved.out --quiet
    python3 -c 'import json; a, b = (json.load(open(f))["tables"] for f in ("drawn.out", "saved.out")); assert a and a == b' ||
        note_failure "$name: $command says other things of the saved network"
}

# ---- every command, of the file and of the folder ----
arch parallel '"depth": 3, "seq_len": 6, "block": "parallel", "norm": "sandwich", "mlp": "sin", "mask": "causal", "vocab": 9, "skip_mlp": [1, 0.5, 1]'
arch absent '"depth": 3, "seq_len": 6, "init": {"wv": "identity", "wo": "identity"}, "mlp": "sigmoid", "bias": true, "fusion": "max", "input": {"rho": "-1/(n-1)"}'
arch tempered '"depth": 3, "seq_len": 6, "mixer": ["attention", "linear_attention", "attention"], "temperature": "0.5+l", "vocab": 9'
for name in parallel absent tempered; do
    expect 0 "$SAVED_NETWORK" save "$name.json" 5 f32 "$name"
    same "$name" probe --random 2 --variants full,san
    same "$name" probe --random 2 --grad
    same "$name" probe --random 2 --grad --precision residual
    same "$name" certify --random 2
    same "$name" paths --random 2
    expect 0 "$RANKSCOPE" scan "$name" --json "$name.scan" --quiet
done

# ---- absent maps: no weights, no gradients, no product with them ----
check parallel.scan '{h["product"] for h in t["heads"]} == {"qk", "ov"}'
check absent.scan '{h["product"] for h in t["heads"]} == {"qk"}'
expect 0 "$RANKSCOPE" probe absent --random 2 --grad --json absent.grad --quiet
check absent.grad '{"mixer.q.weight", "mixer.k.weight", "mixer.q.bias", "mixer.k.bias", "mixer.skip", "mixer.scale"} == {g["parameter"] for g in t["gradients"] if g["parameter"].startswith("mixer.")}'
check absent.grad '"gradient_ratios" not in t'
python3 - <<'END' || note_failure "weights of the saved network"
import json, struct
data = open("absent/model.safetensors", "rb").read()
names = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
assert not [n for n in names if ".v." in n or ".o." in n], names
assert json.load(open("absent/config.json"))["arch"]["init"] == {"wv": "identity", "wo": "identity"}
END
# the same forward as the law of ones, which another mixer's map of that role may still be drawn by
arch drawn '"depth": 2, "seq_len": 6, "init": {"wv": "identity"}, "kv_heads": 1, "d_head": 16'
refused_by probe architecture-schema '"kv_heads" x "d_head" is 16' drawn.json --init default --random 2

# ---- inputs: simplexes, fewer tokens than the file has, more than their correlation allows ----
expect 0 "$RANKSCOPE" probe absent.json --init default --random 2 --json apart.out --quiet
check apart.out 'abs([r for r in t["tokens"] if r["layer"] == 0][0]["relative_residual"] - 1) < 1e-6'
arch far '"depth": 2, "seq_len": 3, "input": {"rho": -0.5}'
expect 0 "$RANKSCOPE" probe far.json --init default --random 2 --seq-len 2 --quiet
refused_by probe architecture-schema "of 4 tokens the mean correlation" far.json --init default --random 2 --seq-len 4

# ---- fusion: the row that --fusion adds ----
arch fused '"depth": 2, "seq_len": 5, "fusion": "concat"'
arch single '"depth": 2, "seq_len": 5'
expect 0 "$RANKSCOPE" probe fused.json --init default --random 2 --json fused.out --quiet
expect 0 "$RANKSCOPE" probe single.json --init default --random 2 --fusion concat --json single.out --quiet
expect 0 "$RANKSCOPE" probe fused.json --init default --random 2 --fusion max --json other.out --quiet
check fused.out 't["tokens"] == json.load(open("single.out"))["tables"]["tokens"] and t["tokens"][-1]["site"] == "fusion_concat"'
check other.out '[r["site"] for r in t["tokens"] if "fusion" in r["site"]] == ["fusion_max"]'

# ---- a temperature a layer: the numbers of one are those of a list that repeats it ----
arch warm '"depth": 3, "seq_len": 6, "mlp": "relu", "temperature": 0.3'
arch listed '"depth": 3, "seq_len": 6, "mlp": "relu", "temperature": [0.3, "0.3", 0.3]'
alike() { # alike COMMAND...: of both files
    tool=$1
    shift
    for name in warm listed; do
        expect 0 "$RANKSCOPE" "$tool" "$name.json" "$@" --json "$name.out" --quiet
    done
    # a list fits one depth alone, and so the answers of predict about others are not the same
    python3 -c 'import json; a, b = (json.load(open(f))["tables"] for f in ("warm.out", "listed.out")); assert len(a) > 1 and all(a[t] == b[t] for t in a if t != "answers")' ||
        note_failure "$tool says other things of a list of one temperature"
}
alike probe --init default --random 2 --grad
alike certify --init default --random 2
alike predict
arch cold '"depth": 3, "temperature": "2-l"'
refused_by probe architecture-schema '"temperature" of layer 2 is 0' cold.json --init default --random 2

# ---- what is refused ----
refused_by probe unsupported "sigmoid(a)/a" absent --random 2 --relevance --precision f64
refused_by probe unsupported "--grad" absent --random 2 --relevance --precision f64
arch gated '"depth": 2, "seq_len": 5, "mlp": "sin"'
expect 0 "$RANKSCOPE" probe gated.json --init default --random 2 --relevance --precision f64 --json sin.out --quiet
check sin.out 'all(c["deviation"] < 1e-12 for c in t["conservation"])'

# ---- training: absent maps stay absent, and the folder opens ----
cat >task.json <<'END'
{"task": "reversal", "data": {"length": 6, "symbols": 5}, "steps": 12, "batch": 4, "seed": 3, "log_every": 4, "rank_every": 4,
 "trainable": ["skips", "branches"], "optimizer": {"product_penalty": 0.01},
 "model": {"depth": 2, "d_model": 8, "heads": 2, "mlp_width": 12, "norm": "pre", "block": "parallel", "mlp": "sin",
  "init": {"wo": "identity"}}}
END
expect 0 "$RANKSCOPE" train task.json --out run --quiet
expect 0 "$RANKSCOPE" scan run --quiet
expect 0 "$RANKSCOPE" certify run --random 2 --quiet
python3 - <<'END' || note_failure "what was trained"
import json
arch = json.load(open("run/config.json"))["arch"]
assert arch["block"] == "parallel" and arch["init"] == {"wo": "identity"} and arch["fusion"] == "none"
assert max(abs(s - 1) for s in arch["skip_mlp"]) > 0  # trained, and opened again above
END
finish
