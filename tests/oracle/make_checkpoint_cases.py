#!/usr/bin/env python3
"""Writes the accept and refuse cases of safetensors headers, index.json and config.json.

Each case is one file in fuzz/corpus/KIND.tar.gz (also a seed of the fuzz target) and one line
"NAME STATUS" in tests/golden/KIND/cases.txt, STATUS being the name of the rs_status it must give.
The oracle: the safetensors package opens, or refuses, every safetensors case, and Python's json
parses every config case; where rankscope is stricter on purpose the case says so (stricter=True),
and any other disagreement stops this script. For accepted configs the parsed value is written too.

Run from the top of the source tree: python tests/oracle/make_checkpoint_cases.py
"""
import json
import pathlib
import struct

import corpus
import safetensors

TOP = pathlib.Path(__file__).resolve().parents[2]
cases = {"safetensors": [], "index": [], "config": []}
files = {kind: {} for kind in cases}


def write(kind, name, content, status):
    files[kind][name] = content
    cases[kind].append(f"{name} {status}\n")


# ---- safetensors ----


def reference_accepts(content):
    try:
        safetensors.deserialize(content)
        return True
    except safetensors.SafetensorError:
        return False


def raw(name, content, status, stricter=False):
    accepted = reference_accepts(content)
    assert (status == "ok") == accepted or (stricter and accepted), (name, status, accepted)
    write("safetensors", name, content, status)


def framed(header, data=b""):
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header)) + header + data


def st(name, header, data, status="ok", stricter=False):
    raw(name, framed(header, data), status, stricter)


def entry(name="a", dtype='"U8"', shape="[1]", offsets="[0,1]", more=""):
    return f'"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{more}}}'


def one(**members):
    return "{" + entry(**members) + "}"


def safetensors_cases():
    json_, integer, start = "safetensors-header-json", "json-bad-integer", "safetensors-header-start"
    offsets, overflow = "safetensors-offsets", "safetensors-shape-overflow"
    good = framed(one(), b"x")
    raw("empty_file", b"", "empty-file")
    raw("seven_bytes", b"\2\0\0\0\0\0\0", "safetensors-header-too-small")
    raw("eight_bytes_length_0", bytes(8), start)
    raw("length_0_then_data", bytes(8) + b"xxxx", start)
    raw("length_2_to_63", struct.pack("<Q", 1 << 63) + b"{}", "safetensors-header-too-large")
    raw("length_100000001", struct.pack("<Q", 100000001) + b"{}", "safetensors-header-too-large")
    raw("length_past_end", struct.pack("<Q", 3) + b"{}", "safetensors-header-length")
    raw("length_100000000_past_end", struct.pack("<Q", 10**8) + b"{}", "safetensors-header-length")
    st("not_utf8", b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x",
       "safetensors-header-not-utf8")
    st("array_header", "[]", b"", start)
    st("leading_space", " " + one(), b"x", start, True)
    st("nul_padding", one() + "\0\0", b"x", json_)
    st("two_objects", "{}{}", b"", json_)
    st("cut_object", '{"a":', b"", json_)
    st("cut_string", '{"a', b"", json_)
    st("cut_escape", '{"a\\', b"", json_)
    st("name_twice", "{" + entry() + "," + entry() + "}", b"x", "duplicate-tensor", True)
    st("name_twice_apart", "{" + entry() + "," + entry(offsets="[1,2]") + "}", b"xy",
       "duplicate-tensor", True)
    st("name_twice_by_escape", "{" + entry() + "," + entry("\\u0061", offsets="[1,2]") + "}", b"xy",
       "duplicate-tensor", True)
    st("metadata_twice", '{"__metadata__":{},"__metadata__":{}}', b"", "safetensors-metadata")
    st("metadata_key_twice", '{"__metadata__":{"a":"b","a":"c"}}', b"", "json-duplicate-key", True)
    st("metadata_key_twice_by_escape", '{"__metadata__":{"\\u0061":"b","a":"c"}}', b"",
       "json-duplicate-key", True)
    st("dtype_twice", one(more=',"dtype":"U8"'), b"x", "json-duplicate-key")
    st("shape_twice", one(more=',"shape":[1]'), b"x", "json-duplicate-key")
    st("unknown_member_twice", one(more=',"s":1,"s":1'), b"x", "json-duplicate-key", True)
    st("unknown_inner_twice", one(more=',"s":{"t":1,"t":2}'), b"x", "json-duplicate-key", True)
    for label, number in {"negative": "-1", "negative_zero": "-0", "float": "1.0", "exponent": "1e3",
                          "2_to_64": str(1 << 64), "googol": "1" + "0" * 100}.items():
        st(f"size_{label}", one(shape=f"[{number}]"), b"x", integer)
        st(f"offset_{label}", one(offsets=f"[0,{number}]"), b"x", integer)
    st("size_leading_zero", one(shape="[01]"), b"x", json_)
    st("size_text", one(shape='["1"]'), b"x", json_)
    st("size_null", one(shape="[null]"), b"x", json_)
    st("size_hex", one(shape="[0x1]"), b"x", json_)
    st("overflow_shape", one(dtype='"F32"', shape="[2,18446744073709551614]", offsets="[0,16]"),
       bytes(16), overflow)
    st("overflow_bytes", one(dtype='"F32"', shape="[2,9223372036854775807]", offsets="[0,16]"),
       bytes(16), overflow)
    st("overflow_before_zero", one(shape="[9223372036854775807,9223372036854775807,0]",
                                   offsets="[0,0]"), b"", overflow)
    st("size_above_int64", one(shape="[0,9223372036854775808]", offsets="[0,0]"), b"", overflow,
       True)
    st("overlap", "{" + entry(shape="[2]", offsets="[0,2]") + "," +
       entry("b", shape="[2]", offsets="[1,3]") + "}", b"xyz", offsets)
    st("same_region_thrice", "{" + entry(shape="[4]", offsets="[0,4]") + "," +
       entry("b", shape="[4]", offsets="[0,4]") + "," + entry("c", shape="[4]", offsets="[0,4]") +
       "}", b"wxyz", offsets)
    st("hole", "{" + entry() + "," + entry("b", offsets="[2,3]") + "}", b"xyz", offsets)
    st("hole_at_start", one(offsets="[1,2]"), b"xy", offsets)
    st("reversed_offsets", one(offsets="[1,0]"), b"x", offsets)
    st("reversed_from_0", "{" + entry() + "," + entry("b", offsets="[1,0]") + "}", b"x", offsets)
    st("offsets_2_to_63", one(offsets="[9223372036854775808,9223372036854775809]"), b"x", offsets)
    st("zero_size_out_of_place", "{" + entry() + "," + entry("z", shape="[0]", offsets="[9,9]") +
       "}", b"x", offsets)
    st("trailing_byte", one(), b"xy", "safetensors-trailing-bytes")
    st("trailing_without_tensors", "{}", b"x", "safetensors-trailing-bytes")
    st("missing_last_byte", one(shape="[2]", offsets="[0,2]"), b"x", "safetensors-incomplete")
    st("data_absent", one(shape="[1099511627776]", offsets="[0,1099511627776]"), b"",
       "safetensors-incomplete")
    st("odd_f4", one(dtype='"F4"', shape="[3]", offsets="[0,2]"), b"xx", "safetensors-misaligned")
    st("odd_f6", one(dtype='"F6_E2M3"', shape="[3]", offsets="[0,3]"), b"xxx",
       "safetensors-misaligned")
    st("size_mismatch", one(dtype='"F32"'), b"x", "safetensors-size-mismatch")
    st("unknown_dtype", one(dtype='"F12"'), b"x", "safetensors-unknown-dtype")
    st("dtype_lower_case", one(dtype='"u8"'), b"x", "safetensors-unknown-dtype")
    st("dtype_number", one(dtype="8"), b"x", json_)
    st("gguf_dtype", one(dtype='"Q4_0"'), b"x", "safetensors-unknown-dtype")
    st("nul_in_name", one(name="a\\u0000b"), b"x", "bad-tensor-name", True)
    st("name_of_4097_bytes", one(name="n" * 4097), b"x", "bad-tensor-name", True)
    st("metadata_nested", '{"__metadata__":{"a":{"b":"c"}}}', b"", "safetensors-metadata")
    st("metadata_number", '{"__metadata__":{"a":1}}', b"", "safetensors-metadata")
    st("metadata_null_value", '{"__metadata__":{"a":null}}', b"", "safetensors-metadata")
    st("metadata_text", '{"__metadata__":"a"}', b"", "safetensors-metadata")
    st("metadata_array", '{"__metadata__":["a"]}', b"", "safetensors-metadata", False)
    st("depth_5", one(more=',"s":[[[1]]]'), b"x", "json-too-deep", True)
    st("depth_5000", '{"a":' + "[" * 5000 + "]" * 5000 + "}", b"", json_)
    st("depth_5000_unknown", one(more=',"s":' + "[" * 5000 + "]" * 5000), b"x", "json-too-deep")
    st("rank_17", one(shape="[" + "1," * 16 + "1]"), b"x", "safetensors-too-many-dimensions", True)
    st("lone_leading_surrogate", one(name="\\ud800"), b"x", json_)
    st("lone_trailing_surrogate", one(name="\\udc00"), b"x", json_)
    st("surrogate_then_letter", one(name="\\ud800\\u0041"), b"x", json_)
    st("unknown_escape", one(name="\\x41"), b"x", json_)
    st("short_unicode_escape", one(name="\\u12"), b"x", json_)
    st("control_byte_in_name", one(name="a\nb"), b"x", json_)
    st("no_comma", "{" + entry() + entry("b", offsets="[1,2]") + "}", b"xy", json_)
    st("comma_at_end", "{" + entry() + ",}", b"x", json_)
    st("comma_at_start", "{," + entry() + "}", b"x", json_)
    st("comma_in_shape", one(shape="[1,]"), b"x", json_)
    st("no_colon", '{"a"{}}', b"", json_)
    st("unquoted_name", "{a:{}}", b"", json_)
    st("entry_null", '{"a":null}', b"", json_)
    st("entry_array", '{"a":["U8",[1],[0,1]]}', b"x", json_, True)
    st("no_dtype", '{"a":{"shape":[1],"data_offsets":[0,1]}}', b"x", json_)
    st("no_shape", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', b"x", json_)
    st("no_offsets", '{"a":{"dtype":"U8","shape":[1]}}', b"x", json_)
    st("one_offset", one(offsets="[0]"), b"x", json_)
    st("three_offsets", one(offsets="[0,1,2]"), b"x", json_)
    st("bad_unknown_number", one(more=',"s":1.'), b"x", json_)
    st("bad_unknown_exponent", one(more=',"s":1e+'), b"x", json_)
    st("bad_unknown_word", one(more=',"s":nul'), b"x", json_)
    st("bad_unknown_nan", one(more=',"s":NaN'), b"x", json_)
    st("bad_unknown_zero", one(more=',"s":01'), b"x", json_)
    raw("bare_pickle", b"\x80\x02}q\0X\1\0\0\0aq\1K\1s.", "pickle-file")
    raw("old_torch_pickle", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "pickle-file")
    raw("zip_pickle", b"PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "pickle-file")
    raw("lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 +
        b"\nsize 12345\n", "git-lfs-pointer")
    raw("web_page", b"<!DOCTYPE html><html><body>not here</body></html>", "unknown-format")

    raw("good", good, "ok")
    st("no_tensors", "{}", b"")
    st("padded", one() + "     ", b"x")
    st("padded_white_space", one() + "\n\t\r ", b"x")
    st("white_space_inside", '{ "a" :\t{ "dtype" : "U8" ,\n"shape" : [ 1 ] , "data_offsets" : [ 0 , 1 ] } }',
       b"x")
    st("scalar", one(dtype='"F32"', shape="[]", offsets="[0,4]"), bytes(4))
    zero = entry("z", shape="[3,0]", offsets="[0,0]")
    st("zero_size_first", "{" + zero + "," + entry() + "}", b"x")
    st("zero_size_middle", "{" + entry() + "," + entry("z", shape="[0]", offsets="[1,1]") + "," +
       entry("b", offsets="[1,2]") + "}", b"xy")
    st("zero_size_last", "{" + entry() + "," + entry("z", shape="[0]", offsets="[1,1]") + "}", b"x")
    st("zero_size_only", "{" + zero + "}", b"")
    st("zero_size_many", "{" + ",".join(entry(f"z{i}", shape="[0]", offsets="[0,0]")
                                        for i in range(9)) + "}", b"")
    st("zero_before_large", one(shape="[0,9223372036854775807]", offsets="[0,0]"), b"")
    st("unaligned_data", "{" + entry() + "," + entry("b", '"F64"', "[1]", "[1,9]") + "}", b"x" * 9)
    st("any_member_order", '{"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}}', b"x")
    st("any_tensor_order", "{" + entry("c", offsets="[2,3]") + "," + entry() + "," +
       entry("b", offsets="[1,2]") + "}", b"xyz")
    st("metadata", '{"__metadata__":{"format":"pt","b\\u0000":"\\u0000"},' + entry() + "}", b"x")
    st("metadata_behind", "{" + entry() + ',"__metadata__":{}}', b"x")
    st("metadata_null", '{"__metadata__":null}', b"")
    st("unknown_members", one(more=',"s":[1,-2.5e+3,true,false,null,"\\n"],"t":{"u":{}},"v":[]'),
       b"x")
    st("escaped_names", "{" + entry("\\u0061\\ud83d\\ude00\\u00e9\\u20ac\\\"\\\\\\/\\b\\f\\n\\r\\t")
       + "}", b"x")
    st("escaped_members", '{"a":{"\\u0064type":"U\\u0038","shape":[1],"data_offsets":[0,1]}}', b"x")
    st("utf8_name", one(name="größe.😀"), b"x")
    st("empty_name", one(name=""), b"x")
    st("name_of_4096_bytes", one(name="n" * 4096), b"x")
    st("rank_16", one(shape="[" + "1," * 15 + "1]"), b"x")
    widths = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8,
              "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16,
              "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
              "I64": 64, "U64": 64}
    at, entries = 0, []
    for dtype, bits in widths.items():
        entries.append(entry(dtype, f'"{dtype}"', "[8]", f"[{at},{at + bits}]"))
        at += bits
    st("every_dtype", "{" + ",".join(entries) + "}", bytes(at))


# ---- index.json ----


def index_cases():
    def index(name, content, status="ok"):
        content = content.encode() if isinstance(content, str) else content
        write("index", name, content, status)

    def mapped(value):
        return '{"weight_map": {"a.weight": %s}}' % value

    path, schema = "index-unsafe-path", "index-schema"
    index("good", '{"metadata": {"total_size": 8}, "weight_map": {"a.weight": '
                  '"model-00001-of-00002.safetensors", "b.weight": '
                  '"model-00002-of-00002.safetensors"}}')
    index("total_size_float", '{"metadata": {"total_size": 8.0, "total_parameters": 2}, '
                              '"weight_map": {"a": "x.safetensors"}}')
    index("no_metadata", mapped('"x.safetensors"'))
    index("metadata_text", '{"metadata": "none", "weight_map": {"a": "x.safetensors"}, "more": []}')
    index("traversal", mapped('"../x.safetensors"'), path)
    index("sub_folder", mapped('"sub/x.safetensors"'), path)
    index("absolute_path", mapped('"/etc/passwd"'), path)
    index("backslash", mapped('"..\\\\x.safetensors"'), path)
    index("backslash_only", mapped('"sub\\\\x.safetensors"'), path)
    index("dot", mapped('"."'), path)
    index("dot_dot", mapped('".."'), path)
    index("empty_path", mapped('""'), path)
    index("nul_in_path", mapped('"x.safetensors\\u0000.bin"'), path)
    index("value_number", mapped("1"), schema)
    index("value_null", mapped("null"), schema)
    index("value_array", mapped('["x.safetensors"]'), schema)
    index("no_weight_map", '{"metadata": {}}', schema)
    index("weight_map_array", '{"weight_map": ["x.safetensors"]}', schema)
    index("weight_map_empty", '{"weight_map": {}}', schema)
    index("array", "[]", schema)
    index("number", "1", schema)
    index("tensor_twice", '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}',
          "json-duplicate-key")
    index("not_json", "weight_map: a", "json-syntax")
    index("cut", '{"weight_map": {"a": "x.saf', "json-syntax")
    index("nul_in_name", '{"weight_map": {"a\\u0000": "x.safetensors"}}', "json-syntax")
    index("not_utf8", b'{"weight_map": {"\xff": "x.safetensors"}}', "json-syntax")
    index("too_deep", "[" * 65 + "]" * 65, "json-too-deep")
    index("huge_total_size", '{"metadata": {"total_size": 18446744073709551616}, '
                             '"weight_map": {"a": "x.safetensors"}}', "json-bad-integer")
    index("lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
          "git-lfs-pointer")
    index("empty", "", "empty-file")


# ---- config.json ----


def no_duplicates(pairs):
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def config(name, text, status="ok", stricter=False):
    content = text.encode() if isinstance(text, str) else text
    try:
        value = json.loads(content.decode(), object_pairs_hook=no_duplicates,
                           parse_constant=lambda word: {"__float__": word})
        accepted = isinstance(value, dict)
    except (ValueError, RecursionError):
        accepted = False
    assert (status == "ok") == accepted or (stricter and accepted), (name, status, accepted)
    write("config", name, content, status)
    if status == "ok":
        expected = json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
        (TOP / "tests/golden/config" / (name + ".expected.json")).write_text(expected)


def config_cases():
    syntax, integer, schema = "json-syntax", "json-bad-integer", "config-schema"
    config("good", '{"model_type": "bert", "hidden_size": 384, "layer_norm_eps": 1e-12}\n')
    config("bare_words", '{"a": NaN, "b": Infinity, "c": -Infinity, "d": [NaN,-Infinity , Infinity]}')
    config("words_in_strings", '{"NaN": "Infinity", "a": "x\\"NaN", "b": "\\\\", "c": NaN}')
    config("float_objects", '{"a": {"__float__": "Infinity"}, "b": "Infinity"}')
    config("nulls_and_extras", '{"head_dim": null, "x": {"y": [1, 2.5, true, false]}, "\\u00e9": "é"}')
    config("largest_integer", '{"a": 9223372036854775807, "b": -9223372036854775808}')
    config("depth_64", '{"a":' + "[" * 63 + "]" * 63 + "}")
    config("empty_object", "{}")
    config("white_space", '\r\n\t {"a"\n:\n1 } \n')
    config("brackets_in_strings", '{"a": "' + "[{" * 100 + '"}')
    config("not_json", "model_type = bert", syntax)
    config("array", '[{"model_type": "bert"}]', schema)
    config("number", "3", schema)
    config("text", '"bert"', schema)
    config("cut", '{"model_type": "be', syntax)
    config("cut_after_nan", '{"a": NaN, "b": ', syntax)
    config("two_objects", "{} {}", syntax)
    config("comma_at_end", '{"a": 1,}', syntax)
    config("nan_as_key", "{NaN: 1}", syntax)
    config("nan_joined", '{"a": NaNNaN}', syntax)
    config("nan_and_number", '{"a": 1NaN}', syntax)
    config("minus_nan", '{"a": -NaN}', syntax)
    config("lower_case_nan", '{"a": nan}', syntax)
    config("comment", '{"a": 1 // one\n}', syntax)
    config("not_utf8", b'{"a": "\xff"}', syntax)
    config("byte_order_mark", b'\xef\xbb\xbf{"a": 1}', syntax)
    config("nul_byte", b'{"a": 1}\0', syntax)
    config("nul_in_string", '{"a": "\\u0000"}', syntax, True)
    config("real_overflow", '{"a": 1e999}', syntax, True)
    config("key_twice", '{"a": 1, "a": 1}', "json-duplicate-key")
    config("inner_key_twice", '{"x": {"a": 1, "b": 2, "a": 1}}', "json-duplicate-key")
    config("integer_2_to_63", '{"a": 9223372036854775808}', integer, True)
    config("integer_below", '{"a": -9223372036854775809}', integer, True)
    config("depth_65", '{"a":' + "[" * 64 + "]" * 64 + "}", "json-too-deep", True)
    config("depth_100000", "[" * 100000, "json-too-deep")
    config("lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
           "git-lfs-pointer")
    config("empty", "", "empty-file")


safetensors_cases()
index_cases()
config_cases()
for kind, lines in cases.items():
    names = [line.split()[0] for line in lines]
    assert len(set(names)) == len(names)
    with corpus.opened(kind) as folder:
        for name, content in files[kind].items():
            (folder / name).write_bytes(content)
    (TOP / "tests/golden" / kind / "cases.txt").write_text("".join(lines))
    print(kind, len(lines))
