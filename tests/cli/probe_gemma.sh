#!/bin/sh
# probe_gemma.sh: a real quantised decoder against transformers on the dequantised weights (tests/oracle/make_probe_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || { echo "skipped: too slow under a sanitizer"; exit 77; }
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err) || { echo "skipped: $(cat err)"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/probe/gemma.json
python3 - "$golden" <<'END2'
import json, sys
golden = json.load(open(sys.argv[1]))
json.dump([golden["prompt_ids"]], open("prompt.json", "w"))
json.dump(golden["windows"], open("windows.json", "w"))
open("prompt.txt", "w").write(golden["prompt"])
END2
expect 0 "$RANKSCOPE" probe "$model" --tokens prompt.json --generate 32 --no-attention --no-loss --json a.json --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" "$golden" a.json || failures=$((failures + 1))
expect 0 "$RANKSCOPE" probe "$model" --text prompt.txt --generate 4 --no-attention --no-loss --json b.json
says out "506 5279 529 506"
# A page of English: the text's own windows are those that the reference cut.
expect 0 "$RANKSCOPE" probe "$model" --text "$RS_SOURCE_DIR/data/page.txt" --no-spectral --no-attention --json c.json --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" "$golden" c.json || failures=$((failures + 1))
finish
