#!/bin/sh
# run.sh: the benches behind 'make bench'. The peers (NumPy, PyTorch, WeightWatcher) live in .venv, pinned by tests/oracle/requirements.txt.
#   bench/run.sh [--quick] [CASE...]     cases: start product matrices layers bert tables prefill states sweep gradients train sizes startup memory measures san trials theory residual session report
set -eu
cd "$(dirname "$0")/.."
if ! cmp -s tests/oracle/requirements.txt .venv/requirements.txt; then
    echo "setting up .venv with the peers (once)"
    python3 -m venv .venv
    .venv/bin/python -m pip install --quiet -r tests/oracle/requirements.txt
    cp tests/oracle/requirements.txt .venv/requirements.txt
fi
exec .venv/bin/python bench/bench.py "$@"
