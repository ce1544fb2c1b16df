#!/bin/sh
# lab_depth.sh: dong-depth-pretrained, of small BERT, ALBERT and XLNet checkpoints beside transformers' own classes; of none, of some, of others.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
golden=$RS_SOURCE_DIR/tests/golden/lab/pretrained
others=$RS_SOURCE_DIR/tests/golden/forward
text=$RS_SOURCE_DIR/share/page.txt
for name in bert albert xlnet; do
    mkdir -p "$name"
    cp "$golden/$name/config.json" "$golden/$name/model.safetensors" "$name"
    cp "$RS_SOURCE_DIR/tests/golden/tokenizer/bert.json" "$name/tokenizer.json"
done

expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --json none.json
says out "18 were skipped"
says out "published"
# Named in any order; meta "model" is the first.
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model xlnet,bert,albert --text "$text" --json all.json --html all.html --svg pictures
says out "xlnet, san"
for panel in dong_depth_pretrained dong_depth_pretrained_albert dong_depth_pretrained_xlnet; do
    [ -s "pictures/$panel.svg" ] || note_failure "no picture of $panel"
done
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model xlnet,bert,albert --text "$text" --quick --threads 1 --json quick.json
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model xlnet,bert,albert --text "$text" --quick --threads 2 --json quick-2.json
# Another family, a second of one, another depth, drawn weights.
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model "albert,$others/gpt2,$others/albert" --quick --json others.json
says out "is of family gpt2"
says out "model_type bert, albert or xlnet"
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model "$others/bert" --quick --json short.json
echo '{"depth": 2, "d_model": 8, "heads": 2, "seq_len": 8}' >drawn.json
expect 0 "$RANKSCOPE" lab run dong-depth-pretrained --model drawn.json --quick --json drawn-out.json
python3 "$RS_SOURCE_DIR/tests/cli/depth_pretrained.py" "$golden/curves.json" || note_failure "the curves or their claims"

# Which experiment takes how many; nothing is written into any model's folder.
expect 2 "$RANKSCOPE" lab run dong-depth-pretrained --model bert,albert,xlnet,bert
says err "runs 3 models, not 4"
expect 2 "$RANKSCOPE" lab run lambda-figure-1 --model bert,albert
says err "runs 1 model, not 2"
expect 2 "$RANKSCOPE" lab run dong-depth-pretrained --model bert,,albert
says err "is empty"
expect 2 "$RANKSCOPE" lab run dong-depth-pretrained --model bert,./nothing-here
silent out
for name in bert albert xlnet; do
    expect 2 "$RANKSCOPE" lab run dong-depth-pretrained --quick --model bert,albert,xlnet --json "$name/tokenizer.json"
    says err "model's folder"
    expect 2 "$RANKSCOPE" lab run dong-depth-pretrained --quick --model bert,albert,xlnet --json "$name/model.safetensors"
    says err "one of the inputs"
done
finish
