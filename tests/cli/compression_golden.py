"""compression_golden.py CASE: `scan --energy --text` and `--write` of a small model against what NumPy's decompositions and transformers gave
(tests/oracle/make_compression_golden.py). The standard library alone."""
import filecmp
import json
import math
import os
import shutil
import struct
import subprocess
import sys

case = sys.argv[1]
program = os.environ["RANKSCOPE"]
worst = {}


def tensors(path):
    """{name: (numbers, shape)} of a safetensors file of F64."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    assert all(t["dtype"] == "F64" for t in header.values()), path
    return {name: (struct.unpack(f"<{math.prod(t['shape'])}d", data[slice(*t["data_offsets"])]), t["shape"]) for name, t in header.items()}


def near(what, got, want, tolerance):
    assert got is not None and abs(got - want) <= tolerance, f"{what}: {got!r}, expected {want!r} within {tolerance:.1e}"
    kind = what.split(":")[0]
    worst[kind] = max(worst.get(kind, 0), abs(got - want))


def scan(*options):
    done = subprocess.run([program, "scan", case, "--precision", "f64", "--quiet", "--json", "-", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["tables"]


# ---- matrices as lists of rows [in, out] ----

def rows(flat, shape):
    return [list(flat[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]


def turned(m):
    return [list(column) for column in zip(*m)]


def times(a, b):
    columns = turned(b)
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def minus(a, b):
    return [[x - y for x, y in zip(p, q)] for p, q in zip(a, b)]


def norm(m):
    return math.sqrt(math.fsum(x * x for row in m for x in row))


def maps(weights, layer):
    """{W_Q, W_K, W_V, W_O}, heads, key/value heads."""
    config = json.load(open(f"{case}/config.json"))
    if config["model_type"] == "gpt2":
        at, d, heads = f"transformer.h.{layer}.attn", config["n_embd"], config["n_head"]
        fused = rows(*weights[f"{at}.c_attn.weight"])
        parts = {name: [row[i * d:(i + 1) * d] for row in fused] for i, name in enumerate(("W_Q", "W_K", "W_V"))}
        return parts | {"W_O": rows(*weights[f"{at}.c_proj.weight"])}, heads, heads
    at = f"model.layers.{layer}.self_attn"
    return {f"W_{n.upper()}": turned(rows(*weights[f"{at}.{n}_proj.weight"])) for n in "qkvo"}, config["num_attention_heads"], config["num_key_value_heads"]


def product(w, kind, head, heads, groups):
    """The product of a group: [rows of all members, columns of all members]."""
    share, r = heads // groups, len(w["W_Q"][0]) // heads
    own, members = slice(head * r, (head + 1) * r), [slice((head * share + j) * r, (head * share + j + 1) * r) for j in range(share)]
    if kind == "qk":
        keys = turned([row[own] for row in w["W_K"]])
        return [row for m in members for row in times([q[m] for q in w["W_Q"]], keys)]
    values = [row[own] for row in w["W_V"]]
    return [sum(parts, []) for parts in zip(*(times(values, w["W_O"][m]) for m in members))]


def under(x, m):
    """X M; of stacked queries each its own X M."""
    n = len(x[0])
    return [row for first in range(0, len(m), n) for row in times(x, m[first:first + n])]


# ---- what is held ----

def check_rows(of, tables):
    got = {(r["energy"], r["layer"], r["matrix"], r["product"], r["head"]): r for r in tables["energy"]}
    assert len(got) == len(of["rows"]), (len(got), len(of["rows"]))
    for want in of["rows"]:
        key = (want["energy"], want["layer"], want["matrix"], want["product"], want["head"])
        row = got[key]
        for name in "rank", "weighted_rank", "parameters":
            assert row[name] == want[name], (key, name, row[name], want[name])
        near(f"plain error: {key}", row["relative_error"], want["relative_error"], 1e-12)
        near(f"weighted error: {key}", row["weighted_error"], want["weighted_error"], 1e-12)
    for want in of["cuts"]:
        line = next(r for r in tables["compression"] if r["energy"] == want["energy"])
        assert (line["parameters"], line["parameters_left"]) == (want["parameters"], want["left"]), (line, want)
        near("loss: before", line["nll"], of["nll"], 1e-12)
        near(f"loss: {want['energy']}", line["nll_truncated"], want["nll"], 1e-12)
        near(f"loss: change {want['energy']}", line["loss_change"], want["nll"] - of["nll"], 1e-12)


def check_written(which, energy, expected, searches, chosen, tables):
    """Every tensor of the written file; with X, that its ranks leave what was printed, and a search found no less."""
    source, written = tensors(f"{case}/model.safetensors"), tensors("written/model.safetensors")
    assert source.keys() == written.keys() and any(written[n] != source[n] for n in source)
    for name, (numbers, _) in written.items():
        want = expected.get(f"{which}.{energy}.{name}", source[name])[0]
        if want is source[name][0]:
            assert numbers == want, f"{name} changed"
        else:
            size = math.sqrt(math.fsum(x * x for x in want))
            near(f"written tensor: {name}", math.dist(numbers, want) / size, 0, 1e-12)
    for beside in "config.json", "tokenizer.json":
        assert filecmp.cmp(f"{case}/{beside}", f"written/{beside}", shallow=False), beside
    if which != "short":
        return
    cut = 0
    for row in tables["energy"]:
        layer, matrix, kind = row["layer"], row["matrix"], row["product"]
        x = rows(*expected[f"short.x.{layer}.{'W_O' if matrix == 'W_O' else 'W_Q'}"])
        assert len(x) < len(x[0])  # XᵀX is singular
        (old, heads, groups), new = maps(source, layer), maps(written, layer)[0]
        before, after = (w[matrix] if matrix else product(w, kind, row["head"], heads, groups) for w in (old, new))
        found = next(s["found"] for s in searches if (s["energy"], s["layer"], s["matrix"], s["product"], s["head"]) ==
                     (energy, layer, matrix, kind, row["head"]))
        at = f"{layer} {matrix or kind} {row['head']}"
        near(f"beyond a search: {at}", found, row["weighted_error"], 1e-8)
        way = chosen[layer, kind or ("qk" if matrix in ("W_Q", "W_K") else "ov")]
        if way != ("matrices" if matrix else "products") or not row["weighted_saved"]:
            continue
        left = norm(under(x, minus(before, after))) / norm(under(x, before))
        near(f"what is left: {at}", left, row["weighted_error"], 1e-12)
        assert left <= found + 1e-10, (at, left, found)
        cut += 1
    assert cut >= 4, cut


expected = json.load(open(f"{case}/expected.json"))
arrays = tensors(f"{case}/expected.safetensors")
for which, of in expected.items():
    with open("text.txt", "w") as f:
        f.write(of["text"])
    options = ["--text", "text.txt", "--seq-len", str(of["length"])]
    check_rows(of, scan("--energy", ",".join(str(c["energy"]) for c in of["cuts"]), *options))
    for c in of["cuts"]:
        shutil.rmtree("written", ignore_errors=True)
        tables = scan("--energy", str(c["energy"]), *options, "--write", "written")
        check_written(which, c["energy"], arrays, of["searches"], {(w["layer"], w["product"]): w["way"] for w in c["chosen"]}, tables)
print(os.path.basename(case) + ":", ", ".join(f"{kind} {value:.1e}" for kind, value in worst.items()))
