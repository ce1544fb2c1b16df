#!/bin/sh
# certify_verdict.sh: the first line of a certification says what is proved, by the rules of docs/certify.md; no two findings contradict.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

always='
b = r["tables"]["bounds"]
assert not ("keep the tokens apart" in f.get("apart_summary", "") and "certified_collapse" in f), f
assert not any("proves nothing" in x or "does not apply" in x for x in f.values()), f
# what is printed as proved is no more than what is
told = re.search(r"behind layer (\d+) at least ([0-9.e+-]+) of", v["answer"])
if told:
    entered = {x["sample"]: x["entering_diameter"] for x in b if x["layer"] == 0}
    share, proved = min((x["certified_at_least"] / entered[x["sample"]], x["certified_at_least"]) for x in b if x["layer"] == int(told[1]))
    assert proved * 0.998 <= float(told[2]) <= proved, (told[0], proved)
    assert abs(v["value"] / share - 1) < 1e-12, (v, share)
# a bound that says nothing does not stretch the axis of the figure, which says what it leaves out
if r["figures"]:
    points = r["figures"]["bounds"]["data"]["values"]
    most = 100 * max((x["measured"] for x in points if x["curve"] != "proved: at most"), default=float("inf"))
    drawn = [x["layer"] for x in points if x["curve"] == "proved: at most"]
    meant = [x["layer"] for x in r["tables"]["summary"] if x["at_most"] is not None and x["at_most"] <= most]
    notes = "".join(r["figures"]["bounds"]["usermeta"]["rankscope"].get("notes", []))
    left = sum(x["at_most"] is not None and x["at_most"] > most for x in r["tables"]["summary"])
    assert drawn == meant and ("Not drawn: %d point" % left in notes) == (left > 0), (drawn, meant, notes)
apart = {l: all((x["certified_at_least"] or 0) > 0 for x in b if x["layer"] == l) for l in {x["layer"] for x in b}}
'
# network NAME DEPTH NORM SKIP LAW MORE...: no MLP; the law is that of the values.
network() {
    name=$1 depth=$2 norm=$3 skip=$4 law=$5
    shift 5
    arch "$name" "\"depth\": $depth, \"seq_len\": 8, \"norm\": \"$norm\", \"mlp\": \"none\", \"skip_mixer\": $skip, ${1:-}\"init\": {\"wv\": \"$law\"${2:-}}"
}
# sharp NAME LAW: logits so large that the rounding of the pass may move where a token looks, the more the larger the states have grown.
sharp() { network "$1" 4 none 1.0 "normal(0, 1)" '' ", \"wq\": \"$2\", \"wk\": \"$2\""; }

network skips 4 pre 1.0 "normal(0, 1/fan_in)"
# a causal mask keeps the proved upper bound large where the tokens shrink to a hundredth
network near 5 none 0.3 "normal(0, 0.01)" '"mask": "causal", '
network none 6 none 0.0 "normal(0, 0.01)"
answers certify apart info 'v["answer"].startswith("Layers 0-3 provably keep") and v["value"] >= 0.1' skips.json --random 2
answers certify collapse warn '"certified_collapse" in f and r["run"]["rigorous"]' none.json --random 2
expect 3 "$RANKSCOPE" certify none.json --random 2 --fail-on warn
answers certify distinct info '"from being equal" in v["answer"] and v["value"] < 0.1' near.json --random 2
# layers that are proved, and others that are not, which are counted
sharp partly "normal(0, 1e7)"
answers certify partly_apart info '0 < sum(apart.values()) < 4 and "of the other %d it is not proved" % (4 - sum(apart.values())) in v["answer"]' \
    partly.json --random 2
answers certify apart info 'left == 2' "$RS_SOURCE_DIR/tests/golden/families/llama" --random 2 --seq-len 8
# none is, and neither do they collapse
sharp unknown "normal(0, 1e12)"
answers certify not_proved info 'not any(apart.values()) and v["value"] is None and "certified_collapse" not in f' unknown.json --random 2
answers certify not_proved info '"relative positions" in v["answer"] and not any(apart.values())' "$RS_SOURCE_DIR/tests/golden/forward/xlnet" --random 1 --seq-len 6
# a weight that is no number: nothing is proved of any layer behind it
tiny_model broken
breaks_weight broken model.layers.1.self_attn.v_proj.weight nan
answers certify nonfinite critical 'not apart[1]' broken --random 1 --seq-len 6
# the sample of which the least share is left, which need not be the one whose tokens are nearest
sed 's/"pre"/"post"/; s/"mlp": "none", //; s/, "init".*/}/' skips.json >post.json
for seed in 7 8; do
    answers certify apart info 'True' post.json --random 4 --seed $seed
done
# as docs/probe.md has it
sed 's/normal(0, 1\/fan_in)/normal(0, 1e300)/' skips.json >wild.json
answers certify nonfinite critical 'all(x["severity"] == "critical" for x in r["tables"]["findings"] if x["code"] == "nonfinite_activation") and "nonfinite_activation" in f' wild.json --random 1
# one figure: the table of the summary
answers certify apart info 'list(r["figures"]) == ["bounds"] and {x["curve"] for x in r["figures"]["bounds"]["data"]["values"]} == {"measured", "proved: at most", "proved: at least"}' skips.json --random 1
# beside a probe the probe answers
expect 0 "$RANKSCOPE" probe skips.json --random 2 --certify --json p.json --quiet
python3 -c "import json; r = json.load(open('p.json')); assert r['verdict']['code'] == 'healthy' and 'certificate' in r['tables']" || note_failure "probe --certify"
refuses_both() { refused_by "$1" usage "give one of the two" skips.json --random 1 --fast --rigorous ${2:+"$2"}; }
refuses_both certify
refuses_both probe --certify
finish
