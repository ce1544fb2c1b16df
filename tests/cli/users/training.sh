#!/bin/bash
# training.sh: three checkpoints of one run. Which head dies, when, and a job that stops by itself.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
python3 - "$RS_SOURCE_DIR/tests/golden/families/llama" <<'END'
import json, os, shutil, struct, sys
for step, scale in ((1000, 1.0), (2000, 0.3), (3000, 0.001)): # head 1 of layer 1 fades
    folder = f"checkpoint-{step}"
    os.makedirs(folder, exist_ok=True)
    shutil.copy(sys.argv[1] + "/config.json", folder)
    data = bytearray(open(sys.argv[1] + "/model.safetensors", "rb").read())
    length = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + length])["model.layers.1.self_attn.o_proj.weight"]
    rows, columns = tensor["shape"]
    for row in range(rows):
        for column in range(columns // 4, columns // 2):
            at = 8 + length + tensor["data_offsets"][0] + 4 * (row * columns + column)
            data[at:at + 4] = struct.pack("<f", scale * struct.unpack("<f", data[at:at + 4])[0])
    open(folder + "/model.safetensors", "wb").write(data)
END
expect 0 "$RANKSCOPE" scan checkpoint-1000 --fail-on warn --quiet --json 1000.json
expect 0 "$RANKSCOPE" scan checkpoint-2000 --fail-on warn --quiet --json 2000.json
expect 3 "$RANKSCOPE" scan checkpoint-3000 --fail-on warn --json 3000.json
says out "layer 1, head 1"
verdict 1000.json full_rank
verdict 2000.json full_rank
verdict 3000.json dead_heads "layer 1, head 1"
expect 0 "$RANKSCOPE" scan checkpoint-3000 --fail-on critical --quiet # a warning is no reason to stop here
expect 0 "$RANKSCOPE" explain dead_heads
says out "dead_head"
expect 0 "$RANKSCOPE" explain dead_head
says out "prune the head"
finish
