#!/usr/bin/env python3
"""Goldens of gradients in the residual precision: networks of make_residual_golden.py, run back by the textbook formulas
(docs/theory/gradients.md, 1 to 4) with as many digits as it takes.

Nothing here knows what tokens share: rows of the derivative by the logits sum to 0 because enough digits say so. Some entries
of each network are held against central differences of three times as many digits. The loss is <G, X> of the last state, G
drawn as the program draws it (Philox and Box-Muller, of docs/theory/gradients.md, 6), or |X|^2 / 2.

Each norm is stored as mantissa and exponent of 2, a list of them for parameters that fall into heads: the whole, then each.

Run: python3 make_residual_gradient_golden.py (reads tests/golden/residual, writes tests/golden/residual_gradients.json)
"""
import json
import math
import os

import mpmath as mp
from safetensors.numpy import load_file

from make_residual_golden import ACTS, CASES, HERE, OUT, exact

SEED = 7
# the network of make_residual_golden.py, and the loss
CHOSEN = [('one_head', 'random'), ('one_head_eight_layers', 'random'), ('heads_biases', 'random'), ('grouped', 'norm2'),
          ('causal', 'random'), ('lambda_skip', 'random'), ('negative_skip', 'norm2'), ('mixture', 'random'),
          ('mixture_window', 'random'), ('window', 'random'), ('tanh', 'random'), ('gelu', 'random'),
          ('post_layernorm', 'random'), ('pre_rmsnorm', 'random'), ('two_tokens', 'random'), ('one_feature', 'random'),
          ('large_logits', 'random'), ('centred', 'random'), ('flat_distance', 'random')]


# ---- the draws ----

def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def normals(stream, count):
    def uniform(at):
        draw = philox([at & 0xffffffff, at >> 32, stream & 0xffffffff, stream >> 32], [SEED, 0])
        return ((draw[0] << 32 | draw[1]) >> 11) * 2.0 ** -53 + 2.0 ** -54
    out = []
    for at in range(0, count + 1, 2):
        radius, angle = math.sqrt(-2 * math.log(uniform(at))), 2 * math.pi * uniform(at + 1)
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


# ---- matrices as lists of rows ----

def product(a, b):
    return [[mp.fdot(row, column) for column in zip(*b)] for row in a]


def turned(a):
    return [list(row) for row in zip(*a)]


def plus(a, b, scale=1):
    return [[u + scale * v for u, v in zip(r, s)] for r, s in zip(a, b)]


def columns(a, at, width):
    return [row[at:at + width] for row in a]


def add_columns(a, at, b):
    for row, more in zip(a, b):
        for k, v in enumerate(more):
            row[at + k] += v


def zeros(n, d):
    return [[mp.mpf(0)] * d for _ in range(n)]


def sums(a):
    return [mp.fsum(c) for c in zip(*a)]


# ---- a network, forward with all that the way back reads, and back ----

SLOPES = {
    'gelu': lambda v: mp.ncdf(v) + v * mp.npdf(v),
    'tanh': lambda v: 1 - mp.tanh(v) ** 2,
    'silu': lambda v: (s := 1 / (1 + mp.exp(-v))) + v * s * (1 - s),
}


class Network:
    def __init__(self, description, tensors):
        self.layers, self.t = description['layers'], tensors
        self.w = {name: exact(v) for name, v in tensors.items() if name.endswith('.weight')}
        self.found, self.first = {}, {}

    def linear(self, x, name):
        y = [[mp.fdot(row, c) for c in self.w[name + '.weight']] for row in x]
        if name + '.bias' in self.t:
            b = exact(self.t[name + '.bias'])[0]
            y = [[v + u for v, u in zip(row, b)] for row in y]
        return y

    def back_linear(self, d, x, name, heads=1, by_input=False):
        """Keeps the norms of a map's gradients, whole and by heads; returns the derivative by x."""
        g = product(turned(d), x)
        self.first[name + '.weight'] = g[0][0]
        wide = turned(g) if by_input else g
        part = len(wide) // heads
        parts = [wide] + [wide[h * part:(h + 1) * part] for h in range(heads)]
        self.found[name + '.weight'] = [mp.sqrt(mp.fsum(v * v for row in p for v in row)) for p in parts]
        if name + '.bias' in self.t:
            self.found[name + '.bias'] = [mp.sqrt(mp.fsum(v * v for v in sums(d)))]
        return product(d, self.w[name + '.weight'])

    def norm(self, x, kind, name):
        if kind == 'none':
            return x, None
        gain = exact(self.t[name + '.gain'])[0]
        bias = exact(self.t[name + '.bias'])[0] if name + '.bias' in self.t else [0] * len(gain)
        y, factors = [], []
        for row in x:
            mean = mp.fsum(row) / len(row) if kind == 'layernorm' else mp.mpf(0)
            c = [v - mean for v in row]
            f = 1 / mp.sqrt(mp.fsum(v * v for v in c) / len(row) + mp.mpf(1e-5))
            y.append([f * v for v in c])
            factors.append(f)
        return [[g * v + b for g, v, b in zip(gain, row, bias)] for row in y], (kind, gain, y, factors)

    @staticmethod
    def back_norm(d, kept):
        if kept is None:
            return d
        kind, gain, ys, factors = kept
        out = []
        for row, y, f in zip(d, ys, factors):
            g = [a * b for a, b in zip(gain, row)]
            mean = mp.fsum(g) / len(g) if kind == 'layernorm' else mp.mpf(0)
            along = mp.fdot(g, y) / len(g)
            out.append([f * (v - mean - u * along) for v, u in zip(g, y)])
        return out

    def attention(self, x, a, name):
        n, dim, value = len(x), a['head_dim'], a['value_dim']
        q, k, v = (self.linear(x, name + part) for part in ('.q', '.k', '.v'))
        mixed, kept = zeros(n, value if a['merged'] else a['heads'] * value), []
        for h in range(a['heads']):
            g = h // (a['heads'] // a['kv_heads'])
            qs, ks, vs = columns(q, h * dim, dim), columns(k, g * dim, dim), columns(v, g * value, value)
            p, m = zeros(n, n), zeros(n, n)
            for i in range(n):
                seen = [j for j in range(n) if (not a['causal'] or j <= i) and
                        (not a['window'] or abs(i - j) < a['window'])]
                e = {j: mp.exp(mp.mpf(a['qk_scale']) * mp.fdot(qs[i], ks[j]) / mp.mpf(a['temperature'])) for j in seen}
                total = mp.fsum(e.values())
                for j in seen:
                    p[i][j] = e[j] / total
                    m[i][j] = a['mix'][1] * p[i][j] - mp.mpf(a['mix'][2]) / len(seen)
                m[i][i] += a['mix'][0]
            add_columns(mixed, 0 if a['merged'] else h * value, product(m, vs))
            kept.append((g, qs, ks, vs, p, m))
        return (mixed if a['merged'] else self.linear(mixed, name + '.o')), (x, mixed, kept)

    def back_attention(self, d, a, name, tape):
        x, mixed, kept = tape
        n, dim, value = len(x), a['head_dim'], a['value_dim']
        if not a['merged']:
            d = self.back_linear(d, mixed, name + '.o', a['heads'], True)
        dq = zeros(n, a['heads'] * dim)
        dk, dv = zeros(n, a['kv_heads'] * dim), zeros(n, a['kv_heads'] * value)
        for h, (g, qs, ks, vs, p, m) in enumerate(kept):
            do = columns(d, 0 if a['merged'] else h * value, value)
            add_columns(dv, g * value, product(turned(m), do))
            dp = product(do, turned(vs))
            factor = mp.mpf(a['mix'][1]) * mp.mpf(a['qk_scale']) / mp.mpf(a['temperature'])
            ds = [[factor * u * (v - mp.fdot(row, by)) for u, v in zip(row, by)] for row, by in zip(p, dp)]
            add_columns(dq, h * dim, product(ds, ks))
            add_columns(dk, g * dim, product(turned(ds), qs))
        out = self.back_linear(dq, x, name + '.q', a['heads'])
        out = plus(out, self.back_linear(dk, x, name + '.k', a['kv_heads']))
        return plus(out, self.back_linear(dv, x, name + '.v', a['kv_heads']))

    def mlp(self, x, m, name):
        up = self.linear(x, name + '.up')
        gate = self.linear(x, name + '.gate') if m['gated'] else up
        active = [[ACTS[m['act']](v) for v in row] for row in gate]
        wide = [[a * b for a, b in zip(r, s)] for r, s in zip(active, up)] if m['gated'] else active
        return self.linear(wide, name + '.down'), (x, up, gate, active, wide)

    def back_mlp(self, d, m, name, tape):
        x, up, gate, active, wide = tape
        d = self.back_linear(d, wide, name + '.down')
        by_active = [[a * b for a, b in zip(r, s)] for r, s in zip(d, up)] if m['gated'] else d
        by_gate = [[a * SLOPES[m['act']](v) for a, v in zip(r, s)] for r, s in zip(by_active, gate)]
        if not m['gated']:
            return self.back_linear(by_gate, x, name + '.up')
        by_up = [[a * b for a, b in zip(r, s)] for r, s in zip(d, active)]
        return plus(self.back_linear(by_gate, x, name + '.gate'), self.back_linear(by_up, x, name + '.up'))

    def forward(self, x):
        tape = []
        for l, layer in enumerate(self.layers):
            for b, branch in enumerate(layer):
                name = 'l%d.b%d' % (l, b)
                read, before = self.norm(x, branch['before'], name + '.before')
                y, op = (self.attention if branch['kind'] == 'attention' else self.mlp)(read, branch, name)
                added, inside = self.norm(y, branch['inside'], name + '.inside')
                total = [[branch['skip'] * u + branch['scale'] * v for u, v in zip(r, s)] for r, s in zip(x, added)]
                new, after = self.norm(total, branch['after'], name + '.after')
                tape.append((name, branch, x, before, op, added, inside, after))
                x = new
        return x, tape

    def backward(self, d, tape):
        for name, branch, x, before, op, added, inside, after in reversed(tape):
            d = self.back_norm(d, after)
            for part, of in (('skip', x), ('scale', added)):
                self.found[name + '.' + part] = [abs(mp.fsum(mp.fdot(r, s) for r, s in zip(d, of)))]
            by = self.back_norm([[branch['scale'] * v for v in row] for row in d], inside)
            by = (self.back_attention if branch['kind'] == 'attention' else self.back_mlp)(by, branch, name, op)
            d = plus([[branch['skip'] * v for v in row] for row in d], self.back_norm(by, before))

    def loss(self, x0, draws):
        x, _ = self.forward(x0)
        if draws is None:
            return mp.fsum(v * v for row in x for v in row) / 2
        return mp.fsum(mp.fdot(r, s) for r, s in zip(draws, x))


def check(network, x0, draws, tensor, digits):
    """The derivative by a tensor's first number, by a central difference."""
    mp.mp.dps = 3 * digits
    step, row, values = mp.mpf(10) ** -digits, network.w[tensor][0], []
    kept = row[0]
    for sign in (1, -1):
        row[0] = kept + sign * step
        values.append(network.loss(x0, draws))
    row[0] = kept
    difference = (values[0] - values[1]) / (2 * step)
    mp.mp.dps = digits
    error = abs(difference / network.first[tensor] - 1)
    assert error < mp.mpf(10) ** -20, (tensor, mp.nstr(error, 5))


def stored(norm):
    mantissa, exponent = mp.frexp(norm)
    return [float(mantissa), int(exponent)]


def make(name, loss):
    t = load_file(os.path.join(OUT, name + '.safetensors'))
    digits = CASES[name][4]
    mp.mp.dps = digits
    network = Network(json.loads(bytes(t['network']).decode()), t)
    x0 = exact(t['input'])
    x, tape = network.forward(x0)
    draws = exact([normals(i, len(x[0])) for i in range(len(x))]) if loss == 'random' else None
    network.backward(draws or x, tape)
    last = len(network.layers) - 1
    if digits <= 1000:
        check(network, x0, draws, 'l%d.b0.q.weight' % last, digits)
        check(network, x0, draws, 'l0.b0.k.weight', digits)
    zero = mp.mpf(10) ** (-digits // 2)
    found = {k: [stored(v) for v in norms] for k, norms in network.found.items()
             if not (k.endswith('.k.bias') or norms[0] == 0 or k.endswith(('.v.bias', 'skip', 'scale')) and norms[0] < zero)}
    print('%-24s log10 gQ of the last layer %.2f' % (name, float(mp.log10(network.found['l%d.b0.q.weight' % last][0]))),
          flush=True)
    return {'name': name, 'loss': loss, 'logit': float(t['largest_logit'][0]), 'norms': found}


if __name__ == '__main__':
    with open(os.path.join(HERE, '..', 'golden', 'residual_gradients.json'), 'w') as out:
        json.dump({'seed': SEED, 'cases': [make(*case) for case in CHOSEN]}, out, indent=0)
        out.write('\n')
