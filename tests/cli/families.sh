#!/bin/sh
# families.sh: scan of small models of every family that the oracle ran: heads with and without --fold-norms, the planes that turn, what is
# left out and why; a model whose type nobody knows prints nothing that its type would tell.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
cat >compare.py <<'END'
"""compare.py FOLDER HEADS [FOLDED]: what scan wrote for the model in FOLDER, and with --fold-norms, against expected.json."""
import json, math, sys
folder, *results = sys.argv[1:]
expected = json.load(open(f"{folder}/expected.json"))
written = [json.load(open(r)) for r in results]
plain = written[0]
failures = []
def close(got, want, relative):
    return len(got) == len(want) and all(abs(a - b) <= relative * max(want) for a, b in zip(got, want))
def sought(rows, e, *keys):
    found = [r for r in rows if all(r[k] == e[k] for k in keys)]
    if len(found) != 1:
        failures.append(f"{len(found)} rows for {[e[k] for k in keys]}")
    return found[0] if found else None
for result, values, relative in zip(written, ("sv", "fold"), (1e-6, 1e-4)):
    heads = result["tables"]["heads"]
    if len(heads) != len(expected["products"]):
        failures.append(f"{len(heads)} heads, not {len(expected['products'])}")
    for e in expected["products"]:
        row = sought(heads, dict(e, product=e["kind"]), "stack", "attention", "layer", "head", "product")
        if row and not close([s for s in row["singular_values"] if s > relative * e[values][0]],
                             [s for s in e[values] if s > relative * e[values][0]], relative):
            failures.append(f"{e['kind']} of layer {e['layer']} head {e['head']}, {values}: {row['singular_values']}, not {e[values]}")
planes = plain["tables"].get("planes", [])
if len(planes) != len(expected["planes"]):
    failures.append(f"{len(planes)} rows of planes, not {len(expected['planes'])}")
for e in expected["planes"]:
    row = sought(planes, e, "stack", "layer", "head", "pairing")
    if row and not close(row["plane_norms"], e["plane_norms"], 1e-6):
        failures.append(f"planes of layer {e['layer']} head {e['head']}: {row['plane_norms']}, not {e['plane_norms']}")
for layer in expected.get("left_out", []):
    rows = [t for t in plain["tables"]["tensors"] if f"layers.{layer}." in t["tensor"] and t["role"] in "qkvo"]
    if not rows or any(t["status"] != "decoded only" or "layer_left_out" not in t["reason"] for t in rows):
        failures.append(f"table tensors does not say why layer {layer} is left out")
print("\n".join(failures))
sys.exit(bool(failures))
END
n=0
for folder in "$RS_SOURCE_DIR"/tests/golden/families/* "$RS_SOURCE_DIR"/tests/golden/guesses/*; do
    grep -q '"planes"' "$folder/expected.json" || continue
    n=$((n + 1))
    expect 0 "$RANKSCOPE" scan "$folder" --threads 1 --spectra --json heads.json
    case $folder in # the unit tests fold all of them
    */cohere | */nemotron | */vaultgemma | */qwen3_next | */nanochat | */clip)
        expect 0 "$RANKSCOPE" scan "$folder" --threads 1 --spectra --fold-norms --json folded.json
        ;;
    esac
    set --
    if [ -e folded.json ]; then set -- folded.json; fi
    python3 compare.py "$folder" heads.json "$@" >why || { note_failure "$folder"; head -3 why; }
    rm -f heads.json folded.json
done
[ "$n" -ge 48 ] || note_failure "$n families have planes to compare"

# The same models under a type that nobody knows.
for family in cohere smollm3 nemotron vaultgemma hunyuan_v1_dense; do
    rm -rf novel && mkdir novel
    cp "$RS_SOURCE_DIR/tests/golden/families/$family/model.safetensors" novel/
    sed 's/"model_type": *"[^"]*"/"model_type": "novel"/' "$RS_SOURCE_DIR/tests/golden/families/$family/config.json" >novel/config.json
    rm -f heads.json folded.json
    expect 0 "$RANKSCOPE" scan novel --threads 1 --spectra --json heads.json
    expect 0 "$RANKSCOPE" scan novel --threads 1 --spectra --fold-norms --json folded.json
    python3 - <<'END' || note_failure "$family under an unknown type claims what only its type tells"
import json, sys
plain, folded = (json.load(open(f)) for f in ("heads.json", "folded.json"))
same = plain["tables"]["heads"] == folded["tables"]["heads"]
text = " ".join(row["corrections"] for row in folded["tables"]["heads"])
told = [f["code"] for f in folded["findings"]]
sys.exit(not (same and "planes" not in folded["tables"] and "folded in" not in text and "sqrt" not in text and "guessed_family" in told))
END
done
finish
