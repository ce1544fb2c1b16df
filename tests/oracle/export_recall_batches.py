#!/usr/bin/env python3
"""Writes batches of associative recall as NumPy draws them, for "data": {"batches": FILE} (docs/train.md, Batches of another program).

  tests/oracle/export_recall_batches.py FILE.npy [STEPS [SEED]]      (numpy as in requirements.txt)

The law and the order of the draws are the published small experiment's: the keys by sorting uniforms, then the values, then the order
of the queries, of a generator with seed 1000 + SEED. The array is [steps, batch, 2, 18]: ids, and targets or -1.
"""
import sys

import numpy as np

KEYS, VALUES, PAIRS, BATCH = 16, 16, 6, 32


def batch(rng):
    keys = np.argsort(rng.random((BATCH, KEYS)), 1)[:, :PAIRS]
    values = rng.integers(0, VALUES, (BATCH, PAIRS))
    order = np.argsort(rng.random((BATCH, PAIRS)), 1)
    ids = np.empty((BATCH, 3 * PAIRS), np.int64)
    ids[:, 0:2 * PAIRS:2] = keys
    ids[:, 1:2 * PAIRS:2] = values + KEYS
    ids[:, 2 * PAIRS:] = np.take_along_axis(keys, order, 1)
    targets = np.full_like(ids, -1)
    targets[:, 2 * PAIRS:] = np.take_along_axis(values, order, 1)
    return np.stack([ids, targets], 1)


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 251
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    rng = np.random.default_rng(1000 + seed)
    np.save(sys.argv[1], np.stack([batch(rng) for _ in range(steps)]).astype(np.int32))


if __name__ == "__main__":
    main()
