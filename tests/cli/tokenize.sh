#!/bin/sh
# tokenize.sh: rankscope tokenize on small tokenizers, on what is broken, and on two real models.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
golden=$RS_SOURCE_DIR/tests/golden/tokenizer
rm -rf model out_dir ./*.json ./*.txt
mkdir -p model
cp "$golden/bert.json" model/tokenizer.json
chmod u+w model/tokenizer.json
printf 'The model [SEP] isn\303\251\n' >text.txt

expect 0 "$RANKSCOPE" tokenize model --text text.txt
says out '[CLS]'
says out 'tokens'
silent err
expect 0 "$RANKSCOPE" tokenize model/tokenizer.json --text text.txt --json a.json --csv out_dir --html a.html --quiet
silent out
# Standard input, from a pipe and from a file, and for one purpose only.
expect 0 "$RANKSCOPE" tokenize model --text text.txt --csv by_name --quiet
sed "" text.txt | "$RANKSCOPE" tokenize model --text - --csv piped --quiet || note_failure "--text - cannot read a pipe"
"$RANKSCOPE" tokenize model --text - --csv redirected --quiet <text.txt || note_failure "--text - cannot read a file"
cmp -s by_name/ids.csv piped/ids.csv || note_failure "a pipe's ids differ from the file's"
cmp -s by_name/ids.csv redirected/ids.csv || note_failure "a redirected file's ids differ from the file's"
expect 2 "$RANKSCOPE" tokenize /dev/stdin --text -
silent out
says err "standard input can be read once"

# A spreadsheet takes text that begins so for a formula.
printf '= + - @ a\n' >formula.txt
expect 0 "$RANKSCOPE" tokenize model --text formula.txt --no-special --json f.json --csv as_is --quiet
expect 0 "$RANKSCOPE" tokenize model --text formula.txt --no-special --csv safe --csv-safe --quiet
python3 - <<'END' || note_failure "--csv-safe"
import csv, json
tokens = [row["token"] for row in json.load(open("f.json"))["tables"]["ids"]]
read = lambda folder: [row["token"] for row in csv.DictReader(open(folder + "/ids.csv", newline=""))]
assert any(token[0] in "=+-@" for token in tokens), tokens
assert read("as_is") == tokens
assert read("safe") == ["'" * (token[0] in "=+-@") + token for token in tokens], read("safe")
END
expect 0 "$RANKSCOPE" tokenize model --text text.txt --no-special --json b.json --quiet
expect 0 "$RANKSCOPE" tokenize "$golden/gguf_bert.gguf" --text text.txt --json c.json --quiet
python3 - <<'END' || failures=$((failures + 1))
import csv, json
a, b, c = (json.load(open(f"{n}.json")) for n in "abc")
ids = lambda r: [t["id"] for t in r["tables"]["ids"]]
assert list(a["tables"]["ids"][0]) == ["position", "id", "token", "begin", "end"]
assert a["tables"]["ids"][0]["token"] == "[CLS]" and a["tables"]["ids"][-1]["token"] == "[SEP]"
assert ids(b) == ids(a)[1:-1] and ids(c) == ids(a)
assert [t["position"] for t in a["tables"]["ids"]] == list(range(len(ids(a))))
text = open("text.txt", "rb").read()
sep = [t for t in a["tables"]["ids"] if t["token"] == "[SEP]"][0]
assert text[sep["begin"]:sep["end"]] == b"[SEP]"
summary, = a["tables"]["summary"]
assert summary["tokens"] == len(ids(a)) and summary["added"] == 2 and summary["bytes"] == len(text)
rows = list(csv.DictReader(open("out_dir/ids.csv", newline="")))
assert [int(r["id"]) for r in rows] == ids(a)
END

# Empty text: the special tokens alone.
: >empty.txt
expect 0 "$RANKSCOPE" tokenize model --text empty.txt --json e.json --quiet
python3 -c 'import json; assert [t["id"] for t in json.load(open("e.json"))["tables"]["ids"]] == [2, 3]' || note_failure "empty text"

# Refusals: exit 2, with the reason and nothing printed.
expect 2 "$RANKSCOPE" tokenize model
says err '--text'
expect 2 "$RANKSCOPE" tokenize model --text no-such-file
says err '[not-found]'
expect 2 "$RANKSCOPE" tokenize . --text text.txt
says err '[tokenizer-missing]'
silent out
sed 's/"BertPreTokenizer"/"MindReader"/' "$golden/bert.json" >odd.json
expect 2 "$RANKSCOPE" tokenize odd.json --text text.txt
says err "pre_tokenizer 'MindReader'"
says err '[tokenizer-unknown-step]'
# A name of tokenizer.ggml.pre of the same length that is not known, and one for which NFC is open.
sed 's/gpt-2/gpt-9/' "$golden/gguf_gpt2.gguf" >name.gguf
expect 2 "$RANKSCOPE" tokenize name.gguf --text text.txt
says err "tokenizer.ggml.pre: 'gpt-9' is not supported"
says err '[tokenizer-unknown-step]'
sed 's/qwen2/kormo/' "$golden/gguf_qwen2.gguf" >open.gguf
printf 'caf\303\251' >nfc.txt
printf 'cafe\314\201' >nfd.txt
expect 0 "$RANKSCOPE" tokenize open.gguf --text nfc.txt --quiet
expect 2 "$RANKSCOPE" tokenize open.gguf --text nfd.txt
says err 'not in NFC (byte 3)'
says err "'kormo'"
silent out
head -c 5000 "$golden/gguf_llama.gguf" >cut.gguf
expect 2 "$RANKSCOPE" tokenize cut.gguf --text text.txt
silent out
for target in text.txt model/tokenizer.json; do
    expect 2 "$RANKSCOPE" tokenize model --text text.txt --json "$target"
    says err '[would-overwrite-input]'
done
cmp -s model/tokenizer.json "$golden/bert.json" || note_failure "the tokenizer was overwritten"

# The real models, where they are: ids of the `tokenizers` package and of transformers.
check_real() {
    model=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" "$1" 2>err) || { echo "skipped $1: $(cat err)"; return; }
    expect 0 "$RANKSCOPE" tokenize "$model" --text "$golden/real_text.txt" --json real.json
    says out 'tokens, which begin:'
    [ "$(wc -l <out)" -lt 30 ] || note_failure "a long text fills the terminal"
    python3 - "$1" "$golden/real_ids.json" <<'END' || note_failure "ids of $1"
import json, sys
wanted = json.load(open(sys.argv[2]))[sys.argv[1]]
got = [t["id"] for t in json.load(open("real.json"))["tables"]["ids"]]
assert got == wanted, next((i, a, b) for i, (a, b) in enumerate(zip(got + [None], wanted + [None])) if a != b)
END
}
check_real minilm
check_real gemma3-270m
finish
