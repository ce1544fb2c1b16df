#!/usr/bin/env python3
"""Goldens of the residual precision: small networks run in plain arithmetic with as many digits as it takes.

Nothing here knows the split X = 1x + R: the pass is the textbook one (mpmath), and the mean of the
tokens is taken off at the end. The digits are more than the residual's smallness eats. Weights are
random doubles, stored beside a description that tests/unit/test_residual_golden.c turns into a
network. Each state is stored as base (the mean), residual and exponent: R = 2^exponent residual with
max|residual| in [1/2, 1), each entry rounded once, and the largest |logit| of the pass. States whose size doubles do
not hold are stored 2^-scale times as large.

Run: python3 make_residual_golden.py [NAME...] (writes tests/golden/residual/NAME.safetensors)
"""
import json
import os
import sys

import mpmath as mp
import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, '..', 'golden', 'residual')


# ---- arithmetic on lists of rows ----

def exact(a):
    return [[mp.mpf(float(v)) for v in row] for row in np.atleast_2d(a)]


def times(a, w):
    columns = list(zip(*w))
    return [[mp.fdot(row, c) for c in columns] for row in a]


def linear(x, t, name):
    w = exact(t[name + '.weight'])  # [out, in]
    y = [[mp.fdot(row, c) for c in w] for row in x]
    if name + '.bias' in t:
        b = exact(t[name + '.bias'])[0]
        y = [[v + u for v, u in zip(row, b)] for row in y]
    return y


def norm(x, kind, t, name, dim=None, eps=1e-5):
    if kind == 'none':
        return x
    gain = exact(t[name + '.gain'])[0]
    bias = exact(t[name + '.bias'])[0] if name + '.bias' in t else None
    dim = dim or len(x[0])
    out = []
    for row in x:
        new = []
        for at in range(0, len(row), dim):
            part = row[at:at + dim]
            mean = mp.fsum(part) / dim if kind == 'layernorm' else mp.mpf(0)
            c = [v - mean for v in part]
            s = mp.sqrt(mp.fsum(v * v for v in c) / dim + mp.mpf(eps))
            for k in range(dim):
                g = gain[k] + (1 if kind == 'rmsnorm_plus_one' else 0)
                new.append(g * c[k] / s + (bias[k] if bias else 0))
        out.append(new)
    return out


def logistic(v):
    return 1 / (1 + mp.exp(-v))


ACTS = {
    'linear': lambda v: v,
    'relu': lambda v: max(v, mp.mpf(0)),
    'gelu': lambda v: v * mp.ncdf(v),
    'gelu_tanh': lambda v: v * logistic(2 * mp.sqrt(2 / mp.pi) * (v + mp.mpf(0.044715) * v ** 3)),
    'quick_gelu': lambda v: v * logistic(mp.mpf(1.702) * v),
    'silu': lambda v: v * logistic(v),
    'tanh': mp.tanh,
    'relu2': lambda v: max(v, mp.mpf(0)) ** 2,
}


def softplus(v):
    """With torch's threshold: what the program and transformers have beyond 20."""
    return v if v > 20 else mp.log1p(mp.exp(v))


def convolve(x, t, name):
    """Causal, each channel by itself, and SiLU."""
    w = np.asarray(t[name + '.weight'])
    bias = exact(t[name + '.bias'])[0] if name + '.bias' in t else [mp.mpf(0)] * w.shape[0]
    out = []
    for i in range(len(x)):
        row = []
        for c in range(w.shape[0]):
            y = bias[c] + mp.fsum(mp.mpf(float(w[c, 0, j])) * x[i - w.shape[2] + 1 + j][c]
                                  for j in range(w.shape[2]) if i - w.shape[2] + 1 + j >= 0)
            row.append(ACTS['silu'](y))
        out.append(row)
    return out


def rotate(x, heads, dim, rope):
    """Pair t turns by position * theta^(-2t/dims), as doubles say what the frequency and cosine are."""
    pairs = rope['dims'] // 2
    out = []
    for p, row in enumerate(x):
        row = list(row)
        for h in range(heads):
            for t in range(pairs):
                angle = float(p) * rope['theta'] ** (-2.0 * t / rope['dims'])
                c, s = mp.mpf(float(np.cos(angle))), mp.mpf(float(np.sin(angle)))
                i = h * dim + (2 * t if rope['interleaved'] else t)
                j = i + (1 if rope['interleaved'] else pairs)
                a, b = row[i], row[j]
                row[i], row[j] = a * c - b * s, b * c + a * s
        out.append(row)
    return out


def split_attention(x, r, t, name):
    """One head with merged values on 1x + R, R carried by itself in multiprecision, whose exponents have no end: for
    depths where no plain pass has digits enough. docs/theory/collapse.md, 14.2, without its rounding."""
    n, d = len(r), len(x)
    q, k, v = (exact(t[name + part + '.weight']) for part in ('.q', '.k', '.v'))
    bq, bv = exact(t[name + '.q.bias'])[0], exact(t[name + '.v.bias'])[0]
    scale = 1 / mp.sqrt(len(q))
    q0 = [mp.fdot(row, x) + b for row, b in zip(q, bq)]
    dq, dk = times(r, list(zip(*q))), times(r, list(zip(*k)))
    shared = [mp.fdot(q0, row) * scale for row in dk]
    e = [mp.exp(v) for v in shared]
    total = mp.fsum(e)
    p = [v / total for v in e]
    m = [mp.fsum(p[j] * r[j][c] for j in range(n)) for c in range(d)]
    c = [[r[j][i] - m[i] for i in range(d)] for j in range(n)]
    ck, cv = times(c, list(zip(*k))), times(c, list(zip(*v)))
    out = []
    for i in range(n):
        logits = [mp.fdot(dq[i], row) * scale for row in ck]
        centre = mp.log1p(mp.fsum(a * mp.expm1(b) for a, b in zip(p, logits)))
        delta = [a * mp.expm1(b - centre) for a, b in zip(p, logits)]
        out.append([mp.fsum(delta[j] * cv[j][f] for j in range(n)) for f in range(d)])
    base = [mp.fdot(row, [a + b for a, b in zip(x, m)]) + b for row, b in zip(v, bv)]
    mean = [mp.fsum(row[f] for row in out) / n for f in range(d)]
    return [a + b for a, b in zip(base, mean)], [[a - b for a, b in zip(row, mean)] for row in out]


def make_deep(name, seed, n, d, spread, depth, digits):
    """A single head, 34 layers: log10 max|R| is about -1e16."""
    rng = np.random.default_rng(seed)
    layers = repeat(depth, attention(merged=True, value_dim=d, head_dim=d))
    t = tensors_of({'layers': layers}, rng, d)
    x0 = rng.standard_normal(d) + rng.standard_normal((n, d)) * spread
    mp.mp.dps = digits
    rows = exact(x0)
    x = [mp.fsum(row[k] for row in rows) / n for k in range(d)]
    r = [[a - b for a, b in zip(row, x)] for row in rows]
    t['input'], t['largest_logit'] = x0, np.array([0.0])
    for l in range(depth + 1):
        top = max(abs(v) for row in r for v in row)
        e = int(mp.frexp(top)[1])
        t['state.%d.base' % l] = np.array([float(v) for v in x])
        t['state.%d.residual' % l] = np.array([[float(mp.ldexp(v, -e)) for v in row] for row in r])
        t['state.%d.exponent' % l] = np.array([e], dtype=np.int64)
        if l < depth:
            x, r = split_attention(x, r, t, 'l%d.b0' % l)
    t['network'] = np.frombuffer(json.dumps({'d': d, 'layers': describe({'layers': layers})}).encode(), dtype=np.uint8)
    save_file(t, os.path.join(OUT, name + '.safetensors'))
    print('%-26s 2^%d' % (name, e), flush=True)


class Pass:
    def __init__(self, case, tensors):
        self.case, self.t, self.top = case, tensors, mp.mpf(0)

    def attention(self, x, a, name):
        t, n, dim, vdim = self.t, len(x), a['head_dim'], a['value_dim']
        q, k, v = (linear(x, t, name + part) for part in ('.q', '.k', '.v'))
        q = norm(q, a['q_norm'], t, name + '.q_norm', a.get('norm_dim_q'))
        k = norm(k, a['k_norm'], t, name + '.k_norm', a.get('norm_dim_k'))
        if a['rope']:
            q = rotate(q, a['heads'], dim, a['rope'])
            k = rotate(k, a['kv_heads'], dim, a['rope'])
        relative = None
        if a['relative']:
            # the sinusoids are doubles, as the program's are
            d = len(x[0])
            waves = np.zeros((2 * n + 1, d))
            for row in range(2 * n + 1):
                angle = float(n - row) * np.power(10000.0, -2.0 * np.arange(d // 2) / d)
                waves[row] = np.concatenate([np.sin(angle), np.cos(angle)])
            relative = linear(exact(waves), t, name + '.r')
        mixed = [[] for _ in range(n)]
        for h in range(a['heads']):
            g = h // (a['heads'] // a['kv_heads'])
            qs = [row[h * dim:(h + 1) * dim] for row in q]
            ks = [row[g * dim:(g + 1) * dim] for row in k]
            vs = [row[g * vdim:(g + 1) * vdim] for row in v]
            for i in range(n):
                logits = self.row(qs[i], ks, relative, a, name, h, i, n)
                seen = [j for j in range(n) if (not a['causal'] or j <= i) and
                        (not a['window'] or abs(i - j) < a['window'])]
                m = max(logits[j] for j in seen)
                self.top = max([self.top] + [abs(logits[j]) for j in seen])
                e = {j: mp.exp(logits[j] - m) for j in seen}
                s = mp.fsum(e.values())
                w = [a['mix'][1] * e[j] / s - mp.mpf(a['mix'][2]) / len(seen) if j in e else mp.mpf(0)
                     for j in range(n)]
                w[i] += a['mix'][0]
                out = [mp.fsum(w[j] * vs[j][c] for j in range(n)) for c in range(vdim)]
                if a['merged']:
                    mixed[i] = [p + o for p, o in zip(mixed[i], out)] if mixed[i] else out
                else:
                    mixed[i] += out
        return mixed if a['merged'] else linear(mixed, t, name + '.o')

    def row(self, q, ks, relative, a, name, h, i, n):
        t, dim, scale = self.t, a['head_dim'], mp.mpf(a['scale_qk'])
        u = q
        if relative:
            content, position = (exact(t[name + part])[0][h * dim:(h + 1) * dim]
                                 for part in ('.content', '.position'))
            u = [v + c for v, c in zip(q, content)]
            w = [v + c for v, c in zip(q, position)]
        logits = [mp.fdot(u, k) * scale for k in ks]
        if relative:
            for j in range(n):
                logits[j] += scale * mp.fdot(w, relative[n - (i - j)][h * dim:(h + 1) * dim])
        if a['softcap']:
            cap = mp.mpf(a['softcap'])
            # the slope of the cap, 1/cosh², has the relative error of its argument, twice
            self.top = max([self.top] + [2 * abs(v) / cap for v in logits])
            logits = [cap * mp.tanh(v / cap) for v in logits]
        if a['reach'] is not None:
            bias = exact(t[name + '.distance'])[h]
            r = a['reach']
            logits = [v + bias[max(-r, min(r, i - j)) + r] for j, v in enumerate(logits)]
        return [v / mp.mpf(a['temperature']) for v in logits]

    def ssd(self, x, a, name):
        """docs/theory/ssm.md, 3, token by token."""
        t, heads, dim, groups, state = self.t, a['heads'], a['head_dim'], a['groups'], a['state']
        inner = heads * dim
        rows = linear(x, t, name + '.in')
        mixed = convolve([row[inner:len(row) - heads] for row in rows], t, name + '.conv')
        rate = [-mp.exp(v) for v in exact(t[name + '.a_log'])[0]]
        bias = exact(t[name + '.dt_bias'])[0]
        skip = exact(t[name + '.d'])[0] if name + '.d' in t else [mp.mpf(0)] * heads
        out = [[] for _ in x]
        for h in range(heads):
            g = h // (heads // groups)
            s = [[mp.mpf(0)] * dim for _ in range(state)]
            for i, row in enumerate(mixed):
                u = row[h * dim:(h + 1) * dim]
                b = row[inner + g * state:inner + (g + 1) * state]
                c = row[inner + (groups + g) * state:inner + (groups + g + 1) * state]
                step = softplus(rows[i][len(rows[i]) - heads + h] + bias[h])
                decay = mp.exp(rate[h] * step)
                s = [[decay * v + step * b[k] * w for v, w in zip(s[k], u)] for k in range(state)]
                out[i] += [mp.fsum(c[k] * s[k][p] for k in range(state)) + skip[h] * u[p] for p in range(dim)]
        return linear([self.gated(y, row[:inner], a, name) for y, row in zip(out, rows)], t, name + '.o')

    def gated(self, y, z, a, name):
        gates = [ACTS['silu'](v) for v in z]
        if a['gate'] == 'before':
            y = [v * g for v, g in zip(y, gates)]
        if a['norm'] != 'none':
            gain, size = exact(self.t[name + '.norm.gain'])[0], len(y) // a['groups']
            roots = [mp.sqrt(mp.fsum(v * v for v in y[at:at + size]) / size + mp.mpf(1e-5))
                     for at in range(0, len(y), size)]
            y = [w * v / roots[k // size] for k, (w, v) in enumerate(zip(gain, y))]
        return [v * g for v, g in zip(y, gates)] if a['gate'] == 'after' else y

    def s6(self, x, a, name):
        """docs/theory/ssm.md, 2, token by token."""
        t, inner, state, rank = self.t, a['inner'], a['state'], a['rank']
        rows = linear(x, t, name + '.in')
        u = convolve([row[:inner] for row in rows], t, name + '.conv')
        read = linear(u, t, name + '.x')
        steps = [[softplus(v) for v in row] for row in linear([row[:rank] for row in read], t, name + '.step')]
        rate = [[-mp.exp(v) for v in row] for row in exact(t[name + '.a_log'])]
        skip = exact(t[name + '.d'])[0] if name + '.d' in t else [mp.mpf(0)] * inner
        h = [[mp.mpf(0)] * state for _ in range(inner)]
        out = []
        for i, row in enumerate(read):
            b, c = row[rank:rank + state], row[rank + state:]
            y = []
            for k in range(inner):
                h[k] = [mp.exp(r * steps[i][k]) * v + steps[i][k] * w * u[i][k] for r, v, w in zip(rate[k], h[k], b)]
                y.append(mp.fdot(c, h[k]) + skip[k] * u[i][k])
            if a['gated']:
                y = [v * ACTS['silu'](z) for v, z in zip(y, rows[i][inner:])]
            out.append(y)
        return linear(out, t, name + '.o')

    def mlp(self, x, m, name):
        act = ACTS[m['act']]
        up = linear(x, self.t, name + '.up')
        if m['gated']:
            gate = linear(x, self.t, name + '.gate')
            up = [[act(g) * u for g, u in zip(r, s)] for r, s in zip(gate, up)]
        else:
            up = [[act(u) for u in r] for r in up]
        return linear(up, self.t, name + '.down')

    def run(self, x):
        states = [x]
        for l, layer in enumerate(self.case['layers']):
            joined = x
            for b, branch in enumerate(layer):
                name = 'l%d.b%d' % (l, b)
                y = joined if branch['joins'] else x
                y = norm(y, branch['before'], self.t, name + '.before')
                op = {'attention': self.attention, 'ssd': self.ssd, 's6': self.s6, 'mlp': self.mlp}
                y = op[branch['kind']](y, branch, name)
                y = norm(y, branch['inside'], self.t, name + '.inside')
                x = [[mp.mpf(branch['skip']) * p + mp.mpf(branch['scale']) * o for p, o in zip(r, s)]
                     for r, s in zip(x, y)]
                x = norm(x, branch['after'], self.t, name + '.after')
            states.append(x)
        return states


# ---- cases ----

def attention(**kw):
    a = dict(kind='attention', before='none', inside='none', after='none', skip=0.0, scale=1.0, joins=False,
             heads=1, kv_heads=None, head_dim=4, value_dim=None, merged=False, bias=True, softcap=0.0,
             temperature=1.0, causal=False, window=0, q_norm='none', k_norm='none', norm_whole=False, rope=None,
             relative=False, reach=None, flat=False, mix=[0.0, 1.0, 0.0], std=2.0, bias_std=0.5)
    scale = kw.pop('scale_qk', None)
    a.update(kw)
    a['kv_heads'] = a['kv_heads'] or a['heads']
    a['value_dim'] = a['value_dim'] or a['head_dim']
    a['scale_qk'] = a['head_dim'] ** -0.5 if scale is None else scale
    return a


def mlp(act, gated=False, **kw):
    m = dict(kind='mlp', before='none', inside='none', after='none', skip=0.0, scale=1.0, joins=False, act=act,
             gated=gated, width=10, bias=True)
    m.update(kw)
    return m


def ssd(**kw):
    a = dict(kind='ssd', before='none', inside='none', after='none', skip=0.0, scale=1.0, joins=False, heads=2,
             head_dim=3, groups=1, state=2, conv=3, conv_bias=True, bias=False, gate='before', norm='rmsnorm', own=True,
             std=1.0)
    a.update(kw)
    return a


def s6(**kw):
    a = dict(kind='s6', before='none', inside='none', after='none', skip=0.0, scale=1.0, joins=False, inner=5, state=2,
             rank=2, conv=3, conv_bias=True, bias=False, gated=True, own=True, std=1.0)
    a.update(kw)
    return a


def repeat(layers, *branches):
    return [[dict(b) for b in branches] for _ in range(layers)]


ROPE = dict(dims=4, theta=100.0, interleaved=False)
CASES = {
    # name: (seed, tokens, d, residual of the input, digits, layers), and what the input is multiplied by
    'one_head': (1, 5, 4, 0.3, 1800, repeat(6, attention(merged=True, value_dim=4, bias=False))),
    'one_head_eight_layers': (2, 5, 4, 0.5, 9000, repeat(8, attention(merged=True, value_dim=4))),
    'heads_biases': (3, 6, 8, 0.5, 1500, repeat(6, attention(heads=4))),
    'grouped': (4, 5, 6, 0.5, 1500, repeat(5, attention(heads=4, kv_heads=2, head_dim=3, value_dim=2))),
    'gelu': (5, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3), mlp('gelu'))),
    'relu': (6, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3), mlp('relu'))),
    'relu2': (7, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3), mlp('relu2'))),
    'tanh': (8, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3), mlp('tanh'))),
    'gelu_tanh': (9, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3), mlp('gelu_tanh'))),
    'quick_gelu': (10, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3), mlp('quick_gelu'))),
    'silu_gated': (11, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3), mlp('silu', gated=True))),
    'gelu_gated': (12, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3), mlp('gelu', gated=True))),
    'post_layernorm': (13, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, after='layernorm'),
                                                  mlp('gelu', after='layernorm'))),
    'pre_rmsnorm': (14, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, before='rmsnorm'),
                                               mlp('silu', gated=True, before='rmsnorm'))),
    'sandwich': (15, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3, before='rmsnorm_plus_one',
                                                         inside='rmsnorm_plus_one'),
                                            mlp('gelu_tanh', gated=True, before='rmsnorm_plus_one',
                                                inside='rmsnorm_plus_one'))),
    'parallel': (16, 5, 6, 0.5, 400, repeat(5, attention(heads=2, head_dim=3, before='layernorm', skip=0.01),
                                            mlp('gelu', before='layernorm', joins=True, skip=1.0, scale=1e-4))),
    'lambda_skip': (17, 5, 6, 0.5, 300, repeat(8, attention(heads=2, head_dim=3, skip=0.01))),
    'negative_skip': (18, 5, 6, 0.5, 300, repeat(6, attention(heads=2, head_dim=3, skip=-0.3, scale=0.5))),
    'whole_block': (19, 5, 6, 0.5, 100, repeat(6, attention(heads=2, head_dim=3, skip=1.0, after='layernorm'),
                                               mlp('gelu', skip=1.0, after='layernorm'))),
    'large_logits': (41, 6, 4, 2.0, 1500, repeat(5, attention(merged=True, value_dim=4, std=6.0))),
    'rope': (21, 6, 8, 0.5, 200, repeat(5, attention(heads=2, rope=ROPE))),
    'rope_interleaved_grouped': (22, 6, 8, 0.5, 200, repeat(4, attention(
        heads=4, kv_heads=1, rope=dict(dims=2, theta=10000.0, interleaved=True), q_norm='rmsnorm',
        k_norm='rmsnorm', before='rmsnorm'))),
    'causal': (23, 6, 4, 0.5, 200, repeat(6, attention(merged=True, value_dim=4, causal=True))),
    'window': (24, 7, 6, 0.5, 200, repeat(4, attention(heads=2, window=3, after='layernorm'))),
    'causal_rope_window': (25, 7, 6, 0.5, 200, repeat(4, attention(heads=2, rope=ROPE, causal=True, window=4),
                                                      mlp('silu', gated=True, skip=0.5))),
    'relative': (26, 6, 6, 0.5, 200, repeat(4, attention(heads=2, head_dim=3, relative=True, after='layernorm'))),
    'distance': (27, 6, 6, 0.5, 200, repeat(4, attention(heads=2, head_dim=3, reach=2))),
    'flat_distance': (28, 6, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, reach=2, flat=True))),
    'qk_norm': (29, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, q_norm='rmsnorm', k_norm='rmsnorm'))),
    'qk_norm_whole': (30, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, q_norm='layernorm',
                                                              k_norm='layernorm', norm_whole=True))),
    'softcap': (31, 5, 6, 0.5, 1500, repeat(5, attention(heads=2, head_dim=3, softcap=1.5, temperature=0.7))),
    'softcap_saturated': (32, 5, 6, 0.5, 1500, repeat(4, attention(heads=2, head_dim=3, softcap=0.8, std=4.0,
                                                                   bias_std=3.0))),
    'centred': (33, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3, mix=[0.0, 1.0, 1.0], skip=0.5))),
    'centred_alone': (40, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, mix=[0.0, 1.0, 1.0]))),
    'centred_bare': (41, 5, 6, 0.5, 900, repeat(5, attention(heads=2, head_dim=3, mix=[0.0, 1.0, 1.0], bias=False))),
    'gap_removed_skip': (42, 5, 6, 0.5, 900, repeat(4, attention(heads=2, head_dim=3, mix=[1e-3, 1.2, 1.2]))),
    'centred_causal': (43, 6, 6, 0.5, 1200, repeat(6, attention(heads=2, head_dim=3, causal=True, mix=[0.0, 1.0, 1.0]))),
    'centred_causal_deep': (44, 5, 4, 0.2, 3000, repeat(9, attention(causal=True, mix=[0.0, 0.5, 0.5]))),
    'mixture_window': (45, 6, 6, 0.5, 300, repeat(4, attention(heads=2, head_dim=3, window=3, mix=[0.2, 0.7, 0.4]))),
    'mixture': (34, 5, 6, 0.5, 300, repeat(5, attention(heads=2, head_dim=3, mix=[0.2, 0.7, 0.4]))),
    'uniform': (35, 5, 6, 0.5, 300, repeat(3, attention(heads=2, head_dim=3, mix=[0.1, 0.0, -1.0]))),
    # one key has nearly all the weight of every query: what moves the tokens is far below rounding (docs/theory/corrections.md, 14)
    'extreme': (247, 6, 4, 0.5, 6000, repeat(1, attention(merged=True, value_dim=4, std=4.0, bias_std=300.0))),
    'extreme_heads': (39, 6, 6, 0.5, 6000, repeat(2, attention(heads=2, head_dim=3, bias_std=100.0))),
    'extreme_causal': (256, 5, 4, 0.5, 6000, repeat(1, attention(heads=1, causal=True, std=4.0, bias_std=200.0))),
    # state-space mixers, worked out in plain numbers: O(1) residuals whatever enters
    'mamba2': (50, 6, 4, 0.5, 60, repeat(4, ssd(before='rmsnorm', skip=1.0))),
    'mamba2_no_norm': (51, 6, 4, 0.5, 60, repeat(4, ssd(groups=2, skip=1.0))),
    'mamba2_gate_after': (52, 6, 4, 0.5, 60, repeat(3, ssd(before='layernorm', skip=1.0, gate='after', bias=True))),
    'mamba2_equal_tokens': (53, 6, 4, 0.0, 60, repeat(3, ssd(before='rmsnorm', skip=1.0))),
    'mamba2_lambda': (54, 6, 4, 0.5, 60, repeat(36, ssd(before='rmsnorm', skip=20.0))),
    'mamba2_lambda_small': (55, 6, 4, 0.5, 60, repeat(4, ssd(before='rmsnorm', skip=0.3))),
    'mamba': (56, 6, 4, 0.5, 60, repeat(4, s6(before='rmsnorm', skip=1.0))),
    'mamba_no_norm': (57, 6, 4, 0.5, 60, repeat(3, s6(skip=1.0))),
    'mamba_equal_tokens': (58, 6, 4, 0.0, 60, repeat(3, s6(before='layernorm', skip=1.0))),
    'hybrid': (59, 6, 4, 0.5, 200, [[attention(heads=2, head_dim=2, before='rmsnorm')],
                                    [ssd(before='rmsnorm', skip=1.0), mlp('silu', gated=True, skip=1.0)],
                                    [attention(heads=2, head_dim=2, causal=True)],
                                    [s6(before='rmsnorm', skip=1.0)]]),
    # tokens whose size leaves the doubles: products of 3, 2 and 4 small factors, and of 5 large
    # (docs/theory/collapse.md, 14.7)
    'scale_cubic': (60, 6, 4, 0.5, 60, repeat(9, ssd(conv_bias=False, gate='none', norm='none', own=False))),
    'scale_cubic_mamba': (61, 6, 4, 0.5, 60, repeat(9, s6(conv_bias=False, gated=False, own=False))),
    'scale_square_mamba': (62, 6, 4, 0.2, 60, repeat(12, s6(conv_bias=False, std=0.5))),
    'scale_fourth': (63, 6, 4, 0.1, 60, repeat(8, ssd(conv_bias=False, own=False, std=0.3))),
    'scale_linear': (64, 6, 4, 0.5, 60, repeat(38, s6(conv_bias=True, std=1e-8))),
    'scale_large': (65, 6, 4, 0.5, 60, repeat(1, ssd(gate='before', norm='none', conv_bias=True, bias=True)), 1e30),
    'scale_large_lambda': (66, 6, 4, 0.5, 60, repeat(16, ssd(before='rmsnorm', skip=-3e24))),
    'scale_small_lambda': (67, 6, 4, 0.5, 60, repeat(12, ssd(skip=1e-40, scale=1e-45, conv_bias=False),
                                                     attention(heads=2, head_dim=2, bias=False, skip=1.0))),
    'scale_mlp_small': (68, 6, 4, 0.5, 60, repeat(9, mlp('relu2', gated=True, bias=False)), 1e-9),
    'scale_mlp_large': (69, 6, 4, 0.5, 60, repeat(9, mlp('relu2', gated=True, bias=False, skip=0.5)), 1e9),
    'scale_bias_small': (71, 6, 4, 0.5, 900, repeat(2, attention(heads=2, head_dim=2, skip=1.0)), 1e-290),
    'scale_bias_large': (72, 6, 4, 0.5, 60, repeat(4, attention(heads=2, head_dim=2, skip=1e40, q_norm='rmsnorm',
                                                                k_norm='rmsnorm', causal=True)), 1e200),
    'scale_eps': (70, 6, 4, 0.5, 60, repeat(5, ssd(conv_bias=False, own=False, before='rmsnorm')), 1e-300),
    'two_tokens': (36, 2, 5, 0.5, 900, repeat(5, attention(heads=2, head_dim=3))),
    'one_feature': (37, 7, 1, 0.5, 900, repeat(5, attention(heads=3, head_dim=1))),
}


def tensors_of(case, rng, d):
    t = {}

    def weight(name, out, inner, std=1.0, bias=True, bias_std=0.5):
        t[name + '.weight'] = rng.standard_normal((out, inner)) * std / np.sqrt(inner)
        if bias:
            t[name + '.bias'] = rng.standard_normal(out) * bias_std

    def gains(name, kind, dim):
        if kind == 'none':
            return
        t[name + '.gain'] = (0 if kind == 'rmsnorm_plus_one' else 1) + 0.2 * rng.standard_normal(dim)
        if kind == 'layernorm':
            t[name + '.bias'] = 0.2 * rng.standard_normal(dim)

    def state_space(name, br):
        inner = br['heads'] * br['head_dim'] if br['kind'] == 'ssd' else br['inner']
        keys, heads = br.get('groups', 0) * br['state'], br.get('heads', 0)
        channels = inner + 2 * keys
        weight(name + '.in', inner + channels + heads if heads else 2 * inner, d, br['std'], br['bias'])
        t[name + '.conv.weight'] = rng.standard_normal((channels, 1, br['conv'])) / np.sqrt(br['conv'])
        if br['conv_bias']:
            t[name + '.conv.bias'] = 0.3 * rng.standard_normal(channels)
        if heads:
            t[name + '.dt_bias'] = rng.standard_normal(heads) - 1
            t[name + '.a_log'] = 0.5 * rng.standard_normal(heads)
        else:
            weight(name + '.x', br['rank'] + 2 * br['state'], inner, bias=False)
            weight(name + '.step', inner, br['rank'])
            t[name + '.a_log'] = 0.5 * rng.standard_normal((inner, br['state']))
        if br['own']:
            t[name + '.d'] = rng.standard_normal(heads or inner)
        if br.get('norm', 'none') != 'none':
            t[name + '.norm.gain'] = 1 + 0.2 * rng.standard_normal(inner)
        weight(name + '.o', d, inner, 1.0, br['bias'])

    for l, layer in enumerate(case['layers']):
        for b, br in enumerate(layer):
            name = 'l%d.b%d' % (l, b)
            for place in ('before', 'inside', 'after'):
                gains(name + '.' + place, br[place], d)
            if br['kind'] == 'mlp':
                weight(name + '.up', br['width'], d, bias=br['bias'])
                if br['gated']:
                    weight(name + '.gate', br['width'], d, bias=br['bias'])
                weight(name + '.down', d, br['width'], bias=br['bias'])
                continue
            if br['kind'] in ('ssd', 's6'):
                state_space(name, br)
                continue
            q, kv = br['heads'] * br['head_dim'], br['kv_heads'] * br['head_dim']
            weight(name + '.q', q, d, br['std'], br['bias'], br['bias_std'])
            weight(name + '.k', kv, d, br['std'], br['bias'], br['bias_std'])
            weight(name + '.v', br['kv_heads'] * br['value_dim'], d, 1.0, br['bias'])
            if not br['merged']:
                weight(name + '.o', d, br['heads'] * br['value_dim'], 1.0, br['bias'])
            br['norm_dim_q'] = q if br['norm_whole'] else br['head_dim']
            br['norm_dim_k'] = kv if br['norm_whole'] else br['head_dim']
            gains(name + '.q_norm', br['q_norm'], br['norm_dim_q'])
            gains(name + '.k_norm', br['k_norm'], br['norm_dim_k'])
            if br['relative']:
                weight(name + '.r', q, d, 1.0, False)
                t[name + '.content'] = rng.standard_normal(q) * 0.5
                t[name + '.position'] = rng.standard_normal(q) * 0.5
            if br['reach'] is not None:
                t[name + '.distance'] = rng.standard_normal((br['heads'], 2 * br['reach'] + 1))
                if br['flat']:
                    t[name + '.distance'][:] = 0.75
    return t


def split(x):
    """base, residual, exponent and scale of the state, each number rounded once."""
    n, d = len(x), len(x[0])
    base = [mp.fsum(x[i][k] for i in range(n)) / n for k in range(d)]
    r = [[x[i][k] - base[k] for k in range(d)] for i in range(n)]
    size = max(abs(v) for row in x for v in row)
    scale = int(mp.frexp(size)[1]) if size else 0
    scale = scale if abs(scale) > 400 else 0
    top = max(abs(v) for row in r for v in row)
    e = int(mp.frexp(top)[1]) if top else scale
    m = np.array([[float(mp.ldexp(v, -e)) for v in row] for row in r])
    return (np.array([float(mp.ldexp(v, -scale)) for v in base]), m, np.array([e - scale], dtype=np.int64),
            np.array([scale], dtype=np.int64))


def describe(case):
    out = []
    for layer in case['layers']:
        branches = []
        for br in layer:
            b = {k: v for k, v in br.items()
                 if k not in ('std', 'bias_std', 'flat', 'scale_qk', 'norm_whole', 'bias', 'conv_bias', 'own')}
            if br['kind'] == 'attention':
                b['qk_scale'] = br['scale_qk']
            branches.append(b)
        out.append(branches)
    return out


def make(name):
    seed, n, d, spread, digits, layers, times_input = (CASES[name] + (1.0,))[:7]
    rng = np.random.default_rng(seed)
    case = {'layers': layers}
    t = tensors_of(case, rng, d)
    x0 = (rng.standard_normal(d) + rng.standard_normal((n, d)) * spread) * times_input
    mp.mp.dps = digits
    p = Pass(case, t)
    states = p.run(exact(x0))
    t['input'] = x0
    for l, x in enumerate(states):
        base, m, e, scale = split(x)
        if scale[0]:
            t['state.%d.scale' % l] = scale
        t['state.%d.base' % l], t['state.%d.residual' % l], t['state.%d.exponent' % l] = base, m, e
    t['largest_logit'] = np.array([float(p.top)])
    text = json.dumps({'d': d, 'layers': describe(case)})
    t['network'] = np.frombuffer(text.encode(), dtype=np.uint8)
    save_file(t, os.path.join(OUT, name + '.safetensors'))
    exponent = int(t['state.%d.exponent' % (len(states) - 1)][0])
    digits_used = -exponent * np.log10(2)
    assert digits_used < 0.8 * digits, (name, digits_used)
    print('%-26s log10 max|R| about %10.2f, largest logit %.3g' % (name, -digits_used, float(p.top)), flush=True)


if __name__ == '__main__':
    os.makedirs(OUT, exist_ok=True)
    for case_name in sys.argv[1:] or list(CASES) + ['deep']:
        if case_name == 'deep':
            make_deep('deep', 60, 5, 4, 0.3, 34, 80)
        else:
            make(case_name)
