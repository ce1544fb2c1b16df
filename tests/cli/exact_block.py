"""exact_block.py RANKSCOPE SEEDS: what `certify` claims of one post-norm BERT block against the same block in 60 digits.

Each seed writes a checkpoint of its own into ./block: one layer of two heads whose weights, gains and biases span many decades (keys of 1e-16 beside
key biases of 1e14, gains and stds of 1e-6, output biases of 1e8; every sixth seed states of 1e160, whose squares no double holds, every sixth logits of -1e310), runs `certify` on it with and without --rigorous, takes the float64 state that
enters the block from `probe --taps`, and evaluates the block on it in decimal arithmetic. A claim is false where the exact number contradicts it.
Prints each false claim with its seed, and how many claims of each kind were tried; exit 1 when one is false or a kind was never tried.
"""
import json
import math
import random
import struct
import subprocess
import sys
from collections import Counter
from decimal import Decimal as D, getcontext

getcontext().prec = 60
WIDTH, HEADS, VOCAB, TOKENS, INNER = 4, 2, 9, 5, 6
KEPT = D("0.9")
REAL = {"F32": ("f", 4), "F64": ("d", 8)}


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def write_model(draw, huge, overflow):
    """Tensors as float32 numbers (`huge`, `overflow`: scaled, as float64 ones); returns them by name, row by row."""
    def scale(*decades):
        return 10.0 ** draw.choice(decades)

    def normal(shape, size):
        return [[single(draw.gauss(0, size)) for _ in range(shape[1])] for _ in range(shape[0])]

    def vector(n, size, mean=0.0):
        return [[single(mean + draw.gauss(0, size)) for _ in range(n)]]

    layer = "encoder.layer.0."
    swallowed, gain = draw.random() < 0.4, scale(-6, -3, 0)
    if swallowed:  # keys vanish beside their bias: the pass sees uniform attention where there is none
        key, key_bias, query, value, value_bias = 1e-16, scale(8, 11, 14), 1e17 / gain, 1e2, 1.0
    else:
        key, key_bias, query, value, value_bias = scale(-3, 0, 1), scale(-3, 0, 3), 1.0, scale(-3, 0), scale(-3, 0, 4)
    t = {"embeddings.word_embeddings.weight": normal((VOCAB, WIDTH), 1.0),
         "embeddings.position_embeddings.weight": normal((16, WIDTH), scale(-3, -1)),
         "embeddings.token_type_embeddings.weight": normal((2, WIDTH), 0.1),
         "embeddings.LayerNorm.weight": vector(WIDTH, gain),
         "embeddings.LayerNorm.bias": vector(WIDTH, scale(-3, 0, 3))}
    for name, rows, size, bias in (("attention.self.query", WIDTH, query, scale(-3, 0)), ("attention.self.key", WIDTH, key, key_bias),
                                   ("attention.self.value", WIDTH, value, value_bias),
                                   ("attention.output.dense", WIDTH, scale(-3, 0), scale(-3, 0, 8)), ("intermediate.dense", INNER, 1.0, 0.1)):
        t[layer + name + ".weight"] = normal((rows, WIDTH), size)
        t[layer + name + ".bias"] = vector(rows, bias)
    t[layer + "output.dense.weight"] = normal((WIDTH, INNER), 0.0)
    t[layer + "output.dense.bias"] = vector(WIDTH, 0.0)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        t[layer + name + ".weight"] = vector(WIDTH, 0.1, scale(-6, 0))
        t[layer + name + ".bias"] = vector(WIDTH, 0.1)
    dtype = "F64" if huge or overflow else "F32"
    if overflow:  # tokens that are near each other, and queries that are minus their keys: no logit is a double
        words = t["embeddings.word_embeddings.weight"]
        t["embeddings.word_embeddings.weight"] = [[10 * a + 0.1 * b for a, b in zip(words[0], row)] for row in words]
        t["embeddings.LayerNorm.weight"] = vector(WIDTH, 0, 1)
        t["embeddings.LayerNorm.bias"] = vector(WIDTH, 0)
        query, key = layer + "attention.self.query.weight", layer + "attention.self.key.weight"
        t[query] = normal((WIDTH, WIDTH), 1.0)
        t[query], t[key] = [[x * 1e157 for x in row] for row in t[query]], [[x * -1e157 for x in row] for row in t[query]]
        t[layer + "attention.self.value.weight"] = normal((WIDTH, WIDTH), 1e-3)
        t[layer + "attention.self.value.bias"] = vector(WIDTH, 10.0)
        t[layer + "attention.output.dense.weight"] = normal((WIDTH, WIDTH), 1.0)
        t[layer + "attention.output.dense.bias"] = vector(WIDTH, 0.1)
    if huge:
        for name, size in (("embeddings.LayerNorm.weight", 1e160), ("embeddings.LayerNorm.bias", 1e160),
                           (layer + "attention.self.query.weight", 1e-160), (layer + "attention.self.key.weight", 1e-160)):
            t[name] = [[x * size for x in row] for row in t[name]]
        t[layer + "attention.self.key.bias"] = vector(WIDTH, 1e16)
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS,
              "intermediate_size": INNER, "vocab_size": VOCAB, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "relu",
              "layer_norm_eps": 10.0 ** draw.choice((-12, -5))}
    header, data = {}, b""
    for name, rows in t.items():
        flat = [x for row in rows for x in row]
        shape = [len(rows), len(rows[0])] if name.endswith("weight") and "LayerNorm" not in name else [len(flat)]
        code, size = REAL[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size * len(flat)]}
        data += struct.pack("%d%s" % (len(flat), code), *flat)
    head = json.dumps(header).encode()
    with open("block/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)
    with open("block/config.json", "w") as file:
        json.dump(config, file)
    return {name: [[D(x) for x in row] for row in rows] for name, rows in t.items()}, D(config["layer_norm_eps"])


def read_tap(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    entry = next(e for name, e in header.items() if name.startswith("layer.0.block_out"))
    code, bytes_each = REAL[entry["dtype"]]
    assert bytes_each == 8
    begin, end = entry["data_offsets"]
    flat = struct.unpack("<%d%s" % ((end - begin) // 8, code), data[8 + size + begin:8 + size + end])
    return [[D(x) for x in flat[i:i + WIDTH]] for i in range(0, len(flat), WIDTH)]


def linear(x, weight, bias):
    return [[sum(a * b for a, b in zip(row, w)) + c for w, c in zip(weight, bias[0])] for row in x]


def norm(x, gain, bias, eps):
    out = []
    for row in x:
        mean = sum(row) / WIDTH
        std = (sum((a - mean) ** 2 for a in row) / WIDTH + eps).sqrt()
        out.append([(a - mean) / std * g + b for a, g, b in zip(row, gain[0], bias[0])])
    return out


def attention(x, t):
    q, k, v = (linear(x, t["encoder.layer.0.attention.self.%s.weight" % n], t["encoder.layer.0.attention.self.%s.bias" % n])
               for n in ("query", "key", "value"))
    dim, mixed = WIDTH // HEADS, [[] for _ in x]
    for h in range(HEADS):
        part = slice(h * dim, (h + 1) * dim)
        for i, row in enumerate(q):
            logits = [sum(a * b for a, b in zip(row[part], other[part])) / D(dim).sqrt() for other in k]
            most = max(logits)
            weights = [(x - most).exp() for x in logits]
            total = sum(weights)
            mixed[i] += [sum(w * other[c] for w, other in zip(weights, v)) / total for c in range(part.start, part.stop)]
    name = "encoder.layer.0.attention.output.dense"
    return linear(mixed, t[name + ".weight"], t[name + ".bias"])


def spread(x):
    means = [sum(column) / len(x) for column in zip(*x)]
    return sum((a - m) ** 2 for row in x for a, m in zip(row, means)).sqrt()


def diameter(x):
    return max(sum((a - b) ** 2 for a, b in zip(r, s)).sqrt() for r in x for s in x)


def check(program, seed, tried):
    """The false claims of one seed."""
    draw, wrong = random.Random(seed), []
    t, eps = write_model(draw, seed % 6 == 5, seed % 6 == 4)
    with open("ids.json", "w") as file:
        json.dump([[draw.randrange(VOCAB) for _ in range(TOKENS)]], file)
    subprocess.run([program, "probe", "block", "--tokens", "ids.json", "--precision", "f64", "--taps", "taps.safetensors", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    x = read_tap("taps.safetensors")
    branch = attention(x, t)
    first, second = "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"

    def behind(strength):
        total = [[D(strength) * a + b for a, b in zip(r, s)] for r, s in zip(x, branch)]
        return norm(total, t[first + ".weight"], t[first + ".bias"], eps)

    mixed, before = behind(1), spread(x)
    out = norm(mixed, t[second + ".weight"], t[second + ".bias"], eps)
    if before == 0:
        return []

    def claim(kind, text, holds):
        tried[kind] += 1
        if not holds:
            wrong.append("seed %d%s: %s" % (seed, rigorous, text))

    for rigorous in ("", " --rigorous"):
        run = subprocess.run([program, "certify", "block", "--tokens", "ids.json", "--json", "-", *rigorous.split()], capture_output=True, check=True)
        tables = json.loads(run.stdout)["tables"]
        bound, row = tables["bounds"][0], tables["lambda"][0]
        if bound["certified_one_layer"] is not None:
            claim("at most", "diameter %.17g, at most %.17g" % (diameter(out), bound["certified_one_layer"]),
                  diameter(out) <= D(bound["certified_one_layer"]))
        if bound["certified_at_least"]:
            claim("at least", "diameter %.17g, at least %.17g" % (diameter(out), bound["certified_at_least"]),
                  diameter(out) >= D(bound["certified_at_least"]))
        if row["over_smoothing_v"] is not None:
            claim("over-smoothing", "grew %.6g, v %.6g" % (spread(out) / before, row["over_smoothing_v"]),
                  spread(out) <= D(row["over_smoothing_v"]) * before)
        if row["kept_now"] is not None:
            off, error = abs(spread(mixed) / before - D(row["kept_now"])), row["kept_now_error"]
            claim("kept now", "off by %.3g, error %r" % (off, error), error is not None and error >= 0 and off <= D(error))
        for name, sign in (("lambda_certified", 1), ("lambda_certified_negative", -1)):
            if row[name] is None:
                continue
            for more in (0, abs(row[name]) / 3 + 1e-3, 1e9):
                strength = D(row[name]) + sign * D(more)
                claim(name, "%s + %g keeps %.6g" % (name, more, spread(behind(strength)) / before), spread(behind(strength)) >= KEPT * before)
        for interval in tables["intervals"]:
            low, high = interval["low"], interval["high"]
            if interval["answer"] == "unknown":
                continue
            ends = [e for e in (low, high) if e is not None] or [0.0]
            points = ends + [sum(ends) / len(ends)] + ([low + abs(low) + 1] if high is None and low is not None else [])
            for strength in points:
                keeps = spread(behind(strength)) >= KEPT * before
                claim(interval["answer"], "%s at %.17g of [%s, %s]: keeps %.17g" % (interval["answer"], strength, low, high, spread(behind(strength)) / before),
                      keeps == (interval["answer"] == "yes") or (strength in ends and len(ends) == 2))
    return wrong


def main():
    tried, wrong = Counter(), []
    for seed in range(int(sys.argv[2])):
        wrong += check(sys.argv[1], seed, tried)
    print("\n".join(wrong[:40]))
    print(len(wrong), "false claims;", ", ".join("%s %d" % pair for pair in sorted(tried.items())))
    kinds = ("at most", "at least", "over-smoothing", "kept now", "lambda_certified", "yes", "no")
    missing = [kind for kind in kinds if not tried[kind]]
    if missing:
        print("never tried:", *missing)
    return bool(wrong or missing)


if __name__ == "__main__":
    sys.exit(main())
