#!/bin/bash
# compression.sh: what 99 % of the energy saves in two real models, and what forbids it.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
MINILM=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
expect 0 "$RANKSCOPE" scan "$MINILM" --energy 0.99 --table energy_totals --json minilm.json
says out "0.02431" # products save 2.4 %, matrices nothing
verdict minilm.json full_rank "144"
GEMMA=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err) || { echo "Gemma is left out: $(cat err)"; finish; }
expect 0 "$RANKSCOPE" scan "$GEMMA" --energy 0.99 --json gemma.json
says out "10 of 72 query-key products have lost rank"
verdict gemma.json lost_rank "all of layers 12 and 14"
python3 - <<'END' || note_failure "what forbids it"
import json
rows = json.load(open("gemma.json"))["tables"]["energy"]
qk = [row for row in rows if row["product"] == "qk"]
assert qk and not any(row["feasible"] for row in qk) and "QK-norm and RoPE" in qk[0]["reason"], qk[:1]
assert all(row["feasible"] for row in rows if row["product"] == "ov")
END
expect 0 "$RANKSCOPE" scan "$GEMMA" --energy 0.99 --table energy --where product=qk --columns layer,feasible,reason --top 1
says out "QK-norm"
finish
