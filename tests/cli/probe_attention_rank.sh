#!/bin/sh
# probe_attention_rank.sh: attention cut to a lower rank: the best approximation (Eckart and Young 1936), nothing of what a mask hides, and which
# rank keeps the loss.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
forward=$RS_SOURCE_DIR/tests/golden/forward
echo '[[5,2,9,1,7,11]]' >ids.json
refused() { refused_by probe "$@"; }

refused bad-option "a whole rank from 1 on" "$forward/bert" --tokens ids.json --attention-rank 0
refused bad-option "a whole rank from 1 on" "$forward/bert" --tokens ids.json --attention-rank 2.5
refused bad-option "a whole rank from 1 on" "$forward/bert" --tokens ids.json --attention-rank 101%
refused bad-option "a whole rank from 1 on" "$forward/bert" --tokens ids.json --attention-rank two
refused bad-option "needs a value" "$forward/bert" --tokens ids.json --attention-rank 2,,3
refused bad-option "given twice" "$forward/bert" --tokens ids.json --attention-rank 2,3,2
refused unsupported "attention-rank" "$forward/bert" --tokens ids.json --attention-rank 2 --precision residual
refused unsupported "attention-rank" "$forward/bert" --tokens ids.json --attention-rank 2 --grad
refused unsupported "attention-rank" "$forward/bert" --tokens ids.json --attention-rank 2 --relevance
refused unsupported "attention-rank" "$forward/bert" --tokens ids.json --variants full,a=attention-rank:2 --precision residual
refused unsupported "attention-rank" "$forward/bert" --tokens ids.json --variants full,a=attention-rank:2 --grad

# an encoder: the error in layer 0, whose softmax is the same, is what the singular values beyond the rank hold
maps=$(python3 -c "print(','.join(f'0:{h}' for h in range(3)))")
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --precision f64 --attention-rank '1,3,6,40,100%,90%' --attention-maps "$maps" --json r.json
python3 - <<'END' || note_failure "best approximation"
import json, math
r = json.load(open("r.json"))
t = r["tables"]
maps = {}
for row in t["attention_maps"]:
    maps.setdefault((row["variant"], row["head"]), []).append(row["weight"])
rows = {(x["variant"], x["layer"], x["head"]): x for x in t["attention"]}
for head in range(3):
    whole = maps["full", head]
    energy = sum(x * x for x in whole)
    stable = rows["full", 0, head]
    for name, rank in ("rank-1", 1), ("rank-3", 3), ("rank-6", 6), ("rank-40", 40):
        cut = maps[name, head]
        error = sum((x - y)**2 for x, y in zip(whole, cut))
        kept = sum(y * y for y in cut)
        # orthogonal to what is left out, and no more directions than asked for
        assert abs(error + kept - energy) < 1e-13 * energy, (head, name)
        assert rows[name, 0, head]["numerical_rank"] <= rank, (head, name)
        if rank == 1:
            assert abs(kept - stable["sigma1"]**2) < 1e-12, (head, kept)
        if rank >= 6:
            assert cut == whole, (head, name)
    kept = sum(y * y for y in maps["rank-90%", head])
    assert kept >= 0.9 * energy and rows["rank-90%", 0, head]["numerical_rank"] == stable["energy_rank"], head
states = {v: [x["relative_residual"] for x in t["tokens"] if x["variant"] == v] for v in ("full", "rank-40")}
assert states["full"] == states["rank-40"]
ranks = {x["variant"]: x for x in t["attention_ranks"]}
assert ranks["rank-40"]["state_distance"] == 0 and ranks["rank-100%"]["state_distance"] < 1e-12
assert ranks["rank-1"]["state_distance"] > ranks["rank-3"]["state_distance"] > 0
assert all(x["nll"] is None and x["loss_rise"] is None for x in ranks.values())
assert ranks["rank-90%"]["rank"] is None and ranks["rank-90%"]["energy"] == 0.9
v = r["verdict"]
assert v["code"] == "attention_rank" and "the last state" in v["answer"], v
least = min(x["rank"] for x in ranks.values() if x["rank"] and x["kept"] == "yes")
assert v["value"] == least and all((x["state_distance"] <= 0.01) == (x["kept"] == "yes") for x in ranks.values()), v
for x in t["attention"]:
    cut = x["variant"] != "full"
    for name in "effective_rank_null", "spectral_gap", "spectral_gap_min", "spectral_gap_geomean", "dobrushin":
        assert (x[name] is None) == cut, (name, x)
assert any(f["code"] == "undefined_columns" and "do not sum to 1" in f["message"] for f in r["findings"])
END

# a model of language: the loss decides; nothing is taken from tokens that follow; the same for any number of threads
expect 0 "$RANKSCOPE" probe "$forward/gpt2" --tokens ids.json --precision f64 --attention-rank 1,2,6 --attention-maps 0:0,1:1 --json r.json
python3 - <<'END' || note_failure "a causal model"
import json
r = json.load(open("r.json"))
t = r["tables"]
assert all(x["weight"] == 0 for x in t["attention_maps"] if x["key"] > x["query"])
loss = {x["variant"]: x["nll"] for x in t["loss"]}
for x in t["attention_ranks"]:
    assert x["nll"] == loss[x["variant"]] and abs(x["loss_rise"] - (x["nll"] / loss["full"] - 1)) < 1e-12, x
    assert (x["loss_rise"] <= 0.01) == (x["kept"] == "yes"), x
assert loss["rank-6"] == loss["full"] and "the loss" in r["verdict"]["answer"]
END
expect 0 "$RANKSCOPE" probe "$forward/gpt2" --random 5 --seq-len 7 --attention-rank 2 --threads 1 --json a.json
expect 0 "$RANKSCOPE" probe "$forward/gpt2" --random 5 --seq-len 7 --attention-rank 2 --threads 3 --json b.json
python3 -c "
import json
a, b = (json.load(open(f))['tables'] for f in ('a.json', 'b.json'))
assert a['attention_ranks'] == b['attention_ranks'] and a['tokens'] == b['tokens']" || note_failure "threads change attention of lower rank"
# none does, and the limit is the user's
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --attention-rank 1 --threshold attention_rank=1e-9 --json r.json
python3 -c "
import json
v = json.load(open('r.json'))['verdict']
assert v['answer'].startswith('None: not even rank 1') and v['value'] is None and v['threshold'] == 1e-9, v" || note_failure "no rank is enough"
# one token has rank 1
echo '[[3]]' >one.json
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens one.json --attention-rank 1 --json r.json
python3 -c "
import json
assert json.load(open('r.json'))['tables']['attention_ranks'][0]['state_distance'] == 0" || note_failure "one token"
refused bad-option "no self-attention" "$forward/mamba2" --tokens ids.json --attention-rank 2
expect 2 "$RANKSCOPE" certify "$forward/bert" --tokens ids.json --attention-rank 2
finish
