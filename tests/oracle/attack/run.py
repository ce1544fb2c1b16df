"""Runs build/rankscope on an instance: its states of the float64 pass and its certificates, with and without --rigorous."""

import json
import os
import pathlib
import subprocess

from . import files

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("RANKSCOPE", ROOT / "build" / "rankscope"))
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


class Refused(Exception):
    pass


def call(folder, *arguments):
    done = subprocess.run([str(PROGRAM), *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Refused(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-600:]}")


def states(folder, inst):
    """What enters each layer and leaves the last, number for number as certify's float64 pass has them: the same engine with mixing matrices
    that are looked at, in batches of the same size."""
    call(folder, "probe", inst.path(), *inst.arguments(), "--precision", "f64", "--taps", "taps.safetensors", "--no-spectral", "--quiet", "--threads", "1")
    taps = files.read_safetensors(pathlib.Path(folder) / "taps.safetensors")
    return [taps[f"layer.{i}.block_out"] for i in range(sum(key.endswith(".block_out") for key in taps))]


def certificates(folder, inst, rigorous):
    name = "rigorous.json" if rigorous else "default.json"
    call(folder, "certify", inst.path(), *inst.arguments(), "--kept", repr(inst.kept), "--quiet", "--threads", "1", "--json", name,
         *([] if rigorous else ["--fast"]))
    return json.loads((pathlib.Path(folder) / name).read_text())
