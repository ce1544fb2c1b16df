"""One model, its inputs and its edits, as the program is given them."""
import json
import os
import random
import subprocess

import numpy as np
from arch_files import drawn_weights
from safetensors.numpy import save_file

from .architectures import arch_layers, draw_arch, some
from .checkpoints import Checkpoint


ARCH = ("mamba", "mamba2", "gated_delta", "linear_attention")
KINDS = [f"arch_{name}" for name in ARCH] + ["mamba", "falcon_mamba", "mamba2", "jamba", "falcon_h1", "qwen3_5", "nemotron_h"]


class Refused(Exception):
    pass


class Instance:
    def __init__(self, options, seed, kind, folder):
        self.options, self.seed, self.kind, self.folder = options, seed, kind, folder
        r = random.Random(f"stranger {kind} {seed}")
        self.g = np.random.default_rng([seed, 5])
        self.kept = r.choice((0.9, 0.9, 0.5, 0.99, 0.1))
        self.edit = []
        if kind.startswith("arch_"):
            self.arch = draw_arch(r, kind[5:])
            self.path = os.path.join(folder, "arch.json")
            json.dump(self.arch, open(self.path, "w"))
            self.input = ["--init", "default", "--seed", str(seed), "--random", str(r.choice((1, 2)))]
            try:
                self.layers = arch_layers(self.arch, drawn_weights(options.weights, self.path, seed))
            except RuntimeError as why:
                raise Refused(f"weights: {why}")
        else:
            model = Checkpoint(r, kind)
            self.path, self.layers = os.path.join(folder, "model"), model.layers
            os.makedirs(self.path)
            json.dump(model.config, open(os.path.join(self.path, "config.json"), "w"))
            save_file(model.w, os.path.join(self.path, "model.safetensors"))
            lengths = (1, 2, 3, 5, 8, 30) if model.d < 4 else (1, 2, 3, 5, 8)
            texts = [[r.randrange(model.vocab) for _ in range(r.choice(lengths))] for _ in range(r.choice((1, 2)))]
            json.dump(texts, open(os.path.join(folder, "ids.json"), "w"))
            self.input = ["--tokens", os.path.join(folder, "ids.json")]
            if some(r, 0.5):
                skip = r.choice((1.5, -4, 40, -1000, 1e5))
                self.edit = ["--lambda", f"mixer:{skip}"]
                for layer in self.layers:
                    layer["skip"] = skip
            self.change(r)
            if some(r, 0.3):
                self.edit += ["--norm-placement", "post"]
                for layer in self.layers:
                    layer.update(place="post", norm_kind="none")

    def change(self, r):
        """Edits of the command line that take parts of a mixer away."""
        for edit, parts in (("--no-gate", {"gate": "none"}), ("--no-inner-norm", {"norm": False, "three_eps": None})):
            if some(r, 0.15):
                self.edit.append(edit)
                for layer in self.layers:
                    layer["m"].update(parts)

    def run(self, command, *more):
        done = subprocess.run([self.options.program, command, self.path, *self.input, *self.edit, "--threads", "1", "--json", "-", *more],
                              capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"{command}: {done.stderr.strip()[-150:]}")
        return json.loads(done.stdout)

    def command(self):
        return " ".join(["certify", self.path, *self.input, *self.edit, "--kept", repr(self.kept)])
