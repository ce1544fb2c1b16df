#!/bin/bash
# student.sh: the demo's commands, and every word that they print explained: columns, codes, words of the house.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
MODEL=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
TEXT=$RS_SOURCE_DIR/share/page.txt
expect 0 "$RANKSCOPE" probe "$MODEL" --text "$TEXT" --variants dong --scan --certify --json demo.json --html report.html
says out "the skip keeps it"
verdict demo.json healthy "95 % of the spread"
says report.html '"relative residual":{"kind":"word"'
python3 - >words <<'END'
import json
result = json.load(open("demo.json"))
words = {result["verdict"]["code"]} | {f["code"] for f in result["findings"]}
words |= {name for rows in result["tables"].values() for name in (rows[0] if rows else ())}
words |= {row["variant"] for row in result["tables"]["summary"]}
words |= {"relative residual", "spread", "state", "skip", "null", "mixer", "head", "floor", "MLP", "λ", "τ", "certified"}
print("\n".join(sorted(words)))
END
[ "$(wc -l <words)" -gt 150 ] || note_failure "only $(wc -l <words) words"
while read -r word; do
    expect 0 "$RANKSCOPE" explain "$word"
done <words
finish
