#!/bin/sh
# The program of `train --show-loader` against the engine: a network of every mixer, and every setting that the loader
# knows, drawn, saved and run by both, in PyTorch alone.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
: "${SAVED_NETWORK:?}"

python=
for candidate in ${RS_TORCH_PYTHON:-"$RS_SOURCE_DIR/.venv/bin/python" python3}; do
    "$candidate" -c 'import torch' 2>/dev/null && python=$candidate && break
done
[ "$python" ] || { echo "skipped: no python with PyTorch (make oracle makes one; RS_TORCH_PYTHON names another)"; exit 77; }

"$SAVED_NETWORK" loader >loader.py || note_failure "no loader"
cmp -s loader.py "$RS_SOURCE_DIR/src/network/loader.py" || note_failure "the loader is not src/network/loader.py"
! grep -nE '^ *(import|from) ' loader.py | grep -vE 'import (ast|json|math|os|sys|torch|torch\.nn\.functional as F)$' ||
    note_failure "the loader needs more than PyTorch"

SAVED_NETWORK=$SAVED_NETWORK "$python" - <<'PY' || failures=$((failures + 1))
import json, math, os, random, struct, subprocess, sys
sys.path.insert(0, ".")
import torch
import loader

torch.set_num_threads(1)
tool = os.environ["SAVED_NETWORK"]
N = 9
rng = random.Random(3)

def npy(name, shape, numbers):
    head = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<%dd" % len(numbers), *numbers))

edges = [[float(rng.random() < 0.5) * rng.randint(1, 4) for _ in range(N)] for _ in range(N)]
for i in range(N):
    for j in range(i):
        edges[i][j] = edges[j][i]
    edges[N - 1][i] = edges[i][N - 1] = 0.0  # a node that reads nothing
npy("edges.npy", (N, N), [w for row in edges for w in row])
npy("signed.npy", (N, N), [rng.gauss(0, 1) for _ in range(N * N)])
npy("states.npy", (N, 12), [rng.gauss(0, 1) for _ in range(N * 12)])

base = dict(depth=3, d_model=12, heads=4, d_head=4, vocab=11, seq_len=20, state=5, conv=3, mlp_width=17)
cases = [dict()]
cases += [dict(mixer=m) for m in ("mamba", "mamba2", "s4d", "gated_recurrence", "gated_delta", "short_conv", "linear_attention")]
# attention
cases += [dict(attention=a, mask=m, kv_heads=2) for a in ("uniform", "centred", "shaped", "rescaled") for m in ("none", "causal", "sliding:3")]
cases += [dict(positions=p, mask=m, temperature=1.7, kv_heads=2) for p in ("learned", "rope", "alibi", "relative") for m in ("none", "causal")]
cases += [dict(temperature=[1.7, "l+1/3", 0.4], positions=p) for p in ("none", "alibi")] + [dict(temperature="1/(l+1)", share_layers=True)]
cases += [dict(mixer="linear_attention", temperature="sqrt(l+2)", share_layers=s) for s in (True, False)]
cases += [dict(positions="rope", d_head=6), dict(positions="alibi", heads=6, d_head=2), dict(positions="relative", seq_len=5)]
cases += [dict(attention="shaped", shaped=[[1, 0.5, 0.25], [0.1, 2, 0], ["1/3", 1, 1]]), dict(attention="shaped", shaped=[1.5, "1/2", 0.25])]
cases += [dict(attention="rescaled", rescale=0.3), dict(init={"wo": "none"}), dict(init={"wo": "none"}, kv_heads=2)]
# blocks
cases += [dict(norm=n, norm_kind=k, mixer=["attention", "mamba2", "gated_delta"]) for n in ("none", "pre", "post", "sandwich") for k in ("layernorm", "rmsnorm")]
cases += [dict(mlp=m) for m in ("none", "linear", "relu", "gelu_tanh", "swiglu", "sin", "sigmoid")]
cases += [dict(block="parallel", norm=n, norm_affine="gain", mixer=m, skip_mlp=s) for n in ("none", "pre", "sandwich") for m in ("attention", "mamba2") for s in (1, [0.5, 2, -1])]
cases += [dict(block="parallel", share_layers=True, branch_mixer=[1, 0, 2], branch_mlp=[0, 1, 1]), dict(block="parallel", mlp="swiglu", bias=True)]
cases += [dict(skip_mixer="1/(l+1)", skip_mlp=[1, 0.5, -0.25], branch_mixer="1/sqrt(L)", branch_mlp=[0.1, 0, 2]), dict(branch_mixer=0, norm="sandwich")]
cases += [dict(share_layers=True, skip_mixer=[1, 0.5, 2]), dict(share_layers=True, mixer="mamba")]
# state spaces
cases += [dict(mixer=m, gate=g, inner_norm=i, d_head=2, conv=1) for m in ("mamba", "mamba2", "gated_delta", "gated_recurrence")
          for g in ("before", "after", "none") for i in (True, False)]
cases += [dict(mixer="mamba2", groups=2), dict(mixer="gated_delta", kv_heads=2), dict(mixer="short_conv", d_head=5, conv=6)]
cases += [dict(mixer="s4d", state=7, dt_init=[0.01, 1])]
cases += [dict(mixer="linear_attention", mask=m, gate=g, inner_norm=i, kv_heads=2) for m in ("none", "causal") for g in ("before", "after", "none") for i in (True, False)]
cases += [dict(mixer="linear_attention", feature_map="elu", normalised=True, without_self=w, mask=m, temperature=2.5, norm="none")
          for w in (True, False) for m in ("none", "causal")]
cases += [dict(mixer="linear_attention", mask="causal", decay=d) for d in ("retnet", 0.5, [1, 0.9, 0, 0.25])]
cases += [dict(mixer="linear_attention", value_map="identity", init=i, mask="causal", decay=0.9) for i in ({}, {"wo": "none"})]
cases += [dict(mixer="linear_attention", init={"wo": "none"})]
# absent maps
cases += [dict(d_head=3, heads=4, kv_heads=k, init=dict(wv=v, wo=o), bias=True, mask=m, mlp="none") for k, v, o in
          ((4, "identity", "identity"), (4, "identity", "orthogonal"), (2, "orthogonal", "identity"), (2, "identity", "none"), (4, "identity", "none")) for m in ("none", "causal")]
cases += [dict(d_head=6, heads=4, kv_heads=2, init=dict(wv="identity"))]
cases += [dict(mixer="linear_attention", d_head=3, init=i) for i in (dict(wv="identity", wo="identity"), dict(wv="identity", wo="none"), dict(wo="identity"))]
cases += [dict(mixer=m, d_head=3, init=dict(wo="identity", wv="identity")) for m in ("mamba", "mamba2", "gated_delta", "gated_recurrence", "short_conv", "s4d")]
# graphs
graph = dict(mixer="graph", seq_len=N, d_head=3)
cases += [dict(graph, graph=dict(file="edges.npy", form=f), value_map=v, init=i) for f in ("row", "symmetric")
          for v in ("free", "identity") for i in ({}, {"wo": "none"})]
cases += [dict(graph, graph=dict(file="edges.npy")), dict(graph, graph=dict(file="signed.npy", form="given"), positions="learned")]
cases += [dict(graph, graph=dict(file="edges.npy", form="attention"), temperature=0.7, value_map=v, init=i) for v in ("free", "identity") for i in ({}, {"wo": "none"})]
cases += [dict(graph, graph=dict(file="edges.npy", form="attention"), temperature=[0.7, 2, "1/3"], share_layers=s) for s in (True, False)]
cases += [dict(graph, graph=dict(file="edges.npy", form="attention"), kv_heads=2)]
cases += [dict(graph, graph=dict(file="edges.npy", form=f), init=dict(wv="identity", wo=o)) for f in ("row", "attention") for o in ("identity", "none", "zero")]
cases += [dict(graph, graph=dict(file="edges.npy", form="attention"), value_map="identity", init=dict(wo="identity"))]
# without a vocabulary
cases += [dict(vocab=None), dict(vocab=None, mixer="mamba2", norm="post"), dict(vocab=None, mixer=["graph", "s4d", "attention"], graph=dict(file="edges.npy"), seq_len=N)]

# ends, gains and biases (all but one of them are 0 and 1 as drawn: they are changed below)
cases += [dict(norm_affine=f, norm=n, norm_kind=k, bias=True) for n in ("pre", "post", "sandwich") for k, f in (("layernorm", "both"), ("layernorm", "gain"), ("rmsnorm", "gain"))]
cases += [dict(positions="sinusoidal"), dict(positions="sinusoidal", d_model=11, d_head=3), dict(outputs=5, bias=True), dict(vocab=None, outputs=3)]
cases += [dict(embed=dict(map=m, norm=b), positions=p) for m in ("none", "linear", "mlp") for b in (True, False) for p in ("none", "learned")]
cases += [dict(vocab=None, rows=dict(width=12, map=m, norm=b), outputs=o, positions="learned") for m in ("linear", "mlp") for b in (True, False) for o in (None, 2)]
# read-outs of all layers
cases += [dict(fusion=f, norm=n, norm_affine=a, bias=True, outputs=o) for f in ("concat", "max", "gate") for n, a, o in (("pre", "both", None), ("post", "gain", 5), ("none", "none", None))]
cases += [dict(fusion=f, share_layers=True, positions="learned", depth=2) for f in ("concat", "gate")] + [dict(fusion=f, vocab=None) for f in ("concat", "max", "gate")]

def disturb(folder, dtype):
    """Adds noise to gains and biases of norms and maps, which are drawn as 1 and 0, and to gates of read-outs."""
    data = bytearray(open(folder + "/model.safetensors", "rb").read())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header, code = json.loads(data[8:start]), "<d" if dtype == "f64" else "<f"
    for name, t in header.items():
        if name.endswith((".gain", ".bias", "fusion.weight")) and "mixer.dt" not in name:
            for at in range(start + t["data_offsets"][0], start + t["data_offsets"][1], struct.calcsize(code)):
                struct.pack_into(code, data, at, struct.unpack_from(code, data, at)[0] + rng.gauss(0, 0.5))
    open(folder + "/model.safetensors", "wb").write(data)

def run(*words):
    done = subprocess.run([tool, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("%s: %s" % (words, done.stderr))
    return done.stdout

worst = {"f64": 0.0, "f32": 0.0}
wrong = 0
for number, case in enumerate(cases):
    arch = dict(base, **case)
    json.dump(arch, open("arch.json", "w"))
    ids = [str(rng.randrange(11)) for _ in range(N)]
    inputs = ids if arch["vocab"] else ["states.npy"]
    for dtype, most in (("f64", 1e-10), ("f32", 1e-5)):
        folder = "net-" + dtype
        run("save", "arch.json", str(number), dtype, folder)
        disturb(folder, dtype)
        ours = torch.tensor([[float(x) for x in line.split()] for line in run("run", folder, dtype, *inputs).splitlines()], dtype=torch.float64)
        own = {"__name__": "own"}  # the loader of this network alone
        exec(run("loader", "arch.json"), own)
        model = own["Model"](folder)
        x = [int(i) for i in ids] if arch["vocab"] else loader.npy("states.npy").to(model.dtype)
        theirs = (model(x) if arch["vocab"] or arch.get("rows") else model.states(x)).double()
        if ours.shape != theirs.shape:
            print("FAILED:", case, "shapes", ours.shape, theirs.shape)
            wrong += 1
            continue
        error = float((ours - theirs).abs().max() / max(1.0, float(ours.abs().max())))
        worst[dtype] = max(worst[dtype], error)
        if not error <= most:
            print("FAILED:", case, dtype, "differs by", error)
            wrong += 1
print(len(cases), "networks; the largest differences:", worst)
sys.exit(wrong > 0)
PY

# As a program: one line for each token.
arch small '"vocab": 7, "mixer": "mamba", "seq_len": 4'
"$SAVED_NETWORK" save small.json 1 f64 small || note_failure "small is not saved"
"$python" loader.py small 3 1 4 1 >theirs || note_failure "the loader fails"
"$SAVED_NETWORK" loader small.json >own.py
! grep -q 'def attention\|def mamba2\|def graph' own.py || note_failure "the loader of a Mamba has other mixers"
grep -q 'def mamba(' own.py || note_failure "the loader of a Mamba has none"
"$SAVED_NETWORK" run small f64 3 1 4 1 >ours || note_failure "the engine fails"
[ "$(wc -l <theirs)" = 4 ] || note_failure "the loader prints $(wc -l <theirs) lines"
paste -d ' ' ours theirs | awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 1e-9 || d < -1e-9) exit 1 } }' ||
    note_failure "the loader's lines are not the engine's"
finish
