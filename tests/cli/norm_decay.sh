#!/bin/sh
# norm_decay.sh: a spread that falls with the norms alone is told from tokens that draw together.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
shape='"depth": 4, "d_model": 16, "heads": 1, "seq_len": 8, "mlp": "none", "norm": "none"'
# Mixers that give nothing: each layer multiplies the state by 0.1, so 10^-4 of the spread is left.
echo "{$shape, \"skip_mixer\": 0.1, \"init\": {\"wo\": \"zero\"}}" > shrinks.json
# One layer of uniform attention without a skip: the tokens are equal.
echo "{$shape, \"skip_mixer\": 0, \"attention\": \"uniform\"}" > collapses.json
# The state keeps its size and its spread.
echo "{$shape, \"init\": {\"wo\": \"zero\"}}" > stays.json
for name in shrinks collapses stays; do
    for spectral in '' --no-spectral; do
        # shellcheck disable=SC2086
        expect 0 "$RANKSCOPE" probe $name.json --random 2 --precision f64 --no-attention $spectral --json $name.out
        python3 - $name.out $name << 'END' || failures=$((failures + 1))
import json, sys
found = [f for f in json.load(open(sys.argv[1]))["findings"] if f["code"] == "norm_decay_only"]
if sys.argv[2] == "shrinks":
    assert len(found) == 1 and found[0]["layer"] == 3 and found[0]["threshold"] == 0.1, found
    assert abs(found[0]["value"] / 1e-4 - 1) < 1e-12, found
else:
    assert not found, found
END
    done
done
finish
