#!/bin/sh
# scan --energy with --text and --write against golden numbers (tests/oracle/make_compression_golden.py): ranks, errors, losses and
# written tensors of grouped, biased and plain attention, over a text with fewer tokens than the model is wide and one with more.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf ./*
for case in gpt2 llama qwen2; do
    python3 "$RS_SOURCE_DIR/tests/cli/compression_golden.py" "$RS_SOURCE_DIR/tests/golden/compression/$case" || note_failure "$case"
done
finish
