#!/bin/bash
# explain.sh: `rankscope explain` knows every code that src/ raises, every column of every table, and says what docs/ say.
# shellcheck source=tests/cli/lib.sh
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }

# A word, a code, a column: the meaning, the rule, what to do, where it stands.
expect 0 "$RANKSCOPE" explain "relative residual"
says out "0 when all"
says out "(column, measured)" # certify's, beside probe's
says out "probe: tokens"
says out "certify: bounds"
expect 0 "$RANKSCOPE" explain Dead-Head
says out "dead_head (finding)"
says out "0.05"
says out "--threshold dead_head=X"
says out "what to do: prune"
expect 0 "$RANKSCOPE" explain λ
says out "skip strength (word)"
expect 0 "$RANKSCOPE" explain effective_rank_mean
says out "scan: layers"
expect 0 "$RANKSCOPE" explain san
says out "(variant)"
# Few names of each group, how many there are, and all of them by the group or --verbose.
expect 0 "$RANKSCOPE" explain
says out "rank collapse"
says out "qk_low_rank"
grep -q ' and [0-9]* more$' out || note_failure "explain does not say how many names it leaves out"
expect 0 "$RANKSCOPE" explain --verbose
says out "stable rank"
cp out everything
for group in words variants findings verdicts columns; do
    expect 0 "$RANKSCOPE" explain "$group"
    sed -n '/^[a-z]* ([0-9]*)$/,$p' out | sed '/^$/,$d' >group.txt
    awk -v g="$group" 'index($0, g " (") == 1 { on = 1 } on && /^$/ { exit } on' everything >wanted.txt
    if [ ! -s wanted.txt ] || ! cmp -s group.txt wanted.txt; then note_failure "explain $group is not the whole group"; fi
    count=$(sed -n 's/^[a-z]* (\([0-9]*\))$/\1/p' group.txt)
    [ "$(tail -n +2 group.txt | tr '\n' ' ' | awk -F', ' '{ print NF }')" = "$count" ] || note_failure "explain $group does not list $count names"
done
expect 0 "$RANKSCOPE" explain
awk 'length($0) > 80 { exit 1 }' out || note_failure "the list is wider than 80 columns"

# What is not known: the nearest.
refused_by explain not-found "nearest is 'dead_head'" dead_haed
refused_by explain not-found "nearest is 'stable rank'" "stabel rank"
refused_by explain usage "one input is enough" relative residual

# For programs: a table.
expect 0 "$RANKSCOPE" explain qk_low_rank --json -
python3 - out <<'END' || note_failure "the JSON of explain"
import json, sys
(row,) = json.load(open(sys.argv[1]))["tables"]["words"]
assert row["name"] == "qk_low_rank" and row["kind"] == "finding" and row["severity"] == "warn", row
assert "0.5" in row["rule"] and row["todo"] and row["where"] == "scan compare" and row["see"] == "docs/scan.md", row
END

# The pages say the same.
python3 "$RS_SOURCE_DIR/scripts/words.py" "$RANKSCOPE" || note_failure "docs/ and explain differ"

# Every code that the sources raise, and no other, has an entry.
expect 0 "$RANKSCOPE" explain all --json all.json
sh "$RS_SOURCE_DIR/scripts/codes.sh" >codes
[ "$(wc -l <codes)" -gt 80 ] || note_failure "only $(wc -l <codes) codes are found in src/"

# What models show: each finding, each table and column, of commands that have them.
models=$RS_SOURCE_DIR/tests/golden
printf 'One page of text for a small model, and a second sentence.\n' >page.txt
run=0
ask() {
    run=$((run + 1))
    "$RANKSCOPE" "$@" --quiet --json "result-$run.json" 2>err || note_failure "$*: $(cat err)"
}
for model in bert llama_bias_tied; do
    ask scan "$models/forward/$model" --matrices all --energy 0.9 --spectra
    ask probe "$models/forward/$model" --random 2 --seq-len 12 --variants all --attention-maps 0:0 --precision residual
    ask probe "$models/forward/$model" --random 2 --seq-len 12 --no-attention --grad --threshold gradient_imbalance=1
    ask certify "$models/forward/$model" --random 2 --seq-len 12 --recommend 0.9 --steps 0:0
    ask paths "$models/forward/$model" --random 2 --seq-len 12 --sources
    ask paths "$models/forward/$model" --random 2 --seq-len 12 --semantics code
done
ask compare "$models/forward/bert" "$models/forward/gpt2" --random 2 --seq-len 12 --threshold rank_fell=0,rank_rose=0
ask compare "$models/compare/base" "$models/compare/deep"
ask scan "$models/compare/base" "$models/compare/deep" nowhere "$models/families/mamba2" "$models/compare/moved"
for model in "$models"/families/*/; do
    [ -f "$model/config.json" ] && "$RANKSCOPE" scan "$model" --quiet --json "family-$(basename "$model").json" 2>/dev/null
done
ask tokenize "$models/tokenizer/bert.json" --text page.txt
ask doctor
ask lab list
ids=$(python3 -c 'import json; print(*(row["id"] for row in json.load(open("result-'$run'.json"))["tables"]["experiments"]))')
[ "$(echo "$ids" | wc -w)" = 70 ] || note_failure "lab list has the experiments $ids"
for id in $ids; do
    ask lab run "$id" --quick
done
"$RANKSCOPE" lab run causal-half-law --quiet --html lab.html || note_failure "no page of an experiment"
ask explain
python3 - <<'END' || note_failure "explain does not know all that results have"
import glob, json, sys
known = json.load(open("all.json"))["tables"]["words"]
codes = {w["name"] for w in known if w["kind"] == "finding"}
verdicts = {w["name"] for w in known if w["kind"] == "verdict"}
columns = {}
bare = set()  # columns that are named and not explained
for w in known:
    if w["kind"].startswith("column"):
        for place in w["where"].split("; "):
            command, tables = place.split(": ")
            for table in tables.split(", "):
                columns.setdefault((command, table), set()).add(w["name"])
                if not (w["meaning"] or w["rule"]):
                    bare.add((command, table, w["name"]))
wrong = set()
raised = set(open("codes").read().split())
wrong |= {f"src/ raises {code}, which no row of src/report/words_*.c explains" for code in raised - codes - verdicts}
wrong |= {f"{code} is explained and raised nowhere" for code in codes - raised}
seen = 0
for path in glob.glob("result-*.json") + glob.glob("family-*.json"):
    result = json.load(open(path))
    command = result["command"]
    for finding in result["findings"]:
        if finding["code"] not in codes | verdicts:
            wrong.add(f"finding {finding['code']} of {path}")
    for table, rows in result["tables"].items():
        has = columns.get(("every command" if table == "findings" else command, table))
        for name in rows[0] if rows else ():
            seen += 1
            if not has or name not in has:
                wrong.add(f"column {name} of {command}'s table {table}")
            if command == "lab" and (command, table, name) in bare:
                wrong.add(f"column {name} of lab's table {table} has no explanation")
print("\n".join(sorted(wrong)))
sys.exit(bool(wrong) or seen < 500)
END

# The page of an experiment says of each column of its tables what it is.
python3 - lab.html <<'END' || note_failure "columns of the page of an experiment"
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
data = re.findall(r'<script[^>]*application/json[^>]*>(.*?)</script>', page, re.S)
tables = next(x["tables"] for x in map(json.loads, data) if "words" in x)
columns = [c for name in ("claims", "causal_half_law") for c in tables[name]["columns"]]
assert {"claim", "layer", "residual", "origin", "source"} <= {c["name"] for c in columns}, columns
bare = [c["name"] for c in columns if not c.get("formula")]
assert not bare, bare
END

# A report brings the meaning of the words and codes that it uses, and of no others.
expect 0 "$RANKSCOPE" probe "$models/forward/bert" --random 2 --seq-len 12 --quiet --html page.html
python3 - page.html <<'END' || note_failure "the words in the report"
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
words = next(x["words"] for x in map(json.loads, re.findall(r'<script[^>]*application/json[^>]*>(.*?)</script>', page, re.S)) if "words" in x)
assert "0 when all" in words["relative residual"]["meaning"], words
assert words["residual_summary"]["kind"] == "finding" and "dead_head" not in words and "claim" not in words, sorted(words)
END
finish
