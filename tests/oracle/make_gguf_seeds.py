"""Writes into fuzz/corpus/gguf.tar.gz: one small GGUF file a block type and a few of special shape, as seeds for fuzz_gguf."""
import struct

import corpus
import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

DECODED = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()


def text(value):
    return struct.pack("<Q", len(value)) + value


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder):
    rng = np.random.default_rng(1)
    for name in DECODED:
        kind = GGMLQuantizationType[name]
        writer = gguf.GGUFWriter(folder / name, "llama")
        writer.add_tensor("a", rng.integers(0, 256, (1, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), raw_dtype=kind)
        write(writer)
    writer = gguf.GGUFWriter(folder / "plain", "llama")
    writer.add_custom_alignment(8)
    writer.add_array("t", [1.5, float("nan"), float("inf")])
    writer.add_array("s", ["one", "", "three"])
    for kind in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        writer.add_tensor(np.dtype(kind).name, np.ones((2, 1), kind))
    write(writer)
    writer = gguf.GGUFWriter(folder / "states", "mamba2")  # what a converter writes of state spaces
    writer.add_ssm_time_step_rank(2)
    writer.add_head_count_kv([0, 1])
    writer.add_ssm_dt_b_c_rms(True)
    for name, shape in (("ssm_a", (2, 1)), ("ssm_norm.weight", (2, 2)), ("ssm_dt.bias", (2,)), ("ssm_conv1d.weight", (4, 2))):
        writer.add_tensor("blk.0." + name, -np.ones(shape, np.float32))
    write(writer)
    writer = gguf.GGUFWriter(folder / "hybrid", "qwen35")  # lists with an entry a block, and blocks behind the layers
    writer.add_block_count(3)
    writer.add_nextn_predict_layers(1)
    writer.add_full_attention_interval(2)
    writer.add_feed_forward_length([4, 0, 4])
    writer.add_array("qwen35.attention.recurrent_layers", [True, False, False])
    writer.add_rope_dimension_sections([1, 1, 0, 0])
    writer.add_shortconv_l_cache(3)
    for name, shape in (("shortconv.conv.weight", (4, 3)), ("ffn_norm", (4,)), ("ssm_beta.weight", (2, 4)), ("attn_gate.weight", (4, 4))):
        writer.add_tensor("blk.0." + name, np.ones(shape, np.float16))
    write(writer)
    unknown = b"GGUF" + struct.pack("<Iqq", 3, 2, 0)
    for name, kind, offset in ((b"u", 4, 0), (b"v", 42, 32)):
        unknown += text(name) + struct.pack("<IqIQ", 1, 3, kind, offset)
    (folder / "unknown").write_bytes(unknown.ljust(96, b"\0") + b"x" * 48)
    (folder / "version2").write_bytes(b"GGUF" + struct.pack("<Iqq", 2, 0, 0))


if __name__ == "__main__":
    with corpus.opened("gguf") as seeds:
        main(seeds)
