#!/bin/sh
# memory.sh: memory that runs out. Each command on a model of two layers, its requests refused one by one (tests/memory/walk.c):
# an even sample of 500 a command (50 under a sanitizer), or every one where RS_MEMORY_ALL is set (make test-memory).
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
golden=$RS_SOURCE_DIR/tests/golden
most=500
[ -z "${ASAN_OPTIONS:-}" ] || most=50
[ -z "${RS_MEMORY_ALL:-}" ] || most=0
export OMP_NUM_THREADS=1 # the n-th request is the same one in each run

walk() {
    "$MEMORY_WALK" "$most" "$@" || note_failure "requests refused to 'rankscope $1'"
}

# A model with a tokenizer whose pipeline is a regular expression; grouped queries, RMSNorm, RoPE, a gated MLP.
mkdir -p spoken
cat >spoken/config.json <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 12, "intermediate_size": 18, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 1000, "max_position_embeddings": 32,
 "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false}
END
cp "$golden/tokenizer/llama3.json" spoken/tokenizer.json
chmod u+w spoken/tokenizer.json
printf 'A lighthouse that nobody needs has 300 steps.' >text.txt
printf 'Its keeper counts.' >other.txt
echo '[[5, 2, 9, 1, 7], [4, 8, 3]]' >ids.json
row='[1, 0.5, -1, 2, 0, 0, 1e-3, 0.25, 3, -2, 0, 1, 0, 0.125, 7]' # as wide as bert and gpt2
other='[0, 1, 0, 0, 4, -3, 0, 0.5, 0, 0, 1, -1, 2, 0, 0]'
echo "[[$row, $other], [$other]]" >states.json

walk scan "$golden/forward/llama" --matrices all --spectra --fold-norms --quiet --html page.html --json page.json --csv tables --svg drawn -- page.html page.json tables/heads.csv drawn/heads.svg
walk scan "$golden/forward/llama" --table heads,layers --sort effective_rank --where product=qk --top 3 --
walk certify "$golden/forward/llama" --tokens ids.json --
walk probe spoken --init default --text text.txt --seq-len 6 --variants full,san --quiet --json result.json --csv probed -- result.json probed/tokens.csv
walk probe "$golden/forward/llama" --tokens ids.json --certify --scan --variants full,san --generate 2 --quiet --json both.json -- both.json
walk probe "$golden/forward/mamba2" --tokens ids.json --sweep lambda=-1:1:3,gate=both --quiet --json swept.json -- swept.json
walk probe "$golden/forward/llama" --tokens ids.json --grad --batch 1 --no-attention --no-spectral --quiet --json graded.json -- graded.json
walk probe "$golden/forward/gpt2" --tokens ids.json --grad --precision residual --batch 1 --no-attention --no-spectral --quiet --json apart.json -- apart.json
walk probe "$golden/forward/llama" --tokens ids.json --relevance --no-attention --no-spectral --quiet --json explained.json -- explained.json
walk probe "$golden/forward/gpt2" --states states.json --states-as embeddings --grad --no-attention --no-spectral --quiet --json rows.json -- rows.json
walk certify "$golden/forward/bert" --states states.json --
walk certify "$golden/forward/llama" --tokens ids.json --lambda mixer:0.1 --recommend 0.6 --
walk certify "$golden/forward/llama" --tokens ids.json --rigorous --table all --
walk certify "$golden/forward/jamba" --tokens ids.json --
walk certify "$golden/forward/bert" --tokens ids.json --steps 0:1,1:0 --quiet --json proved.json -- proved.json
walk paths "$golden/paths/three" --tokens ids.json --ablate 0:1 --lesions --quiet --json lesions.json -- lesions.json
walk certify "$golden/forward/mamba2" --tokens ids.json --no-inner-norm --
walk paths "$golden/forward/gpt2" --tokens ids.json --sources --json - --
walk scan "$golden/compare/base" "$golden/compare/nowhere" "$golden/compare/deep" --quiet --json series.json --html series.html -- series.json series.html
walk probe "$golden/forward/bert" "$golden/forward/gpt2" --tokens ids.json --quiet --json beside.json --html beside.html -- beside.json beside.html
walk compare "$golden/forward/bert" "$golden/forward/gpt2" --tokens ids.json --quiet --json compared.json --html compared.html -- compared.json compared.html
walk compare "$golden/compare/base" "$golden/compare/rotated" "$golden/compare/narrow" --table all --
walk tokenize spoken --text text.txt --text text.txt --json - --
walk certify spoken --init default --text text.txt --text other.txt --seq-len 6 --json - --
walk lab run lambda-figure-3 --quick --model "$golden/forward/mamba2" --json model.json -- model.json
# a given matrix: the S-lemma; linear attention behind a norm: theorem C and the sign rule
echo '{"depth": 2, "d_model": 3, "heads": 1, "mlp": "none", "seq_len": 4, "mixer": "linear_attention", "mask": "causal", "norm": "post",
 "norm_kind": "rmsnorm", "value_map": "identity", "init": {"wo": "none"}}' >scalar.json
walk certify scalar.json --init default --random 2 --lambda 50 --fast --
python3 - <<'END' && walk certify given.json --init default --random 2 --
import json, struct
head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4, 4), }"
head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
numbers = [0.3 if j < i else 0 for i in range(4) for j in range(4)]
open("given.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<16d", *numbers))
json.dump({"depth": 1, "d_model": 3, "mlp": "none", "seq_len": 4, "mixer": "graph", "norm": "none", "value_map": "identity",
           "init": {"wo": "none"}, "graph": {"file": "given.npy", "form": "given"}}, open("given.json", "w"))
END
echo '{"depth": 1, "d_model": 4, "norm_affine": "both", "bias": true, "outputs": 2, "positions": "learned", "seq_len": 4,
 "rows": {"width": 2, "map": "mlp", "norm": true}}' >rows.json
walk probe rows.json --init default --random 2 --grad --loss class --target 1 --no-attention --no-spectral --quiet --
echo '{"depth": 3, "d_model": 4, "vocab": 5, "mask": "causal", "seq_len": 4, "fusion": "gate"}' >fused.json
walk probe fused.json --init default --random 2 --grad --no-attention --no-spectral --quiet --
"$SAVED_NETWORK" save scalar.json 1 f64 saved || note_failure "no saved network"
walk probe saved --random 2 --no-spectral --quiet --json saved.out -- saved.out
echo '{"depth": 2, "d_model": 4, "mixer": ["attention", "mamba2"], "vocab": 5, "seq_len": 3, "state": 2}' >two.json
"$SAVED_NETWORK" save two.json 1 f32 two || note_failure "no saved network"
walk scan two --quiet --json two.out -- two.out
echo '{"depth": 2, "d_model": 8, "heads": 2, "seq_len": 4, "norm": "post", "mlp": "relu"}' >design.json
walk predict design.json --trials 2 --grid depth=1:2 --quiet --json design.out -- design.out
walk predict design.json --trials 1 --budget 500 --quiet --json design.out -- design.out
walk predict "$golden/forward/gpt2/config.json" --trials 1 --seq-len 4 --quiet --json design.out -- design.out
walk predict "$golden/forward/llama" --init measured --trials 1 --seq-len 4 --quiet --json design.out -- design.out
walk predict design.json --explain --quiet --json design.out -- design.out
walk explain entropy --
walk explain --json - --
finish
