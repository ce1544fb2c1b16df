"""compare_probe.py GOLDEN.json RESULT.json [OUTPUT.safetensors]: what a probe gave against tests/oracle/make_probe_golden.py.
Only Python's own library: safetensors are read by hand."""
import json
import math
import struct
import sys

golden, result = (json.load(open(p)) for p in sys.argv[1:3])
failures = 0


def check(name, got, expected, tolerance):
    global failures
    if expected is None and got is None:
        return
    if got is None or expected is None or abs(got - expected) > tolerance * max(1, abs(expected)):
        print(f"FAILED: {name} is {got}, expected {expected}")
        failures += 1


def tensor(path, name):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        entry = json.loads(f.read(size))[name]
        f.seek(8 + size + entry["data_offsets"][0])
        count = math.prod(entry["shape"])
        return entry["shape"], struct.unpack(f"<{count}f", f.read(4 * count))


def compare(table, other, tolerance):
    rows = {(r["layer"], r[other]): r for r in result["tables"][table]}
    for want in golden[table]:
        row = rows[want["layer"], want[other]]
        for key, value in want.items():
            if key not in ("layer", other) and key not in skipped:
                check(f"{table} {want['layer']} {want[other]} {key}", row[key], value, tolerance)


# Whether a singular value counts hangs on the last bits; 1 - cosine is worked out better here than there.
skipped = {"numerical_rank"}
if "tokens" in golden:
    compare("tokens", "site", 5e-5)
if "attention" in golden:
    compare("attention", "head", 2e-4)
if "sentence_embedding" in golden and len(sys.argv) > 3:
    shape, values = tensor(sys.argv[3], "sentence_embedding")
    expected = [v for row in golden["sentence_embedding"] for v in row]
    assert shape == [len(golden["sentence_embedding"]), len(golden["sentence_embedding"][0])], shape
    worst = max(abs(a - b) for a, b in zip(values, expected))
    print(f"sentence embeddings differ by at most {worst:.2g}")
    check("sentence_embedding", worst, 0, 1e-5)
if "generate" in result["tables"]:
    if result["tables"]["generate"][0]["ids"] != golden["generated"]:
        print("FAILED: other ids were generated:", result["tables"]["generate"][0]["ids"])
        failures += 1
if "loss" in golden and "loss" in result["tables"]:
    row = result["tables"]["loss"][0]
    print(f"perplexity {row['perplexity']:.6f}, reference {golden['loss']['perplexity']:.6f}")
    for key, value in golden["loss"].items():
        check(key, row[key], value, 1e-5)
sys.exit(failures > 0)
