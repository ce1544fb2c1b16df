#!/bin/sh
# Mixers with a given matrix: adjacency files of every type and form, what a probe says of them, the centre by a
# graph's right vector, and what is refused, by name.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

python3 - <<'PY' || exit 1
import json, math, struct

def npy(name, descr, shape, numbers, fortran=False):
    head = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    code = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}.get(descr)
    data = struct.pack("<%d%s" % (len(numbers), code), *numbers) if code else bytes(16 * len(numbers))
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)

N = 12
star = [[0] * N for _ in range(N)]
for i in range(1, N):
    star[0][i] = star[i][0] = 1
    star[i][i] = 1
star[0][0] = 1
flat = [w for row in star for w in row]
for name, descr in (("i4", "<i4"), ("i8", "<i8"), ("f4", "<f4"), ("f8", "<f8")):
    npy(name + ".npy", descr, (N, N), flat)
npy("wide.npy", "<f8", (N, N - 1), flat[: N * (N - 1)])
npy("line.npy", "<f8", (N * N,), flat)
npy("none.npy", "<f8", (0, 0), [])
npy("nan.npy", "<f8", (2, 2), [0, 1, float("nan"), 0])
npy("complex.npy", "<c16", (2, 2), [0] * 4)
npy("fortran.npy", "<f8", (2, 2), [0, 1, 1, 0], True)
npy("short.npy", "<f8", (3, 3), [0, 1, 1, 0])
npy("minus.npy", "<f8", (2, 2), [0, -1, -1, 0])
npy("empty.npy", "<f8", (2, 2), [0] * 4)
npy("one_way.npy", "<f8", (2, 2), [0, 1, 0, 1])
open("text.npy", "w").write("0 1\n1 0\n")

def arch(name, file, form, **more):
    json.dump(dict(dict(depth=60, d_model=8, mixer="graph", graph=dict(file=file, form=form), norm="none", mlp="none",
                        skip_mixer=0, value_map="identity", init={"wo": "none"}), **more), open(name, "w"))

for form in ("row", "symmetric", "given"):
    for kind in ("i4", "i8", "f4", "f8"):
        arch("%s_%s.json" % (form, kind), kind + ".npy", form)
arch("attention_i4.json", "i4.npy", "attention", heads=2, init={})
for bad in ("wide", "line", "none", "nan", "complex", "fortran", "short", "empty", "text", "missing"):
    arch("bad_%s.json" % bad, bad + ".npy", "row")
arch("bad_minus.json", "minus.npy", "symmetric")
arch("bad_one_way.json", "one_way.npy", "symmetric")
arch("bad_length.json", "i4.npy", "row", seq_len=5)
arch("length.json", "i4.npy", "row", seq_len=N)
arch("mixed.json", "i4.npy", "row", depth=2, mixer=["graph", "linear_attention"], mask="causal", temperature=2)
arch("bad_mask.json", "i4.npy", "row", mask="causal")
arch("bad_rope.json", "i4.npy", "row", positions="rope")
arch("bad_attention.json", "i4.npy", "row", attention="uniform")
arch("bad_temperature.json", "i4.npy", "row", temperature=2)
arch("bad_heads.json", "i4.npy", "attention", heads=2, kv_heads=1)
arch("bad_width.json", "i4.npy", "row", heads=2, d_head=3, init={})
PY
refused() { refused_by probe "$@"; }

# shellcheck disable=SC2317 # expect calls it
probe() { "$RANKSCOPE" probe "$@" --init default --precision f64 --random 4 --quiet; }
number() { # FILE FIELD: of the last state
    python3 -c "
import json, sys
rows = [r for r in json.load(open('$1'))['tables']['tokens'] if r['site'] == 'block_out']
print('%.17g' % rows[-1]['$2'])"
}

# the same numbers whatever the type of the file
for form in row symmetric given; do
    for kind in i4 i8 f4 f8; do
        expect 0 probe ${form}_$kind.json --csv csv_${form}_$kind
        cmp -s csv_${form}_$kind/tokens.csv csv_${form}_i4/tokens.csv || note_failure "$form: $kind gives other numbers than int32"
    done
done
expect 0 probe attention_i4.json --json attention.json
expect 0 probe length.json --csv csv_length
cmp -s csv_length/tokens.csv csv_row_i4/tokens.csv || note_failure "seq_len = nodes gives other numbers"
# what another layer's mixer reads is not refused
expect 0 probe mixed.json --json mixed_probe.json
# a path is relative to the file that has it, and the matrix is an input
mkdir inner && cp row_i4.json i4.npy inner/
expect 0 probe inner/row_i4.json --csv csv_inner
cmp -s csv_inner/tokens.csv csv_row_i4/tokens.csv || note_failure "a relative path"
refused would-overwrite-input "i4.npy" inner/row_i4.json --random 1 --init default --json inner/i4.npy

# Linear message passing over a connected graph with loops ends at multiples of the right vector: what is left about the mean
# is that of the roots of the degrees, which Python adds up by itself.
expect 0 probe symmetric_i4.json --json mean.json
expect 0 probe symmetric_i4.json --residual-centre graph --json own.json
expect 0 probe row_i4.json --residual-centre graph --json row.json
python3 - "$(number mean.json relative_residual)" "$(number own.json relative_residual)" "$(number row.json relative_residual)" <<'PY' || note_failure "residuals about the right vector"
import math, sys
mean, own, row = map(float, sys.argv[1:])
u = [math.sqrt(12)] + [math.sqrt(2)] * 11
middle = sum(u) / 12
left = math.sqrt(sum((v - middle) ** 2 for v in u) / sum(v * v for v in u))
sys.exit(not (abs(mean - left) < 1e-6 and own < 1e-6 and row < 1e-6 and left > 0.3))
PY
python3 -c "
import json
found = {n: [f['severity'] for f in json.load(open(n + '.json'))['findings'] if f['code'] == 'graph_centre'] for n in ('mean', 'own', 'row')}
assert found == {'mean': ['warn'], 'own': ['info'], 'row': []}, found" || note_failure "findings graph_centre"
refused unsupported "a mixing matrix has no known right vector" given_i4.json --random 1 --init default --residual-centre graph
echo '{"depth": 1, "d_model": 8}' >plain.json
refused unsupported "its mixers are not all graphs" plain.json --random 1 --init default --residual-centre graph
expect 0 probe row_i4.json --precision residual

# what is refused
bad() { # STATUS TEXT NAME
    refused "$1" "$2" "bad_$3.json" --random 1 --init default
}
bad input-shape "a graph is a square matrix" wide
bad input-shape "a graph is a square matrix" line
bad input-shape "a graph is a square matrix" none
bad tensor-value "entry (1, 0) is nan" nan
bad input-format "type '<c16'" complex
bad input-format "Fortran order" fortran
bad input-format "32 bytes follow" short
bad tensor-value "the graph has no edges" empty
bad input-format "no .npy file" text
bad not-found "missing.npy" missing
bad tensor-value "no weights below 0" minus
bad tensor-value "the same weight across the diagonal" one_way
bad architecture-schema '"seq_len" is 5; the graph has 12 nodes' length
bad architecture-schema '"mask" is read by no mixer here' mask
bad architecture-schema '"positions" acts on the logits' rope
bad architecture-schema '"attention" is read by no mixer here' attention
bad architecture-schema '"temperature" divides logits' temperature
bad architecture-schema '"kv_heads" is not "heads"' heads
bad architecture-schema "2 heads of 3 numbers are no token of 8" width
refused input-shape "the mixing matrix of layer 0 is given, 12 x 12" row_i4.json --random 1 --init default --seq-len 5

# nothing is proved of it, by name
"$RANKSCOPE" certify row_i4.json --init default --random 1 --json certify.json --quiet
grep -q "no theorem here is about mixers with a given matrix yet" certify.json || note_failure "what is not proved"
finish
