#!/bin/sh
# real_gemma.sh: a real pretrained model against full products in NumPy (tests/oracle/make_real_model_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err) || { echo "skipped: $(cat err)"; exit 77; }
expect 0 "$RANKSCOPE" scan "$model" --json a.json --html a.html --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_heads.py" a.json "$RS_SOURCE_DIR/tests/golden/gemma3_270m_heads.json" || failures=$((failures + 1))
finish
