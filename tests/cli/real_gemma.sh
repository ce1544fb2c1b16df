#!/bin/sh
# real_gemma.sh: a real pretrained model against full products in NumPy (tests/oracle/make_real_model_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err) || { echo "skipped: $(cat err)"; exit 77; }
expect 0 "$RANKSCOPE" scan "$model" --energy 0.5,0.9,0.99 --json a.json --html a.html --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_heads.py" a.json "$RS_SOURCE_DIR/tests/golden/gemma3_270m_heads.json" || failures=$((failures + 1))
python3 "$RS_SOURCE_DIR/tests/cli/compare_energy.py" a.json "$RS_SOURCE_DIR/tests/golden/gemma3_270m_energy.json" || failures=$((failures + 1))

# gguf-py 0.19 counts 169 246 720 numbers of Q8_0, 63 406 080 of Q5_0, 23 592 960 of Q4_K, 11 796 480 of Q6_K and 55 936 of F32.
expect 0 "$RANKSCOPE" probe "$model" --random 1 --seq-len 2 --json b.json --quiet
python3 - <<'END_PYTHON' || note_failure "what is said of the model"
import json, sys
said = [[json.load(open(name))["model"][key] for key in ("parameters", "dtype", "file_type")] for name in ("a.json", "b.json")]
if said != 2 * [[268098176, "Q8_0", "Q4_K_M"]]:
    sys.exit(f"{said}")
END_PYTHON
finish
