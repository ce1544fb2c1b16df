#!/bin/sh
# scan --energy with --text and --write: ranks and errors that activations weigh, truncations, losses and factors against
# NumPy's decompositions and transformers in float64; what is refused, and that a disk that fills leaves nothing.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

python=
for candidate in ${RS_TORCH_PYTHON:-"$RS_SOURCE_DIR/.venv/bin/python" python3}; do
    "$candidate" -c 'import numpy, torch, transformers' 2>/dev/null && python=$candidate && break
done
[ "$python" ] || { echo "skipped: no python with PyTorch and transformers (make oracle makes one; RS_TORCH_PYTHON names another)"; exit 77; }
compression() {
    "$python" "$RS_SOURCE_DIR/tests/cli/compression.py" "$@" 2>log || { note_failure "$*"; tail -3 log; }
}
field() {
    python3 -c 'import json, sys; row = json.load(open(sys.argv[1]))["tables"][sys.argv[2]][0]; print(repr(row[sys.argv[3]]))' "$@"
}

rm -rf ./*
python3 -c '
import random
r = random.Random(1)
open("text.txt", "w").write("".join(r.choice("abcdefghijklmnopqrstuvwxyz  \n") for _ in range(1500)))'

# ---- matrices, products, fused and grouped weights, F64, F32 and BF16, one file and shards, zeros that need no number ----
for kind in gpt2 gpt2_zero llama llama_bf16; do
    compression make $kind $kind
    for energy in 0.8 0.97; do
        rm -rf written
        expect 0 "$RANKSCOPE" scan $kind --energy $energy --text text.txt --seq-len 16 --precision f64 --write written --json $kind.json
        says out "expected loss change measured"
        compression check $kind written $kind.json text.txt
        # the written checkpoint, run again
        expect 0 "$RANKSCOPE" probe written --text text.txt --seq-len 16 --precision f64 --json probe.json --quiet
        python3 -c 'import sys; sys.exit(abs(float(sys.argv[1]) - float(sys.argv[2])) > 1e-12)' "$(field probe.json loss nll)" "$(field $kind.json compression nll_truncated)" ||
            note_failure "$kind $energy: the loss of the written model"
        # it has the ranks that were asked for, but for rounding to its type
        expect 0 "$RANKSCOPE" scan written --energy 0.999 --json again.json --quiet
        python3 - $kind.json again.json <<'END' || note_failure "$kind $energy: ranks of the written model"
import json, sys
old, new = ({(r["layer"], r["matrix"], r["product"], r["head"]): r for r in json.load(open(f))["tables"]["energy"]} for f in sys.argv[1:])
cut = [k for k, r in old.items() if k[1] and r["weighted_saved"] > 0 and new[k]["rank"] <= r["weighted_rank"]]
cut += [k for k, r in old.items() if k[2] and r["weighted_saved"] > 0 and new[k]["rank"] <= r["weighted_rank"]]
assert len(cut) >= 6, cut
END
    done
done

# ---- f32, threads, the plain truncation ----
expect 0 "$RANKSCOPE" scan gpt2 --energy 0.8,0.9 --text text.txt --seq-len 16 --threads 1 --json one.json --quiet
expect 0 "$RANKSCOPE" scan gpt2 --energy 0.8,0.9 --text text.txt --seq-len 16 --threads 2 --json two.json --quiet
python3 - <<'END' || note_failure "threads"
import json
one, two = (json.load(open(f"{n}.json"))["tables"] for n in ("one", "two"))
for a, b in zip(one["energy"] + one["compression"], two["energy"] + two["compression"]):
    for name in a:
        same = abs(a[name] - b[name]) <= 1e-6 * abs(a[name]) if isinstance(a[name], float) else a[name] == b[name]
        assert same, (name, a, b)
END
expect 0 "$RANKSCOPE" scan gpt2 --energy 0.9 --write plain --json plain.json
says out "loss not measured: there is no text"
[ "$(field plain.json compression nll)$(field plain.json compression weighting)" = "None'weights'" ] || note_failure "a loss without a text"
expect 0 "$RANKSCOPE" compare gpt2 plain --quiet
"$python" - <<'END' || note_failure "plain truncations against NumPy"
import json, numpy as np
from safetensors.numpy import load_file
import glob
old, new = ({k: v for f in glob.glob(f"{d}/*.safetensors") for k, v in load_file(f).items()} for d in ("gpt2", "plain"))
rows = [r for r in json.load(open("plain.json"))["tables"]["energy"]]
done = 0
for layer in range(2):
    fused, out = f"transformer.h.{layer}.attn.c_attn.weight", f"transformer.h.{layer}.attn.c_proj.weight"
    get = lambda w: dict(zip(("W_Q", "W_K", "W_V", "W_O"), (*np.hsplit(w[fused], 3), w[out])))
    a, b = get(old), get(new)
    of = {r["matrix"] or (r["product"], r["head"]): r for r in rows if r["layer"] == layer}
    for pair, product in (("W_Q W_K".split(), "qk"), ("W_V W_O".split(), "ov")):
        by = {"m": sum(of[n]["parameters_saved"] for n in pair), "p": sum(of[product, h]["parameters_saved"] for h in range(3))}
        for n in pair if by["m"] >= by["p"] else []:
            if of[n]["parameters_saved"] > 0:
                u, s, v = np.linalg.svd(a[n], full_matrices=False)
                k = of[n]["rank"]
                assert np.linalg.norm(b[n] - (u[:, :k] * s[:k]) @ v[:k]) <= 1e-12 * np.linalg.norm(a[n]), n
                done += 1
        for h in range(3) if by["m"] < by["p"] else []:
            c = slice(16 * h, 16 * h + 16)
            m = lambda w: w[pair[0]][:, c] @ (w[pair[1]][:, c].T if product == "qk" else w[pair[1]][c])
            u, s, v = np.linalg.svd(m(a), full_matrices=False)
            k = of[product, h]["rank"] if of[product, h]["parameters_saved"] > 0 else 16
            assert np.linalg.norm(m(b) - (u[:, :k] * s[:k]) @ v[:k]) <= 1e-12 * np.linalg.norm(m(a)), (product, h)
            done += 1
for name in old:  # all else is what it was, bit for bit
    assert ".attn.c_" in name and name.endswith("weight") or np.array_equal(old[name], new[name]), name
assert done >= 6, done
END

# ---- weights that layers share are cut once; a head that does not predict has no loss ----
compression make albert albert
expect 0 "$RANKSCOPE" scan albert --energy 0.8 --text text.txt --seq-len 16 --write tied --json tied.json
[ "$(field tied.json compression reason)" = "'its head does not predict the next token'" ] || note_failure "no reason for no loss"
[ "$(field tied.json compression parameters)" = 9216 ] || note_failure "tied weights are counted more than once"
expect 0 "$RANKSCOPE" scan tied --energy 0.99999 --json again.json --quiet
[ "$(field again.json compression parameters_left)" = "$(field tied.json compression parameters_left)" ] || note_failure "what was written has other ranks"

# ---- factors of fused, interleaved, grouped, gated and state-space weights ----
for name in falcon gpt_neox phi3 gemma2 qwen3_bias bert mamba2 nemotron_h qwen3_next; do
    rm -rf written
    expect 0 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/forward/$name" --energy 0.7 --write written --quiet
    compression factors "$RS_SOURCE_DIR/tests/golden/forward/$name" written
done

# ---- refused, with nothing written ----
refused_by scan would-overwrite-input "the model's own folder" gpt2 --energy 0.9 --write gpt2
refused_by scan would-overwrite-input "has files already" gpt2 --energy 0.9 --write plain
refused_by scan usage "2 are given" gpt2 --energy 0.8,0.9 --write new
refused_by scan usage "0 are given" gpt2 --write new
refused_by scan usage "weighs the ranks of --energy" gpt2 --text text.txt
# activations that are NaN, or beyond float32 where the weights are finite
python3 - <<'END'
import json, os, shutil, struct
for name, tensor, value in (("nan", "layers.1.self_attn.q_proj.weight", float("nan")), ("huge", "layers.0.mlp.down_proj.weight", 3e38)):
    shutil.copytree("llama", name)
    with open(f"{name}/model.safetensors", "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), None
        data = bytearray(f.read())
    found = next(t for n, t in header.items() if n.endswith(tensor))
    begin, end = found["data_offsets"]
    for at in range(begin, begin + 4 if name == "nan" else end, 4):
        struct.pack_into("<f", data, at, value)
    text = json.dumps(header).encode()
    open(f"{name}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
END
for name in nan huge; do
    expect 1 "$RANKSCOPE" scan $name --energy 0.9 --text text.txt --seq-len 16 --write lost --quiet
    says err 'layer 1: what its mixer' && says err 'not-finite' && says err 'rankscope probe'
    [ ! -e lost ] || note_failure "$name: failed, and a folder is left"
done
expect 0 "$RANKSCOPE" scan huge --energy 0.9 --text text.txt --seq-len 16 --precision f64 --quiet
refused_by scan usage "norms" gpt2 --energy 0.9 --text text.txt --fold-norms
refused_by scan usage "biases" gpt2 --energy 0.9 --text text.txt --with-bias
refused_by scan usage "other matrices" gpt2 --energy 0.9 --write new --with-bias
refused_by scan usage "about a text" gpt2 --energy 0.9 --samples 2
refused_by scan unsupported "a GGUF file is not written" "$RS_SOURCE_DIR/tests/golden/forward/gpt2_gguf/model.gguf" --energy 0.9 --write new
expect 0 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/forward/gpt2_gguf/model.gguf" --energy 0.9 --quiet --json gguf.json
(
    ulimit -f 8
    trap '' XFSZ
    expect 1 "$RANKSCOPE" scan gpt2 --energy 0.9 --write new
    says err "nothing was written"
    exit $failures
) || failures=$((failures + 1))
expect 1 "$RANKSCOPE" scan gpt2 --energy 0.9 --write new --json nowhere/a.json
[ ! -e new ] || note_failure "a folder was left: $(ls new)"
finish
