#!/bin/sh
# demo.sh: scans one real pretrained model, probes it on a page of text and proves how far apart its layers keep the tokens; prints the
# tables and leaves report.html, which holds all of it, in the project's root.
set -eu
cd "$(dirname "$0")/.."
model=$(scripts/fetch_model.sh minilm)
build/rankscope probe "$model" --text share/page.txt --variants dong --scan --certify --table weights --html report.html
echo
echo "What is proved of it (rankscope certify), and the skip strengths it would need:"
echo
build/rankscope certify "$model" --text share/page.txt
echo "report.html is written: open it in any browser, no network needed"
