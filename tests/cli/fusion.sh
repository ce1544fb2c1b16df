#!/bin/sh
# fusion.sh: heads that read the states of all layers: what training leaves, what the commands say of it and refuse; one step of SGD
# beside PyTorch's autograd through the loader.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf ./*

check() { # check RESULT.json PYTHON: an assertion over its tables t
    python3 - "$1" "$2" <<'END' || note_failure "$1: $2"
import json, sys
r = json.load(open(sys.argv[1]))
t = r["tables"]
assert eval(sys.argv[2]), {n: rows[:2] for n, rows in t.items()}
END
}
task() { # task NAME MODEL-FIELDS: a run of a few steps
    echo "{\"task\": \"reversal\", \"data\": {\"length\": 6, \"symbols\": 5}, \"steps\": 24, \"batch\": 4, \"seed\": 3, \"eval_every\": 12,
 \"every_checkpoint\": 8, \"keep\": 9, \"rank_every\": 12, \"log_every\": 8, \"model\": {\"depth\": 3, \"d_model\": 8, \"heads\": 2, \"mlp_width\": 12, $2},
 \"optimizer\": {\"kind\": \"adamw\", \"lr\": 0.01, \"weight_decay\": {\"default\": 0.1, \"head\": 0.2}}}" >"$1.json"
}
# what FILE's tensor of a name is, or nothing
shape_of() {
    python3 -c 'import json, struct, sys
data = open(sys.argv[1], "rb").read()
print(json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]).get(sys.argv[2], {}).get("shape", ""))' "$1" "$2"
}
task none '"norm": "post"'
expect 0 "$RANKSCOPE" train none.json --dry-run --json none.dry -q
for kind in concat max gate; do
    task $kind "\"norm\": \"post\", \"fusion\": \"$kind\""
    expect 0 "$RANKSCOPE" train $kind.json --out $kind --threads 1 -q
    expect 0 "$RANKSCOPE" train $kind.json --out $kind-2 --threads 2 -q
    cmp $kind/model.safetensors $kind-2/model.safetensors || note_failure "$kind: two threads train other weights"
    # broken off at its checkpoint of step 8, and taken up again
    cp -r $kind $kind-cut && rm -rf $kind-cut/checkpoints/step-000000016 $kind-cut/checkpoints/step-000000024
    expect 0 "$RANKSCOPE" train $kind.json --out $kind-cut --resume -q
    cmp $kind/model.safetensors $kind-cut/model.safetensors || note_failure "$kind: a resumed run ends with other weights"
    expect 0 "$RANKSCOPE" train $kind.json --dry-run --json $kind.dry -q
    # every command, of the trained folder
    expect 0 "$RANKSCOPE" scan $kind --json $kind.scan -q
    expect 0 "$RANKSCOPE" certify $kind --random 2 -q
    expect 0 "$RANKSCOPE" probe $kind --random 2 --seq-len 6 --grad --loss class --target 1 --json $kind.probe -q
    check $kind.probe "[r['site'] for r in t['tokens']][-1] == 'fusion_$kind' and t['tokens'][-1]['layer'] == 3"
    refused_by probe unsupported "fusion" $kind --random 2 --seq-len 6 --precision residual
    refused_by probe unsupported "no layer conserves it" $kind --random 2 --seq-len 6 --relevance
    refused_by paths unsupported "no-loss" $kind --random 2 --seq-len 6
    expect 0 "$RANKSCOPE" paths $kind --random 2 --seq-len 6 --no-loss -q
done
[ "$(shape_of concat/model.safetensors fusion.weight)" = "[8, 24]" ] || note_failure "the weights of concat are not there"
[ "$(shape_of gate/model.safetensors fusion.weight)" = "[1, 8]" ] || note_failure "the weights of the gate are not there"
[ -z "$(shape_of max/model.safetensors fusion.weight)" ] || note_failure "max has weights"
python3 - <<'END' || note_failure "parameters and memory"
import json
at = {k: json.load(open(k + ".dry")) for k in ("none", "concat", "max", "gate")}
count = {k: next(row["value"] for row in r["tables"]["plan"] if row["name"] == "parameters") if "plan" in r["tables"] else r["meta"]["run"]["parameters"] for k, r in at.items()}
assert (count["concat"] - count["none"], count["gate"] - count["none"], count["max"] - count["none"]) == (8 * 24, 8, 0), count
END
check concat.scan '[r["role"] for r in t["tensors"] if r["tensor"] == "fusion.weight"] == ["head_fusion"]'
check concat.probe '[g["norm"] > 0 for g in t["gradients"] if g["parameter"] == "fusion.weight"] == [True]'
check gate.probe '[g["norm"] > 0 for g in t["gradients"] if g["parameter"] == "fusion.weight"] == [True]'
# another way than the model's own is measured untrained, as of a model that has none
expect 0 "$RANKSCOPE" probe gate --random 2 --seq-len 6 --fusion max --json other.out -q
check other.out '[r["site"] for r in t["tokens"] if "fusion" in r["site"]] == ["fusion_max"]'
expect 0 "$RANKSCOPE" probe max --random 2 --seq-len 6 --json own.out -q
expect 0 "$RANKSCOPE" probe max --random 2 --seq-len 6 --fusion concat --json wide.out -q
check own.out 't["tokens"][:-1] == json.load(open("wide.out"))["tables"]["tokens"][:-1]'
refused_by probe bad-option "just its layers" concat --random 2 --seq-len 6 --depth 5
expect 0 "$RANKSCOPE" probe gate --random 2 --seq-len 6 --depth 5 -q
# points of a sweep run in every precision: it asks for layers alone
expect 0 "$RANKSCOPE" probe gate --random 2 --seq-len 6 --sweep lambda=0:1:3 -q
# without a head nothing is read: no weights, and the row is untrained
arch headless '"depth": 2, "seq_len": 5, "fusion": "gate"'
expect 0 "$RANKSCOPE" probe headless.json --init default --random 2 --precision residual --json headless.out -q
check headless.out 't["tokens"][-1]["site"] == "fusion_gate"'
# a gate starts as the mean: row and loss are those of the untrained measure
arch start '"depth": 3, "seq_len": 5, "vocab": 7, "fusion": "gate"'
arch plain '"depth": 3, "seq_len": 5, "vocab": 7'
expect 0 "$RANKSCOPE" probe start.json --init default --random 2 --precision f64 --json start.out -q
expect 0 "$RANKSCOPE" probe plain.json --init default --random 2 --precision f64 --fusion gate --json plain.out -q
python3 - <<'END' || note_failure "a gate does not start as the mean"
import json
a, b = (json.load(open(f))["tables"]["tokens"][-1] for f in ("start.out", "plain.out"))
assert a["site"] == b["site"] == "fusion_gate"
assert all(abs(a[k] - b[k]) <= 1e-11 * abs(b[k]) for k in ("relative_residual", "mean_cosine", "norm_fro")), (a, b)
END
# files that lack the weights, and laws
mkdir lacking && cp gate/model.safetensors lacking && sed 's/"gate"/"concat"/' gate/config.json >lacking/config.json
refused_by scan tensor-shape "asks for [8, 24]" lacking
cp max/model.safetensors lacking && sed 's/"max"/"gate"/' max/config.json >lacking/config.json
refused_by scan tensor-missing "fusion.weight" lacking
arch law '"depth": 2, "seq_len": 5, "vocab": 7, "fusion": "concat", "init": {"fusion": "normal(0)"}'
refused_by probe bad-option "takes 2 arguments" law.json --init default --random 2
arch law '"depth": 2, "seq_len": 5, "vocab": 7, "fusion": "concat", "init": {"fusions": "zero"}'
refused_by probe architecture-schema "fusion" law.json --init default --random 2

# ---- beside PyTorch ----
python=
for candidate in ${RS_TORCH_PYTHON:-"$RS_SOURCE_DIR/.venv/bin/python" python3}; do
    "$candidate" -c 'import torch, numpy' 2>/dev/null && python=$candidate && break
done
[ "$python" ] || { echo "without PyTorch"; finish; }
"$RANKSCOPE" train --show-loader >loader.py || note_failure "no loader"
RANKSCOPE=$RANKSCOPE "$python" - <<'END' || note_failure "one step of SGD is not PyTorch's"
import json, os, subprocess, sys
sys.path.insert(0, ".")
import numpy, torch
import loader
torch.set_num_threads(1)
rng = numpy.random.default_rng(5)
x = rng.integers(0, 7, (7, 9)) # one of the seven is kept back for the instruments
y = numpy.where(rng.random((7, 9)) < 0.4, rng.integers(0, 7, (7, 9)), -1)
numpy.save("x.npy", x)
numpy.save("y.npy", y)

def train(**words):
    task = {"task": "tokens", "data": {"x": "x.npy", "y": "y.npy", "at": "all", "eval_share": 0}, "batch": 6, "precision": "f64",
            "log_every": 1, "rank_every": 0, "optimizer": {"kind": "sgd", "lr": 1}, **words}
    json.dump(task, open("step.json", "w"))
    done = subprocess.run([os.environ["RANKSCOPE"], "train", "step.json", "--out", "start" if words["steps"] == 0 else "step", "-q"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

worst = 0
for kind in ("concat", "max", "gate"):
    for norm in ("post", "pre", "none"):
        subprocess.run(["rm", "-rf", "start", "step"])
        model = {"depth": 4, "d_model": 12, "heads": 3, "mlp_width": 10, "norm": norm, "bias": True, "fusion": kind, "init": {"fusion": "normal(0, 1/fan_in)"}}
        model.update({"norm_affine": "both"} if norm != "none" else {})
        train(model=model, steps=0)
        train(model="start", steps=1)
        net = loader.Model("start")
        assert net.dtype == torch.float64
        for w in net.w.values():
            w.requires_grad_()
        said = [json.loads(line)["batch_loss"] for line in open("step/log.jsonl")][0]
        logits = [net([int(i) for i in row]) for row in x]
        losses = []
        for left_out in range(7):
            rows = [i for i in range(7) if i != left_out]
            target = torch.tensor(y[rows].flatten())
            losses.append(torch.nn.functional.cross_entropy(torch.cat([logits[i] for i in rows])[target >= 0], target[target >= 0]))
        near = [loss for loss in losses if abs(said - loss.item()) < 1e-12]
        assert len(near) == 1, (said, losses)
        near[0].backward()
        for name, after in loader.safetensors("step/model.safetensors").items():
            by = net.w[name].grad if net.w[name].grad is not None else torch.zeros_like(after)
            error = float((net.w[name].detach() - after - by).abs().max() / (1e-3 + by.abs().max()))
            worst = max(worst, error)
            assert error < 1e-11, (kind, norm, name, error)
            if name == "fusion.weight":
                assert by.abs().max() > 1e-6
print("gradients of nine networks are autograd's; largest difference over the largest entry: %.1e" % worst)
END
finish
