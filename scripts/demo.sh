#!/bin/sh
# demo.sh: scans one real pretrained model and probes it on a page of text, prints the tables and leaves report.html, which holds both,
# in the project's root.
set -eu
cd "$(dirname "$0")/.."
model=$(scripts/fetch_model.sh minilm)
build/rankscope probe "$model" --text share/page.txt --variants dong --scan --table weights --html report.html
echo "report.html is written: open it in any browser, no network needed"
