#!/bin/sh
# real_minilm.sh: a real pretrained model against full products in NumPy (tests/oracle/make_real_model_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
expect 0 "$RANKSCOPE" scan "$model" --energy 0.5,0.9,0.99 --json a.json --html a.html --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_heads.py" a.json "$RS_SOURCE_DIR/tests/golden/minilm_heads.json" || failures=$((failures + 1))
python3 "$RS_SOURCE_DIR/tests/cli/compare_energy.py" a.json "$RS_SOURCE_DIR/tests/golden/minilm_energy.json" || failures=$((failures + 1))

# The header's own numbers: position_ids (I64) are no parameters, the pooler that no forward pass uses is.
expect 0 "$RANKSCOPE" probe "$model" --random 1 --seq-len 2 --json b.json --quiet
python3 - <<'END_PYTHON' || note_failure "what is said of the model"
import json, sys
said = [[json.load(open(name))["model"][key] for key in ("parameters", "dtype", "file_type")] for name in ("a.json", "b.json")]
if said != 2 * [[22713216, "F32", None]]:
    sys.exit(f"{said}")
END_PYTHON
finish
