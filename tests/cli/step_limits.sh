#!/bin/sh
# step_limits.sh: limits of a state-space model's steps, in every spelling that a config.json has them in, in passes and
# in generation. That they are the right limits, the states of transformers say (tests/golden/forward/mamba2_limits).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
cp -R "$RS_SOURCE_DIR/tests/golden/forward/mamba2_limits" model
chmod -R u+w model
echo '[[3,5,1,7,9,2,4,8,11,6,2,19]]' >ids.json

# limited TEXT: the model whose configuration has that text as its limits; none: without the field.
limited() {
    python3 - "$1" <<'END'
import json, sys
config = json.load(open("model/config.json"))
config.pop("time_step_limit", None)
if sys.argv[1] != "none":
    config["time_step_limit"] = "@"
open("model/config.json", "w").write(json.dumps(config).replace('"@"', sys.argv[1]))
END
}

# states NAME TEXT: what leaves the layers, one number each.
states() {
    limited "$2"
    expect 0 "$RANKSCOPE" probe model --tokens ids.json --no-attention --json result.json
    python3 -c "
import json
for row in json.load(open('result.json'))['tables']['tokens']:
    print(row['site'], row['layer'], row['norm_fro'], row['residual_fro'])" >"$1"
}

states open none
for text in null '[0.0, Infinity]' '[0, "Infinity"]' '[0.0, {"__float__": "Infinity"}]' '[0.0, "inf"]'; do
    states spelled "$text"
    cmp -s spelled open || note_failure "$text is no limit, and changes the states"
done
states least '[0.25, 1e300]'
cmp -s least open && note_failure "a least step of 0.25 changes nothing"
for text in '[0.25, Infinity]' '[0.25, "Infinity"]' '[0.25, {"__float__": "Infinity"}]' '[2.5e-1, "inf"]'; do
    states spelled "$text"
    cmp -s spelled least || note_failure "$text is no least step of 0.25"
done
for text in '[0.25, NaN]' '[NaN, 0.25]' '[0.25, "nan"]' '[0.25, "many"]' '[0.25, null]' '[0.25]' 0.25 '"(0.25, inf)"' \
    '[0.25, true]' '[0.5, 0.25]' '[0.25, {"__float__": "NaN"}]'; do
    limited "$text"
    expect 2 "$RANKSCOPE" probe model --tokens ids.json
    says err "time_step_limit"
done

# Each generated token is what a pass over all before it gives: the limits hold there, too.
generated() {
    expect 0 "$RANKSCOPE" probe model --tokens "$1" --generate "$2" --no-attention --json result.json
    python3 -c "
import json
rows = json.load(open('result.json'))['tables']['generate']
print(json.dumps(rows[0]['ids']))"
}
limited '[0.2, 0.9]'
generated ids.json 6 >together
python3 - "$RANKSCOPE" <<'END' >singly || note_failure "generation one by one"
import json, subprocess, sys
ids, out = json.load(open("ids.json"))[0], []
for _ in range(6):
    json.dump([ids + out], open("grown.json", "w"))
    run = subprocess.run([sys.argv[1], "probe", "model", "--tokens", "grown.json", "--generate", "1", "--no-attention", "--json", "-"],
                         capture_output=True, text=True, check=True)
    out.append(json.loads(run.stdout)["tables"]["generate"][0]["ids"][0])
print(json.dumps(out))
END
cmp -s together singly || note_failure "generation does not go on as passes do: $(cat together singly)"
limited none
generated ids.json 6 >without
cmp -s together without && note_failure "limits change nothing in generation"
finish
