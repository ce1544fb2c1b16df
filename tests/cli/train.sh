#!/bin/sh
# train.sh: `rankscope train`: what it writes and says, that a run that is broken off goes on bit for bit, and what it refuses.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf whole t2 t3 d1 d2 cut long full least p0 p1 p2 sparse
cat >task.json <<'END'
{"task": "reversal", "data": {"length": 6, "symbols": 5}, "steps": 60, "batch": 4, "seed": 3, "log_every": 7,
 "rank_every": 14, "eval_every": 30, "every_checkpoint": 20, "keep": 2,
 "model": {"depth": 2, "d_model": 8, "heads": 2, "mlp_width": 12},
 "optimizer": {"kind": "adamw", "lr": 0.01, "clip": 1, "weight_decay": {"default": 0.1, "norm": 0}}}
END

# ---- a run, its folder, its log ----
expect 0 "$RANKSCOPE" train task.json --out whole --json whole.json --threads 1
says out "was trained for 60 steps"
says err "step 56/60"
python3 - <<'END' || note_failure "the folder of the run is not as it should be"
import json, os, sqlite3
lines = [json.loads(line) for line in open("whole/log.jsonl")]
steps = [line["step"] for line in lines]
assert steps == [0, 7, 14, 21, 28, 30, 35, 42, 49, 56, 60], steps # multiples of log_every, rank_every and eval_every
assert [line["step"] for line in lines if line["eval_loss"] is not None] == [0, 30, 60]
rows = sqlite3.connect("whole/run.db").execute("select step, loss from log order by step").fetchall()
assert rows == [(line["step"], line["loss"]) for line in lines]
table = json.load(open("whole.json"))["tables"]["log"]
assert [(row["step"], row["loss"]) for row in table] == rows
assert sorted(os.listdir("whole/checkpoints")) == ["step-000000040", "step-000000060"]
mean = None
assert all(abs(line["learning_rate"] - 0.01) < 1e-15 for line in lines)
assert lines[-1]["loss"] < lines[0]["loss"]
END
cmp whole/model.safetensors whole/checkpoints/step-000000060/model.safetensors || note_failure "DIR's model is not the newest checkpoint's"

# ---- the same bits for any number of threads, and in f64 ----
for threads in 2 3; do
    expect 0 "$RANKSCOPE" train task.json --out "t$threads" --threads $threads -q
    cmp whole/model.safetensors t$threads/model.safetensors || note_failure "$threads threads train other weights"
done
expect 0 "$RANKSCOPE" train task.json --out d1 --threads 1 -q --set precision=f64
expect 0 "$RANKSCOPE" train task.json --out d2 --threads 2 -q --set precision=f64
cmp d1/model.safetensors d2/model.safetensors || note_failure "2 threads train other weights in f64"

# ---- broken off and taken up again ----
same_log() {
    python3 - "$1" "$2" <<'END' || note_failure "the logs of $1 and $2 differ"
import json, sqlite3, sys
def read(folder):
    lines = [json.loads(line) for line in open(folder + "/log.jsonl")]
    rows = sqlite3.connect(folder + "/run.db").execute("select step, loss, batch_loss from log order by step").fetchall()
    assert rows == [(line["step"], line["loss"], line["batch_loss"]) for line in lines]
    for line in lines:
        del line["seconds"], line["tokens_per_second"]
    return lines
assert read(sys.argv[1]) == read(sys.argv[2])
END
}
copy_at() { # a run that ended behind its checkpoint of step 40, and was killed at step 55
    rm -rf cut
    cp -r whole cut
    rm -rf cut/checkpoints/step-000000060
}
resume() {
    expect 0 "$RANKSCOPE" train task.json --out cut --resume -q --threads "$1"
    cmp whole/model.safetensors cut/model.safetensors || note_failure "a resumed run has other weights ($2)"
    same_log whole cut
}
copy_at
resume 2 "two threads"
copy_at
python3 -c '
text = open("cut/log.jsonl").read().splitlines(True)
open("cut/log.jsonl", "w").write("".join(text[:7]) + text[7][:30])'
resume 1 "a line that was cut"
copy_at
python3 -c '
text = open("cut/log.jsonl").read().splitlines(True)
open("cut/log.jsonl", "w").write("".join(text[:3]) + text[3][:30])'
resume 1 "a line that was cut in front of the checkpoint"
copy_at
python3 -c 'data = open("cut/run.db", "rb").read(); open("cut/run.db", "wb").write(data[:len(data) // 2 + 100])'
resume 1 "half a database"
copy_at
rm cut/log.jsonl
resume 1 "no log"
copy_at
rm cut/run.db
resume 1 "no database"
copy_at
mkdir cut/checkpoints/.writing
echo half >cut/checkpoints/.writing/model.safetensors
resume 1 "a checkpoint that was being written"
expect 0 "$RANKSCOPE" train task.json --out cut --resume -q # it is done
cmp whole/model.safetensors cut/model.safetensors || note_failure "a run that was done has changed"
same_log whole cut
copy_at
python3 -c 'data = open("cut/checkpoints/step-000000040/training.safetensors", "rb").read()
open("cut/checkpoints/step-000000040/training.safetensors", "wb").write(data[:-9])'
expect 2 "$RANKSCOPE" train task.json --out cut --resume -q
says err training.safetensors
says err "there is no older checkpoint"
rm -rf cut
cp -r whole cut
python3 -c 'open("cut/checkpoints/step-000000060/state.json", "w").write("{")'
expect 2 "$RANKSCOPE" train task.json --out cut --resume -q
says err "remove cut/checkpoints/step-000000060: --resume then goes on from step 40"
rm -r cut/checkpoints/step-000000060
# what a killed program left beside the model is cleared away
touch cut/.model.new cut/.config.new cut/.graph.new
resume 1 "the older checkpoint"
for name in .model.new .config.new .graph.new; do
    [ ! -e "cut/$name" ] || note_failure "$name of a killed program stays"
done

# ---- the product penalty: what it adds to one step of SGD is -lr mu (B B^T) A of each head's pairs ----
for run in p0:0:0 p1:1:0 p2:1:0.3; do
    out=${run%%:*} rest=${run#*:}
    expect 0 "$RANKSCOPE" train task.json --out "$out" -q --set precision=f64 --set model.depth=1 --set steps="${rest%%:*}" \
        --set optimizer.product_penalty="${rest#*:}" --set optimizer.kind=sgd --set optimizer.lr=0.1 --set optimizer.clip=null \
        --set 'optimizer.weight_decay={}' --set every_checkpoint=0
done
python3 - <<'END' || note_failure "the product penalty is not as it should be"
import json, struct
def read(folder):
    with open(folder + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and len(entry["shape"]) == 2:
            numbers = struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 8}d", data[slice(*entry["data_offsets"])])
            cols = entry["shape"][1]
            tensors[name.split(".")[-2]] = [numbers[i:i + cols] for i in range(0, len(numbers), cols)]
    return tensors
def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]
def turned(a):
    return [list(row) for row in zip(*a)]
start, plain, penalised = read("p0"), read("p1"), read("p2")
# what the instruments say of gradients is the loss's alone; the norm is of what the step takes
first = [json.loads(open(folder + "/log.jsonl").readline()) for folder in ("p1", "p2")]
for row, other in zip(first[0]["layers"], first[1]["layers"]):
    assert all(row[name] == other[name] for name in ("g_q", "g_k", "g_v", "g_o")), (row, other)
assert first[0]["layers"][1]["g_q"] > 0 and first[0]["gradient_norm"] < first[1]["gradient_norm"]
heads, width = 2, 4
for name in "qkvo":
    wanted = []
    for head in range(heads):
        part = lambda n: start[n][head * width:(head + 1) * width] if n != "o" else \
            turned([row[head * width:(head + 1) * width] for row in start["o"]])
        other = part({"q": "k", "k": "q", "v": "o", "o": "v"}[name])
        wanted += multiply(multiply(other, turned(other)), part(name))
    if name == "o":
        wanted = turned(wanted)
    for rows in zip(plain[name], penalised[name], wanted):
        for before, after, gradient in zip(*rows):
            assert abs(after - before + 0.1 * 0.3 * gradient) < 1e-13, (name, after - before, gradient)
END

# ---- the gains of attention: they move, from 0 too, and a run that is broken off goes on with them ----
rm -rf gains gains2 again none
python3 - <<'END'
import json
task = json.load(open("task.json"))
task["model"].update(attention="shaped", shaped=[[1, 0, 0], [0.5, "1/4", 0.25]])
task["trainable"] = ["shaped"]
task["precision"] = "f64"
task["optimizer"]["lr_factor"] = {"strength": 3}
json.dump(task, open("gains.json", "w"))
END
expect 0 "$RANKSCOPE" train gains.json --out gains -q --threads 1
expect 0 "$RANKSCOPE" train gains.json --out gains2 -q --threads 2
cmp gains/model.safetensors gains2/model.safetensors || note_failure "2 threads train other weights beside gains"
cmp gains/config.json gains2/config.json || note_failure "2 threads train other gains"
cp -r gains again
rm -rf again/checkpoints/step-000000060
expect 0 "$RANKSCOPE" train gains.json --out again --resume -q --threads 2
for file in model.safetensors config.json checkpoints/step-000000060/training.safetensors; do
    cmp "gains/$file" "again/$file" || note_failure "a resumed run has another $file beside gains"
done
same_log gains again
python3 - <<'END' || note_failure "the gains of attention are not trained as they should be"
import json, sqlite3, struct
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: data[8 + size + row["data_offsets"][0]:8 + size + row["data_offsets"][1]]
            for name, row in head.items() if name != "__metadata__"}
def gains(path):
    return json.load(open(path))["arch"]["shaped"]
middle, ends = gains("gains/checkpoints/step-000000040/config.json"), gains("gains/config.json")
for start, *later in zip([[1, 0, 0], [0.5, 0.25, 0.25]], middle, ends):
    for a, b, c in zip(start, *later):
        assert a != b and b != c and abs(c - a) < 2, (start, later)
saved = tensors("gains/checkpoints/step-000000060/training.safetensors")
for layer in range(2):
    for gain, name in enumerate(("identity", "softmax", "uniform")):
        found = [value for key, value in saved.items() if f"layers.{layer}.mixer.{name}" in key]
        assert struct.pack("<d", ends[layer][gain]) in found, (layer, name, sorted(saved))
rows = sqlite3.connect("gains/run.db").execute(
    "select layer, identity, softmax, uniform from layers where identity is not null and "
    "step = (select max(step) from layers) order by layer").fetchall()
assert [list(row[1:]) for row in rows] == ends, (rows, ends)
END
expect 0 "$RANKSCOPE" probe gains --random 2 -q
echo '{"task": "reversal", "model": {"depth": 2, "d_model": 8, "mixer": "s4d"}, "trainable": ["shaped"]}' >none.json
expect 2 "$RANKSCOPE" train none.json --out none -q
says err "the model has no attention"

# ---- a signal ----
rm -rf long
"$RANKSCOPE" train task.json --out long --set steps=100000000 --set log_every=100 >out 2>err &
pid=$!
while [ ! -s long/log.jsonl ]; do sleep 0.05; done
kill -INT $pid
wait $pid
[ $? = 130 ] || note_failure "an interrupted run does not exit with 130"
says err "'rankscope train task.json --out long --set steps=100000000 --set log_every=100 --resume' goes on"
grep -q "nothing was written" err && note_failure "an interrupted run wrote a checkpoint"
[ -f long/model.safetensors ] || note_failure "an interrupted run left no model"

# the command that is printed goes on, whatever was set
rm -rf "long 2"
"$RANKSCOPE" train task.json --out "long 2" --set steps=100000000 --set 'optimizer.weight_decay={"default": 0.2, "norm": 0}' \
    --set alarms.loss_spike=1e6 --stop-on loss_spike --quiet >out 2>err & # that never rings, or the run would end by itself
pid=$!
while [ ! -s "long 2/log.jsonl" ]; do sleep 0.05; done
kill -INT $pid
wait $pid
told=$(sed -n "s/.*'rankscope \(train .*--resume\)' goes on.*/\1/p" err)
says err "--stop-on loss_spike --resume' goes on"
eval "exec \"\$RANKSCOPE\" $told --quiet" >out 2>err &
pid=$!
sleep 1
kill -INT $pid
wait $pid
[ $? = 130 ] || { note_failure "the printed command does not go on: $told"; cat err; }
"$RANKSCOPE" train task.json --set steps=100000000 --quiet >out 2>err &
pid=$!
sleep 1
kill -INT $pid
wait $pid
says err "interrupted; there is no --out; nothing was written"

# ---- two programs and one folder ----
rm -rf both
"$RANKSCOPE" train task.json --out both --set steps=100000000 --set log_every=100 -q &
pid=$!
while [ ! -s both/log.jsonl ]; do sleep 0.05; done
refused_by train would-overwrite-input "another run writes to this folder" task.json --out both --set steps=100000000 --set log_every=100 --resume
kill -9 $pid
wait $pid
"$RANKSCOPE" train task.json --out both --set steps=100000000 --set log_every=100 --resume -q >out 2>err & # the lock ended with it
pid=$!
sleep 1
kill -INT $pid
wait $pid
[ $? = 130 ] || { note_failure "a killed run's folder stayed locked"; cat err; }

# ---- the first line names what rang ----
expect 0 "$RANKSCOPE" train task.json -q --set model.skip_mixer=0 --set model.attention=uniform --set rank_every=1 --set log_every=1 --set steps=15 \
    --set 'alarms={"hold": 9}' --json rang.json
python3 - <<'END' || note_failure "the verdict does not name what rang"
import json
verdict = json.load(open("rang.json"))["verdict"]
assert "; alarms: token_collapse (critical)" in verdict["answer"] and verdict["severity"] == "critical" and verdict["code"] == "trained", verdict
assert "alarms" not in json.load(open("whole.json"))["verdict"]["answer"]
END

# ---- what is refused ----
refused() { refused_by train "$@"; }
refused would-overwrite-input "--resume" task.json --out whole
refused bad-option "is to be written by --out already" task.json --out whole2 --json whole2/config.json
refused bad-option "is to be written by --out already" task.json --out whole --resume --html ./whole/../whole/run.db
expect 0 "$RANKSCOPE" train task.json --out whole --resume -q --json whole/result.json
refused task-schema "optimizer.lr: 0.01, now 0.02" task.json --out whole --resume --set optimizer.lr=0.02
refused task-schema "did you mean \"reversal\"" reversl
refused task-schema "did you mean \"lr\"" task.json --set optimizer.lrr=1
refused task-schema '"embed.width" is 9; a map that is "linear" has no width inside' circle --set embed.width=9
refused usage "--out" task.json --resume
refused usage "dry" task.json --dry-run --resume --out whole
echo '{"task": "reversal", "model": {"depth": 2, "d_model": 8, "heads": 3}}' >odd.json
refused architecture-schema heads odd.json
expect 1 "$RANKSCOPE" train task.json --out /proc/nowhere -q
says err "write-failed"
expect 1 "$RANKSCOPE" train task.json -q --set optimizer.lr=1000000 --set optimizer.kind=sgd --set optimizer.clip=null
says err "not finite"
says err "step "

# a file system that takes no more: the run ends, what was whole stays and is gone on with
rm -rf full
(ulimit -f 4 && expect 1 "$RANKSCOPE" train task.json --out full -q && says err write-failed && ! grep -q "nothing was written" err && exit "$failures") || note_failure "a full disk"
expect 0 "$RANKSCOPE" train task.json --out full -q --resume
cmp whole/model.safetensors full/model.safetensors || note_failure "a run behind a full disk has other weights"

# what would not fit is refused before anything is drawn, with what it is made of
refused memory-limit "gradients" reversal --memory 40MiB --set model.d_model=1024 --set model.heads=8
refused memory-limit "averages of the optimiser" reversal --set model.d_model=262144 --set model.mlp_width=1048576 --set model.depth=80

# a batch without any target: the step changes nothing by the loss, and the means go on
python3 - <<'END'
import struct
def npy(name, shape, numbers):
    head = repr({"descr": "<i8", "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(numbers)}q", *numbers))
npy("x.npy", (40, 4), [i % 5 for i in range(160)])
npy("y.npy", (40, 4), [-1 if i < 148 else i % 3 for i in range(160)])
END
echo '{"task": "tokens", "data": {"x": "x.npy", "y": "y.npy", "eval_share": 0.05}, "batch": 1, "steps": 30, "log_every": 1, "rank_every": 0,
 "model": {"depth": 1, "d_model": 8, "heads": 1}, "embed": {"map": "none"}}' >sparse.json
expect 0 "$RANKSCOPE" train sparse.json --out sparse -q
python3 -c '
import json
lines = [json.loads(line) for line in open("sparse/log.jsonl")]
some = [line["accuracy"] is not None for line in lines]
assert not all(line["batch_accuracy"] is not None for line in lines) and some == sorted(some), some
assert [line["loss"] is not None for line in lines] == some # null before the first target
assert all((line["batch_loss"] is None) == (line["batch_accuracy"] is None) for line in lines)
assert not any("alarms" in line for line in lines)' || note_failure "batches without a target"

# ---- --seed is the task's seed, --set seed goes before it, and a run goes on with its own ----
rm -rf s3 s5 s53
expect 0 "$RANKSCOPE" train task.json --out s5 -q --seed 5 --set steps=3
expect 0 "$RANKSCOPE" train task.json --out s3 -q --set seed=5 --set steps=3
cmp -s whole/checkpoints/step-000000040/model.safetensors s5/model.safetensors && note_failure "--seed changes nothing"
cmp s3/model.safetensors s5/model.safetensors || note_failure "--seed 5 is not the seed 5 of the task"
expect 0 "$RANKSCOPE" train task.json --out s53 -q --seed 9 --set seed=5 --set steps=3
cmp s3/model.safetensors s53/model.safetensors || note_failure "--set seed does not go before --seed"
refused task-schema "seed: 5, now 9" task.json --out s5 --resume --seed 9 --set steps=3
expect 0 "$RANKSCOPE" train task.json --out s3 -q --set steps=3 --resume --seed 5
expect 0 "$RANKSCOPE" train sorting --dry-run --seed 0
grep -Eq "^ *seed +0 *$" out || note_failure "--seed 0 is not the seed"
python3 - <<'END' || note_failure "the nulls are another seed's"
import json
nulls = [[(row["layer"], row["head"], row["product"], row["effective_rank_null"]) for row in json.loads(open(folder + "/log.jsonl").readline())["ranks"]]
         for folder in ("whole", "s5", "s53")]
assert nulls[0] == nulls[1] == nulls[2] != []
END

# ---- batches of another program: too few are refused before anything is trained ----
rm -rf few
python3 - <<'END'
import struct
def npy(name, shape, numbers):
    head = repr({"descr": "<i8", "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(numbers)}q", *numbers))
numbers = [(7 * i + i // 6) % 5 for i in range(8 * 4 * 2 * 6)]
npy("eight.npy", (8, 4, 2, 6), numbers)
numbers[6 * 4 * 2 * 6] = (numbers[6 * 4 * 2 * 6] + 1) % 5
npy("other.npy", (8, 4, 2, 6), numbers)
END
set -- task.json --set steps=7 --set data.batches=batches.npy
cp eight.npy batches.npy
refused input-shape "it has 8 batches; 8 steps of 1 and the last look take 9" "$@" --set steps=8 --out few
refused input-shape "steps" "$@" --set accumulate=2 --out few
[ ! -e few ] || note_failure "a run with too few batches was begun"
expect 0 "$RANKSCOPE" train "$@" --dry-run -q
expect 0 "$RANKSCOPE" train "$@" --out few -q
# and a run goes on with the batches that it began with; of earlier checkpoints these are not known
rm -rf few/checkpoints
expect 0 "$RANKSCOPE" train "$@" --out few -q --set every_checkpoint=3 --set keep=9 --resume
rm -r few/checkpoints/step-000000007
cp other.npy batches.npy
refused task-schema "the data's files are not those" "$@" --out few --resume
cp eight.npy batches.npy
sed 's/"data": "[0-9a-f]*"/"data": "0000000000000000"/' few/checkpoints/step-000000006/state.json >earlier.json
cmp -s earlier.json few/checkpoints/step-000000006/state.json && note_failure "state.json does not name the batches"
cp earlier.json few/checkpoints/step-000000006/state.json
expect 0 "$RANKSCOPE" train "$@" --out few -q --resume

# an entropy is no baseline of a squared error
for loss in squared hinge cross_entropy; do
    expect 0 "$RANKSCOPE" train sparse.json -q --set steps=0 --set loss=$loss --json $loss.json
done
python3 - <<'END' || note_failure "baselines of another loss"
import json
kinds = {loss: [row["kind"] for row in json.load(open(loss + ".json"))["tables"]["marks"]] for loss in ("squared", "hinge", "cross_entropy")}
assert kinds["squared"] == kinds["hinge"] == ["accuracy without learning"] and kinds["cross_entropy"].count("loss") == 2, kinds
END

# ---- the smallest run, and a dry one ----
expect 0 "$RANKSCOPE" train reversal --set steps=0 --set batch=1 --set model.d_model=1 --set model.heads=1 --set model.depth=1 \
    --set data.length=1 --set data.symbols=2 --out least
says out "for 0 steps"
expect 0 "$RANKSCOPE" train reversal --dry-run
says out "would train 16730 numbers for 2000 steps"
says out "optimizer.lr"
# a step's sizes are those of a full batch, not of the rest of an epoch that happened to be timed last
for again in 1 2; do
    expect 0 "$RANKSCOPE" train circle --dry-run -q --json "circle$again.json"
    expect 0 "$RANKSCOPE" train memorization --dry-run -q --json "words$again.json" --set model.depth=1 --set model.d_model=10
done
python3 - <<'END' || note_failure "the sizes of a dry run"
import json
def sizes(name):
    return {row["name"]: row["value"] for row in json.load(open(name + ".json"))["tables"]["plan"] if row["name"] in ("tokens a step", "operations a step")}
assert sizes("circle1")["tokens a step"] == 60 and sizes("circle1") == sizes("circle2"), sizes("circle1")
assert sizes("words1") == sizes("words2"), (sizes("words1"), sizes("words2"))
END
[ ! -d dry ] || note_failure "a dry run wrote a folder"
# ---- a run on text leaves its tokenizer ----
rm -rf spoken words nul
printf 'A lighthouse \342\206\222 "keeper"\\\n%s' "$(seq 1 300 | tr '\n' ' ')" >said.txt
set -- --set data.length=8 --set batch=2 --set steps=2 --set 'model={"depth":1,"d_model":4,"heads":1,"mlp":"none"}' -q
expect 0 "$RANKSCOPE" train char-lm --set data.text=said.txt "$@" --out spoken
printf 'keeper \342\206\222 n\303\266t' >asked.txt
expect 0 "$RANKSCOPE" tokenize spoken/checkpoints/step-000000002 --text asked.txt --json asked.json
cmp spoken/tokenizer.json spoken/checkpoints/step-000000002/tokenizer.json || note_failure "DIR has another tokenizer"
python3 - <<'END' || note_failure "the characters have other ids than in the run"
import json
known = sorted(set(open("said.txt", encoding="utf-8").read()))
ids = [row["id"] for row in json.load(open("asked.json"))["tables"]["ids"]]
assert ids == [known.index(c) for c in open("asked.txt", encoding="utf-8").read() if c in known], ids
END
expect 0 "$RANKSCOPE" probe spoken --text asked.txt --no-spectral -q
cp "$RS_SOURCE_DIR/tests/golden/tokenizer/llama3.json" words.json
expect 0 "$RANKSCOPE" train bpe-lm --set data.text=said.txt --set data.tokenizer=words.json "$@" --out words
[ ! -e words/.tokenizer.new ] || note_failure "a copy was left beside the tokenizer"
cmp words.json words/checkpoints/step-000000002/tokenizer.json || note_failure "the tokenizer is not the task's"
# cut by what ended the program: the run that goes on writes it whole
head -c 99 words.json >words/tokenizer.json.cut && mv words/tokenizer.json.cut words/tokenizer.json
expect 0 "$RANKSCOPE" train bpe-lm --set data.text=said.txt --set data.tokenizer=words.json "$@" --out words --resume
cmp words.json words/tokenizer.json || note_failure "a cut tokenizer stayed"
# a stranger's tokenizer in the folder is not that of a run without text
mkdir -p nul && echo '{}' >nul/tokenizer.json
printf 'a\000b%s' "$(seq 1 100 | tr '\n' ' ')" >nul.txt
expect 0 "$RANKSCOPE" train char-lm --set data.text=nul.txt "$@" --out nul
[ ! -e nul/checkpoints/step-000000002/tokenizer.json ] || note_failure "a checkpoint has a stranger's tokenizer"

[ $failures = 0 ]
