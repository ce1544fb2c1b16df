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
# The tables of Unicode are C: they get the shape of the other files where the tool is here.
scripts/format.sh || [ $? = 77 ]
