#!/bin/sh
# demo.sh: scans one real pretrained model, prints the table and leaves report.html in the project's root.
set -eu
cd "$(dirname "$0")/.."
model=$(scripts/fetch_model.sh minilm)
build/rankscope scan "$model" --html report.html
echo "report.html is written: open it in any browser, no network needed"
