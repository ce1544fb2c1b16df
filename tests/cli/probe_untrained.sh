#!/bin/sh
# probe_untrained.sh: what every network shows before its training is no warning about it, whether the program drew the weights or a
# checkpoint holds them; weights that have decayed are one.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

# A GPT-2 with weights as its library draws them, by NumPy-free Python: normal(0, range), residual outputs by range/sqrt(2 layers).
make_gpt2() {
    python3 - "$1" "$2" <<'END'
import array, json, math, os, random, struct, sys
folder, shrink = sys.argv[1], float(sys.argv[2])
L, H, d, vocab, n, std = 3, 4, 128, 400, 64, 0.06
os.makedirs(folder, exist_ok=True)
json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": L, "n_head": H, "n_embd": d, "n_positions": n,
           "vocab_size": vocab, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": std}, open(f"{folder}/config.json", "w"))
rng, header, blob = random.Random(7), {}, bytearray()
def put(name, shape, values):
    a = array.array("f", values)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(blob), len(blob) + 4 * len(a)]}
    blob.extend(a.tobytes())
def normal(name, shape, s):
    put(name, shape, (rng.gauss(0, s) for _ in range(math.prod(shape))))
normal("wte.weight", [vocab, d], std)
normal("wpe.weight", [n, d], std)
for l in range(L):
    p = f"h.{l}."
    for norm in ("ln_1", "ln_2"):
        put(p + norm + ".weight", [d], [1] * d)
        put(p + norm + ".bias", [d], [0] * d)
    q = [[rng.gauss(0, std) * (shrink if l == 1 and c < 2 * d else 1) for c in range(3 * d)] for _ in range(d)]
    put(p + "attn.c_attn.weight", [d, 3 * d], [x for row in q for x in row])
    put(p + "attn.c_attn.bias", [3 * d], [0] * (3 * d))
    normal(p + "attn.c_proj.weight", [d, d], std / math.sqrt(2 * L))
    put(p + "attn.c_proj.bias", [d], [0] * d)
    normal(p + "mlp.c_fc.weight", [d, 4 * d], std)
    put(p + "mlp.c_fc.bias", [4 * d], [0] * (4 * d))
    normal(p + "mlp.c_proj.weight", [4 * d, d], std / math.sqrt(2 * L))
    put(p + "mlp.c_proj.bias", [d], [0] * d)
put("ln_f.weight", [d], [1] * d)
put("ln_f.bias", [d], [0] * d)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(f"{folder}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + blob)
END
}

# check RESULT.json PYTHON: an assertion over result r, findings by code f, rows of table attention a.
check() {
    python3 - "$1" "$2" <<'END' || note_failure "$2"
import json, sys
r = json.load(open(sys.argv[1]))
f = {}
for x in r["findings"]:
    f.setdefault(x["code"], []).append(x)
a = r["tables"]["attention"]
assert eval(sys.argv[2]), (sorted(f), a[0])
END
}

make_gpt2 untrained 1
make_gpt2 decayed 0.1
cp -r untrained drawn
rm drawn/model.safetensors

expect 0 "$RANKSCOPE" probe untrained --random 8 --seq-len 64 --json untrained.json --quiet
check untrained.json 'all(x["severity"] == "info" for c in f for x in f[c])'
check untrained.json '"uniform_attention" not in f and len(f["untrained_attention"]) == 1'
# the law of the logits, which no measure here went into: mean over the heads of a layer, on the tokens that were measured
check untrained.json 'all(abs(sum(x["logit_variance"] / x["logit_variance_null"] for x in a if x["layer"] == l) / 4 - 1) < 0.25 for l in range(3))'
check untrained.json 'all(abs(x["spectral_gap_null"] - 0.5) < 1e-15 and abs(x["first_token_weight_null"] - sum(1 / i for i in range(1, 65)) / 64) < 1e-12 for x in a)'

# weights drawn by the program
expect 0 "$RANKSCOPE" probe drawn --init default --random 2 --seq-len 64 --json drawn.json --quiet --fail-on warn
check drawn.json '"uniform_attention" not in f and "untrained_attention" in f'

# query and key weights a tenth as large: a hundredth of the logits, squared
expect 3 "$RANKSCOPE" probe decayed --random 4 --seq-len 64 --json decayed.json --quiet --fail-on warn
check decayed.json '{x["layer"] for x in f["uniform_attention"]} == {1} and f["uniform_attention"][0]["severity"] == "warn"'

# the untrained twin is what --init default draws with the same seed, over the same inputs
echo '[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]]' >ids.json
expect 0 "$RANKSCOPE" probe decayed --tokens ids.json --seed 5 --null random --json twin.json --quiet
expect 0 "$RANKSCOPE" probe drawn --init default --tokens ids.json --seed 5 --json own.json --quiet
python3 - <<'END' || note_failure "--null random"
import json
twin, own = (json.load(open(p))["tables"]["attention"] for p in ("twin.json", "own.json"))
for a, b in zip(twin, own):
    for name in ("entropy", "logit_variance", "spectral_gap", "dobrushin", "self_weight", "first_token_weight"):
        assert a[name + "_null"] == b[name], (name, a, b)
END
# sharp logits of drawn weights give much to the first token by chance: that is no sink, and no entry of P - U is a share of a head's weight
echo '{"depth": 2, "d_model": 64, "heads": 8, "seq_len": 16, "mask": "sliding:3", "temperature": 0.01}' >sharp.json
expect 0 "$RANKSCOPE" probe sharp.json --init default --random 1 --json sharp_r.json --quiet
check sharp_r.json '"attention_sink" not in f and "give the first token much of their weight" in f["untrained_attention"][0]["message"]'
expect 0 "$RANKSCOPE" probe untrained --random 1 --seq-len 64 --attention-rescale 500 --json rescaled.json --quiet
check rescaled.json 'any(x["first_token_weight"] > 1 for x in a) and "attention_sink" not in f'
refused_by probe usage "leave out --no-attention" decayed --tokens ids.json --null random --no-attention
refused_by probe bad-option "there is no null" decayed --tokens ids.json --null other
finish
