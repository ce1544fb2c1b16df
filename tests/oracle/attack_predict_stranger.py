#!/usr/bin/env python3
"""`rankscope predict` against networks that this file draws itself, written from the documents alone.

    python attack_predict_stranger.py BINARY [--cases 60] [--first 0] [--only mc,rule,...] [--draws 1.0]

Needs PyTorch. One line a check: 'ok' or 'FAIL', its name, what was seen. Exit 1 where one failed.
Monte Carlo: weights, tokens, attention and norms by docs/arch.md in float64, gradients of <G, X^L> by autograd.
Tolerances: docs/theory/mean_field.md 4 and the issue (|drho| <= 0.03 + 1.5/d + 3 se, 0.08 without skips; F2 10 %,
gV 25 %, gQ a factor 1.6, 3.5 without skips or where 1 - rho < 0.1); rows outside must carry a theory_note.
"""
import argparse, copy, json, math, os, random, re, signal, subprocess, sys, tempfile, time
import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
EPS = 1e-5
BINARY = None
FAILED = []
WIDEST = {}


def check(name, ok, seen=""):
    print(("ok   " if ok else "FAIL ") + name + (": " + seen if seen else ""), flush=True)
    if not ok:
        FAILED.append(name)


def widest(name, value, where):
    if value is not None and value > WIDEST.get(name, (-1,))[0]:
        WIDEST[name] = (value, where)


def call(args, arch=None, timeout=300, folder=None):
    """exit status, standard output, standard error of one run; arch: a description, written to a file first."""
    with tempfile.TemporaryDirectory() as place:
        words = list(args)
        if arch is not None:
            path = os.path.join(place, "arch.json")
            with open(path, "w") as f:
                f.write(arch if isinstance(arch, str) else json.dumps(arch))
            words = [path] + words
        done = subprocess.run([BINARY, "predict"] + words, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def predict(arch, *args, threads="1"):
    status, out, err = call(list(args) + ["--json", "-", "--threads", threads], arch)
    if status not in (0,):
        raise RuntimeError("exit %d: %s" % (status, err.strip()[:300]))
    return json.loads(out)


# ---------------------------------------------------------------- the description, by docs/arch.md

def value(x, names):
    if isinstance(x, (int, float)):
        return float(x)
    return float(eval(x.replace("^", "**"), {"__builtins__": {}, "sqrt": math.sqrt}, names))


def strengths(x, L):
    if isinstance(x, list):
        return [value(y, {"L": L, "l": l}) for l, y in enumerate(x)]
    return [value(x, {"L": L, "l": l}) for l in range(L)]


class Arch:
    def __init__(self, given):
        g = given.get
        self.L, self.d = g("depth", 12), g("d_model", 64)
        self.h = g("heads", 1)
        self.kv = g("kv_heads", self.h)
        self.dh = g("d_head", self.d // self.h)
        self.n = g("seq_len", 16)
        self.attention, self.mask, self.positions = g("attention", "softmax"), g("mask", "none"), g("positions", "none")
        self.shaped, self.rescale = g("shaped", [1, 1, 1]), g("rescale", 1)
        self.temperature = g("temperature", 1)
        self.norm, self.kind, self.mlp = g("norm", "pre"), g("norm_kind", "layernorm"), g("mlp", "gelu")
        self.width = g("mlp_width", 4 * self.d)
        self.skip_mixer, self.skip_mlp = strengths(g("skip_mixer", 1), self.L), strengths(g("skip_mlp", 1), self.L)
        self.branch_mixer = strengths(g("branch_mixer", 1), self.L)
        self.branch_mlp = strengths(g("branch_mlp", 1), self.L)
        self.init = g("init", {})
        put = g("input", {})
        names = {"d": self.d, "n": self.n, "L": self.L}
        self.rho, self.norm2 = value(put.get("rho", 0), names), value(put.get("norm2", "d"), names)

    def law(self, name, fan_in, fan_out, T, generator):
        text = self.init.get(name)
        if text is None:
            text = "normal(0, 2/fan_in)" if name == "w1" and self.mlp == "relu" else "normal(0, 1/fan_in)"
        names = {"fan_in": fan_in, "fan_out": fan_out, "d": self.d, "L": self.L}
        found = re.fullmatch(r"(normal|uniform)\((.*),(.*)\)", text)
        if found:
            a, b = value(found[2].strip(), names), value(found[3].strip(), names)
            if found[1] == "normal":
                return a + math.sqrt(b) * torch.randn(T, fan_in, fan_out, generator=generator)
            return a + (b - a) * torch.rand(T, fan_in, fan_out, generator=generator)
        if text == "zero":
            return torch.zeros(T, fan_in, fan_out)
        if text == "orthogonal":
            big, small = max(fan_in, fan_out), min(fan_in, fan_out)
            q, r = torch.linalg.qr(torch.randn(T, big, small, generator=generator))
            q = q * torch.sign(torch.diagonal(r, dim1=1, dim2=2)).unsqueeze(1)
            return q if fan_in >= fan_out else q.transpose(1, 2).contiguous()
        raise ValueError(text)

    def tokens(self, T, generator):
        n, d, rho = self.n, self.d, self.rho
        if rho >= 0:
            u = torch.randn(T, 1, d, generator=generator)
            u = u / u.norm(dim=2, keepdim=True)
            v = torch.randn(T, n, d, generator=generator)
            if d > 1:
                v = v - (v * u).sum(2, keepdim=True) * u
            v = v / v.norm(dim=2, keepdim=True)
            x = math.sqrt(rho) * u + math.sqrt(1 - rho) * v
        else:
            assert n <= d
            gram = (1 - rho) * torch.eye(n) + rho * torch.ones(n, n)
            w, q = torch.linalg.eigh(gram)
            root = q * w.clamp(min=0).sqrt()
            frame = torch.linalg.qr(torch.randn(T, d, n, generator=generator))[0]
            x = root @ frame.transpose(1, 2)
        return math.sqrt(self.norm2) * x

    def normalise(self, x):
        if self.kind == "layernorm":
            x = x - x.mean(2, keepdim=True)
        return x / torch.sqrt((x * x).mean(2, keepdim=True) + EPS)


def visible(arch):
    i = torch.arange(arch.n)
    gap = i[:, None] - i[None, :]
    if arch.mask == "none":
        return torch.ones(arch.n, arch.n, dtype=torch.bool)
    if arch.mask == "causal":
        return gap >= 0
    return (gap >= 0) & (gap < int(arch.mask.split(":")[1]))


def rotate(x):
    n, dh = x.shape[2], x.shape[3]
    half = dh // 2
    angle = torch.arange(n)[:, None] * 10000.0 ** (-2.0 * torch.arange(half) / dh)[None, :]
    a, b, c, s = x[..., :half], x[..., half:], torch.cos(angle), torch.sin(angle)
    return torch.cat((a * c - b * s, b * c + a * s), 3)


ACT = {"linear": lambda z: z, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
       "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"), "sin": torch.sin, "sigmoid": torch.sigmoid}


def draw(arch, T, generator, loss_at="state"):
    """one batch of T networks: lists by layer of per-trial numbers."""
    n, d, L, h, kv, dh = arch.n, arch.d, arch.L, arch.h, arch.kv, arch.dh
    see = visible(arch)
    C = see.double() / see.sum(1, keepdim=True)
    x = arch.tokens(T, generator).requires_grad_(True)
    states, weights, keys, logits = [x], [], [], []
    merged = arch.init.get("wo") == "none"
    for l in range(L):
        W = {}
        if arch.branch_mixer[l] != 0:
            y = arch.normalise(x) if arch.norm in ("pre", "sandwich") else x
            W["Q"] = arch.law("wq", d, h * dh, T, generator).requires_grad_(True)
            W["K"] = arch.law("wk", d, kv * dh, T, generator).requires_grad_(True)
            if merged:
                W["V"] = torch.cat([arch.law("wv", d, d, T, generator) for _ in range(kv)], 2).requires_grad_(True)
            else:
                W["V"] = arch.law("wv", d, kv * dh, T, generator).requires_grad_(True)
                W["O"] = arch.law("wo", h * dh, d, T, generator).requires_grad_(True)
            wide = d if merged else dh
            q = (y @ W["Q"]).view(T, n, h, dh).transpose(1, 2)
            k = (y @ W["K"]).view(T, n, kv, dh).transpose(1, 2)
            v = (y @ W["V"]).view(T, n, kv, wide).transpose(1, 2)
            if kv < h:
                k, v = k.repeat_interleave(h // kv, 1), v.repeat_interleave(h // kv, 1)
            if arch.positions == "rope":
                q, k = rotate(q), rotate(k)
            z = q @ k.transpose(2, 3) / (math.sqrt(dh) * arch.temperature)
            A = torch.softmax(z.masked_fill(~see, -math.inf), 3)
            zd = z.detach()
            count = see.sum(1).double()
            mean = (zd * see).sum(3) / count
            var = ((zd - mean[..., None]) ** 2 * see).sum(3) / count
            s2 = (A.detach() ** 2).sum(3)
            if arch.mask != "none":
                var, s2 = var[..., -1:], s2[..., -1:]
            keys.append(s2.mean((1, 2)))
            logits.append(var.mean((1, 2)))
            I = torch.eye(n)
            if arch.attention == "uniform":
                A = C.expand_as(A)
                keys[-1] = ((C ** 2).sum(1)[-1 if arch.mask != "none" else slice(None)].mean() * torch.ones(T))
            elif arch.attention == "centred":
                A = A - C
            elif arch.attention == "shaped":
                a, b, c = arch.shaped
                A = a * I + b * A - c * C
            elif arch.attention == "rescaled":
                A = (1 + arch.rescale) * A - arch.rescale * C
            o = A @ v
            o = o.sum(1) if merged else o.transpose(1, 2).reshape(T, n, h * dh) @ W["O"]
            if arch.norm == "sandwich":
                o = arch.normalise(o)
            x = arch.skip_mixer[l] * x + arch.branch_mixer[l] * o
        else:
            keys.append(None), logits.append(None)
            x = arch.skip_mixer[l] * x
        if arch.norm == "post":
            x = arch.normalise(x)
        if arch.mlp != "none":
            if arch.branch_mlp[l] != 0:
                y = arch.normalise(x) if arch.norm in ("pre", "sandwich") else x
                up = y @ arch.law("w1", d, arch.width, T, generator)
                if arch.mlp == "swiglu":
                    up = torch.nn.functional.silu(y @ arch.law("wg", d, arch.width, T, generator)) * up
                else:
                    up = ACT[arch.mlp](up)
                o = up @ arch.law("w2", arch.width, d, T, generator)
                if arch.norm == "sandwich":
                    o = arch.normalise(o)
                x = arch.skip_mlp[l] * x + arch.branch_mlp[l] * o
            else:
                x = arch.skip_mlp[l] * x
            if arch.norm == "post":
                x = arch.normalise(x)
        x.retain_grad()
        states.append(x)
        weights.append(W)
    out = arch.normalise(x) if loss_at == "final" and arch.norm in ("pre", "sandwich") else x
    (out * torch.randn(T, n, d, generator=generator)).sum().backward()
    square = lambda t: (t.detach() ** 2).sum((1, 2))
    res = {"F2": [square(s) for s in states], "C": [(s.detach().sum(1) ** 2).sum(1) for s in states],
           "dX": [square(s.grad) if s.grad is not None else torch.zeros(T) for s in states], "s2": keys, "var": logits}
    for name in "QKVO":
        res["g" + name] = [None if name not in W else square(W[name].grad) if W[name].grad is not None
                           else torch.zeros(T) for W in weights]
    return res


def monte_carlo(arch, trials, seed, loss_at="state"):
    generator = torch.Generator().manual_seed(seed)
    per = arch.L * (4 * arch.d * arch.h * arch.dh + 3 * arch.d * arch.width) + 3 * arch.L * arch.h * arch.n ** 2
    batch = max(1, min(trials, 12_000_000 // per))
    parts = []
    while sum(p["F2"][0].numel() for p in parts) < trials:
        parts.append(draw(arch, batch, generator, loss_at))
    return {k: [None if p0 is None else torch.cat([p[k][i] for p in parts]) for i, p0 in enumerate(parts[0][k])]
            for k in parts[0]}


def moments(v):
    return v.mean().item(), (v.std().item() / math.sqrt(v.numel()) if v.numel() > 1 else math.inf)


def correlation(F2, C, n):
    """ratio of means and its standard error by the delta method"""
    f, c = F2.mean(), C.mean()
    r = c / f
    return ((r - 1) / (n - 1)).item(), ((C - r * F2).std() / f / (n - 1) / math.sqrt(F2.numel())).item()


# ---------------------------------------------------------------- random descriptions

def random_arch(seed):
    r = random.Random(seed * 7919 + 17)
    heads = r.choice([1, 2, 4])
    dh = r.choice([16, 32]) if heads > 1 else r.choice([32, 48, 64])
    d = heads * dh
    while d < 32:
        dh *= 2
        d = heads * dh
    n = r.choice([4, 6, 8, 12, 16, 24, 32, 48])
    a = {"depth": r.choice([1, 2, 3, 4, 6, 8, 10]), "d_model": d, "heads": heads, "seq_len": n,
         "norm": r.choice(["pre", "pre", "post", "post", "sandwich", "none"]), "norm_kind": r.choice(["layernorm", "rmsnorm"]),
         "mlp": r.choice(["relu", "gelu", "gelu_tanh", "swiglu", "linear", "none", "sin", "sigmoid"]),
         "mask": r.choice(["none", "none", "none", "causal", "causal", "sliding:%d" % r.choice([2, 3, 5])])}
    if heads > 1 and r.random() < .3:
        a["kv_heads"] = heads // 2
    if r.random() < .15:
        a["positions"] = "rope"
        if a["mask"] == "none" and r.random() < .5:
            a["mask"] = "causal"
    if r.random() < .3:
        a["mlp_width"] = r.choice([d, 2 * d, 3 * d])
    kind = r.choice(["softmax"] * 5 + ["uniform", "centred", "shaped", "rescaled"])
    if kind != "softmax":
        a["attention"] = kind
        if kind == "shaped":
            a["shaped"] = [1, r.choice([1, .5]), r.choice([1, .5])]
        if kind == "rescaled":
            a["rescale"] = r.choice([.5, 1])
    a["temperature"] = r.choice([1, 1, 1, .5, .7, 2, 4])
    if r.random() < .25:
        a["skip_mixer"] = r.choice([.7, 1.5, 2])
        a["skip_mlp"] = r.choice([.8, 1, "1+1/(l+1)"])
    elif r.random() < .12 and a["norm"] != "none":
        a["skip_mixer"] = a["skip_mlp"] = 0
    if r.random() < .4:
        a["branch_mixer"] = r.choice(["1/sqrt(L)", .5, "1/sqrt(l+1)", 2])
        a["branch_mlp"] = r.choice(["1/sqrt(L)", .5, 1])
    init = {}
    if r.random() < .25 and "kv_heads" not in a:
        init["wo"] = "none"
    if r.random() < .25:
        init["wq"] = r.choice(["normal(0, 2/(fan_in+fan_out))", "uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))", "normal(0, 0.01)"])
    if r.random() < .25:
        init["w1"] = r.choice(["normal(0, 2/(fan_in+fan_out))", "uniform(-sqrt(3/fan_in), sqrt(3/fan_in))", "orthogonal"])
    if init:
        a["init"] = init
    rho = r.choice([0, 0, 0, .2, .5, .9, "1/n", -.5])
    put = {"rho": rho}
    if rho == -.5:
        put["rho"] = "-1/(n-1)" if r.random() < .5 else -.5 / (n - 1)
        if n > d:
            put["rho"] = 0
    if a["norm"] in ("none", "post"):
        put["norm2"] = r.choice(["d", "d", "d/2", "sqrt(d)", "2*d"]) if a["norm"] == "post" else r.choice(["d", "d/4", 1])
    else:
        put["norm2"] = r.choice(["d", "d", "d/4", "4*d", "0.02*d"])
    a["input"] = put
    return a


def s_of(arch):
    """logits' deviation of the first layer"""
    T = arch.law("wq", arch.d, arch.h * arch.dh, 1, torch.Generator().manual_seed(0)).pow(2).mean().item()
    q = 1 if arch.norm in ("pre", "sandwich") else arch.norm2 / arch.d
    return math.sqrt(T * arch.d) * q / arch.temperature


def compare(case, given, own_trials, trials, loss_at="state"):
    arch = Arch(given)
    name = "mc %d" % case
    try:
        out = predict(given, "--trials", str(trials), "--seed", str(1000 + case), "--loss-at", loss_at, "--remedies", "rezero")
    except RuntimeError as e:
        return check(name + " runs", False, str(e) + " " + json.dumps(given))
    mine = monte_carlo(arch, own_trials, 5 + case, loss_at)
    n, d, L = arch.n, arch.d, arch.L
    F, B = out["tables"]["forward"], out["tables"]["backward"]
    bad, warned, none = [], 0, 0
    noskip = any(s == 0 for s in arch.skip_mixer + arch.skip_mlp)
    text = json.dumps(given)
    for l, row in enumerate(F):
        note = row.get("theory_note")
        warned += note is not None
        f2, f2_se = moments(mine["F2"][l])
        rho, rho_se = correlation(mine["F2"][l], mine["C"][l], n) if n > 1 else (0, 0)
        heavy = f2_se > .3 * f2
        # program's draws against ours
        for col, v in (("F2", mine["F2"][l]), ("C", mine["C"][l])):
            m, se = moments(v)
            got, gse = row.get(col), row.get(col + "_se")
            if got is None:
                bad.append("layer %d %s measured null" % (l, col)); continue
            z = abs(got - m) / (math.hypot(se, gse or 0) + 1e-9 * abs(m) + 1e-12 * d * n)
            if not heavy:
                widest("drawn %s, s.e." % col, z, name)
                if z > 5 and abs(got / m - 1) > 1e-6:
                    bad.append("layer %d %s drawn %.6g, ours %.6g, %.1f s.e." % (l, col, got, m, z))
        if row.get("rho") is not None and not heavy:
            z = abs(row["rho"] - rho) / (math.hypot(rho_se, row["rho_se"] or 0) + 1e-7)
            widest("drawn rho, s.e.", z, name)
            if z > 5:
                bad.append("layer %d rho drawn %.5f, ours %.5f, %.1f s.e." % (l, row["rho"], rho, z))
        logs = mine["F2"][l].clamp(min=1e-300).log10()
        m, se = moments(logs)
        if row.get("log10_F2") is not None and f2 > 0:
            z = abs(row["log10_F2"] - m) / (se * math.sqrt(1 + own_trials / trials) + 1e-6)
            widest("drawn log10 F2, s.e.", z, name)
            if z > 5:
                bad.append("layer %d log10_F2 drawn %.5f, ours %.5f" % (l, row["log10_F2"], m))
        e = (1 - rho)
        # theory
        t = row.get("F2_theory")
        if t is None:
            none += 1
            if note is None:
                bad.append("layer %d: no theory and no note" % l)
        elif not heavy:
            gap = abs(t / f2 - 1)
            if note is None:
                widest("theory F2, relative", gap, name)
            if gap > .10 + 3 * f2_se / f2 and note is None:
                bad.append("layer %d F2 theory %.6g, ours %.6g ± %.2g" % (l, t, f2, f2_se))
            gap = abs(row["rho_theory"] - rho) if row.get("rho_theory") is not None else None
            if gap is not None:
                if note is None:
                    widest("theory rho, absolute (%s)" % ("no skips" if noskip else "skips"), gap, name)
                if gap > (.08 if noskip else .03) + 1.5 / d + 3 * rho_se and note is None:
                    bad.append("layer %d rho theory %.4f, ours %.4f ± %.4f" % (l, row["rho_theory"], rho, rho_se))
        if l < L and mine["s2"][l] is not None:
            m, se = moments(mine["s2"][l])
            got = row.get("effective_keys")
            if got is not None:
                z = abs(1 / got - m) / (se * math.sqrt(1 + own_trials / trials) + 1e-6)
                widest("drawn 1/keys, s.e.", z, name)
                if z > 5:
                    bad.append("layer %d keys drawn %.4f, ours %.4f" % (l, got, 1 / m))
            t = row.get("effective_keys_theory")
            if t is not None and note is None:
                gap = abs(1 / t - m) / m
                widest("theory ΣA², relative", gap, name)
                if gap > .25 + 3 * se / m:
                    bad.append("layer %d keys theory %.4f, ours %.4f" % (l, t, 1 / m))
            m, se = moments(mine["var"][l])
            got = row.get("logit_std")
            if got is not None and arch.attention != "uniform":
                gap = abs(got / math.sqrt(m) - 1)
                widest("drawn logit_std against ours, relative", gap, name)
    for l, row in enumerate(B):
        note = row.get("theory_note")
        e = 1 - correlation(mine["F2"][l], mine["C"][l], n)[0]
        for X in "QKVO":
            v = mine["g" + X][l]
            got, theory = row.get("g" + X), row.get("g" + X + "_theory")
            lg, lt = row.get("log10_g" + X), row.get("log10_g" + X + "_theory")
            if v is None:
                if got not in (None, 0):
                    bad.append("layer %d g%s is %s of an absent map" % (l, X, got))
                continue
            m, se = moments(v)
            if m == 0:
                if lg is not None:
                    bad.append("layer %d g%s drawn 10^%s, ours 0" % (l, X, lg))
                continue
            lm, lse = moments(v.clamp(min=1e-300).log10())
            if lg is not None:
                z = abs(lg - lm) / (lse * math.sqrt(1 + own_trials / trials) + 1e-6)
                widest("drawn log10 g%s, s.e." % X, z, name)
                if z > 5:
                    bad.append("layer %d log10_g%s drawn %.4f, ours %.4f ± %.4f" % (l, X, lg, lm, lse))
            if se > .3 * m:
                continue
            if theory is None and lt is None:
                if note is None:
                    bad.append("layer %d g%s no theory and no note" % (l, X))
                continue
            theory = 10 ** lt if theory is None else theory
            if theory <= 0:
                if note is None:
                    bad.append("layer %d g%s theory 0, ours %.3g" % (l, X, m))
                continue
            factor = max(theory / m, m / theory)
            allowed = (3.5 if noskip or e < .1 else 1.6) if X in "QK" else 1.25
            strict = allowed + 3 * se / m * allowed
            if note is None:
                widest("theory g%s, factor (%s)" % (X, "collapsed or no skips" if noskip or e < .1 else "else"), factor, name)
            if X in "VO" and not (.75 - 3 * se / m <= theory / m <= 1.25 + 3 * se / m) and note is None:
                bad.append("layer %d g%s theory %.4g, ours %.4g ± %.2g" % (l, X, theory, m, se))
            if X in "QK" and factor > strict and note is None:
                bad.append("layer %d g%s theory %.4g, ours %.4g ± %.2g (e %.3f)" % (l, X, theory, m, se, e))
        v = mine["dX"][l]
        m, se = moments(v)
        if m > 0:
            lm, lse = moments(v.clamp(min=1e-300).log10())
            if row.get("log10_dX") is None:
                bad.append("layer %d log10_dX null" % l)
            else:
                z = abs(row["log10_dX"] - lm) / (lse * math.sqrt(1 + own_trials / trials) + 1e-6)
                widest("drawn log10 dX, s.e.", z, name)
                if z > 5:
                    bad.append("layer %d log10_dX drawn %.4f, ours %.4f ± %.4f" % (l, row["log10_dX"], lm, lse))
            t = row.get("log10_dX_theory")
            if t is not None and note is None and se < .3 * m:
                gap = abs(10 ** t / m - 1)
                widest("theory dX, relative", gap, name)
                if gap > .25 + 3 * se / m:
                    bad.append("layer %d dX theory %.4g, ours %.4g ± %.2g" % (l, 10 ** t, m, se))
        r = row.get("ratio_gQ_gV")
        if mine["gQ"][l] is not None and mine["gV"][l].mean() > 0:
            q, v = mine["gQ"][l], mine["gV"][l]
            ours = (q.mean() / v.mean()).item()
            se = ((q - ours * v).std() / v.mean() / math.sqrt(q.numel())).item()
            if ours > 0 and v.std() / v.mean() / math.sqrt(v.numel()) < .08 and q.std() / q.mean() / math.sqrt(q.numel()) < .08:
                if r is None:
                    bad.append("layer %d ratio drawn null, ours %.4g" % (l, ours))
                else:
                    z = abs(r - ours) / (se * math.sqrt(1 + own_trials / trials) + 1e-9)
                    widest("drawn gQ/gV, s.e.", z, name)
                    if z > 5:
                        bad.append("layer %d ratio drawn %.4g, ours %.4g ± %.2g" % (l, r, ours, se))
        rt, a, b = row.get("ratio_gQ_gV_theory"), row.get("log10_gQ_theory"), row.get("log10_gV_theory")
        if None not in (rt, a, b):
            gap = abs(rt / 10 ** (a - b) - 1)
            widest("theory gQ/gV against its own columns, relative", gap, name)
            if gap > 1e-9:
                bad.append("layer %d ratio_theory %.6g, of its columns %.6g" % (l, rt, 10 ** (a - b)))
    seen = "%d rows warned, %d without theory; %s" % (warned, none, text) if not bad else "; ".join(bad[:6]) + (" … %d in all" % len(bad) if len(bad) > 6 else "") + " | " + text
    check(name, not bad, seen)


# ---------------------------------------------------------------- the verdict, by docs/predict.md

LIMITS = {"explosion_decades": 3, "halving": .5, "power_exponent": 1.5, "doubly_factor": 1.5, "doubly_below": .1,
          "critical_below": .01}


def verdict_of(tables, arch, loss_at="state", **moved):
    """code and severity from the theory columns; None where a number is missing."""
    lim = dict(LIMITS, **moved)
    F, B = tables["forward"], tables["backward"]
    L = len(F) - 1
    f2 = [r["log10_F2_theory"] for r in F]
    dx = [r["log10_dX_theory"] for r in B]
    e = [r["log10_one_minus_rho_theory"] for r in F]
    half = L // 2
    end = math.log10(arch.n * arch.d) if loss_at == "state" else None
    moves = []
    if f2[half] is not None and f2[L] is not None:
        moves.append(abs(f2[L] - f2[half]))
    if half < L and dx[half] is not None and end is not None:
        moves.append(abs(dx[half] - end))
    if moves and max(moves) > lim["explosion_decades"]:
        return "explosion", "critical"
    if F[0]["rho_theory"] == 1 and e[0] is None:
        return "exponential", "critical"
    if None in e:
        return None
    if L >= 2 and e[L] < math.log10(lim["doubly_below"]) and e[L - 2] < 0 and e[L - 1] <= lim["doubly_factor"] * e[L - 2] \
            and e[L] <= lim["doubly_factor"] * e[L - 1]:
        return "doubly_exponential", "critical"
    p = (e[half] - e[L]) / math.log10(L / half) if L >= 2 else None
    if e[L] < e[0] + math.log10(lim["halving"]):
        if p is not None and p >= lim["power_exponent"]:
            return "exponential", "critical" if e[L] < math.log10(lim["critical_below"]) else "warn"
        return "slow", "info"
    return "healthy", "info"


def rule(case, given):
    arch = Arch(given)
    out = predict(given, "--trials", "0", "--remedies", "rezero")
    want = verdict_of(out["tables"], arch)
    got = out["verdict"]["code"], out["verdict"]["severity"]
    if want is not None:
        check("rule %d" % case, got == want, "%s, by the rule %s | %s" % (got, want, json.dumps(given)))
    else:
        check("rule %d, theory incomplete" % case, got[0] in ("unknown", "explosion"), "%s | %s" % (got, json.dumps(given)))
    # thresholds, one moved across the number
    F = out["tables"]["forward"]
    if want and want[0] == "slow":
        drop = 10 ** (F[-1]["log10_one_minus_rho_theory"] - F[0]["log10_one_minus_rho_theory"])
        for x, code in ((drop * .99, "healthy"), (drop * 1.01, "slow")):
            o = predict(given, "--trials", "0", "--remedies", "rezero", "--threshold", "halving=%.6f" % x)
            w = verdict_of(o["tables"], arch, halving=float("%.6f" % x))
            check("threshold halving %d" % case, o["verdict"]["code"] == w[0], "halving=%.6f: %s, by the rule %s" % (x, o["verdict"]["code"], w[0]))
    if want and want[0] in ("slow", "exponential") and arch.L >= 2:
        e = [r["log10_one_minus_rho_theory"] for r in F]
        if None in e:
            return
        p = (e[arch.L // 2] - e[arch.L]) / math.log10(arch.L / (arch.L // 2))
        for x in (p * .99, p * 1.01) if p > 0 else ():
            o = predict(given, "--trials", "0", "--remedies", "rezero", "--threshold", "power_exponent=%.6f" % x)
            w = verdict_of(o["tables"], arch, power_exponent=float("%.6f" % x))
            check("threshold power_exponent %d" % case, o["verdict"]["code"] == w[0], "power_exponent=%.6f: %s, by the rule %s" % (x, o["verdict"]["code"], w[0]))


# ---------------------------------------------------------------- answers against the tables

NUMBER = r"(-?(?:10\^-?[\d.]+|[\d.]+(?:e[+-]?\d+)?))"


def read(text):
    return 10 ** float(text[3:]) if text.startswith("10^") else -(10 ** float(text[4:])) if text.startswith("-10^") else float(text)


def near(text, x, digits=.06, absolute=0):
    got = read(text)
    digits = .125 if "10^" in text else digits
    return x is not None and abs(got - x) <= digits * abs(x) + absolute


def answers(case, given):
    out = predict(given, "--trials", "0")
    T, arch = out["tables"], Arch(given)
    F, B = T["forward"], T["backward"]
    A = {r["question"]: (r["answer"], r["value"]) for r in T["answers"]}
    bad = []
    text = A["apart"][0]
    m = re.search(r"ρ %s → %s, 1 − ρ = %s" % (NUMBER, NUMBER, NUMBER), text)
    e = [r["log10_one_minus_rho_theory"] for r in F]
    if m and None not in e:
        if not (near(m[1], F[0]["rho_theory"], .01, 1e-3) and near(m[2], F[-1]["rho_theory"], .01, 1e-3) and near(m[3], 10 ** e[-1])):
            bad.append("apart: " + text)
        for star in (.9, .99):
            at = [l for l, r in enumerate(F) if e[l] <= math.log10(1 - star) + 1e-12]
            found = re.search(r"ρ = 0.9 at layer (\d+)" if star == .9 else r"0\.99 at (?:layer )?(\d+)", text)
            if (found is None) != (not at) or (found and at and int(found[1]) != at[0]):
                bad.append("apart: %s, of the rows ρ ≥ %g first at %s" % (text, star, at[:1]))
    text = A["size"][0]
    m = re.search(r"‖X‖² × %s, gradient back × %s" % (NUMBER, NUMBER), text)
    if m:
        if not near(m[1], 10 ** (F[-1]["log10_F2_theory"] - F[0]["log10_F2_theory"]), .02):
            bad.append("size forward: " + text)
        if not near(m[2], 10 ** (B[0]["log10_dX_theory"] - math.log10(arch.n * arch.d)), .02):
            bad.append("size back: %s, of the rows %g" % (text, 10 ** (B[0]["log10_dX_theory"] - math.log10(arch.n * arch.d))))
    ratio = [r["ratio_gQ_gV_theory"] for r in B]
    text = A["queries"][0]
    m = re.search(r"gQ/gV %s … %s, least %s in layer (\d+)" % (NUMBER, NUMBER, NUMBER), text)
    if m and None not in ratio:
        least = min(range(len(ratio)), key=lambda l: ratio[l])
        if not (near(m[1], ratio[0]) and near(m[2], ratio[-1]) and near(m[3], ratio[least]) and (int(m[4]) == least or abs(ratio[int(m[4])] / max(ratio[least], 1e-300) - 1) < 1e-9 or ratio[least] == 0)):
            bad.append("queries: " + text)
        t = re.search(r"temperature %s balances" % NUMBER, text)
        mean = lambda g: sum(math.log10(r["ratio_gQ_gV_theory"]) for r in predict(g, "--trials", "0", "--remedies", "rezero")["tables"]["backward"]) / arch.L
        if t and all(r > 0 for r in ratio):
            g = dict(given, temperature=read(t[1]))
            try:
                r = mean(g)
                if abs(r) > .1:
                    bad.append("queries: at temperature %s the mean log10 gQ/gV is %.3f" % (t[1], r))
            except (TypeError, ValueError):
                bad.append("queries: at temperature %s theory has no ratio" % t[1])
        if "no temperature" in text and all(r > 0 for r in ratio):
            signs = []
            for k in range(-12, 13):
                try:
                    signs.append((10 ** (k / 6), mean(dict(given, temperature=10 ** (k / 6)))))
                except (TypeError, ValueError):
                    pass
            cross = [(a[0], b[0]) for a, b in zip(signs, signs[1:]) if a[1] * b[1] < 0]
            if cross:
                bad.append("queries: no temperature, but the mean changes its sign between %s" % cross)
    text = A["attention"][0]
    m = re.search(r"at least %s of (\d+) keys \(layer (\d+)\); logits' s %s, landmark √\(2 ln n\) %s" % (NUMBER, NUMBER, NUMBER), text)
    keys = [r["effective_keys_theory"] for r in F[:-1]]
    if m and None not in keys:
        least = min(range(len(keys)), key=lambda l: keys[l])
        if not (near(m[1], keys[least], .02) and int(m[2]) == arch.n and abs(keys[int(m[3])] - keys[least]) < 1e-9 * keys[least]
                and near(m[5], math.sqrt(2 * math.log(arch.n)), .04)):
            bad.append("attention: " + text)
        if ("condensed" in text.split(":")[0]) != (1 / keys[least] > .5):
            bad.append("attention word: %s, ΣA² %.3f" % (text, 1 / keys[least]))
    text = A["depth"][0]
    m = re.search(r"^(\w+) to about (\d+) layers, then (\w+)", text)
    if m and not isinstance(given.get("skip_mixer"), list):
        code = lambda L: predict(dict(given, depth=L), "--trials", "0", "--remedies", "rezero")["verdict"]["code"]
        k = int(m[2])
        after = code(max(k + 1, int(1.1 * k + 1)))
        if code(k) != m[1] or after == m[1]:
            bad.append("depth: %s, but verdict at %d is %s and at %d is %s" % (text, k, code(k), max(k + 1, int(1.1 * k + 1)), after))
    check("answers %d" % case, not bad, "; ".join(bad) + " | " + json.dumps(given) if bad else "")


# ---------------------------------------------------------------- remedies, edited here

def over(law, by, default):
    law = law or default
    m = re.fullmatch(r"normal\((.*),(.*)\)", law)
    return "normal(%s,(%s)/(%s))" % (m[1], m[2], by) if m else law


def edit(given, name):
    g = copy.deepcopy(given)
    init = dict(g.get("init", {}))
    first = "normal(0,2/fan_in)" if g.get("mlp", "gelu") == "relu" else "normal(0,1/fan_in)"
    if name in ("scale-root", "scale-depth", "scale-layer"):
        g["branch_mixer"] = g["branch_mlp"] = {"scale-root": "1/sqrt(L)", "scale-depth": "1/L", "scale-layer": "1/sqrt(l+1)"}[name]
    elif name == "rezero":
        g.update(norm="none", branch_mixer=0, branch_mlp=0)
    elif name in ("pre-norm", "post-norm", "sandwich"):
        g["norm"] = name.split("-")[0]
    elif name == "lambda-skip":
        g["skip_mixer"] = g["skip_mlp"] = 2
    elif name == "centred":
        g["attention"] = "centred"
    elif name == "attnscale":
        g.update(attention="rescaled", rescale=1)
    elif name == "shaped":
        init["wq"] = "zero"
        g.update(attention="shaped", shaped=[1, 1, 1], init=init)
    elif name == "value-skipinit":
        g.update(attention="shaped", shaped=[1, 0, 0], skip_mixer=0)
    elif name == "deepnorm":
        for w in ("wv", "wo", "w1", "wg", "w2"):
            if init.get(w) != "none":
                init[w] = over(init.get(w), "sqrt(8*L)", first if w == "w1" else "normal(0,1/fan_in)")
        g.update(norm="post", skip_mixer="(2*L)^0.25", skip_mlp="(2*L)^0.25", init=init)
    elif name == "residual-init":
        for w in ("wo", "w2"):
            if init.get(w) != "none":
                init[w] = over(init.get(w), "2*L", "normal(0,1/fan_in)")
        g["init"] = init
    else:
        return None
    return g


def remedies(case, given):
    out = predict(given, "--trials", "0")
    rows = out["tables"]["remedies"]
    order = {"healthy": 0, "slow": 1, "exponential": 2, "doubly_exponential": 3, "explosion": 4}
    bad = []
    for r in rows[1:]:
        g = edit(given, r["name"])
        if g is None:
            continue
        if not given.get("mlp", "gelu") == "swiglu" and "init" in g:
            g["init"].pop("wg", None)
        try:
            o = predict(g, "--trials", "0", "--remedies", "rezero")
        except RuntimeError as e:
            bad.append("%s: %s" % (r["name"], e))
            continue
        F, B = o["tables"]["forward"], o["tables"]["backward"]
        ratios = [x["ratio_gQ_gV_theory"] for x in B]
        least = min((x for x in ratios if x is not None), default=None)
        growth = None
        if F[-1]["log10_F2_theory"] is not None and F[0]["log10_F2_theory"] is not None:
            growth = F[-1]["log10_F2_theory"] - F[0]["log10_F2_theory"]
        pairs = (("verdict", r["verdict_theory"], o["verdict"]["code"]), ("log10_one_minus_rho", r["log10_one_minus_rho_theory"], F[-1]["log10_one_minus_rho_theory"]),
                 ("ratio_gQ_gV", r["ratio_gQ_gV_theory"], least), ("log10_growth", r["log10_growth_theory"], growth))
        for what, a, b in pairs:
            same = a == b if isinstance(a, str) or isinstance(b, str) or a is None or b is None else abs(a - b) <= 1e-6 * max(1, abs(b)) + (1e-6 if what == "ratio_gQ_gV" else 0)
            if not same:
                bad.append("%s %s %s, run %s" % (r["name"], what, a, b))
    ranks = [order.get(r["verdict_theory"], 9) for r in rows[1:]]
    if ranks != sorted(ranks):
        bad.append("order of verdicts " + str([(r["name"], r["verdict_theory"]) for r in rows]))
    check("remedies %d" % case, not bad, "; ".join(bad[:8]) + " | " + json.dumps(given) if bad else "%d rows" % len(rows))


# ---------------------------------------------------------------- extremes, errors, promises of every command

SMALL = {"d_model": 16, "seq_len": 4, "mlp": "relu", "depth": 3}


def numbers(x, path=""):
    if isinstance(x, dict):
        for k, v in x.items():
            yield from numbers(v, path + "." + k)
    elif isinstance(x, list):
        for i, v in enumerate(x):
            yield from numbers(v, path + "[%d]" % i)
    else:
        yield path, x


def extremes(first=0):
    cases = [("depth 1", {"depth": 1}), ("depth 1000", {"depth": 1000}), ("depth 1000, no norm", {"depth": 1000, "norm": "none"}),
             ("width 1", {"d_model": 1}), ("width 1, no norm", {"d_model": 1, "norm": "none"}), ("one token", {"seq_len": 1}),
             ("rho 1", {"input": {"rho": 1}}), ("rho least", {"input": {"rho": "-1/(n-1)"}}), ("alpha 0", {"branch_mixer": 0, "branch_mlp": 0}),
             ("one token, post", {"seq_len": 1, "norm": "post"}), ("rho 1, no norm", {"norm": "none", "input": {"rho": 1}}),
             ("temperature 1e-6", {"temperature": 1e-6}), ("temperature 1e6", {"temperature": 1e6}),
             ("temperature 1e-6, causal", {"temperature": 1e-6, "mask": "causal"}), ("temperature 1e-6, post", {"temperature": 1e-6, "norm": "post"}),
             ("variance 0", {"init": {"wv": "normal(0,0)", "w1": "normal(0,0)"}}), ("wq 0", {"init": {"wq": "zero"}}),
             ("all 0", {"init": {w: "zero" for w in ("wq", "wk", "wv", "wo", "w1", "w2")}}),
             ("wv 1e300", {"init": {"wv": "normal(0,1e300)"}}), ("wv 1e300, no norm", {"norm": "none", "init": {"wv": "normal(0,1e300)"}}),
             ("wq wk 1e300", {"init": {"wq": "normal(0,1e300)", "wk": "normal(0,1e300)"}}),
             ("norm2 1e-300", {"input": {"norm2": 1e-300}}), ("norm2 1e300", {"input": {"norm2": 1e300}}),
             ("norm2 1e-300, no norm", {"norm": "none", "input": {"norm2": 1e-300}}), ("norm2 1e300, no norm", {"norm": "none", "input": {"norm2": 1e300}}),
             ("norm2 1e300, no norm, causal", {"norm": "none", "mask": "causal", "input": {"norm2": 1e300}}),
             ("norm2 1e300, gelu", {"norm": "none", "mlp": "gelu", "input": {"norm2": 1e300}}),
             ("skips 100, depth 400, no norm", {"depth": 400, "norm": "none", "skip_mixer": 100, "skip_mlp": 100, "temperature": 1e6}),
             ("skips 100, depth 400, uniform", {"depth": 400, "norm": "none", "skip_mixer": 100, "attention": "uniform"}),
             ("skips 0.01, depth 400, uniform", {"depth": 400, "norm": "none", "skip_mixer": .01, "branch_mixer": .01, "attention": "uniform"}),
             ("attention alone, depth 20", {"depth": 20, "norm": "none", "mlp": "none", "skip_mixer": 0, "init": {"wo": "none"}}),
             ("attention alone, depth 200", {"depth": 200, "norm": "none", "mlp": "none", "skip_mixer": 0, "init": {"wo": "none"}}),
             ("attention alone, depth 1000, post", {"depth": 1000, "norm": "post", "mlp": "none", "skip_mixer": 0})]
    for name, change in cases[first:]:
        g = dict(SMALL, **change)
        for trials in ("0", "4"):
            tag = "extreme %s, trials %s" % (name, trials)
            try:
                status, out, err = call(["--json", "-", "--trials", trials, "--threads", "1"], g, timeout=120)
            except subprocess.TimeoutExpired:
                check(tag, False, "more than 120 s")
                continue
            if status != 0:
                check(tag, False, "exit %d: %s" % (status, err.strip()[:200]))
                continue
            o = json.loads(out, parse_constant=lambda c: "CONSTANT " + c)
            wrong = [(p, v) for p, v in numbers({k: o[k] for k in ("tables", "verdict", "findings")})
                     if isinstance(v, str) and re.search(r"(?<![a-z])-?(nan|inf)(?![a-z])|CONSTANT|infinity", v, re.I)
                     or isinstance(v, float) and not math.isfinite(v)]
            F = o["tables"]["forward"]
            silent = [r["layer"] for r in F if r["log10_F2_theory"] is None and r["theory_note"] is None]
            lost = [r["layer"] for r in F if trials != "0" and r["F2"] is None and r["log10_F2"] is None and r["theory_note"] is None]
            check(tag, not wrong and not silent, (("nan or inf: %s; " % wrong[:3]) if wrong else "") + ("log10_F2_theory null without a note in %s; " % silent[:4] if silent else "")
                  + ("measured null in %s; " % lost[:4] if lost else "") + (o["verdict"]["code"] if not wrong else ""))


def errors():
    cases = [("field", dict(SMALL, dept=3), [], ["dept", "depth"]), ("value of norm", dict(SMALL, norm="pree"), [], ["pree", "pre"]),
             ("value of mlp", dict(SMALL, mlp="geluu"), [], ["geluu", "gelu"]), ("mask", dict(SMALL, mask="casual"), [], ["casual", "causal"]),
             ("attention", dict(SMALL, attention="softmx"), [], ["softmx", "softmax"]),
             ("law", dict(SMALL, init={"wq": "norml(0,1)"}), [], ["norml"]), ("init name", dict(SMALL, init={"wqq": "zero"}), [], ["wqq", "wq"]),
             ("variance below 0", dict(SMALL, init={"wq": "normal(0,-1)"}), [], ["wq"]), ("input field", dict(SMALL, input={"rhoo": 0}), [], ["rhoo", "rho"]),
             ("rho 1.1", dict(SMALL, input={"rho": 1.1}), [], ["rho"]), ("rho too low", dict(SMALL, input={"rho": -.5}), [], ["rho"]),
             ("norm2 below 0", dict(SMALL, input={"norm2": -1}), [], ["norm2"]), ("heads", dict(SMALL, heads=3), [], ["heads"]),
             ("kv_heads", dict(SMALL, heads=4, kv_heads=3), [], ["kv_heads"]), ("depth 0", dict(SMALL, depth=0), [], ["depth"]),
             ("depth -1", dict(SMALL, depth=-1), [], ["depth"]), ("depth 2.5", dict(SMALL, depth=2.5), [], ["depth"]), ("depth text", dict(SMALL, depth="x"), [], ["depth"]),
             ("temperature 0", dict(SMALL, temperature=0), [], ["temperature"]), ("formula", dict(SMALL, branch_mixer="1/sqrt(M)"), [], ["branch_mixer", "M"]),
             ("formula of one layer", dict(SMALL, branch_mixer="1/l"), [], ["branch_mixer"]), ("list", dict(SMALL, branch_mixer=[1, 2]), [], ["branch_mixer"]),
             ("sliding:0", dict(SMALL, mask="sliding:0"), [], ["sliding"]), ("no JSON", "{", [], []), ("array", "[1]", [], []), ("empty", "", [], []),
             ("twice", '{"depth": 2, "depth": 3}', [], ["depth"]),
             ("option", SMALL, ["--trails", "3"], ["--trails", "--trials"]), ("threshold name", SMALL, ["--threshold", "halvin=1"], ["halvin", "halving"]),
             ("threshold value", SMALL, ["--threshold", "halving=x"], ["halving"]), ("threshold nan", SMALL, ["--threshold", "halving=nan"], ["halving"]),
             ("threshold below 0", SMALL, ["--threshold", "halving=-1"], ["halving"]), ("threshold bare", SMALL, ["--threshold", "halving"], ["halving"]),
             ("trials -1", SMALL, ["--trials", "-1"], ["trials"]), ("trials 1.5", SMALL, ["--trials", "1.5"], ["trials"]), ("remedy", SMALL, ["--remedies", "centered"], ["centered", "centred"]),
             ("loss-at", SMALL, ["--loss-at", "sate"], ["sate", "state"]), ("init word", SMALL, ["--init", "xaver"], ["xaver", "xavier"]),
             ("init measured of an architecture", SMALL, ["--init", "measured"], ["--init"]), ("init variance below 0", SMALL, ["--init", "normal(0,-1)"], ["init"]),
             ("table", SMALL, ["--table", "foward"], ["foward", "forward"]),
             ("column", SMALL, ["--table", "forward", "--columns", "rhoo"], ["rhoo", "rho"]), ("seq-len 0", SMALL, ["--seq-len", "0"], ["seq-len"]),
             ("threads 0", SMALL, ["--threads", "0"], ["threads"]), ("seed x", SMALL, ["--seed", "x"], ["seed"]), ("preset and path", SMALL, ["--preset", "gpt2"], []),
             ("preset", None, ["--preset", "gpt3"], ["gpt3", "gpt2"]), ("no input", None, [], []), ("absent file", None, ["no-such.json"], ["no-such.json"]),
             ("moe", None, ["--preset", "moe"], ["moe"])]
    for name, g, args, named in cases:
        status, out, err = call(list(args) + ["--json", "-"], g)
        check("error " + name, status == 2 and out == "" and all(w in err for w in named) and err.startswith("rankscope: error: "),
              "exit %d, %s" % (status, err.strip()[:220].replace("\n", " / ")) + (", %d bytes on standard output" % len(out) if out else ""))


def strip(o):
    """what does not name the file"""
    return {k: o[k] for k in ("tables", "findings")}


def promises():
    g = dict(SMALL, depth=6, d_model=48, heads=3, seq_len=12, mask="causal")
    for name, h in (("small", g), ("unmasked post", dict(g, mask="none", norm="post")), ("orthogonal", dict(g, init={"wv": "orthogonal"}))):
        a, b = predict(h, "--trials", "37", threads="1"), predict(h, "--trials", "37", threads="2")
        check("same bits for 1 and 2 threads, " + name, strip(a) == strip(b))
        check("same seed, same numbers, " + name, strip(a) == strip(predict(h, "--trials", "37", threads="1")))
        c = predict(h, "--trials", "37", "--seed", "1")
        check("another seed, other draws, same theory, " + name, c["tables"]["forward"][3]["F2"] != a["tables"]["forward"][3]["F2"]
              and c["tables"]["forward"][3]["F2_theory"] == a["tables"]["forward"][3]["F2_theory"])
    for name, args, h in (("small", ["--table", "all", "--trials", "8"], g), ("gpt2", ["--preset", "bert-base", "--table", "all", "--trials", "0"], None),
                          ("extreme", ["--table", "all", "--trials", "4"], dict(SMALL, norm="none", depth=300)), ("explain", ["--explain"], g), ("presets", ["--preset", "list"], None)):
        status, out, err = call(args + ["--color", "never"], h)
        wide = [line for line in out.splitlines() if len(line) > 80]
        check("80 columns, " + name, status == 0 and not wide, repr(wide[:2]) if wide else "")
    with tempfile.TemporaryDirectory() as place:
        arch = os.path.join(place, "arch.json")
        json.dump(dict(SMALL, depth=64, d_model=256, heads=4, seq_len=64), open(arch, "w"))
        for sig in (signal.SIGINT, signal.SIGTERM):
            outs = [os.path.join(place, x) for x in ("o.json", "o.html", "csv", "svg")]
            p = subprocess.Popen([BINARY, "predict", arch, "--trials", "4000", "--threads", "1", "--json", outs[0], "--html", outs[1], "--csv", outs[2], "--svg", outs[3]],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(2)
            p.send_signal(sig)
            t = time.time()
            try:
                out, err = p.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
            left = sorted(x for x in os.listdir(place) if x != "arch.json")
            check("interrupted by %s" % sig.name, p.returncode == 130 and out == "" and not left, "exit %d after %.1f s, left %s, %s" % (p.returncode, time.time() - t, left, err.strip()[-120:]))
    for name, h in (("small", g),):
        status, out, err = call(["--fail-on", "info", "--json", "-"], h)
        check("--fail-on info is no word", status == 2, "exit %d" % status)
        status, out, err = call(["--fail-on", "critical", "-q"], dict(SMALL, norm="none", depth=30))
        check("--fail-on critical", status == 3, "exit %d" % status)
    F = predict(g, "--trials", "20")["tables"]
    check("measured columns of gradients", all("g" + X in F["backward"][0] and "log10_g" + X in F["backward"][0] for X in "QKVO"), "columns: " + " ".join(F["backward"][0]))
    status, out, err = call(["--explain", "--json", "-"], g)
    fields = {r["field"].split(".")[0] for r in json.loads(out)["tables"]["architecture"]}
    check("--explain has every field", not {"init", "input", "shaped", "rescale", "inner_norm", "gate"} - fields, "absent: %s" % sorted({"init", "input", "shaped", "rescale", "inner_norm", "gate"} - fields))
    # sinusoids are alike: tokens with them are correlated (docs/arch.md, rows: their formula)
    d, n = 32, 8
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)[None, :]
    wave = torch.cat((torch.sin(angle), torch.cos(angle)), 1)
    want = ((wave.sum(0) ** 2).sum() - (wave ** 2).sum()).item() / n / (n - 1) / (d + d / 2)
    r = predict({"depth": 1, "d_model": d, "seq_len": n, "vocab": 5000, "positions": "sinusoidal"}, "--trials", "50")["tables"]["forward"][0]
    check("rho of tokens with sinusoidal positions", abs(r["rho_theory"] - want) < .02 and abs(r["rho"] - want) < .05 or r["theory_note"] is not None,
          "theory %.4f, drawn %.4f, of the sinusoids %.4f" % (r["rho_theory"], r["rho"], want))
    # tokens below rho 0 have one norm each: then the mean cosine is rho
    for rho in ("-1/(n-1)", -.02):
        h = {"depth": 1, "d_model": 32, "seq_len": 24, "norm": "post", "norm_kind": "rmsnorm", "mlp": "none", "branch_mixer": 1e-6, "input": {"rho": rho}}
        r = predict(h, "--trials", "50")["tables"]["forward"][0]
        check("tokens of rho %s have the squared norm norm2 each" % rho, abs(r["mean_cosine"] - r["rho"]) < 1e-9, "mean cosine %.6f, rho %.6f" % (r["mean_cosine"], r["rho"]))
    r = predict(dict(SMALL, skip_mixer=0, skip_mlp=0, norm="post", mlp="none", depth=1), "--trials", "0")["tables"]["remedies"]
    codes = [x["verdict_theory"] or "unknown" for x in r[1:]]
    check("remedies without a verdict do not lead", "unknown" not in codes or codes.index("unknown") >= max([i for i, c in enumerate(codes) if c in ("healthy", "slow")] + [-1]), str([(x["name"], x["verdict_theory"]) for x in r[:4]]))


PRESETS = {"gpt2": "slow info", "gpt2-xl": "slow info", "llama-2-7b": "healthy info", "bert-base": "healthy info", "vit-b16": "healthy info",
           "post-norm-xavier-6": "exponential warn", "post-norm-xavier-18": "exponential critical", "post-norm-xavier-96": "exponential critical", "pre-norm-96": "slow info",
           "deepnet-1000": "healthy info", "rezero-64": "healthy info", "no-norm-32": "explosion critical", "no-norm-32-scaled": "healthy info", "attention-only-6": "doubly_exponential critical"}


def presets():
    for name, want in PRESETS.items():
        if name in ("gpt2-xl", "llama-2-7b"):
            continue
        status, out, err = call(["--preset", name, "--trials", "0", "--remedies", "rezero", "--json", "-"], timeout=600)
        o = json.loads(out)["verdict"]
        check("preset " + name, o["code"] + " " + o["severity"] == want, "%s %s, the issue %s" % (o["code"], o["severity"], want))


def main():
    global BINARY
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("--cases", type=int, default=60)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--only", default="errors,extremes,promises,rule,answers,remedies,presets,mc")
    a = p.parse_args()
    BINARY = os.path.abspath(a.binary)
    for part in a.only.split(","):
        if part in ("errors", "extremes", "promises", "presets"):
            globals()[part]()
            continue
        for case in range(a.first, a.first + (a.cases if part == "mc" else min(a.cases, 20))):
            given = random_arch(case)
            s = s_of(Arch(given))
            if s > 2.5:
                given["temperature"] *= s / 2
            if part == "mc":
                arch = Arch(given)
                draws = int(max(100, min(400, 5e9 / (arch.n * arch.L * (12 * arch.d ** 2 + 2 * arch.n * arch.d * arch.h)))))
                compare(case, given, 100 if "orthogonal" in json.dumps(given) else draws, 400, "final" if case % 5 == 4 else "state")
            else:
                globals()[part](case, given)
    for k, v in sorted(WIDEST.items()):
        print("widest %s: %.4g (%s)" % (k, v[0], v[1]))
    print("%d failed" % len(FAILED))
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
