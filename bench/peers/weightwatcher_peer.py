#!/usr/bin/env python3
"""Times WeightWatcher's analyze(), as a peer of `rankscope scan --matrices all`.

Prints one JSON object: versions, threads, and for every workload the seconds of each repetition. The time is
that of analyze() alone: imports, and for the synthetic model its making, are left out; for a directory the
reading of the tensors, which analyze() does itself, is in.

    weightwatcher_peer.py [--dir DIRECTORY_WITH_SAFETENSORS] [--synthetic ROWSxCOLSxLAYERS] [--threads N]
                          [--repeat N] [--no-mp-fit]
"""

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", help="model directory with *.safetensors")
    parser.add_argument("--synthetic", metavar="ROWSxCOLSxLAYERS", help="Gaussian linear layers, e.g. 4096x1024x3")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--no-mp-fit", action="store_true", help="leave out num_spikes and mp_softrank, as its default does")
    options = parser.parse_args()
    if not options.dir and not options.synthetic:
        parser.error("give --dir, --synthetic, or both")
    return options


def synthetic_model(torch, text):
    rows, cols, layers = (int(part) for part in text.split("x"))
    torch.manual_seed(1)
    made = [torch.nn.Linear(cols, rows, bias=False) for _ in range(layers)]
    for layer in made:
        torch.nn.init.normal_(layer.weight, std=cols**-0.5)
    return torch.nn.Sequential(*made)


def measure(weightwatcher, model, options):
    """Seconds of each repetition, and the number of layers analysed."""
    seconds, layers = [], 0
    for _ in range(options.repeat):
        with contextlib.redirect_stdout(io.StringIO()):
            watcher = weightwatcher.WeightWatcher(model=model, log_level=logging.CRITICAL)
            start = time.perf_counter()
            table = watcher.analyze(mp_fit=not options.no_mp_fit)
            seconds.append(time.perf_counter() - start)
        layers = len(table)
    return {"seconds": seconds, "layers": layers}


def main():
    options = arguments()
    # The BLAS libraries read these when they are loaded.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import numpy
        import scipy
        import torch
        import weightwatcher
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(options.threads)

    result = {
        "peer": "weightwatcher", "version": weightwatcher.__version__, "numpy": numpy.__version__,
        "scipy": scipy.__version__, "torch": torch.__version__, "threads": options.threads,
        "mp_fit": not options.no_mp_fit, "workloads": {},
    }
    if options.dir:
        result["workloads"]["directory"] = measure(weightwatcher, options.dir, options)
    if options.synthetic:
        model = synthetic_model(torch, options.synthetic)
        result["workloads"]["synthetic " + options.synthetic] = measure(weightwatcher, model, options)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
