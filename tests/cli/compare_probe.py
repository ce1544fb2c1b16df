"""compare_probe.py tables GOLDEN.json RESULT.json: a probe's tables against tests/oracle/make_probe_golden.py
compare_probe.py tensor NAME GOLDEN.safetensors GOLDEN_NAME OUTPUT.safetensors [SAMPLE]: largest difference at most 1e-5 of the largest entry
compare_probe.py gemma GOLDEN.json RESULT.json [OUTPUT.safetensors]: ids, loss and logits against tests/oracle/make_real_forward_golden.py
Only Python's own library: safetensors are read by hand."""
import json
import math
import struct
import sys

failures = 0


def check(name, got, expected, tolerance):
    global failures
    if expected is None and got is None:
        return
    if got is None or expected is None or not abs(got - expected) <= tolerance * max(1, abs(expected)):
        print(f"FAILED: {name} is {got}, expected {expected}")
        failures += 1


def tensor(path, name):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        entry = json.loads(f.read(size))[name]
        f.seek(8 + size + entry["data_offsets"][0])
        count = math.prod(entry["shape"])
        return entry["shape"], struct.unpack(f"<{count}f", f.read(4 * count))


def tables(golden, result):
    for table, other, tolerance in (("tokens", "site", 5e-5), ("attention", "head", 2e-4)):
        rows = {(r["layer"], r[other]): r for r in result["tables"][table]}
        for want in golden[table]:
            row = rows[want["layer"], want[other]]
            for key, value in want.items():
                # Whether a singular value counts as zero hangs on the last bits of either side.
                if key not in ("layer", other, "numerical_rank"):
                    check(f"{table} {want['layer']} {want[other]} {key}", row[key], value, tolerance)


def close(what, got, expected, scale=None):
    worst = max(abs(a - b) for a, b in zip(got, expected)) / (scale or max(abs(b) for b in expected))
    print(f"{what}: largest difference {worst:.2g} of the largest entry")
    check(what, worst, 0, 1e-5)


def gemma(golden, result, output=None):
    global failures
    if "generate" in result["tables"]:
        row = result["tables"]["generate"][0]
        if row["ids"] != golden["generated"] or row["text"] != golden["text"]:
            print("FAILED: another text was generated:", row)
            failures += 1
    if "loss" in result["tables"]:
        row = result["tables"]["loss"][0]
        print(f"perplexity {row['perplexity']:.6f}, reference {golden['page_perplexity']:.6f}")
        check("tokens", row["tokens"], golden["page_tokens"], 0)
        check("nll", row["nll"], golden["page_nll"], 1e-6)
    if output:
        (_, n, vocabulary), logits = tensor(output, "logits")
        some = [logits[i * vocabulary + j] for i in range(n) for j in golden["vocabulary_entries"]]
        close("logits", some, [v for row in golden["logits"] for v in row], golden["largest"])


kind, *rest = sys.argv[1:]
if kind == "tables":
    tables(*(json.load(open(p)) for p in rest))
elif kind == "gemma":
    gemma(*(json.load(open(p)) for p in rest[:2]), *rest[2:])
else:
    shape, expected = tensor(rest[1], rest[2])
    mine, got = tensor(rest[3], rest[0])
    if len(rest) > 4:  # one sample, which may be shorter than the longest
        sample = int(rest[4]) * mine[1] * mine[2]
        got = got[sample:sample + len(expected)]
    elif mine != shape:
        sys.exit(f"FAILED: {rest[0]} is {mine}, expected {shape}")
    close(rest[0], got, expected)
sys.exit(failures > 0)
