#!/usr/bin/env python3
"""Golden values of WeightWatcher for tests/unit/test_powerlaw.c.

Small torch.nn.Linear layers are analysed by WeightWatcher itself (analyze(mp_fit=True, min_evals=1), the rest
at its defaults); the singular values it works on are stored beside its columns, so that the test compares the
fits and not two SVDs.

    python3 tests/oracle/make_weightwatcher_golden.py tests/golden/weightwatcher.json
"""

import contextlib
import io
import json
import logging
import pathlib

import numpy as np
import scipy.linalg
import torch

with contextlib.redirect_stdout(io.StringIO()):
    import weightwatcher

COLUMNS = [
    "alpha", "D", "sigma", "xmin", "xmax", "alpha_weighted", "log_alpha_norm", "log_norm", "num_pl_spikes",
    "num_spikes", "entropy", "matrix_rank", "rank_loss", "norm", "spectral_norm", "stable_rank", "mp_softrank",
    "Q", "N", "M", "warning", "sigma_mp",
]


def gaussian(rng, rows, cols):
    return rng.standard_normal((rows, cols)) / np.sqrt(cols)


def pareto(rng, rows, cols):
    """Heavy-tailed entries, tail exponent 2.5."""
    sign = rng.choice([-1.0, 1.0], (rows, cols))
    return 0.05 * sign * rng.pareto(2.5, (rows, cols))


def low_rank(rng, rows, cols):
    rank = max(2, min(rows, cols) // 3)
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, cols)) / np.sqrt(rank * cols)


def trained(rng, rows, cols):
    """Like the attention projections of a small sentence encoder: a noise bulk and power-law directions."""
    k = min(rows, cols)
    left = np.linalg.qr(rng.standard_normal((rows, k)))[0]
    right = np.linalg.qr(rng.standard_normal((cols, k)))[0]
    spikes = 2.6 * np.arange(1, k + 1) ** -0.45
    return (left * spikes) @ right.T + 0.02 * rng.standard_normal((rows, cols))


def faint(rng, rows, cols):
    """Eigenvalues on a power law from 3e-7 to 1e-3, so that the threshold 1e-5 cuts a good fit short."""
    k = min(rows, cols)
    left = np.linalg.qr(rng.standard_normal((rows, k)))[0]
    right = np.linalg.qr(rng.standard_normal((cols, k)))[0]
    return (left * (np.sqrt(3e-7) * k / np.arange(1, k + 1))) @ right.T


def rank_one(_rng, rows, cols):
    """Small integers, so that float32 and float64 hold it exactly."""
    return np.outer(np.arange(rows) % 5 - 2.0, np.arange(cols) % 3 - 1.0)


def zero(_rng, rows, cols):
    return np.zeros((rows, cols))


KINDS = {"gaussian": gaussian, "pareto": pareto, "low_rank": low_rank, "trained": trained}
SHAPES = [(32, 64), (64, 64), (100, 300), (7, 200)]
EXTRA = [
    ("trained", trained, 256, 256), ("gaussian", gaussian, 12, 40), ("pareto", pareto, 19, 19),
    ("gaussian", gaussian, 1, 30), ("rank_one", rank_one, 24, 30), ("zero", zero, 24, 30),
    ("faint", faint, 120, 150),
]


def plain(value):
    """A JSON value; NaN and infinities as null."""
    if value is None or isinstance(value, str):
        return value
    value = float(value)
    return value if np.isfinite(value) else None


GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "weightwatcher.json"


def main():
    rng = np.random.default_rng(20240607)
    cases = [(f"{kind}", make, rows, cols) for rows, cols in SHAPES for kind, make in KINDS.items()] + EXTRA
    layers, names = [], []
    for kind, make, rows, cols in cases:
        layer = torch.nn.Linear(cols, rows, bias=False)
        layer.weight.data = torch.from_numpy(make(rng, rows, cols)).to(torch.float32)
        layers.append(layer)
        names.append(f"{kind} {rows}x{cols}")

    with contextlib.redirect_stdout(io.StringIO()):
        watcher = weightwatcher.WeightWatcher(model=torch.nn.Sequential(*layers), log_level=logging.CRITICAL)
        table = watcher.analyze(mp_fit=True, min_evals=1)
    assert len(table) == len(cases), (len(table), len(cases))

    golden = []
    for name, layer, (_, row) in zip(names, layers, table.iterrows()):
        weight = layer.weight.data.numpy().astype(np.float64)
        assert (max(weight.shape), min(weight.shape)) == (row["N"], row["M"])
        golden.append({
            "name": name, "rows": weight.shape[0], "cols": weight.shape[1],
            "columns": {column: plain(row[column]) for column in COLUMNS},
            "sigma": scipy.linalg.svd(weight, compute_uv=False).tolist(),
        })
    with open(GOLDEN, "w", encoding="ascii") as out:
        out.write("[\n" + ",\n".join(json.dumps(case) for case in golden) + "\n]\n")


if __name__ == "__main__":
    main()
