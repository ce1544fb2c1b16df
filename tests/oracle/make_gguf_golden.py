"""Writes tests/golden/gguf/ with the Python package gguf, the oracle of the GGUF reader.

    python3 tests/oracle/make_gguf_golden.py [FOLDER]

blocks.gguf    one tensor of every block type that rankscope decodes, of random blocks and of blocks with
               extreme scales (zero, subnormal, negative, largest)
blocks.f32     what gguf.quants.dequantize makes of them: float32, little-endian, tensor after tensor
metadata.gguf  every kind of metadata value, and tensors of 1 to 4 dimensions of the plain types
split/         the tensors a to f in three parts, as GGUFWriter splits them

The output is the same on every run with the pinned versions (requirements.txt).
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# Where each type keeps its half-precision scales; MXFP4 has an exponent byte instead.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "MXFP4": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
# +0, -0, smallest and largest subnormals, smallest normal, 1, -1, largest finite of either sign
EXTREMES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def random_blocks(rng, name):
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    n = 32 if elements == 32 else 10
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for k, offset in enumerate(SCALES[name]):
        halves = (rng.standard_normal(n) * 0.05).astype("<f2").view("<u2")
        halves[: len(EXTREMES) // 2] = EXTREMES[k::2]  # the other half for a second scale
        halves[-1] = EXTREMES[8]
        raw[:, offset:offset + 2] = halves.view(np.uint8).reshape(n, 2)
    if name == "MXFP4":
        raw[:6, 0] = [0, 1, 2, 127, 254, 255]
    return raw, kind


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks(folder):
    rng = np.random.default_rng(20261121)
    writer = gguf.GGUFWriter(folder / "blocks.gguf", "test")
    expected = []
    for name in SCALES:
        raw, kind = random_blocks(rng, name)
        writer.add_tensor(name, raw.reshape(2, -1), raw_dtype=kind)  # two rows
        with np.errstate(over="ignore"):
            values = quants.dequantize(raw, kind)
        assert not np.isnan(values).any()
        expected.append(values.astype("<f4").reshape(-1))
    write(writer)
    np.concatenate(expected).tofile(folder / "blocks.f32")


def metadata(folder):
    writer = gguf.GGUFWriter(folder / "metadata.gguf", "test")
    writer.add_custom_alignment(64)
    kinds = gguf.GGUFValueType
    for key, value, kind in [
        ("t.u8", 200, kinds.UINT8), ("t.i8", -100, kinds.INT8),
        ("t.u16", 60000, kinds.UINT16), ("t.i16", -30000, kinds.INT16),
        ("t.u32", 4000000000, kinds.UINT32), ("t.i32", -2000000000, kinds.INT32),
        ("t.f32", 0.1, kinds.FLOAT32), ("t.nan", float("nan"), kinds.FLOAT32),
        ("t.inf", float("inf"), kinds.FLOAT64), ("t.minus_inf", float("-inf"), kinds.FLOAT32),
        ("t.true", True, kinds.BOOL), ("t.false", False, kinds.BOOL), ("t.string", "h\u00e9llo", kinds.STRING),
        ("t.u64", 2**63 - 1, kinds.UINT64), ("t.u64_large", 2**64 - 1, kinds.UINT64),
        ("t.i64", -(2**63), kinds.INT64), ("t.f64", 0.1, kinds.FLOAT64),
    ]:
        writer.add_key_value(key, value, kind)
    writer.add_key_value("t.integers", [1, -2, 300000], kinds.ARRAY, kinds.INT32)
    writer.add_key_value("t.floats", [0.5, float("inf"), -0.25], kinds.ARRAY, kinds.FLOAT32)
    writer.add_key_value("t.bools", [True, False, True], kinds.ARRAY, kinds.BOOL)
    writer.add_key_value("t.strings", ["a", "", "ccc"], kinds.ARRAY, kinds.STRING)
    for name, kind, shape in [
        ("one.f32", np.float32, (5,)), ("two.f16", np.float16, (3, 4)), ("three.f64", np.float64, (2, 3, 5)),
        ("four.i8", np.int8, (2, 1, 3, 7)), ("i16", np.int16, (3,)), ("i32", np.int32, (1,)), ("i64", np.int64, (2, 2)),
    ]:
        writer.add_tensor(name, np.arange(np.prod(shape)).reshape(shape).astype(kind))
    write(writer)


def split(folder):
    (folder / "split").mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(folder / "split" / "model.gguf", "test", split_max_tensors=2)
    writer.add_uint32("test.block_count", 6)
    for i, name in enumerate("abcdef"):
        writer.add_tensor(name, np.full((2, 3), i, np.float32))
    write(writer)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "golden" / "gguf"
    target.mkdir(parents=True, exist_ok=True)
    blocks(target)
    metadata(target)
    split(target)
