#!/bin/sh
# probe_minilm.sh: a real encoder against transformers and NumPy (tests/oracle/make_probe_golden.py).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/probe/minilm.json
python3 -c "import json,sys; json.dump(json.load(open(sys.argv[1]))['samples'], open('ids.json','w'))" "$golden"
expect 0 "$RANKSCOPE" probe "$model" --tokens ids.json --output out.safetensors --json a.json --quiet
python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" "$golden" a.json out.safetensors || failures=$((failures + 1))
# The same from the text itself, one sentence at a time.
python3 - "$golden" <<'END2'
import json, sys
golden = json.load(open(sys.argv[1]))
for i, text in enumerate(golden["text"]):
    open(f"text{i}.txt", "w").write(text)
    json.dump({"sentence_embedding": [golden["sentence_embedding"][i]]}, open(f"golden{i}.json", "w"))
END2
for i in 0 1 2 3; do
    expect 0 "$RANKSCOPE" probe "$model" --text text$i.txt --no-attention --output out.safetensors --json b.json --quiet
    python3 "$RS_SOURCE_DIR/tests/cli/compare_probe.py" golden$i.json b.json out.safetensors || failures=$((failures + 1))
done
printf ' \n ' >blank.txt
expect 2 "$RANKSCOPE" probe "$model" --text blank.txt
says err "the text is empty"
expect 2 "$RANKSCOPE" probe "$model" --text text0.txt --seq-len 600
says err "longer than the model's 512 positions"
# What the published experiment found, on this model: without skips and MLPs its tokens become one.
expect 0 "$RANKSCOPE" probe "$model" --text "$RS_SOURCE_DIR/data/page.txt" --variants dong --scan --json c.json --html c.html
says out "the skip around the mixer holds the tokens apart"
says out "rounding floor of f32"
python3 - <<'END2' || failures=$((failures + 1))
import json
result = json.load(open("c.json"))
summary = {r["variant"]: r for r in result["tables"]["summary"]}
assert set(summary) == {"san", "san+mlp", "san+skip", "full"}, summary
assert summary["san"]["floor_from"] is not None and summary["full"]["floor_from"] is None
assert summary["full"]["leaves"] > summary["san+skip"]["leaves"] > 0.1
assert {"heads", "layers", "weights", "tokens", "attention"} <= set(result["tables"])
assert {"residual", "attention", "heads", "spectra"} <= set(result["figures"])
END2
awk 'length($0) > 0' out | python3 -c "import sys; sys.exit(any(len(l.rstrip('\n')) > 80 for l in sys.stdin))" || note_failure "a line is wider than 80 columns"
finish
