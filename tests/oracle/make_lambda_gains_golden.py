#!/usr/bin/env python3
"""Weights-only gains of small models' mixers by their formulas (attack_gains.py) for test_certify.c: texts of 7 tokens at most.

    python3 tests/oracle/make_lambda_gains_golden.py
"""
import json
import os
import pathlib

import attack_gains as G
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "lambda" / "gains.json"
MODELS = ("mamba", "mamba_biased", "falcon_mamba", "jamba", "mamba2", "mamba2_limits", "granite_hybrid", "nemotron_h", "falcon_h1",
          "falcon_h1_norm", "falcon_h1_gate_first")


def main():
    cases = []
    for name in MODELS:
        folder = os.path.join(G.FORWARD, name)
        tensors, config = load_file(os.path.join(folder, "model.safetensors")), json.load(open(os.path.join(folder, "config.json")))
        for edit in (None, "no-inner-norm", "no-gate"):
            layers = G.layers_of(tensors, config, [f"--{edit}"] if edit else [])
            cases += [{"model": name, "edit": edit, "layer": l, "gain": float(G.formula(w, 7))} for l, w in sorted(layers.items())]
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
