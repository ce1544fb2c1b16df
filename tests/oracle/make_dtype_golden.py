#!/usr/bin/env python3
"""Writes what every code of the small float types means, and files of the safetensors package.

tests/golden/dtypes/codes.txt: "DTYPE CODE BITS" for all codes of the F8, F6 and F4 types, BITS being
those of the float32 value (NaN as 7fc00000); ml_dtypes says the value, and torch is held against it
for the types that it has. tests/golden/dtypes/half.txt: a checksum over all 65536 F16 and BF16 codes
by NumPy (FNV-1a over the float32 bits, NaN as 7fc00000).
tests/golden/safetensors/NAME.safetensors with NAME.txt: tensors as the package writes them, one a
line: "NAME DTYPE RANK SIZES... VALUES..." with all values in decimal, NaN and inf by name.

Run from the top of the source tree: python tests/oracle/make_dtype_golden.py
"""
import pathlib

import ml_dtypes
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

TYPES = {
    "F8_E5M2": (ml_dtypes.float8_e5m2, 256, torch.float8_e5m2),
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, 256, torch.float8_e4m3fn),
    "F8_E8M0": (ml_dtypes.float8_e8m0fnu, 256, torch.float8_e8m0fnu),
    "F8_E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, 256, torch.float8_e4m3fnuz),
    "F8_E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, 256, torch.float8_e5m2fnuz),
    "F6_E2M3": (ml_dtypes.float6_e2m3fn, 64, None),
    "F6_E3M2": (ml_dtypes.float6_e3m2fn, 64, None),
    "F4": (ml_dtypes.float4_e2m1fn, 16, None),
}


def bits(values):
    out = values.astype(np.float32).view(np.uint32).copy()
    out[np.isnan(values)] = 0x7FC00000
    return out


def fnv(words):
    h = 0xCBF29CE484222325
    for byte in words.astype("<u4").tobytes():
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return h


def codes():
    lines = []
    for name, (kind, n, torch_kind) in TYPES.items():
        stored = np.arange(n, dtype=np.uint8)
        value = bits(stored.view(kind).astype(np.float32))
        if torch_kind:
            other = torch.from_numpy(stored.copy()).view(torch_kind).to(torch.float32).numpy()
            assert (bits(other) == value).all(), name
        lines += [f"{name} {code} {value[code]:08x}\n" for code in range(n)]
    (GOLDEN / "dtypes/codes.txt").write_text("".join(lines))
    stored = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        half = bits(stored.view(np.float16).astype(np.float32))
        bf16 = bits(stored.view(ml_dtypes.bfloat16).astype(np.float32))
    (GOLDEN / "dtypes/half.txt").write_text(f"F16 {fnv(half):016x}\nBF16 {fnv(bf16):016x}\n")


SPELLED = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16",
           torch.uint16: "U16", torch.int32: "I32", torch.uint32: "U32", torch.int64: "I64",
           torch.uint64: "U64", torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32",
           torch.float64: "F64", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}


def listing(tensors):
    lines = []
    for name in sorted(tensors):
        t = tensors[name]
        exact = t if not t.dtype.is_floating_point else t.to(torch.float64)
        values = [f"{float(v):.17g}" for v in exact.flatten().tolist()]
        lines.append(" ".join([name, SPELLED[t.dtype], str(t.dim()), *map(str, t.shape), *values]))
    return "\n".join(lines) + "\n"


def files():
    folder = GOLDEN / "safetensors"
    g = torch.Generator().manual_seed(20260521)
    tensors = {}
    for dtype, name in SPELLED.items():
        if dtype.is_floating_point:
            value = (torch.randn(3, 7, generator=g) * 4).to(dtype)
        elif dtype is torch.bool:
            value = torch.rand(3, 7, generator=g) < 0.5
        else:
            value = torch.randint(0, 120, (3, 7), generator=g).to(dtype)
        tensors["layer." + name.lower()] = value
    tensors["scalar"] = torch.tensor(-1.25)
    tensors["no.rows"] = torch.zeros(0, 4)
    tensors["extremes"] = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0, 2.0**-149],
                                       dtype=torch.float32)
    tensors["limits"] = torch.tensor([-(2**63), 2**53 + 1, 2**63 - 1])
    tensors["größe"] = torch.arange(24, dtype=torch.float16).reshape(2, 3, 4)
    safetensors.torch.save_file(tensors, folder / "torch.safetensors", metadata={"format": "pt"})
    (folder / "torch.txt").write_text(listing(tensors))
    arrays = {"b": np.linspace(-1, 1, 5), "a": np.arange(6, dtype=np.int16).reshape(2, 3)}
    safetensors.numpy.save_file(arrays, folder / "numpy.safetensors")
    (folder / "numpy.txt").write_text(listing({k: torch.from_numpy(v) for k, v in arrays.items()}))


codes()
files()
