#!/bin/sh
# probe_gemma.sh: a real quantised decoder against transformers on the dequantised weights (tests/oracle/make_real_forward_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || { echo "skipped: too slow under a sanitizer"; exit 77; }
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err) || { echo "skipped: $(cat err)"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/real_forward
compare() {
    python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" gemma "$golden/gemma3_270m.json" "$@" || failures=$((failures + 1))
}
expect 0 "$RANKSCOPE" probe "$model" --tokens "$golden/gemma3_270m_prompt.json" --generate 32 --no-attention --no-loss --output out.safetensors \
    --json a.json --quiet
compare a.json out.safetensors
rm -f out.safetensors
python3 -c "import json,sys; open('prompt.txt','w').write(json.load(open(sys.argv[1]))['prompt'])" "$golden/gemma3_270m.json"
expect 0 "$RANKSCOPE" probe "$model" --text prompt.txt --generate 4 --no-attention --no-loss
says out "577 919 3996 1082"
# A page of English: the windows that the text is cut into are those of the reference.
expect 0 "$RANKSCOPE" probe "$model" --text "$RS_SOURCE_DIR/share/page.txt" --no-spectral --no-attention --json c.json --quiet
compare c.json
finish
