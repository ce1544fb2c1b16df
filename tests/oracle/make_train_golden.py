"""Writes tests/golden/train/losses.json: losses of the head, rows of numbers, biases, gains and dropout as PyTorch's autograd
has them, in float64.

A case is an architecture file, a batch (ids or rows, first row of each sample), a loss and perhaps dropout. Weights are not
stored: number i of the tensor NAME is 0.4 sin(0.9 + 0.37 k + 2.399963 i), k the sum of the bytes of NAME, plus 1 in gains of
norms. Masks of dropout come from an own Philox4x32-10 (Salmon et al. 2011): the key is words 0 and 1 of the counter (step, 0,
0) under the seed; word c % 4 of the counter (c / 4, row, head, layer << 4 | branch << 2 | place) is column c's, place 0 the
embedding, 1 an op's result, 2 probabilities; below rate 2^32 it drops. Re-run with the versions of requirements.txt:
    python tests/oracle/make_train_golden.py
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "train" / "losses.json"
M32 = 0xFFFFFFFF


def philox(counter, key):
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (q >> 32) ^ b ^ k0, q & M32, (p >> 32) ^ d ^ k1, p & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return a, b, c, d


class Dropout:
    def __init__(self, o):
        self.rate, self.first = o["rate"], o["first_row"]
        seed, step = o["seed"], o["step"]
        self.key = philox((step & M32, step >> 32, 0, 0), (seed & M32, seed >> 32))[:2]

    def mask(self, rows, cols, place, layer=0, branch=0, head=0):
        below = int(self.rate * 2**32)
        tag = layer << 4 | branch << 2 | place
        out = torch.empty(len(rows), cols)
        for x, row in enumerate(rows):
            for g in range((cols + 3) // 4):
                words = philox((g, (self.first + row) & M32, head, tag), self.key)
                for w in range(min(4, cols - 4 * g)):
                    out[x, 4 * g + w] = 0 if words[w] < below else 1 / (1 - self.rate)
        return out


class Weights(dict):
    def __missing__(self, item):
        name, shape = item
        k, n = sum(name.encode()), math.prod(shape)
        values = [0.4 * math.sin(0.9 + 0.37 * k + 2.399963 * i) for i in range(n)]
        gain = "norm" in name and ".bias" not in name
        self[item] = torch.tensor([v + gain for v in values]).reshape(shape).requires_grad_()
        return self[item]


def run(case):
    """Outputs of the head [rows, outputs], and the weights that were read."""
    a, begin = case["arch"], case["begin"]
    w, d, heads = Weights(), a["d_model"], a["heads"]
    dh, drop = d // heads, Dropout(case["dropout"]) if "dropout" in case else None
    affine = a.get("norm_affine", "none")

    def linear(x, name, out, bias, again=""):
        b = w[name + ".bias" + again, (out,)] if bias else None
        return F.linear(x, w[name + again, (out, x.shape[-1])], b)

    def norm(x, name, affine):
        g = w[name, (d,)] if affine != "none" else None
        b = w[name + ".bias", (d,)] if affine == "both" else None
        if a.get("norm_kind") == "rmsnorm":
            y = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
            return y if g is None else y * g
        return F.layer_norm(x, (d,), g, b, 1e-5)

    ends = a.get("rows") or a.get("embed") or {}
    if "rows" in a:
        x = torch.tensor(case["rows"])
    else:
        x = w["embed_token", (a["vocab"], d)][torch.tensor(case["ids"])]
    if ends.get("map", "linear" if "rows" in a else "none") == "mlp":
        x = F.gelu(linear(x, "embed_projection", ends.get("map_width") or d, True))
        x = linear(x, "embed_projection", d, True, " (2)")
    elif "rows" in a or ends.get("map") == "linear":
        x = linear(x, "embed_projection", d, True)
    at = torch.tensor([p for s in range(len(begin) - 1) for p in range(begin[s + 1] - begin[s])])
    if a.get("positions") == "learned":
        x = x + w["embed_position", (a["seq_len"], d)][at]
    if a.get("positions") == "sinusoidal":
        rate = torch.tensor([10000 ** (-(c - c % 2) / d) for c in range(d)])
        angle = at[:, None] * rate
        table = torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())
        x = x + table.float().double()
    if ends.get("norm"):
        x = F.layer_norm(x, (d,), w["norm_embed", (d,)], w["norm_embed.bias", (d,)], 1e-5)
    rows = list(range(x.shape[0]))
    if drop:
        x = x * drop.mask(rows, d, 0)

    def attention(x, l):
        q, k, v = (linear(x, f"layer {l} {n}", d, a.get("bias")) for n in "qkv")
        out = torch.zeros_like(x)
        for s in range(len(begin) - 1):
            span = slice(begin[s], begin[s + 1])
            for h in range(heads):
                c = slice(h * dh, (h + 1) * dh)
                n = begin[s + 1] - begin[s]
                logits = q[span, c] @ k[span, c].T / math.sqrt(dh)
                if a.get("mask") == "causal":
                    logits = logits.masked_fill(torch.ones(n, n).triu(1) > 0, -math.inf)
                p = logits.softmax(-1)
                if drop:
                    p = p * drop.mask(rows[span], n, 2, l, 0, h)
                out = out.index_put((torch.arange(begin[s], begin[s + 1])[:, None], torch.arange(d)[c]), p @ v[span, c])
        return linear(out, f"layer {l} o", d, a.get("bias"))

    def mlp(x, l):
        width, bias = a.get("mlp_width", 4 * d), a.get("bias")
        up = linear(x, f"layer {l} mlp_up", width, bias)
        if a["mlp"] == "swiglu":
            h = F.silu(linear(x, f"layer {l} mlp_gate", width, bias)) * up
        else:
            h = {"relu": F.relu, "gelu": F.gelu}[a["mlp"]](up)
        return linear(h, f"layer {l} mlp_down", d, bias)

    place = a.get("norm", "pre")
    for l in range(a["depth"]):
        for b, (op, name) in enumerate(((attention, "norm_mixer"), (mlp, "norm_mlp"))):
            if op is mlp and a["mlp"] == "none":
                continue
            y = norm(x, f"layer {l} {name}", affine) if place in ("pre", "sandwich") else x
            y = op(y, l)
            if drop:
                y = y * drop.mask(rows, d, 1, l, b)
            if place == "sandwich":
                y = norm(y, f"layer {l} {name}_out", affine)
            x = x + y
            if place == "post":
                x = norm(x, f"layer {l} {name}", affine)
    if place in ("pre", "sandwich"):
        x = norm(x, "norm_final", affine)
    return linear(x, "lm_head", a.get("outputs") or a["vocab"], a.get("bias")), w


def loss_of(out, o):
    """The loss, and how many rows are right."""
    kind, rows = o["kind"], torch.arange(out.shape[0])
    if kind in ("targets", "hinge"):
        target = torch.tensor(o["targets"])
        rows = rows[target >= 0]
        z, y = out[rows], target[target >= 0]
        if kind == "targets":
            loss = F.cross_entropy(z, y, reduction="sum", label_smoothing=o.get("smoothing", 0.0))
        elif out.shape[1] > 1:
            loss = F.multi_margin_loss(z, y, reduction="sum")
        else:
            loss = (1 - z[:, 0] * (2 * y - 1)).clamp(min=0).sum()
        right = ((z[:, 0] > 0) == (y == 1)).sum() if out.shape[1] == 1 else (z.argmax(-1) == y).sum()
        return o["weight"] * loss, len(y), int(right)
    y = torch.tensor(o["values"])
    counted = torch.tensor(o.get("counted", [1] * out.shape[0])) > 0
    z, y = out[counted], y[counted]
    if kind == "shares":
        loss = F.cross_entropy(z, y, reduction="sum", label_smoothing=o.get("smoothing", 0.0))
        return o["weight"] * loss, len(y), int((z.argmax(-1) == y.argmax(-1)).sum())
    return o["weight"] * F.mse_loss(z, y, reduction="sum"), len(y), 0


def cases():
    g = torch.Generator().manual_seed(20)

    def ints(n, high):
        return torch.randint(0, high, (n,), generator=g).tolist()

    def reals(*shape):
        return [[round(float(x), 4) for x in r] for r in torch.randn(*shape, generator=g)]

    def some(targets, share):
        return [t if float(torch.rand(1, generator=g)) < share else -1 for t in targets]

    recall = {"depth": 2, "d_model": 8, "heads": 2, "mask": "causal", "positions": "learned", "norm": "pre", "norm_affine": "gain",
              "mlp": "relu", "mlp_width": 12, "vocab": 9, "outputs": 4, "seq_len": 7}
    hull = {"depth": 2, "d_model": 6, "heads": 3, "norm": "post", "norm_affine": "both", "bias": True, "mlp": "gelu",
            "rows": {"width": 2, "map": "mlp", "map_width": 5, "norm": True}, "outputs": 3, "positions": "learned", "seq_len": 8}
    sandwich = {"depth": 1, "d_model": 8, "heads": 2, "norm": "sandwich", "norm_affine": "both", "bias": True, "mlp": "swiglu",
                "mlp_width": 10, "vocab": 7, "embed": {"map": "linear", "norm": True}, "positions": "sinusoidal", "seq_len": 9}
    bare = {"depth": 2, "d_model": 6, "heads": 1, "norm": "post", "mlp": "none", "rows": {"width": 3}, "outputs": 3}
    single = {"depth": 1, "d_model": 4, "heads": 2, "norm": "pre", "norm_kind": "rmsnorm", "norm_affine": "gain", "mlp": "gelu",
              "mlp_width": 5, "vocab": 5, "outputs": 1, "embed": {"map": "mlp", "map_width": 7}, "bias": True, "mask": "causal"}
    ids, begin = ints(14, 9), [0, 7, 14]
    few = [-1, -1, -1, -1, -1, 2, 0, -1, -1, -1, -1, -1, 3, 3]
    out = [
        ("recall", recall, {"ids": ids}, begin, {"kind": "targets", "targets": few, "weight": 0.25}),
        ("recall_smooth", recall, {"ids": ids}, begin, {"kind": "targets", "targets": ints(14, 4), "weight": 1, "smoothing": 0.1}),
        ("recall_hinge", recall, {"ids": ids}, begin, {"kind": "hinge", "targets": some(ints(14, 4), 0.6), "weight": 0.5}),
        ("recall_dropout", recall, {"ids": ids}, begin, {"kind": "targets", "targets": few, "weight": 0.25},
         {"rate": 0.3, "seed": 5, "step": 3, "first_row": 0}),
        ("hull", hull, {"rows": reals(13, 2)}, [0, 5, 5, 13], {"kind": "targets", "targets": ints(13, 3), "weight": 1 / 13}),
        ("hull_squared", hull, {"rows": reals(13, 2)}, [0, 5, 5, 13], {"kind": "squared", "values": reals(13, 3), "weight": 0.1,
         "counted": [1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]}),
        ("hull_dropout", hull, {"rows": reals(11, 2)}, [0, 4, 11], {"kind": "squared", "values": reals(11, 3), "weight": 0.1},
         {"rate": 0.1, "seed": 2**40 + 7, "step": 2**33 + 1, "first_row": 1000}),
        ("sandwich", sandwich, {"ids": ints(9, 7)}, [0, 9], {"kind": "targets", "targets": ints(9, 7), "weight": 0.2}),
        ("sandwich_dropout", sandwich, {"ids": ints(12, 7)}, [0, 9, 12], {"kind": "targets", "targets": ints(12, 7), "weight": 0.2,
         "smoothing": 0.05}, {"rate": 0.5, "seed": 0, "step": 0, "first_row": 17}),
        ("bare_hinge", bare, {"rows": reals(10, 3)}, [0, 4, 10], {"kind": "hinge", "targets": ints(10, 3), "weight": 0.3}),
        ("single_hinge", single, {"ids": ints(8, 5)}, [0, 3, 8], {"kind": "hinge", "targets": [0, 1, -1, 1, 1, 0, -1, 0], "weight": 0.5}),
    ]
    shares = torch.rand(10, 3, generator=g) + 0.05
    shares = (shares / shares.sum(-1, keepdim=True)).tolist()
    out += [("bare_shares", bare, {"rows": reals(10, 3)}, [0, 4, 10], {"kind": "shares", "values": shares, "weight": 0.3,
             "smoothing": 0.2}),
            ("bare_some_shares", bare, {"rows": reals(10, 3)}, [0, 4, 10], {"kind": "shares", "values": shares, "weight": 0.3,
             "counted": [0, 0, 1, 0, 0, 0, 0, 1, 1, 0]}),
            ("bare_squared_of_one", bare, {"rows": reals(10, 3)}, [0, 4, 10], {"kind": "squared", "values": reals(10, 3), "weight": 2,
             "counted": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]})]
    for name, arch, data, begin, loss, *dropout in out:
        case = {"name": name, "arch": arch, **data, "begin": begin, "loss": loss}
        if dropout:
            case["dropout"] = dropout[0]
        yield case


def main():
    kept = []
    for case in cases():
        out, weights = run(case)
        loss, counted, right = loss_of(out, case["loss"])
        loss.backward()
        grads = {name: [float(f"{v:.11g}") for v in t.grad.flatten().tolist()] for (name, _), t in weights.items()}
        kept.append({**case, "value": loss.item(), "targets": counted, "right": right, "gradients": grads})
    OUT.write_text("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in kept) + "]\n")
    print(OUT, OUT.stat().st_size, "bytes,", len(kept), "cases")


if __name__ == "__main__":
    main()
