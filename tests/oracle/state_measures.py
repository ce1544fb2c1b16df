"""Columns of probe's tables by their definitions (docs/probe.md), of states and matrices: plain NumPy in float64."""
import numpy as np


def token_numbers(x):
    """Columns of table tokens of one sample; None where there is no number."""
    n, d = x.shape
    whole = np.linalg.norm(x)
    r = x - x.mean(0)
    out = {"norm_fro": whole, "residual_fro": np.linalg.norm(r), "residual_1inf": one_inf(r)}
    out["relative_residual"] = out["residual_fro"] / whole if whole else None
    out["relative_residual_1inf"] = out["residual_1inf"] / one_inf(x) if whole else None
    out["diameter"] = max(np.linalg.norm(a - b) for a in x for b in x)
    tops = np.abs(x).max(1)
    lengths = tops * np.linalg.norm(x / np.where(tops > 0, tops, 1)[:, None], axis=1)
    if whole:
        u = x / np.where(lengths > 0, lengths, 1)[:, None]  # a token of zeros stays one
        out["row_normalised_mu"] = np.linalg.norm(u - u.mean(0)) / np.sqrt(n)
        u = u[lengths > 0]
        n = len(u)
        if n > 1:
            g = u @ u.T
            out["mean_cosine"] = (g.sum() - np.trace(g)) / (n * (n - 1))
            out["one_minus_cosine"] = sum(((a - b) ** 2).sum() / 2 for a in u for b in u) / (n * (n - 1))
    if whole:
        s = np.linalg.svd(x, compute_uv=False)
        p = s[s > 0] / s.sum()
        out.update(rank1_residual=np.sqrt((s[1:] ** 2).sum()) / np.sqrt((s ** 2).sum()), effective_rank=np.exp(-(p * np.log(p)).sum()),
                   stable_rank=((s / s[0]) ** 2).sum(), stable_rank_gram=((s / s[0]) ** 4).sum())
    return out


def one_inf(r):
    return np.sqrt(np.abs(r).sum(0).max() * np.abs(r).sum(1).max())


def compare_tokens(row, samples, worst, count):
    """A row of table tokens against the means over the samples where a column is defined."""
    each = [token_numbers(x) for x in samples]
    wrong = []
    for name in sorted({k for e in each for k in e}):
        values = [e[name] for e in each if e.get(name) is not None]
        if not values:
            continue
        want, got = float(np.mean(values)), row[name]
        if not np.isfinite(want):
            continue
        # what is a difference of nearly equal numbers has the digits of the states' size
        size = {"residual_fro": "norm_fro", "diameter": "norm_fro"}.get(name)
        floor = row[size] if size else max(abs(want), 1.0) if name not in ("norm_fro", "residual_1inf") else max(abs(want), row["norm_fro"])
        error = abs(got - want) / floor if got is not None and floor else (0.0 if got == want else float("inf"))
        limit = 1e-7 if name == "rank1_residual" else 1e-10
        count["table tokens"] += 1
        if error <= limit:
            worst["table tokens " + name] = max(worst["table tokens " + name], error)
        else:
            wrong.append(f"tokens {row['site']} {row['layer']} {name}: {got}, not {want}")
    return wrong


def compare_residual(row, x, plain, mp, worst, count):
    """Ratios of one sample's state in mpmath, as --precision residual has them."""
    n, wrong, limit = len(x), [], 0.3 if plain else 1e-8
    lengths = [mp.sqrt(sum(v * v for v in token)) for token in x]
    whole = mp.sqrt(sum(v * v for v in lengths))
    u = [token / size if size else token for token, size in zip(x, lengths)]
    r = x - x.sum(0) / n
    mu = mp.sqrt(sum((v * v).sum() for v in u - sum(u) / n)) / mp.sqrt(n)
    want = {"relative_residual": mp.sqrt((r * r).sum()) / whole, "row_normalised_mu": mu}
    if 0 < len([v for v in lengths if v < whole * mp.mpf("1e-15")]):
        return []  # rows of zeros are rounding of the sample's size (docs/probe.md, Corners)
    there = [token for token, size in zip(u, lengths) if size]
    if len(there) > 1:
        pairs = [((a - b) ** 2).sum() / 2 for a in there for b in there]
        want["one_minus_cosine"] = sum(pairs) / (len(there) * (len(there) - 1))
    for name, value in want.items():
        got = row[name]
        count["table tokens, residual"] += 1
        if got is None or abs(value) < mp.mpf("1e-290"):
            if got is None and value > mp.mpf("1e-290"):
                wrong.append(f"{name}: null, not {mp.nstr(value, 6)}")
            continue
        noise = 1e-14 if plain else 1e-14 * want["relative_residual"]  # directions that agree where lengths do not
        error = float(abs(got - value) / max(value, noise ** 2 if name == "one_minus_cosine" else noise))
        if error > 3 * limit:
            wrong.append(f"{name}: {got}, not {mp.nstr(value, 17)}")
        elif limit < 1e-3:
            worst["table tokens, residual"] = max(worst["table tokens, residual"], error)
    return wrong


def norm_decay(rows, findings, layers):
    """norm_decay_only by its rule: at the least residual_fro behind a layer."""
    states = {r["layer"]: r for r in rows if r["site"] == "block_out"}
    said = any(f["code"] == "norm_decay_only" for f in findings)
    behind = [states[l] for l in range(1, layers + 1) if states[l]["residual_fro"] is not None]
    first = states[0]
    keys = ("relative_residual", "row_normalised_mu", "rank1_residual")
    if not behind or first["residual_fro"] in (None, 0.0) or any(first[k] is None for k in keys):
        return ["norm_decay_only without a ratio"] if said else []
    least = min(behind, key=lambda r: r["residual_fro"])
    if any(least[k] is None for k in keys):
        return []
    margins = [0.1 - least["residual_fro"] / first["residual_fro"]] + [least[k] - 0.5 * first[k] for k in keys]
    want = min(margins) >= 0
    near = min(abs(m) for m in margins) < 1e-9
    return [] if want == said or near else [f"norm_decay_only said {said}, should be {want}: {margins}"]


def matrix_numbers(m, causal, seen):
    n = len(m)
    s = np.linalg.svd(m, compute_uv=False)
    modulus = np.sort(np.abs(np.diag(m) if causal else np.linalg.eigvals(m)))[::-1]
    u = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    out = {"sigma1": s[0], "self_weight": np.diag(m).mean(), "first_token_weight": m[seen[:, 0], 0].mean() if seen[:, 0].any() else None,
           "distance_to_uniform": np.linalg.norm(m - u),
           "centred_norm_squared": np.linalg.svd(m - m.mean(0), compute_uv=False)[0] ** 2}
    out.update(sigma2=0.0, lambda2=0.0, spectral_gap=1.0, dobrushin=0.0)  # of one token
    if n > 1:
        out.update(sigma2=s[1], lambda2=modulus[1], spectral_gap=1 - modulus[1],
                   dobrushin=max(np.abs(a - b).sum() / 2 for a in m for b in m))
    return out


def compare_matrices(row, ms, spec, mixer, worst, count):
    """A row of table attention of a mixer whose matrices are `ms`, one a sample."""
    wrong, each = [], []
    causal = mixer in ("mamba2", "gated_delta") or (mixer in ("attention", "linear_attention") and spec["mask"] != "none")
    window = int(spec["mask"].split(":")[1]) if mixer == "attention" and spec["mask"].startswith("sliding") else 10 ** 9
    for m in ms:
        n = len(m)
        seen = np.array([[(not causal or j <= i) and i - j < window for j in range(n)] for i in range(n)])
        each.append(matrix_numbers(m, causal, seen))
    if mixer == "graph":
        for e in each:
            for name in ("distance_to_uniform", "first_token_weight"):
                e.pop(name, None)
    for name in sorted({k for e in each for k in e}):
        values = [e[name] for e in each if e.get(name) is not None]
        if not values or row.get(name) is None:
            continue
        want, got = float(np.mean(values)), row[name]
        size = max(abs(want), float(np.mean([np.abs(m).max() for m in ms])), 1e-300)
        size = max(size, 1.0) if mixer == "attention" else size  # sums of matrices of size 1
        error = abs(got - want) / (size ** 2 if name == "centred_norm_squared" and size > 1 else size)
        count["table attention"] += 1
        limit = 1e-6 if name in ("lambda2", "spectral_gap") and not causal else 1e-9
        if error <= limit:
            worst["table attention " + name] = max(worst["table attention " + name], error)
        else:
            wrong.append(f"attention {mixer} {row['layer']}:{row['head']} {name}: {got}, not {want}")
    return wrong


def mixing_numbers(matrices, notes, head):
    """A row of table mixing but for its names: matrices and notes (mixer_definitions.py) of each sample; head None: all channels."""
    pick = range(len(matrices[0])) if head is None else [head]
    norms, sums, shares, logs, steps = [], [], [], [], []
    for ms, note in zip(matrices, notes):
        own = [np.asarray(ms[h], dtype=np.float64) for h in pick]
        n = len(own[0])
        norms.append(np.sqrt(np.mean([(m * m).sum() for m in own])))
        sums += [total for m in own for total in m.sum(1)]
        if note["d"] is not None:
            d = [float(note["d"][h]) for h in pick]
            kept = sum(n * v * v for v in d)
            rest = sum(((m - v * np.eye(n)) ** 2).sum() for m, v in zip(own, d))
            shares.append(kept / (kept + rest))
        if note["logs"] is not None:
            logs.append(np.mean([np.asarray(note["logs"][h], dtype=np.float64).mean() for h in pick]))
        if note["steps"] is not None:
            steps.append(np.mean([np.asarray(note["steps"][h], dtype=np.float64).mean() for h in pick]))
    mean = np.mean(logs) if logs else None
    return {"frobenius": np.mean(norms), "row_sum_min": min(sums), "row_sum_max": max(sums),
            "decay": np.exp(mean) if logs else None, "half_life": -np.log(2) / mean if logs and mean else None,
            "delta_mean": np.mean(steps) if steps else None, "share_of_d": np.mean(shares) if shares else None}


def compare_mixing(row, matrices, notes, worst, count, limit):
    """A row of table mixing: matrices and notes of each sample; head null: all channels."""
    want, wrong = mixing_numbers(matrices, notes, row["head"]), []
    for name, value in want.items():
        got = row[name]
        count["table mixing"] += 1
        if (got is None) != (value is None):
            wrong.append(f"mixing {row['mixer']} {row['layer']}:{row['head']} {name}: {got}, not {value}")
            continue
        if value is None:
            continue
        size = max(abs(value), want["frobenius"]) if name.startswith("row") else abs(value)
        size = max(size, 1.0) if row["mixer"] == "attention" and name[:3] in ("fro", "row") else size  # as above
        error = abs(got - value) / size if size else abs(got)
        if error <= limit:
            worst["table mixing " + name] = max(worst["table mixing " + name], error)
        else:
            wrong.append(f"mixing {row['mixer']} {row['layer']}:{row['head']} {name}: {got}, not {value}")
    return wrong
