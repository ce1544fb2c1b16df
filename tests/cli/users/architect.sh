#!/bin/bash
# architect.sh: does a design collapse before it is trained? 24 and 96 layers, with and without norms.
# shellcheck source=tests/cli/lib_users.sh
. "$RS_SOURCE_DIR/tests/cli/lib_users.sh"
design() { # LAYERS NORM CODE TEXT [OPTION...]: the verdict is CODE
    printf '{"depth": %s, "d_model": 64, "heads": 4, "seq_len": 32, "norm": "%s", "mlp": "gelu"}\n' "$1" "$2" >"$1-$2.json"
    file=$1-$2.json code=$3 text=$4
    shift 4
    expect 0 "$RANKSCOPE" probe "$file" --init default --random 8 --json said.json "$@"
    verdict said.json "$code" "$text"
}
design 24 pre slow "Slowly: 0.98"
design 96 pre slow "in 96 layers"
design 24 post collapse "0.00098 after all 24"
design 96 post collapse "equal as far as f32 can tell"
design 24 none collapse "after all 24"
design 96 none nonfinite "not finite"
design 96 pre healthy "93 % of the spread" --residual-scale "1/sqrt(L)" # the remedy
expect 3 "$RANKSCOPE" probe 24-post.json --init default --random 8 --quiet --fail-on warn
finish
