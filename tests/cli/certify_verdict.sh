#!/bin/sh
# certify_verdict.sh: the first line of a certification says what is proved, by the rules of docs/certify.md; no two findings contradict.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
arch() {
    echo "{\"depth\": $2, \"d_model\": 32, \"heads\": 2, \"seq_len\": 8, \"norm\": \"$3\", \"mlp\": \"none\", \"skip_mixer\": $4, \"init\": {\"wv\": \"$5\"}}" >"$1.json"
}

# answers CODE SEVERITY PYTHON ARGUMENTS...: the verdict, and what else holds of v, the rows b of table bounds, texts f by code, result r.
answers() {
    code=$1 severity=$2 also=$3
    shift 3
    expect 0 "$RANKSCOPE" certify "$@" --json r.json
    python3 - "$code" "$severity" "$also" <<'END' || note_failure "certify $*: $code, $severity, $also"
import json, re, sys
r = json.load(open("r.json"))
v, b = r["verdict"], r["tables"]["bounds"]
f = {x["code"]: x["message"] for x in r["findings"]}
text = " ".join(open("out").read().split())
assert text.startswith(v["answer"]) or text[2:].startswith(v["answer"]), text[:300]
assert (v["code"], v["severity"]) == (sys.argv[1], sys.argv[2]), (v, f)
assert not ("keep the tokens apart" in f.get("apart_summary", "") and "certified_collapse" in f), f
assert not any("proves nothing" in x or "does not apply" in x for x in f.values()), f
# what is printed as proved is no more than what is
told = re.search(r"behind layer (\d+) at least ([0-9.e+-]+) of", v["answer"])
if told:
    entered = {x["sample"]: x["entering_diameter"] for x in b if x["layer"] == 0}
    share, proved = min((x["certified_at_least"] / entered[x["sample"]], x["certified_at_least"]) for x in b if x["layer"] == int(told[1]))
    assert proved * 0.998 <= float(told[2]) <= proved, (told[0], proved)
    assert abs(v["value"] / share - 1) < 1e-12, (v, share)
assert eval(sys.argv[3]), (v, f)
END
}

arch skips 4 pre 1.0 "normal(0, 1/fan_in)"
# a causal mask keeps the proved upper bound large where the tokens shrink to a hundredth
arch near 5 none 0.3 "normal(0, 0.01)"
sed -i 's/"mlp"/"mask": "causal", "mlp"/' near.json
arch none 6 none 0.0 "normal(0, 0.01)"
answers apart info 'v["answer"].startswith("Layers 0-3 provably keep") and v["value"] >= 0.1' skips.json --random 2
answers collapse warn '"certified_collapse" in f and r["run"]["rigorous"]' none.json --random 2
expect 3 "$RANKSCOPE" certify none.json --random 2 --fail-on warn
answers distinct info '"from being equal" in v["answer"] and v["value"] < 0.1' near.json --random 2
# the sample of which the least share is left, which need not be the one whose tokens are nearest
sed 's/"pre"/"post"/; s/"mlp": "none", //; s/, "init".*/}/' skips.json >post.json
for seed in 7 8; do
    answers apart info 'True' post.json --random 4 --seed $seed
done
# as docs/probe.md has it
sed 's/normal(0, 1\/fan_in)/normal(0, 1e300)/' skips.json >wild.json
answers nonfinite critical 'all(x["severity"] == "critical" for x in r["tables"]["findings"] if x["code"] == "nonfinite_activation") and "nonfinite_activation" in f' wild.json --random 1
# one figure: the table of the summary
answers apart info 'list(r["figures"]) == ["bounds"] and {x["curve"] for x in r["figures"]["bounds"]["data"]["values"]} == {"measured", "proved: at most", "proved: at least"}' skips.json --random 1
# beside a probe the probe answers
expect 0 "$RANKSCOPE" probe skips.json --random 2 --certify --json p.json --quiet
python3 -c "import json; r = json.load(open('p.json')); assert r['verdict']['code'] == 'healthy' and 'certificate' in r['tables']" || note_failure "probe --certify"
refuses_both() { refused_by "$1" usage "give one of the two" skips.json --random 1 --fast --rigorous ${2:+"$2"}; }
refuses_both certify
refuses_both probe --certify
finish
