"""Checkpoints as files: safetensors, written here byte by byte, and arrays of ids."""

import json
import pathlib
import struct

import numpy as np

CODES = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


def stored(values, dtype):
    """The float64 numbers that a file of this dtype holds for these."""
    values = np.asarray(values, np.float64)
    if dtype == "BF16":
        bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64).reshape(values.shape)
    with np.errstate(over="ignore"):
        out = values.astype(CODES[dtype]).astype(np.float64)
    limit = 6e4 if dtype == "F16" else 3e38
    return np.clip(out, -limit, limit).astype(CODES[dtype]).astype(np.float64) if dtype != "F64" else out


def raw(values, dtype):
    if dtype == "BF16":
        return (np.ascontiguousarray(values.astype(np.float32)).view(np.uint32) >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(values.astype(CODES[dtype])).tobytes()


def write_safetensors(path, tensors, dtype):
    header, data, at = {}, [], 0
    for name, values in tensors.items():
        kind = dtype if isinstance(dtype, str) else dtype.get(name, dtype[""])
        blob = raw(values, kind)
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(blob)]}
        data.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    blob = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    header, out = json.loads(blob[8:8 + size]), {}
    kinds = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}
    for name, entry in header.items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            out[name] = np.frombuffer(blob[8 + size + a:8 + size + b], kinds[entry["dtype"]]).reshape(entry["shape"])
    return out
