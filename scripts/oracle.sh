#!/bin/sh
# oracle.sh: makes the independent reference numbers under tests/golden anew, in a virtual environment of pinned Python packages.
set -eu
cd "$(dirname "$0")/.."
if ! cmp -s tests/oracle/requirements.txt .venv/requirements.txt; then
    python3 -m venv .venv
    .venv/bin/python -m pip install --quiet -r tests/oracle/requirements.txt
    cp tests/oracle/requirements.txt .venv/requirements.txt
fi
for script in tests/oracle/make_*.py; do
    [ -e "$script" ] || continue
    echo "$script"
    .venv/bin/python "$script"
done
# Two minutes of search for an instance in which exact arithmetic contradicts a certificate.
if [ -x build/rankscope ]; then
    echo tests/oracle/attack_certificates.py
    .venv/bin/python tests/oracle/attack_certificates.py --quick
    echo tests/oracle/open_figures.py
    .venv/bin/python tests/oracle/open_figures.py --program build/rankscope
fi
# What a saved network gives in PyTorch beside the engine, and what training does.
if [ -x build/tests/saved_network ]; then
    root=$PWD
    for test in loader train_torch; do
        echo "tests/cli/$test.sh"
        mkdir -p "build/tests/cli/$test"
        (cd "build/tests/cli/$test" && RANKSCOPE=$root/build/rankscope SAVED_NETWORK=$root/build/tests/saved_network \
            RS_TORCH_PYTHON=$root/.venv/bin/python RS_SOURCE_DIR=$root sh "$root/tests/cli/$test.sh")
    done
fi
# The tables of Unicode are C: they get the shape of the other files where the tool is here.
scripts/format.sh || [ $? = 77 ]
