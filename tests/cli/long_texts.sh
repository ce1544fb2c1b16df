#!/bin/sh
# long_texts.sh: measures whose price is the square of a sample's length leave out samples of more than 8192 tokens.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }

# check FILE EXPRESSION: true of the result in FILE; `tokens` and `heads` are rows, `found` the findings by code.
check() {
    python3 - "$1" "$2" <<'END' || note_failure "not so in $1: $2"
import json, sys
def never(x):
    raise ValueError(x)
result = json.load(open(sys.argv[1]), parse_constant=never)
tokens, heads = result["tables"]["tokens"], result["tables"].get("attention")
found = {f["code"]: f for f in result["findings"]}
def all_but(null):
    """Of table tokens the columns `null` are null and the others numbers; those of one sample have no deviation."""
    return all((row[name] is None) == (name in null or name == "relative_residual_std") for row in tokens for name in row)
sys.exit(not eval(sys.argv[2]))
END
}

# Mixers of every kind; a matrix of 8193 tokens alone is 256 MiB.
shape='"depth": 1, "d_model": 4, "heads": 1, "mlp": "none"'
few='--random 1 --threads 1 --memory 100M'
for mixer in attention mamba2 mamba linear_attention s4d gated_recurrence gated_delta short_conv; do
    for n in 8192 8193; do
        echo "{$shape, \"mixer\": \"$mixer\", \"seq_len\": $n}" >$mixer-$n.json
    done
    # shellcheck disable=SC2086
    expect 0 "$RANKSCOPE" probe $mixer-8193.json $few --json a.json --fail-on warn
    says out quadratic_left_out
    check a.json "found['quadratic_left_out']['message'].endswith('; --quadratic measures all of it')"
    silent err
    check a.json "all_but({'diameter'}) and not heads"
    check a.json "result['run']['peak_activation_bytes'] < 4e7 and result['run']['measure_bytes'] < 4e6"
    check a.json "found['quadratic_left_out']['severity'] == 'info' and found['quadratic_left_out']['value'] == 1"
    check a.json "('table attention' in found['quadratic_left_out']['message']) == ('$mixer' in ('attention', 'mamba2', 'linear_attention', 'gated_delta'))"
    check a.json "not {'attention_sink', 'uniform_attention', 'condensed_attention', 'untrained_attention', 'nonfinite_activation'} & set(found)"
done

# The column has samples of 8192 tokens, and whoever asks has it of longer ones; nothing else of the table changes.
for mixer in attention mamba2; do
    expect 0 "$RANKSCOPE" probe $mixer-8192.json --random 1 --no-attention --json a.json
    check a.json "all_but(set()) and 'quadratic_left_out' not in found"
    expect 0 "$RANKSCOPE" probe $mixer-8193.json --random 1 --no-attention --json a.json
    check a.json "'diameter is null; --quadratic' in found['quadratic_left_out']['message']"
    expect 0 "$RANKSCOPE" probe $mixer-8193.json --random 1 --no-attention --quadratic --json b.json
    check b.json "all_but(set()) and 'quadratic_left_out' not in found"
    python3 - <<'END' || note_failure "--quadratic changes another column of $mixer"
import json
a, b = (json.load(open(name))["tables"]["tokens"] for name in ("a.json", "b.json"))
assert len(a) == len(b) == 3 and [r | {"diameter": 0} for r in a] == [r | {"diameter": 0} for r in b]
END
done

# Matrices that are asked for need their memory, which is foreseen.
for asked in "attention-8192.json" "attention-8193.json --quadratic" "mamba2-8193.json --quadratic"; do
    # shellcheck disable=SC2086
    refused_by probe memory-limit "the measures of attention need" $asked $few
done
# shellcheck disable=SC2086
expect 0 "$RANKSCOPE" probe attention-8193.json $few --null random --json a.json

# Samples that are short enough have their measures, and the means are over them alone.
python3 - <<'END'
import json, random
rng = random.Random(14)
samples = [[rng.randrange(11) for _ in range(n)] for n in (8193, 60, 8200, 33, 1)]
json.dump(samples, open("all.json", "w"))
json.dump([s for s in samples if len(s) < 100], open("short.json", "w"))
END
for precision in f32 f64 residual; do
    for ids in all short; do
        expect 0 "$RANKSCOPE" probe "$RS_SOURCE_DIR/tests/golden/families/mamba2" --tokens $ids.json --batch 1 --precision $precision --json $ids.out
    done
    python3 - $precision <<'END' || note_failure "means over the short samples, $precision"
import json, sys
logs = sys.argv[1] == "residual"
whole, short = (json.load(open(name)) for name in ("all.out", "short.out"))
columns = {"diameter"} | ({"log10_diameter"} if logs else set())
for a, b in zip(whole["tables"]["tokens"], short["tables"]["tokens"], strict=True):
    assert all(a[c] == b[c] and b[c] is not None for c in columns), (a, b)
    assert a["norm_fro"] > 3 * b["norm_fro"]
assert whole["tables"]["attention"] == short["tables"]["attention"] and len(whole["tables"]["attention"]) == 8
(found,) = [f for f in whole["findings"] if f["code"] == "quadratic_left_out"]
assert found["message"].startswith("2 of 5 samples have more than 8192 tokens") and found["value"] == 2, found
assert ("log10_diameter" in found["message"]) == logs and "; so is table attention" in found["message"], found
assert not [f for f in short["findings"] if f["code"] == "quadratic_left_out"]
END
done

# One note for all variants.
expect 0 "$RANKSCOPE" probe mamba2-8193.json --random 1 --variants dong --json a.json --html a.html
check a.json "all_but({'diameter'}) and len(tokens) == 12 and len([f for f in result['findings'] if f['code'] == 'quadratic_left_out']) == 1"
finish
