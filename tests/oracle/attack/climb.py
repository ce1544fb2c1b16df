"""Hill climbing: small changes of an instance, kept where they bring a column's claim closer to the truth or beyond it."""

import numpy as np

from . import draw
from .draw import power


def embedding(inst):
    for name in inst.tensors:
        if name.endswith(("embed_tokens.weight", "word_embeddings.weight", "wte.weight", "embed_in.weight", "word_embedding.weight")):
            return name
    return None


def change_tensor(rng, inst, best):
    if inst.family == "arch":
        inst.tensors["seed"] = np.array([float(rng.integers(1 << 20))])
        return
    names = list(inst.tensors)
    name = names[rng.integers(len(names))]
    w = inst.tensors[name]
    kind = rng.integers(6)
    if kind == 0:
        w = w * 10.0 ** rng.normal(0, 0.5)
    if kind == 1:
        w = w + np.abs(w).max() * power(rng, -9, 0) * rng.standard_normal(w.shape)
    if kind == 2:
        w = w * 10.0 ** rng.normal(0, 0.2, w.shape)
    if kind == 3:
        w = -w if rng.random() < 0.3 else w * 0
    if kind == 4 and w.ndim == 1:
        w = w + power(rng, -2, 14) * rng.standard_normal(w.shape)
    if kind == 5 and w.size:
        at = tuple(rng.integers(s) for s in w.shape)
        w = w.copy()
        w[at] += np.abs(w).max() * rng.standard_normal()
    inst.tensors[name] = w


def change_states(rng, inst, best):
    """The states of the best sample take the place of others, each a little changed."""
    name = embedding(inst)
    if name is None or best is None:
        return change_tensor(rng, inst, best)
    w = inst.tensors[name].reshape(inst.samples, inst.n, -1).copy()
    origin = w[best].copy()
    for s in range(inst.samples):
        if s == best or rng.random() < 0.3:
            continue
        centre = origin.mean(0)
        apart = origin - centre
        step = power(rng, -4, 0)
        moved = apart * 10.0 ** rng.normal(0, step) + np.abs(apart).max() * step * rng.standard_normal(apart.shape)
        common = centre * 10.0 ** rng.normal(0, step) + (np.abs(centre).max() * step * rng.standard_normal(centre.shape) if rng.random() < 0.5 else 0)
        w[s] = common + moved
    inst.tensors[name] = w.reshape(inst.samples * inst.n, -1)


def change_settings(rng, inst, best):
    c = inst.config
    for name in ("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"):
        if name in c and rng.random() < 0.4:
            c[name] = draw.epsilon(rng) if c[name] == 0 or rng.random() < 0.3 else float(min(c[name] * 10.0 ** rng.normal(0, 1), 1e3))
    p = c.get("rope_parameters")
    if p and "rope_type" in p:
        for name in ("factor", "attention_factor", "rope_theta"):
            if p.get(name) is not None and rng.random() < 0.4:
                p[name] = float(p[name] * 10.0 ** rng.normal(0, 0.5))
        p["rope_theta"] = max(p["rope_theta"], 1.0000001)
    for name in ("lambda", "residual-scale", "temperature"):
        if isinstance(inst.edits.get(name), float) and rng.random() < 0.4:
            inst.edits[name] = float(inst.edits[name] * 10.0 ** rng.normal(0, 0.3) + rng.choice([0.0, 0.0, 0.1]) * rng.standard_normal())
            if name == "temperature":
                inst.edits[name] = abs(inst.edits[name])
    if rng.random() < 0.1:
        inst.edits = draw.edits(rng, inst.n)
    if rng.random() < 0.1:
        inst.kept = float(np.clip(inst.kept + 0.1 * rng.standard_normal(), 0.01, 0.999))


CHANGES = [change_tensor, change_states, change_states, change_settings]


def mutate(rng, inst, best):
    new = inst.copy()
    for _ in range(1 + rng.integers(3)):
        CHANGES[rng.integers(len(CHANGES))](rng, new, best)
    return new.settle()


def score(claims, wanted):
    """(largest ratio of the wanted columns, its sample)"""
    best, sample = -1.0, None
    for name, _, ratio, violated, what in claims:
        if name in wanted and ratio > best:
            best, sample = ratio, what.get("sample")
    return best, sample


def climb(rng, start, wanted, measure, steps):
    """measure(instance) -> claims. Returns the best score; stops where a claim is broken, for it is reported by then."""
    inst = start
    best, sample = score(measure(inst), wanted)
    for _ in range(steps):
        if best > 1:
            break
        new = mutate(rng, inst, sample)
        got, where = score(measure(new), wanted)
        if got >= best:
            inst, best, sample = new, got, where
    return best
