#!/bin/sh
# probe_minilm.sh: a real encoder against sentence-transformers, transformers and NumPy (tests/oracle/make_real_forward_golden.py and
# make_probe_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/real_forward
compare() {
    python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" "$@" || failures=$((failures + 1))
}

# Tables, on ragged rows.
python3 -c "import json,sys; json.dump(json.load(open(sys.argv[1]))['samples'], open('ids.json','w'))" "$RS_SOURCE_DIR/tests/golden/probe/minilm.json"
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --json a.json --quiet
compare tables "$RS_SOURCE_DIR/tests/golden/probe/minilm.json" a.json

# Sentence embeddings: from ids, and from the text itself.
expect 0 "$RANKSCOPE" probe "$model" --tokens "$golden/minilm_ids.json" --no-attention --no-spectral --output out.safetensors --quiet
compare tensor sentence_embedding "$golden/minilm.safetensors" sentence_embedding out.safetensors
compare tensor last_hidden_state "$golden/minilm.safetensors" last_hidden_state_1 out.safetensors 1
python3 -c "import json,sys; open('text.txt','w').write(json.load(open(sys.argv[1]))['sentences'][1])" "$golden/minilm.json"
expect 0 "$RANKSCOPE" probe "$model" --text text.txt --no-attention --no-spectral --output out.safetensors --quiet
compare tensor last_hidden_state "$golden/minilm.safetensors" last_hidden_state_1 out.safetensors 0

printf ' \n ' >blank.txt
expect 2 "$RANKSCOPE" probe "$model" --text blank.txt
says err "the text is empty"
expect 2 "$RANKSCOPE" probe "$model" --text text.txt --seq-len 600
says err "longer than the model's 512 positions"

# What the published experiment found, on this model: without skips and MLPs its tokens become one.
expect 0 "$RANKSCOPE" probe "$model" --text "$RS_SOURCE_DIR/share/page.txt" --variants dong --scan --json c.json --html c.html
head -2 out | tr '\n' ' ' >first
says first "No. After 6 layers 95 % of the spread is left; the skip keeps it: without it the tokens are equal after"
# The fifth layer leaves 1.8e-12 in exact arithmetic: float32's rounding of it is at the floor on one BLAS kernel, just above on another.
grep -qE "equal after [56] layers" first || note_failure "neither after 5 layers nor after 6: $(cat first)"
says out "The skip holds the tokens apart: without it they are"
says c.json "rounding floor of f32"
python3 - <<'END' || failures=$((failures + 1))
import json
result = json.load(open("c.json"))
summary = {r["variant"]: r for r in result["tables"]["summary"]}
assert set(summary) == {"san", "san+mlp", "san+skip", "full"}, summary
assert summary["san"]["equal_after"] is not None and summary["full"]["equal_after"] is None
assert summary["full"]["leaves"] > summary["san+skip"]["leaves"] > 0.1
assert {"heads", "layers", "weights", "tokens", "attention"} <= set(result["tables"])
assert {"residual", "attention", "heads", "spectra"} <= set(result["figures"])
END
python3 -c "import sys; sys.exit(any(len(l.rstrip('\n')) > 80 for l in open('out', encoding='utf-8')))" || note_failure "a line is wider than 80 columns"
finish
