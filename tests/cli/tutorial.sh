#!/bin/bash
# tutorial.sh: every command of docs/tutorial.md and the answers that README.md shows, on the demo's model.
# shellcheck source=tests/cli/lib.sh
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
MODEL=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || { echo "skipped: $(cat err)"; exit 77; }
TEXT=$RS_SOURCE_DIR/share/page.txt
export MODEL TEXT
python3 "$RS_SOURCE_DIR/tests/cli/pages.py" "$RS_SOURCE_DIR/docs/tutorial.md" all || note_failure "docs/tutorial.md"
if gguf=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" gemma3-270m 2>err); then # the README's three commands, as they stand there
    ln -sf "$gguf" gemma-3-270m-Q4_K_M.gguf
    ln -sfn "$MODEL" all-MiniLM-L6-v2
    cp "$TEXT" page.txt
    python3 "$RS_SOURCE_DIR/tests/cli/pages.py" "$RS_SOURCE_DIR/README.md" || note_failure "README.md"
else
    echo "the README's answers are skipped: $(cat err)"
fi
[ -s report.html ] || note_failure "no report.html"
finish
