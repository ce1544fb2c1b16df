#!/usr/bin/env python3
"""Writes WeightWatcher's table of a Hugging Face directory with safetensors as CSV, with the column names of
rankscope's table `matrices`, so that the two can be laid side by side (join on `tensor`).

    weightwatcher_table.py DIRECTORY OUT.csv [--no-mp-fit]
"""

import argparse
import contextlib
import io
import logging

COLUMNS = {
    "longname": "tensor", "alpha": "alpha", "D": "D", "sigma": "sigma", "xmin": "xmin", "xmax": "xmax",
    "alpha_weighted": "alpha_weighted", "log_alpha_norm": "log_alpha_norm", "log_norm": "log_norm",
    "num_pl_spikes": "num_pl_spikes", "entropy": "entropy", "matrix_rank": "matrix_rank", "rank_loss": "rank_loss",
    "stable_rank": "stable_rank", "norm": "ww_norm", "spectral_norm": "ww_spectral_norm",
    "num_spikes": "num_spikes", "mp_softrank": "mp_softrank", "Q": "Q", "N": "N", "M": "M", "warning": "warning",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("out")
    parser.add_argument("--no-mp-fit", action="store_true", help="leave out num_spikes and mp_softrank (slow)")
    options = parser.parse_args()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import weightwatcher
    logging.disable(logging.CRITICAL)

    with contextlib.redirect_stdout(io.StringIO()):
        watcher = weightwatcher.WeightWatcher(model=options.directory, log_level=logging.CRITICAL)
        table = watcher.analyze(mp_fit=not options.no_mp_fit)
    table = table.rename(columns=COLUMNS)
    # It drops ".weight", the only suffix it reads.
    table["tensor"] += ".weight"
    kept = [name for name in COLUMNS.values() if name in table.columns]
    table[kept].to_csv(options.out, index=False, float_format="%.17g")


if __name__ == "__main__":
    main()
