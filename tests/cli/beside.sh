#!/bin/sh
# beside.sh: `rankscope probe` and `certify` of several models over the same inputs: each table is those of single runs, with the model in front.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf ./*
golden=$RS_SOURCE_DIR/tests/golden/forward

echo '[[5, 2, 9, 1, 7], [4, 8, 3, 1, 2]]' >ids.json
for name in bert gpt2 mamba2 llama; do
    ln -s "$golden/$name" $name
done

# ---- in every form ----
expect 0 "$RANKSCOPE" probe bert gpt2 --tokens ids.json --html probe.html --csv tables --svg drawn
head -n 1 out | grep -q '^2 models; the first, bert: ' || note_failure "the first line is: $(head -n 1 out)"
awk 'length($0) > 80 * 3 { exit 1 }' out || note_failure "a line is too long"
says probe.html '<html'
says drawn/residual.svg 'gpt2'
for table in models tokens attention loss summary; do
    head -n 1 "tables/$table.csv" | grep -q '^path,' || note_failure "$table.csv begins with $(head -n 1 "tables/$table.csv")"
done
expect 0 "$RANKSCOPE" certify bert gpt2 --tokens ids.json --html certify.html --svg drawn
says drawn/bounds.svg 'gpt2'
expect 0 "$RANKSCOPE" probe bert gpt2 --tokens ids.json --table tokens --where path=gpt2 --columns layer,relative_residual
head -n 1 out | grep -q bert || note_failure "the verdict names no model"

# ---- what is refused ----
refused_by probe usage 'the file holds one model' bert gpt2 --tokens ids.json --output both.safetensors
refused_by probe usage 'the file holds one model' bert gpt2 --tokens ids.json --taps both.safetensors
refused_by probe not-found nowhere bert nowhere --tokens ids.json
refused_by certify not-found nowhere bert nowhere --tokens ids.json
echo '[[5, 2, 900]]' >far.json
refused_by probe token-out-of-range 900 bert gpt2 --tokens far.json
refused_by probe usage 'no model' bert --text a.txt b.txt
mkdir copy && cp "$golden/gpt2"/* copy/
expect 2 "$RANKSCOPE" probe bert copy --tokens ids.json --quiet --json copy/config.json
says err 'would-overwrite-input'

# ---- --fail-on sees the gravest ----
mkdir broken && cp "$golden/llama"/config.json "$golden/llama"/model.safetensors broken/ && chmod -R u+w broken
breaks_weight broken model.layers.0.self_attn.q_proj.weight nan
expect 3 "$RANKSCOPE" probe llama broken --tokens ids.json --fail-on critical --json grave.json

python3 - <<'END' || note_failure "results are not as they should be"
import json
import os
import subprocess

program = os.environ["RANKSCOPE"]

def ask(command, *words):
    done = subprocess.run([program, command, *words, "--json", "-"], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return json.loads(done.stdout)

def check(command, paths, *options):
    both = ask(command, *paths, *options)
    alone = {path: ask(command, path, *options) for path in paths}
    names = {name for one in alone.values() for name in one["tables"]}
    assert set(both["tables"]) == names | {"models"}, set(both["tables"]) ^ names
    for name in names - {"findings"}:
        rows = both["tables"][name]
        assert all(next(iter(row)) == "path" for row in rows), name
        for path, one in alone.items():
            mine = [row for row in rows if row["path"] == path]
            single = one["tables"].get(name, [])
            assert len(mine) == len(single), (name, path)
            for row, want in zip(mine, single):
                assert {k: row[k] for k in want} == want, (name, row, want)
                assert all(row[k] is None for k in set(row) - set(want) - {"path"}), (name, row)
        assert len(rows) == sum(len(one["tables"].get(name, [])) for one in alone.values())
    findings = both["tables"]["findings"]
    for path, one in alone.items():
        mine = sorted((f["code"], f["message"], str(f["layer"]), str(f["head"])) for f in findings if f["message"].startswith(path + ": "))
        assert mine == sorted((f["code"], f"{path}: {f['message']}", str(f["layer"]), str(f["head"])) for f in one["tables"]["findings"]), (mine, path)
    assert len(findings) == sum(len(one["tables"]["findings"]) for one in alone.values())
    order = ["info", "warn", "critical"]
    worst = max((one["verdict"] for one in alone.values()), key=lambda v: order.index(v["severity"]))
    v = both["verdict"]
    assert (v["code"], v["severity"], v["value"]) == (worst["code"], worst["severity"], worst["value"]) and worst["answer"] in v["answer"], (v, worst)
    assert [m["path"] for m in both["models"]] == list(paths) == [m["path"] for m in both["tables"]["models"]]
    for m, row in zip(both["models"], both["tables"]["models"]):
        one = alone[m["path"]]
        assert {k: m[k] for k in one["model"]} == one["model"] and row["verdict"] == one["verdict"]["code"] and row["answer"] == one["verdict"]["answer"]
    assert set(both["figures"]) == {name for one in alone.values() for name in one["figures"]}
    return both

tokens = ("--tokens", "ids.json")
both = check("probe", ("bert", "gpt2"), *tokens)
assert both["figures"]["residual"], both["figures"].keys()
check("probe", ("bert", "mamba2", "llama"), *tokens)             # other mixers, other tables
check("probe", ("bert", "gpt2"), *tokens, "--variants", "full,san", "--scan", "--certify")
check("probe", ("gpt2", "llama"), *tokens, "--grad")
check("certify", ("bert", "gpt2"), *tokens)
check("certify", ("bert", "mamba2"), *tokens, "--fast")
check("certify", ("bert", "bert/model.safetensors"), *tokens)    # one model twice
grave = json.load(open("grave.json"))
assert grave["verdict"]["severity"] == "critical" and grave["verdict"]["answer"].startswith("Of 2 models broken stands worst: "), grave["verdict"]
END

finish
