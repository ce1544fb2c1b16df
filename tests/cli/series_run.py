#!/usr/bin/env python3
"""series_run.py BASE FOLDER LAYER KIND STEP=SHARE[/DEAD]...: writes FOLDER/checkpoint-STEP for each, copies of the F32 model in BASE whose
LAYER (or "all") has in its KIND (qk or ov) products head columns of size 1, SHARE, SHARE², ...: their rank falls with SHARE. The first DEAD heads
are all zero. Standard library only."""
import json
import os
import shutil
import struct
import sys

base, folder, layer, kind = sys.argv[1:5]
with open(f"{base}/model.safetensors", "rb") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    header, data = json.loads(f.read(size)), f.read()
config = json.load(open(f"{base}/config.json"))
width = config["head_dim"]
for word in sys.argv[5:]:
    step, share = word.split("=")
    share, slash, dead = share.partition("/")
    numbers = bytearray(data)

    def factor(row):
        return 0.0 if slash and row < int(dead) * width else float(share) ** (row % width)

    for name, tensor in header.items():
        # rows of q_proj and v_proj are the units of the heads
        if not name.endswith({"qk": "q_proj.weight", "ov": "v_proj.weight"}[kind]) or layer not in ("all", name.split(".")[2]):
            continue
        begin, (rows, cols) = tensor["data_offsets"][0], tensor["shape"]
        for row in range(rows):
            at = begin + 4 * row * cols
            values = struct.unpack_from(f"<{cols}f", numbers, at)
            struct.pack_into(f"<{cols}f", numbers, at, *(v * factor(row) for v in values))
    path = f"{folder}/checkpoint-{step}"
    os.makedirs(path)
    shutil.copy(f"{base}/config.json", path)
    text = json.dumps(header).encode()
    with open(f"{path}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + numbers)
