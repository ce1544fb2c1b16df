#!/bin/sh
# probe_ranks.sh: ranks of attention's matrices and of the product of the layers, against the matrices themselves: eigenvalues of MᵀM by
# Jacobi's rotations, in Python alone.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
forward=$RS_SOURCE_DIR/tests/golden/forward
echo '[[5,2,9,1,7,11],[4,8,3],[6]]' >ids.json
echo '[[5]]' >one.json

cat >ranks.py <<'END'
import json, math, sys


def singular(m):
    """Singular values of m, descending: one-sided rotations of its columns."""
    n = len(m)
    a = [list(c) for c in zip(*m)]
    for _ in range(60):
        off = 0.0
        for p in range(n):
            for q in range(p + 1, n):
                x, y, z = (sum(s * t for s, t in zip(a[i], a[k])) for i, k in ((p, p), (q, q), (p, q)))
                scale = math.sqrt(x) * math.sqrt(y)
                if abs(z) <= 1e-17 * scale or scale == 0:
                    continue
                off = max(off, abs(z) / scale)
                turn = (y - x) / (2 * z)
                t = math.copysign(1, turn) / (abs(turn) + math.hypot(1, turn))
                c = 1 / math.hypot(1, t)
                a[p], a[q] = ([c * u - c * t * v for u, v in zip(a[p], a[q])], [c * t * u + c * v for u, v in zip(a[p], a[q])])
        if off < 1e-15:
            break
    return sorted((math.sqrt(sum(x * x for x in column)) for column in a), reverse=True)


def near(a, b, what):
    assert abs(a - b) <= 1e-10 * max(1, abs(b)), (what, a, b)


def ranks(s):
    p = [x / sum(s) for x in s if x > 0]
    energy = sum(x * x for x in s)
    return dict(effective_rank=math.exp(-sum(x * math.log(x) for x in p)), stable_rank=energy / s[0]**2,
                energy_rank=next(k + 1 for k in range(len(s)) if sum(x * x for x in s[:k + 1]) >= 0.9 * energy),
                numerical_rank=sum(x > len(s) * 2.0**-52 * s[0] for x in s))


r = json.load(open("r.json"))
t, causal = r["tables"], sys.argv[1] == "causal"
heads = {}
for row in t["attention_maps"]:
    heads.setdefault((row["layer"], row["head"]), {})[row["query"], row["key"]] = row["weight"]
n = 1 + max(k[0] for k in heads[0, 0])
matrix = {h: [[m[i, j] for j in range(n)] for i in range(n)] for h, m in heads.items()}
uniform = [[(j <= i) / (i + 1) if causal else 1 / n for j in range(n)] for i in range(n)]
for row in t["attention"]:
    a = matrix[row["layer"], row["head"]]
    less = [[x - u for x, u in zip(*rows)] for rows in zip(a, uniform)]
    for prefix, s in ("", singular(a)), ("centred_", singular(less)):
        for name, value in ranks(s).items():
            if prefix + name != "centred_numerical_rank":
                near(row[prefix + name], value, (prefix + name, row))
        assert 1 <= row[prefix + "effective_rank_null"] <= n + 1e-9, row
    near(row["sigma2"], singular(a)[1], row)
layers = 1 + max(h[0] for h in heads)
for form in "mean", "rollout":
    product = [[float(i == j) for j in range(n)] for i in range(n)]
    for l in range(layers):
        own = [m for h, m in matrix.items() if h[0] == l]
        mean = [[sum(m[i][j] for m in own) / len(own) for j in range(n)] for i in range(n)]
        if form == "rollout":
            mean = [[(x + (i == j)) / 2 for j, x in enumerate(line)] for i, line in enumerate(mean)]
        product = [[sum(mean[i][k] * product[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
        s = singular(product)
        [row] = [x for x in t["rollout"] if x["layer"] == l and x["form"] == form]
        near(row["sigma2_over_sigma1"], s[1] / s[0], row)
        near(row["effective_rank"], ranks(s)["effective_rank"], row)
END

maps() { python3 -c "print(','.join(f'{l}:{h}' for l in range($1) for h in range($2)))"; }
for name in bert llama gpt2; do
    mask=causal
    [ "$name" != bert ] || mask=none
    config=$forward/$name/config.json
    layers=$(python3 -c "import json; c = json.load(open('$config')); print(c.get('num_hidden_layers', c.get('n_layer')))")
    heads=$(python3 -c "import json; c = json.load(open('$config')); print(c.get('num_attention_heads', c.get('n_head')))")
    expect 0 "$RANKSCOPE" probe "$forward/$name" --tokens ids.json --samples 1 --precision f64 --attention-maps "$(maps "$layers" "$heads")" --json r.json
    expect 0 python3 ranks.py "$mask"
done

# means over ragged samples, one of a single token; the same whatever the threads and batches
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --precision f64 --threads 1 --batch 1 --json a.json
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --precision f64 --threads 3 --json b.json
python3 - <<'END' || note_failure "threads or batches change ranks"
import json
a, b = (json.load(open(f))["tables"] for f in ("a.json", "b.json"))
assert a["rollout"] == b["rollout"] and a["rollout"]
names = [k for k in a["attention"][0] if "rank" in k]
assert len(names) == 16, names
assert all(x[k] == y[k] for x, y in zip(a["attention"], b["attention"]) for k in names)
END

# one token: rank one, nothing less uniform attention, and no finding
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens one.json --json r.json
python3 - <<'END' || note_failure "one token"
import json
r = json.load(open("r.json"))
for row in r["tables"]["attention"]:
    assert row["effective_rank"] == 1 and row["numerical_rank"] == 1 and row["energy_rank"] == 1, row
    assert row["centred_effective_rank"] is None and row["centred_numerical_rank"] == 0, row
assert all(x["effective_rank"] == 1 and x["sigma2_over_sigma1"] == 0 for x in r["tables"]["rollout"])
assert not any(f["code"] == "low_rank_attention" for f in r["findings"])
END

# left out: by option; of mixers without a softmax the null, of two mixers a layer the product
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --no-spectral --json r.json
python3 -c "
import json
t = json.load(open('r.json'))['tables']
assert 'rollout' not in t and all(x['effective_rank'] is None and x['effective_rank_null'] is None and x['sigma1'] for x in t['attention'])" ||
    note_failure "--no-spectral"
expect 0 "$RANKSCOPE" probe "$forward/mamba2" --tokens ids.json --json r.json
python3 -c "
import json
t = json.load(open('r.json'))['tables']
assert t['rollout'] and all(x['effective_rank'] and x['effective_rank_null'] is None for x in t['attention'])" || note_failure "Mamba-2"
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --center-attention --json r.json
python3 -c "
import json
t = json.load(open('r.json'))['tables']
assert all(x['effective_rank'] and x['effective_rank_null'] is None for x in t['attention'])" || note_failure "an edited matrix"

# a text too long for ranks says so; --quadratic measures it
arch long '"depth": 1, "seq_len": 520'
for option in "" --quadratic; do
    # shellcheck disable=SC2086  # none, or one
    expect 0 "$RANKSCOPE" probe long.json --random 1 --seq-len 520 $option --json r.json
    python3 -c "
import json
r = json.load(open('r.json'))
told = any('more than 512 tokens' in f['message'] for f in r['findings'])
there = [x['effective_rank'] is not None for x in r['tables']['attention']] + ['rollout' in r['tables']]
assert set(there) == {'$option' != ''} and told == ('$option' == ''), (there, told)" || note_failure "a long text $option"
done

# in encoders two published remedies are one operator
expect 0 "$RANKSCOPE" probe "$forward/bert" --tokens ids.json --variants full,a=center-attention,b=remove-gap --json r.json
python3 -c "
import json
rows = [[{k: v for k, v in x.items() if k != 'variant'} for x in json.load(open('r.json'))['tables']['tokens'] if x['variant'] == name] for name in 'ab']
assert rows[0] == rows[1] and rows[0]" || note_failure "--center-attention and --remove-gap"

# a finding by its threshold
expect 0 "$RANKSCOPE" probe "$forward/bert" --random 2 --seq-len 12 --threshold low_rank_attention=1.5 --json r.json
python3 -c "
import json
r = json.load(open('r.json'))
rows = {(x['layer'], x['head']): x['effective_rank'] / x['effective_rank_null'] for x in r['tables']['attention']}
said = [f for f in r['tables']['findings'] if f['code'] == 'low_rank_attention']
assert {(f['layer'], f['head']) for f in said} == {k for k, v in rows.items() if v < 1.5} and said
assert sum(f['code'] == 'low_rank_attention' for f in r['findings']) == 1" || note_failure "low_rank_attention"
finish
