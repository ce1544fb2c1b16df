#!/bin/sh
# train_torch.sh: training beside PyTorch: the losses of associative recall step by step, and a trained folder in the program that
# --show-loader prints.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
python=
for candidate in ${RS_TORCH_PYTHON:-"$RS_SOURCE_DIR/.venv/bin/python" python3}; do
    "$candidate" -c 'import torch, numpy' 2>/dev/null && python=$candidate && break
done
[ "$python" ] || { echo "skipped: no python with PyTorch (make oracle makes one; RS_TORCH_PYTHON names another)"; exit 77; }
"$python" "$RS_SOURCE_DIR/tests/oracle/compare_recall.py" "$RANKSCOPE" || note_failure "other losses than PyTorch's"

rm -rf run ./*.npy
expect 0 "$RANKSCOPE" train reversal --out run -q --set steps=40 --set precision=f64
"$RANKSCOPE" train reversal --show-loader >loader.py || note_failure "no loader"
! grep -q 'def mamba' loader.py || note_failure "the loader has mixers that the model has not"
"$python" loader.py run 3 1 4 1 5 9 2 6 >theirs || note_failure "the loader fails"
echo '[[3,1,4,1,5,9,2,6]]' >ids.json
expect 0 "$RANKSCOPE" probe run --tokens ids.json --output ours.safetensors -q --precision f64
"$python" - <<'END' || note_failure "the loader computes something else"
import json, struct
with open("ours.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
entry = header["logits"]
kind = {"F64": "d", "F32": "f"}[entry["dtype"]]
ours = struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // struct.calcsize(kind)}{kind}", data[slice(*entry["data_offsets"])])
theirs = [float(word) for line in open("theirs") for word in line.split()]
assert len(ours) == len(theirs), (len(ours), len(theirs))
worst = max(abs(a - b) for a, b in zip(ours, theirs))
assert worst < 1e-5, worst
print(f"logits differ by at most {worst:.1e}")
END
"$RANKSCOPE" train --show-loader | grep -q 'def mamba' || note_failure "the loader of every mixer lacks one"
refused_by train usage "needs a task"
[ $failures = 0 ]
