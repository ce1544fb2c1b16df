#!/bin/sh
# memory_limit.sh: what a run would take is added up, and refused before anything is drawn.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
model=$RS_SOURCE_DIR/tests/golden/forward/llama

# refused_size COMMAND TEXT ARGUMENTS...: exit 2, with the sum.
refused_size() { # a process may hold far less than the run would: it is refused before
    command=$1 text=$2
    shift 2
    refused_by "$command" memory-limit "$text" "$@"
    says err "--memory gives"
}

# ---- the option ----
for size in 0 -1 2X G 1.5GiBB '1 G' nan 1e40; do
    refused_by scan bad-option "is no size" "$model" --memory "$size"
done
for size in 1G 1g 1GB 1GiB 1.5G 1073741824 1073741824B; do
    expect 0 "$RANKSCOPE" scan "$model" --memory "$size"
done

# ---- before anything is drawn: 65536 layers of 64 features are 12 GiB of weights ----
echo '{"depth": 65536}' >deep.json
for command in probe certify paths; do
    refused_size "$command" "GiB" deep.json --random 1 --memory 2G
    refused_size "$command" "the layers need" deep.json --random 1 --memory 512M
done
# 4 layers of 1024 features: each matrix of attention is 4 MiB
echo '{"depth": 4, "d_model": 1024, "heads": 2}' >wide.json
refused_size probe "the weights need" wide.json --random 1 --memory 50M
expect 0 "$RANKSCOPE" probe wide.json --random 1 --seq-len 4 --memory 1G

# ---- what is no weight ----
echo '{"depth": 2048, "d_model": 2, "heads": 1}' >thin.json
refused_size certify "the certificates need" thin.json --random 1 --seq-len 2 --memory 80M
refused_size probe "the inputs need" "$model" --random 1000000000 --seq-len 32 --memory 1G
refused_size probe "the measures of tokens need" "$model" --random 10000000 --seq-len 2 --memory 200M
refused_size paths "the sums over paths need" "$model" --random 1 --seq-len 32 --memory 20K --no-loss
refused_size probe "the layers need" "$model" --random 1 --seq-len 2 --depth 60000 --memory 100M
echo '{"depth": 1, "d_model": 8, "heads": 1, "vocab": 300000, "mask": "causal"}' >words.json
python3 -c 'import json; json.dump([list(range(64))], open("ids.json", "w"))'
for command in probe paths; do # two matrices of 9.2 MiB, and 27 (float32) or 16 rows of 300000 logits
    refused_size $command "the logits need" words.json --tokens ids.json --memory 40M
done
expect 0 "$RANKSCOPE" probe words.json --tokens ids.json --memory 40M --no-loss
expect 0 "$RANKSCOPE" paths words.json --tokens ids.json --memory 40M --no-loss
refused_size scan "the Gram matrices need" "$model" --memory 1K
big_model large 1 # 4096 features: the Gram matrix of one weight is 128 MiB
refused_size scan "the matrices need 128.0 MiB; --memory gives 100.0 MiB" large --matrices all --memory 100M --threads 1

# ---- config.json beyond 16 MiB ----
mkdir -p padded
cp "$model/model.safetensors" padded/
{ cat "$model/config.json"; head -c 17000000 /dev/zero | tr '\0' ' '; } >padded/config.json
refused_by scan unsupported "16 MiB" padded
{ cat "$model/config.json"; head -c 16000000 /dev/zero | tr '\0' ' '; } >padded/config.json
expect 0 "$RANKSCOPE" scan padded
finish
