#!/bin/sh
# probe_verdict.sh: the first line of a probe answers whether the tokens collapse, by the rules of docs/probe.md; no sentence counts states.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
deep() {
    arch "arch$1" "\"depth\": $1, \"seq_len\": 24, \"norm\": \"$2\", \"mlp\": \"gelu\", \"mlp_width\": 64, \"skip_mixer\": $3"
}
always='
s = r["tables"].get("summary", [])
said = [v["answer"]] + [x["message"] for x in r["findings"]] + [x["message"] for x in r["tables"]["findings"]]
assert not any(re.search(r"\bstate \d", x) for x in said), said
'

deep 4 pre 1.0
deep 64 none 0.3
answers probe healthy info '"After 4 layers" in v["answer"] and abs(v["value"] - s[0]["leaves"] / s[0]["enters"]) < 1e-6' arch4.json --random 2
# thresholds that the same numbers cross
answers probe slow info 'v["threshold"] == 0.9999 and v["answer"].startswith("Slowly: ") and "mean cosine" in v["answer"]' \
    arch4.json --random 2 --threshold slow_collapse=0.9999
answers probe collapse warn 'v["answer"].startswith("Yes: ")' arch4.json --random 2 --threshold token_collapse=0.97
# a collapse to rounding is critical of the model, what was looked for of an edited one
answers probe collapse critical 's[0]["equal_after"] is not None and "after %d of 64 layers" % s[0]["equal_after"] in v["answer"]' arch64.json --random 2
# a threshold below the floor: what is left is rounding, which is told as no more than the floor
answers probe slow info '"at most 4.77e-07 in 64 layers" in v["answer"] and abs(v["value"] * s[0]["enters"] / 8 / 2**-24 - 1) < 1e-9' arch64.json --random 2 --threshold token_collapse=1e-9
answers probe collapse info '"Yes: " in v["answer"]' arch4.json --random 2 --no-skip --no-mlp --depth 40
# a variant that collapses is no warning about the model
answers probe healthy info '"components" in r["tables"] and [x["skip"] for x in r["tables"]["components"]] == ["with the skip", "without the skip"]' \
    arch4.json --random 2 --variants dong
expect 0 "$RANKSCOPE" probe arch4.json --random 2 --variants dong --fail-on warn
answers probe compared info '"san+skip keeps" in v["answer"] and "components" not in r["tables"]' arch4.json --random 2 --variants san,san+skip
# nobody to be equal to
echo '[[3]]' >one.json
cp -r "$RS_SOURCE_DIR/tests/golden/families/llama" llama
answers probe undefined info '"Not known" in v["answer"]' llama --tokens one.json
# a weight that is NaN or infinite: which, and where the pass meets it
tiny_model broken
breaks_weight broken model.layers.1.mlp.down_proj.weight nan
answers probe nonfinite critical '"after layer 1" in v["answer"] and "model.layers.1.mlp.down_proj.weight" in f["nonfinite_activation"]' broken --random 2 --seq-len 6
answers probe nonfinite critical 'v["value"] == 2 and v["threshold"] == 0 and "in 2 of 2 samples" in v["answer"]' broken --random 2 --seq-len 6
expect 3 "$RANKSCOPE" probe broken --random 2 --seq-len 6 --fail-on critical
breaks_weight broken model.layers.0.self_attn.o_proj.weight -inf
answers probe nonfinite critical '"layer 0" in v["answer"] and "model.layers.0.self_attn.o_proj.weight" in f["nonfinite_activation"]' broken --random 2 --seq-len 6
# the four corners are the four variants
answers probe healthy info 'sorted(x[k] for x in r["tables"]["components"] for k in ("with_mlp", "without_mlp")) == sorted(max(x["leaves"], 8 * 2**-24) for x in s)' \
    arch4.json --random 2 --variants dong --precision f32
expect 3 "$RANKSCOPE" probe arch64.json --random 2 --fail-on critical

# a collapse that goes beyond every exponent, states that vanish, tokens that are equal as they enter: each has an answer, and not "not known"
echo '{"depth": 45, "d_model": 16, "heads": 1, "seq_len": 8, "norm": "none", "mlp": "none", "skip_mixer": 0}' >pure.json
answers probe collapse critical '"behind that it is too small to be counted" in v["answer"] and "after all" not in v["answer"]' \
    pure.json --random 2 --precision residual
echo '{"depth": 2, "d_model": 16, "heads": 2, "seq_len": 8, "input": {"rho": 1}}' >same.json
for precision in f32 residual; do
    answers probe collapse critical 'v["answer"] == "Yes: the tokens are equal before the first layer." and "embedding" in v["next"]' \
        same.json --random 2 --precision $precision
done
# the same state is not told twice, and one layer is no "layers"
echo '{"depth": 1, "d_model": 16, "heads": 2, "seq_len": 8}' >arch1.json
answers probe collapse warn '"after 1 layer." in v["answer"]' arch1.json --random 2 --threshold token_collapse=0.9
answers probe slow info '"in 1 layer," in v["answer"]' arch1.json --random 2 --threshold slow_collapse=0.99
answers probe healthy info 'not any("1 layers" in x["message"] for x in r["tables"]["findings"])' arch1.json --random 2 --variants dong
# a norm without gain and bias makes all states zero, which the next layer's biases end: they are equal behind that one, and no number is told
# where there is none
rm -rf silenced && cp -r "$RS_SOURCE_DIR/tests/golden/families/bert" silenced && chmod -R u+w silenced
silences_weight silenced bert.encoder.layer.0.output.LayerNorm.weight
silences_weight silenced bert.encoder.layer.0.output.LayerNorm.bias
answers probe collapse critical '"after 2 of 2 layers" in v["answer"] and s[0]["equal_after"] == 2 and s[0]["worst"] is None and not any("nan" in x.split() for x in f.values())' \
    silenced --random 3 --seq-len 8
# nothing drawn at random is padding: of two ids one is left
echo '{"model_type": "llama", "vocab_size": 2, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32,
    "max_position_embeddings": 64, "pad_token_id": 0}' >padded.json
answers probe collapse critical '"equal before the first layer" in v["answer"] and "zero_state" not in f' padded.json --init default --random 8 --seq-len 64
# variants: none is compared with itself, and of rounding none keeps more
answers probe compared info '"none keeps" in v["answer"]' arch4.json --random 2 --variants a=no-mask,b=no-mask
answers probe compared info '"none keeps" in v["answer"] and "at most" in v["answer"]' arch64.json --random 2 --variants a=no-skip,b=no-skip
sed 's/"skip_mixer"/"init": {"wv": "zero"}, "skip_mixer"/' arch4.json >zero.json
answers probe compared info '"san+skip alone" in v["answer"]' zero.json --random 2 --variants san,san+skip
# those of which as much is left are named together
echo '{"depth": 2, "d_model": 16, "heads": 2, "seq_len": 8, "mlp": "none"}' >bare.json
answers probe compared info '"Of 3 variants san+skip and a keep the tokens furthest apart" in v["answer"] and "leaves each, and" in v["answer"]' \
    bare.json --random 2 --variants san,san+skip,a=no-mlp
# and where nothing is left of any, they are still variants that are compared, not a model that collapsed
answers probe compared info '"none can be told from another" in v["answer"] and v["value"] is None' zero.json --random 2 --variants san,pure
answers probe compared info '"none can be told from another" in v["answer"] and v["value"] is None' pure.json --random 2 --precision residual --variants san,pure
finish
