"""tests/golden/mixing_arch.json: table mixing of the mixers that make_mixing_golden.py has no model for, in architecture files.

Every matrix M is formed entry by entry, in long double, by the definitions (mixer_definitions.py). What is drawn, a file's weights
by its seed, is asked of the program (arch_weights.c, built here): a change of what it draws wants these numbers made anew.
"""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from arch_files import drawn_weights, meaning
from mixer_definitions import Kind, Layers
from state_measures import mixing_numbers

ROOT = Path(__file__).resolve().parents[2]
BY_CHANNEL = ("s4d", "gated_recurrence", "short_conv")
VOCABULARY = 23
LENGTHS = (24, 1, 11)
LONG = (70, 3)  # more than the 64 tokens that the program takes at once
SMALL = {"depth": 2, "d_model": 12, "heads": 4, "mlp_width": 9, "vocab": VOCABULARY}
LINEAR = {**SMALL, "mixer": "linear_attention", "kv_heads": 2}
# file, lengths of the texts
TEXTS = [
    ({**LINEAR, "mask": "causal", "decay": "retnet", "inner_norm": True, "gate": "after", "norm_kind": "rmsnorm"}, LONG),
    ({**LINEAR, "mask": "causal", "decay": [0, 1, 0.6, 0.95], "without_self": True, "temperature": 3}, LENGTHS),
    ({**LINEAR, "mask": "causal", "decay": 0.9, "feature_map": "elu", "normalised": True}, LENGTHS),
    ({**LINEAR, "mask": "causal"}, LENGTHS),
    ({**LINEAR, "feature_map": "elu", "normalised": True, "without_self": True}, LENGTHS),
    ({**LINEAR, "value_map": "identity"}, LENGTHS),
    ({**SMALL, "mixer": "s4d", "state": 5}, LENGTHS),
    ({**SMALL, "mixer": "s4d", "state": 1, "dt_init": [0.5, 2], "norm": "post"}, LENGTHS),
    ({**SMALL, "mixer": "gated_recurrence"}, LENGTHS),
    ({**SMALL, "mixer": "gated_recurrence", "d_head": 2, "conv": 2, "gate": "none", "norm": "none"}, LENGTHS),
    ({**SMALL, "mixer": "gated_delta", "kv_heads": 2, "state": 5}, LONG),
    ({**SMALL, "mixer": "gated_delta", "state": 2, "conv": 1, "inner_norm": False, "dt_init": [0.5, 2]}, LENGTHS),
    ({**SMALL, "mixer": "short_conv"}, LENGTHS),
    ({**SMALL, "mixer": "short_conv", "conv": 9, "norm": "sandwich"}, LENGTHS),
    ({**SMALL, "depth": 3, "mixer": ["s4d", "gated_delta", "short_conv"], "state": 3}, LENGTHS),
]


def ring(n):
    a = np.zeros((n, n))
    for i in range(n):
        a[i, (i + 1) % n] = a[(i + 1) % n, i] = 1
    return a


def graphs():
    """file, the graph's matrix; entries that JSON and float64 have alike."""
    g = np.random.default_rng(15)
    some = np.round(g.random((9, 9)), 3) * (g.random((9, 9)) < 0.4)
    some[4] = 0  # a node that reads nothing
    both = some + some.T
    both[:, 4] = both[4] = 0
    signed = np.round(g.standard_normal((7, 7)), 3)
    for form, a, more in (("row", some, {}), ("symmetric", both, {}), ("given", signed, {"norm": "none"}), ("attention", some, {"kv_heads": 2}),
                          ("symmetric", ring(20), {}), ("attention", ring(20) + np.eye(20), {"temperature": 0.5})):
        yield {**SMALL, "mixer": "graph", "graph": {"file": "graph.npy", "form": form}, "seq_len": len(a), **more}, a


def rows_of(arch, matrix, seed, texts, program):
    with tempfile.TemporaryDirectory() as folder:
        if matrix is not None:
            np.save(os.path.join(folder, "graph.npy"), matrix)
        path = os.path.join(folder, "arch.json")
        Path(path).write_text(json.dumps(arch))
        weights = drawn_weights(program, path, seed)
    spec, kind = meaning(arch), Kind(np.longdouble)
    runs = [Layers(spec, weights, kind, matrix).run(weights["embedding"][text]) for text in texts]
    matrices, notes = [run[2] for run in runs], [run[4] for run in runs]
    for layer, mixer in enumerate(spec["mixer"]):
        for head in [None] if mixer in BY_CHANNEL else range(len(matrices[0][layer])):
            numbers = mixing_numbers([m[layer] for m in matrices], [note[layer] for note in notes], head)
            yield {"layer": layer, "branch": 0, "mixer": mixer, "head": head,
                   **{name: None if x is None else float(x) for name, x in numbers.items()}}


def main():
    subprocess.run([ROOT / "scripts/build.sh", "release", "--only", "arch_weights"], check=True, stdout=subprocess.DEVNULL)
    program = ROOT / "build/tests/arch_weights"
    draw = np.random.default_rng(14)
    cases = []
    for arch, matrix, lengths in [(arch, None, lengths) for arch, lengths in TEXTS] + [(arch, a, [len(a)] * 2) for arch, a in graphs()]:
        ids, seed = [draw.integers(0, VOCABULARY, n).tolist() for n in lengths], len(cases) + 1
        case = {"arch": arch, "seed": seed, "ids": ids, "rows": list(rows_of(arch, matrix, seed, ids, program))}
        cases.append(case if matrix is None else {**case, "graph": matrix.tolist()})
    text = ",\n ".join(json.dumps(case) for case in cases)
    (ROOT / "tests/golden/mixing_arch.json").write_text(f"[{text}]\n")


if __name__ == "__main__":
    main()
